#include "passes/element_range.h"

#include <algorithm>
#include <cmath>

#include "ir/expand.h"
#include "ir/loops/scalar_access.h"
#include "ir/loops/scalar_program.h"
#include "ir/scalar.h"

namespace anydim::passes {

using namespace ir;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
// What rounding of operands to bfloat16, of products, quotients and roots may add.
constexpr double slack = 1 + 0x1p-6;
// Roundings of a sum of so many terms in f32 add less than a quarter of the sum of their absolute
// values.
constexpr double many_terms = 0x1p22;

ValueRange within(double bound, bool nan) { return {-bound, bound, nan}; }

// What leaves the dtype's numbers is infinite, and NaN after that.
ValueRange limited(const ValueRange& range, DType dtype) {
  return range.magnitude() <= every_finite_value(dtype).high ? range : every_value(dtype);
}

// The result is one of the operands' elements, or of none at all an infinity.
bool chooses(Op op) {
  return op == Op::max || op == Op::min || op == Op::reduce_max || op == Op::reduce_min;
}

double most(const Dim& extent, const SymbolTable& symbols) {
  const std::int64_t high = bounds(extent, symbols).high;
  return std::max(1.0, static_cast<double>(high));
}

// A factor of the sum of the terms' absolute values, whatever the order of the sum.
double summed(double terms) { return terms <= many_terms ? 1.25 : 1 + terms * 0x1p-23; }

double square(double x) { return x * x; }

}  // namespace

ElementRanges::ElementRanges(const Function& function, const Block& block, double input_limit,
                             Norms norms)
    : function_(function), input_limit_(input_limit), norms_(norms) {
  for (const Binding& binding : block.bindings)
    for (const ValueId result : binding.results) definitions_[result] = &binding;
}

const Binding* ElementRanges::definition(ValueId value) const {
  const auto found = definitions_.find(value);
  return found == definitions_.end() ? nullptr : found->second;
}

// Depth first without recursion: graphs are as deep as their authors like.
const ElementRange& ElementRanges::of(ValueId value) {
  std::vector<ValueId> stack{value};
  while (!stack.empty()) {
    const ValueId next = stack.back();
    if (known_.contains(next)) {
      stack.pop_back();
      continue;
    }
    const std::size_t before = stack.size();
    for (const ValueId operand : needed(next))
      if (!known_.contains(operand)) stack.push_back(operand);
    if (stack.size() > before) continue;
    known_.emplace(next, computed(next));
    stack.pop_back();
  }
  return known_.at(value);
}

// Values whose ranges decide this one's.
std::vector<ValueId> ElementRanges::needed(ValueId value) const {
  const Binding* binding = definition(value);
  if (binding == nullptr || !function_.values[value].type.is_tensor()) return {};
  const auto some = [&](std::initializer_list<std::size_t> which) {
    std::vector<ValueId> operands;
    for (const std::size_t i : which)
      if (i < binding->operands.size() && binding->operands[i] != no_value)
        operands.push_back(binding->operands[i]);
    return operands;
  };
  const OpInfo& op = info(binding->op);
  const bool numbers = norms_ == Norms::Numbers;
  if (op.has(traits::elementwise)) {
    const auto norm = root_mean_square_norm(value);
    if (!norm) return binding->operands;
    return numbers ? std::vector{norm->source} : std::vector<ValueId>{};
  }
  switch (binding->op) {  // NOLINT: the others need their first operand or none
    case Op::layer_norm: return numbers ? some({0, 1, 2}) : some({1, 2});
    case Op::matmul: return some({0, 1});
    case Op::attention: return numbers ? some({0, 1, 2, 3}) : some({2});
    case Op::concat: return binding->operands;
    case Op::pad:
    case Op::dyn_pad: return some({0, 1});
    case Op::one_hot:
    case Op::dyn_one_hot: return some({1, 2});
    case Op::softmax: return numbers ? some({0}) : std::vector<ValueId>{};
    default:
      return op.has(traits::moves) || op.has(traits::reduces) ? some({0}) : std::vector<ValueId>{};
  }
}

ElementRange ElementRanges::computed(ValueId value) {
  if (!function_.values[value].type.is_tensor()) return {every_value(DType::F64)};
  const Binding* binding = definition(value);
  if (binding == nullptr) return of_input(value);
  const DType dtype = type(value).dtype;
  ElementRange found{every_value(dtype)};
  const OpInfo& op = info(binding->op);
  if (binding->op == Op::constant) {
    found = of_constant(tensor_attribute(*binding, "value"));
  } else if (const auto norm = root_mean_square_norm(value)) {
    const double length = norm->length * slack;
    found = {within(length, !has_numeric_norm(norm->source)), length};
  } else if (op.has(traits::elementwise)) {
    found = of_elementwise(*binding);
  } else if (op.has(traits::reduces)) {
    found = of_reduction(*binding);
  } else if (op.has(traits::moves)) {
    found = of_moved(*binding);
  } else if (binding->op == Op::layer_norm) {
    found = of_layer_norm(*binding);
  } else if (binding->op == Op::matmul || binding->op == Op::attention) {
    found = of_product(*binding);
  } else if (binding->op == Op::softmax) {
    found.range = {0, slack,
                   norms_ == Norms::Bounded || !known(binding->operands[0]).range.finite()};
  }
  if (is_float(dtype) && !chooses(binding->op)) found.range = limited(found.range, dtype);
  const std::vector<Dim>& dims = type(value).dims;
  const double width = dims.empty() ? 1 : most(dims.back(), function_.symbols);
  found.row_norm = std::min(found.row_norm, std::sqrt(width) * found.range.magnitude());
  if (std::isnan(found.row_norm)) found.row_norm = infinity;
  return found;
}

ElementRange ElementRanges::of_constant(const Tensor& tensor) const {
  const DType dtype = tensor.dtype();
  ElementRange found{every_value(dtype)};
  if (!is_float(dtype)) {
    if (tensor.elements() != 1) return found;
    const double element = static_cast<double>(tensor.integer_at(0));
    return std::abs(element) < 0x1p53 ? ElementRange{number_range(element)} : found;
  }
  if (tensor.elements() == 0) return found;
  if (norms_ == Norms::Numbers && dtype == DType::F32) {
    const Tensor opened = tensor.opened();
    const std::span<const float> elements = opened.as<float>();
    const auto [low, high] = std::ranges::minmax(elements);
    const bool nan =
        std::ranges::any_of(elements, [](float element) { return std::isnan(element); });
    return nan ? found : ElementRange{{low, high, false}};
  }
  const Reals elements(tensor);
  const std::size_t width = tensor.rank() == 0 ? 1 : static_cast<std::size_t>(tensor.dims().back());
  double longest = 0, low = infinity, high = -infinity;
  bool nan = false;  // rows that hold one are not among the longest
  for (std::size_t first = 0; first < elements.size(); first += width) {
    double row = 0;
    for (std::size_t at = first; at < first + width; ++at) {
      const double element = elements[at];
      nan = nan || std::isnan(element);
      low = std::min(low, element);
      high = std::max(high, element);
      row += square(element);
    }
    longest = std::max(longest, row);
  }
  found.range = united(number_range(low), number_range(high));
  if (nan)
    found.range = united(found.range, number_range(std::numeric_limits<double>::quiet_NaN()));
  found.row_norm = std::sqrt(longest);
  return found;
}

ElementRange ElementRanges::of_input(ValueId value) {
  const DType dtype = type(value).dtype;
  if (!is_float(dtype)) return {every_value(dtype)};
  inputs_read_.insert(value);
  if (!std::isfinite(input_limit_)) return {every_value(dtype)};
  const std::vector<Dim>& dims = type(value).dims;
  return {within(input_limit_, false),
          std::sqrt(dims.empty() ? 1 : most(dims.back(), function_.symbols)) * input_limit_};
}

ElementRange ElementRanges::of_layer_norm(const Binding& binding) const {
  const TensorType& result = type(binding.results[0]);
  const ElementRange unknown{every_value(result.dtype)};
  const auto rank = static_cast<std::int64_t>(result.rank());
  std::int64_t axis = integer_attribute(binding, "axis");
  if (axis < 0) axis += rank;
  if (!(real_attribute(binding, "epsilon") >= least_epsilon)) return unknown;
  double count = 1;
  for (auto i = static_cast<std::size_t>(axis); i < result.rank(); ++i)
    count *= most(result.dims[i], function_.symbols);
  const double length = std::sqrt(count) * slack;
  const ElementRange& gain = known(binding.operands[1]);
  bool nan = !has_numeric_norm(binding.operands[0]) || !gain.range.finite();
  ElementRange found{within(length * gain.range.magnitude(), nan), length * gain.range.magnitude()};
  if (binding.operands.size() > 2 && binding.operands[2] != no_value) {
    const ElementRange& shift = known(binding.operands[2]);
    nan = nan || !shift.range.finite();
    found.range = within(found.range.high + shift.range.magnitude(), nan);
    found.row_norm += shift.row_norm;
  }
  return found;
}

ElementRange ElementRanges::of_elementwise(const Binding& binding) const {
  const TensorType& result = type(binding.results[0]);
  if (binding.op == Op::is_inf) return {{0, 1, false}};
  const step::Apply apply{.op = binding.op, .flags = step_flags(scalar_op(binding))};
  const ScalarStep step{result.dtype, apply};
  std::vector<OperandRange> operands;
  for (const ValueId operand : binding.operands)
    operands.push_back({known(operand).range, type(operand).dtype});
  ElementRange found{range_of_step(step, operands, function_.symbols)};
  // Rows of an operand are rows of the result; a narrower operand repeats its elements along them.
  const auto row = [&](std::size_t i) {
    const std::vector<Dim>& dims = type(binding.operands[i]).dims;
    return !dims.empty() && !result.dims.empty() && dims.back() == result.dims.back()
               ? known(binding.operands[i]).row_norm
               : infinity;
  };
  const auto largest = [&](std::size_t i) { return known(binding.operands[i]).range.magnitude(); };
  const double width = result.dims.empty() ? 1 : most(result.dims.back(), function_.symbols);
  const auto spread = [&](std::size_t i) {
    return std::min(row(i), std::sqrt(width) * largest(i));
  };
  switch (binding.op) {  // NOLINT: others have the length that their elements give
    case Op::mul:
      found.row_norm = slack * std::fmin(row(0) * largest(1), row(1) * largest(0));
      break;
    case Op::add:
    case Op::sub: found.row_norm = slack * (spread(0) + spread(1)); break;
    case Op::neg:
    case Op::abs:
    case Op::relu: found.row_norm = row(0); break;
    case Op::cast:
      if (is_float(type(binding.operands[0]).dtype) && is_float(result.dtype))
        found.row_norm = slack * row(0);
      break;
    default: break;
  }
  return found;
}

ElementRange ElementRanges::of_product(const Binding& binding) const {
  const TensorType& result = type(binding.results[0]);
  if (!is_float(result.dtype)) return of_integer_product(binding);
  if (binding.op == Op::attention) {
    // Weights are positive and sum to 1, each rounded; the largest of their exponentials is 1.
    const ValueId values = binding.operands[2];
    const std::vector<Dim>& dims = type(values).dims;
    const double keys = most(dims[dims.size() - 2], function_.symbols),
                 factor = keys <= many_terms ? 2 : 2 * keys * summed(keys);
    const bool numbers =
        norms_ == Norms::Numbers && known(values).range.finite() &&
        (integer_attribute(binding, "zero_nan") != 0 || scores_are_finite(binding));
    return {within(factor * known(values).range.magnitude(), !numbers),
            factor * known(values).row_norm};
  }
  const ValueId left = binding.operands[0], right = binding.operands[1];
  const ElementRange &a = known(left), &b = known(right);
  const Dim& depth = type(left).dims.back();
  const double terms = most(depth, function_.symbols), factor = slack * summed(terms);
  double largest = terms * a.range.magnitude() * b.range.magnitude(), norm = infinity;
  const Binding* weights = definition(right);
  if (norms_ == Norms::Bounded && weights != nullptr && weights->op == Op::constant &&
      type(right).rank() == 2) {
    const Tensor& matrix = tensor_attribute(*weights, "value");
    const auto rows = static_cast<std::size_t>(matrix.dims()[0]),
               columns = static_cast<std::size_t>(matrix.dims()[1]);
    const Reals elements(matrix);
    std::vector<double> squares(columns, 0.0), sums(columns, 0.0);
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < columns; ++j) {
        const double element = elements[i * columns + j];
        squares[j] += square(element);
        sums[j] += std::abs(element);
      }
    }
    double all = 0, longest = 0, widest = 0;
    for (std::size_t j = 0; j < columns; ++j) {
      all += squares[j];
      longest = std::max(longest, squares[j]);
      widest = std::max(widest, sums[j]);
    }
    largest = std::fmin(widest * a.range.magnitude(), std::sqrt(longest) * a.row_norm);
    norm = factor * std::sqrt(all) * a.row_norm;
  }
  const bool overflows = !a.range.finite() || !b.range.finite();
  if (std::isnan(largest) || std::isnan(norm)) return {every_value(result.dtype)};
  return {within(factor * largest, overflows), norm};
}

// Exact where it can not wrap.
ElementRange ElementRanges::of_integer_product(const Binding& binding) const {
  const DType dtype = type(binding.results[0]).dtype;
  const double terms = most(type(binding.operands[0]).dims.back(), function_.symbols);
  const double bound = terms * known(binding.operands[0]).range.magnitude() *
                       known(binding.operands[1]).range.magnitude();
  return {bound <= every_value(dtype).high && bound < 0x1p53 ? within(bound, false)
                                                             : every_value(dtype)};
}

ElementRange ElementRanges::of_reduction(const Binding& binding) const {
  const ValueId source = binding.operands[0];
  const TensorType& result = type(binding.results[0]);
  const ElementRange unknown{every_value(result.dtype)};
  if (!is_float(result.dtype)) return unknown;
  const ValueRange& elements = known(source).range;
  const bool mean = binding.op == Op::reduce_mean;
  // Where there is no element at all they are infinite.
  if (binding.op == Op::reduce_max)
    return {{every_value(result.dtype).low, elements.high, elements.nan}};
  if (binding.op == Op::reduce_min)
    return {{elements.low, every_value(result.dtype).high, elements.nan}};
  if (!mean && binding.op != Op::reduce_sum) return unknown;
  double terms = 1;
  bool empty = false;
  for (const std::size_t axis : normalised_axes(binding, type(source).rank())) {
    const Dim& extent = type(source).dims[axis];
    terms *= most(extent, function_.symbols);
    empty = empty || bounds(extent, function_.symbols).low < 1;
  }
  return {within(slack * summed(terms) * (mean ? 1 : terms) * elements.magnitude(),
                 (mean && empty) || !elements.finite())};
}

// ---- No NaN ----

// Squares of so large numbers, and sums of them, are far from overflow in f32.
constexpr double largest_normed = 1e15;

bool ElementRanges::has_numeric_norm(ValueId value) const {
  return norms_ == Norms::Numbers && known(value).range.finite() &&
         known(value).range.magnitude() <= largest_normed;
}

// Scores that are no larger than this leave the largest finite number that is added to them finite.
constexpr double largest_score = 1e30;

bool ElementRanges::scores_are_finite(const Binding& attention) const {
  const ValueRange &q = known(attention.operands[0]).range, &k = known(attention.operands[1]).range;
  const DType dtype = type(attention.results[0]).dtype;
  if (!q.finite() || !k.finite() || (dtype != DType::F32 && dtype != DType::F64)) return false;
  const double terms = most(type(attention.operands[0]).dims.back(), function_.symbols);
  const double product = terms * q.magnitude() * k.magnitude() * slack * summed(terms);
  if (!(product <= largest_score) ||
      !(product * std::abs(real_attribute(attention, "scale")) <= largest_score))
    return false;
  if (attention.operands.size() < 4 || attention.operands[3] == no_value) return true;
  const ValueId bias = attention.operands[3];
  if (type(bias).dtype == DType::Bool) return std::isfinite(real_attribute(attention, "fill"));
  return known(bias).range.finite();
}

bool ElementRanges::weights_are_numbers(const Binding& attention) {
  for (const std::size_t i : {0u, 1u, 3u})
    if (i < attention.operands.size() && attention.operands[i] != no_value)
      of(attention.operands[i]);
  return norms_ == Norms::Numbers && scores_are_finite(attention);
}

// Whether rows of the result are rows of the first operand.
bool ElementRanges::keeps_rows(const Binding& binding) const {
  const std::vector<Dim>&from = type(binding.operands[0]).dims, &to = type(binding.results[0]).dims;
  if (from.empty() || to.empty() || !(from.back() == to.back())) return false;
  if (info(binding.op).has(traits::reshapes)) return from.back().is_constant();
  switch (binding.op) {  // NOLINT: the others may mix elements of rows
    case Op::transpose: return permutation(binding, from.size()).back() == from.size() - 1;
    case Op::broadcast_to:
    case Op::dyn_broadcast_to: return true;
    case Op::gather: {
      const std::int64_t axis = integer_attribute(binding, "axis"),
                         rank = static_cast<std::int64_t>(from.size());
      return rank > 1 && axis != rank - 1 && axis != -1;
    }
    default: return false;
  }
}

ElementRange ElementRanges::of_moved(const Binding& binding) const {
  const DType dtype = type(binding.results[0]).dtype;
  const ElementRange unknown{every_value(dtype)};
  const auto all = [&](std::initializer_list<std::size_t> which, ValueRange with) {
    for (const std::size_t i : which)
      if (i < binding.operands.size() && binding.operands[i] != no_value)
        with = united(with, known(binding.operands[i]).range);
    return ElementRange{with};
  };
  switch (binding.op) {  // NOLINT: the others are elements of the first operand, or zeros
    case Op::zeros:
    case Op::dyn_zeros: return {number_range(0)};
    case Op::ones:
    case Op::dyn_ones: return {number_range(1)};
    case Op::full:
    case Op::dyn_full: return {known(binding.operands[0]).range};
    case Op::concat: {
      ValueRange range = known(binding.operands[0]).range;
      for (const ValueId operand : binding.operands) range = united(range, known(operand).range);
      return {range};
    }
    case Op::pad:
    case Op::dyn_pad: return all({0, 1}, number_range(0));
    case Op::one_hot:
    case Op::dyn_one_hot: return all({1, 2}, number_range(0));
    case Op::trilu:
    case Op::dyn_trilu: return all({0}, number_range(0));
    case Op::resize:
    case Op::dyn_resize: return unknown;
    default: break;
  }
  if (binding.operands.empty()) return unknown;
  ElementRange found{known(binding.operands[0]).range};
  if (keeps_rows(binding)) found.row_norm = known(binding.operands[0]).row_norm;
  return found;
}

// ---- x / sqrt(mean(x^2) + epsilon) ----

std::optional<double> ElementRanges::positive_number(ValueId value) const {
  const Binding* binding = definition(value);
  if (binding == nullptr || binding->op != Op::constant) return std::nullopt;
  const Tensor& tensor = tensor_attribute(*binding, "value");
  if (!is_float(tensor.dtype()) || tensor.elements() != 1 || !(tensor.real_at(0) > 0))
    return std::nullopt;
  return tensor.real_at(0);
}

std::optional<ElementRanges::RootMeanSquare> ElementRanges::root_mean_square_norm(
    ValueId value) const {
  const Binding* binding = definition(value);
  if (binding == nullptr || (binding->op != Op::mul && binding->op != Op::div)) return std::nullopt;
  const auto applied = [&](ValueId of, Op op) {
    const Binding* found = definition(of);
    return found != nullptr && found->op == op ? found : nullptr;
  };
  for (const std::size_t i : {0u, 1u}) {
    if (binding->op == Op::div && i == 1) break;
    const ValueId x = binding->operands[i], factor = binding->operands[1 - i];
    const Binding* root = nullptr;
    if (binding->op == Op::div) root = applied(factor, Op::sqrt);
    else if (const Binding* inverse = applied(factor, Op::reciprocal))
      root = applied(inverse->operands[0], Op::sqrt);
    else if (const Binding* quotient = applied(factor, Op::div);
             quotient != nullptr && positive_number(quotient->operands[0]) == 1.0)
      root = applied(quotient->operands[1], Op::sqrt);
    const Binding* sum = root != nullptr ? applied(root->operands[0], Op::add) : nullptr;
    if (sum == nullptr || type(x).rank() == 0) continue;
    for (const std::size_t j : {0u, 1u}) {
      const Binding* mean = applied(sum->operands[j], Op::reduce_mean);
      const auto epsilon = positive_number(sum->operands[1 - j]);
      if (mean == nullptr || !epsilon || *epsilon < least_epsilon ||
          integer_attribute(*mean, "keepdims") == 0)
        continue;
      const std::size_t rank = type(mean->operands[0]).rank();
      if (normalised_axes(*mean, rank) != std::vector{rank - 1} || rank != type(x).rank()) continue;
      const Binding* power = applied(mean->operands[0], Op::pow);
      const Binding* product = applied(mean->operands[0], Op::mul);
      const bool squares =
          (power != nullptr && power->operands[0] == x &&
           positive_number(power->operands[1]) == 2.0) ||
          (product != nullptr && product->operands[0] == x && product->operands[1] == x);
      if (squares)
        return RootMeanSquare{x, std::sqrt(most(type(x).dims.back(), function_.symbols))};
    }
  }
  return std::nullopt;
}

}  // namespace anydim::passes
