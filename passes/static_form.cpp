#include "passes/static_form.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/expand.h"
#include "ir/reference/evaluate.h"

namespace anydim::passes {

using namespace ir;

namespace {

// Results up to this many elements are computed at compile time.
constexpr std::int64_t folding_limit = 1024;
// Shorter constants are axes and shapes, better read as they are.
constexpr std::int64_t shortest_progression = 16;

const TensorType* tensor_of(const RuleFacts& facts, ValueId value) {
  const Type& type = facts.function.values[value].type;
  return type.is_tensor() ? &type.tensor : nullptr;
}

bool same_dims(const RuleFacts& facts, const std::vector<Dim>& a, const std::vector<Dim>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!(a[i] == b[i]) && prove_equal(a[i], b[i], facts.function.symbols) != Proof::Yes)
      return false;
  return true;
}

bool all_constant(const std::vector<Dim>& dims) {
  return std::all_of(dims.begin(), dims.end(), [](const Dim& dim) { return dim.is_constant(); });
}

bool steps_are_one(const RuleFacts& facts, const Binding& binding) {
  if (binding.op == Op::strided_slice) {
    if (!has_attribute(binding, "steps")) return true;
    const auto& steps = integers_attribute(binding, "steps");
    return std::all_of(steps.begin(), steps.end(), [](std::int64_t step) { return step == 1; });
  }
  if (binding.operands.size() < 5 || binding.operands[4] == no_value) return true;
  const ShapeData& steps = facts.shape_data(binding.operands[4]);
  return steps && std::all_of(steps->begin(), steps->end(),
                              [](const Dim& step) { return step.is_constant(1); });
}

bool is_identity(const Binding& binding, std::size_t rank) {
  if (!has_attribute(binding, "perm")) return rank <= 1;
  const auto& perm = integers_attribute(binding, "perm");
  for (std::size_t i = 0; i < perm.size(); ++i)
    if (perm[i] != static_cast<std::int64_t>(i) &&
        perm[i] + static_cast<std::int64_t>(rank) != static_cast<std::int64_t>(i))
      return false;
  return true;
}

// True where every element is known to equal `wanted`: a constant, or a full of one.
bool is_filled_with(const RuleFacts& facts, ValueId value, double wanted) {
  if (const ShapeData& shape_data = facts.shape_data(value))
    return std::all_of(shape_data->begin(), shape_data->end(), [&](const Dim& dim) {
      return dim.is_constant(static_cast<std::int64_t>(wanted));
    });
  const Tensor* constant = facts.constants[value];
  if (constant == nullptr || constant->elements() > folding_limit) return false;
  for (std::int64_t i = 0; i < constant->elements(); ++i)
    if (constant->real_at(i) != wanted) return false;
  return true;
}

// The other operand of a neutral element: x * 1, x / 1, x and true, x or false, integer x + 0.
// (Float x + 0 is not x where x is -0.)
std::optional<ValueId> without_neutral(const RuleFacts& facts, const Binding& binding) {
  if (binding.operands.size() != 2) return std::nullopt;
  const TensorType* type = tensor_of(facts, binding.operands[0]);
  if (type == nullptr) return std::nullopt;
  double neutral = 0;
  switch (binding.op) {
    case Op::mul:
    case Op::div:
    case Op::logical_and: neutral = 1; break;
    case Op::logical_or: break;
    case Op::add:
    case Op::sub:
      if (is_float(type->dtype)) return std::nullopt;
      break;
    default: return std::nullopt;
  }
  const TensorType& result = facts.function.tensor_type(binding.results[0]);
  for (std::size_t i : {1u, 0u}) {
    if (i == 0 && !info(binding.op).has(traits::commutative)) continue;
    ValueId other = binding.operands[1 - i];
    if (is_filled_with(facts, binding.operands[i], neutral) &&
        same_dims(facts, facts.function.tensor_type(other).dims, result.dims))
      return other;
  }
  return std::nullopt;
}

// True where a reshape's operand gives the result's dims but for numbers (-1 and 0 are then
// replaced by what they stand for). An element that may turn out to be -1 leaves the question open:
// the result's dim would ask it again, and grow with every round.
bool decides_whole_shape(const std::vector<Dim>& elements, const std::vector<Dim>& dims) {
  return elements.size() == dims.size() &&
         std::equal(elements.begin(), elements.end(), dims.begin(),
                    [](const Dim& element, const Dim& dim) {
                      return element.is_constant() || element == dim;
                    });
}

const std::vector<Dim>* known_elements(const RuleFacts& facts, const Binding& binding,
                                       std::size_t operand) {
  if (operand >= binding.operands.size() || binding.operands[operand] == no_value) return nullptr;
  const ShapeData& shape_data = facts.shape_data(binding.operands[operand]);
  return shape_data ? &*shape_data : nullptr;
}

// The static twin, where numbers are known for what only it has as attributes: a shape is the
// result's, the others are the elements of the operands that decide the shape, in order.
std::optional<Binding> static_form(const RuleFacts& facts, const Binding& binding,
                                   const TensorType& result) {
  const Op twin = *static_twin(binding.op);
  const std::size_t shared = first_shape_operand(binding.op);
  Binding made{.op = twin, .results = binding.results, .source = binding.source};
  for (const auto& [name, value] : binding.attributes)
    if (find_attribute(twin, name) != nullptr) made.attributes.emplace(name, value);
  for (std::size_t i = 0; i < std::min(shared, binding.operands.size()); ++i)
    made.operands.push_back(binding.operands[i]);
  while (!made.operands.empty() && made.operands.back() == no_value) made.operands.pop_back();

  std::size_t operand = shared;
  for (const AttributeInfo& attribute : literal_attributes(binding.op)) {
    const std::size_t from = operand++;
    const bool of_result = attribute.name == "shape";
    if (!of_result && (from >= binding.operands.size() || binding.operands[from] == no_value))
      continue;
    const std::vector<Dim>* elements =
        of_result ? &result.dims : known_elements(facts, binding, from);
    if (elements == nullptr || !all_constant(*elements)) return std::nullopt;
    std::vector<std::int64_t> numbers = constant_extents(*elements);
    if (attribute.kind == AttributeInfo::Kind::Integer)
      made.attributes.emplace(attribute.name, numbers.at(0));
    else made.attributes.emplace(attribute.name, std::move(numbers));
  }
  if (twin == Op::arange) {
    if (result.dtype != DType::I64 && result.dtype != DType::I32) return std::nullopt;
    made.attributes.emplace("dtype", result.dtype);
  }
  if (find_attribute(binding.op, "empty_keeps") != nullptr &&
      integer_attribute(binding, "empty_keeps") == 0 && integers_attribute(made, "axes").empty())
    made.attributes.erase("axes");
  return made;
}

Binding literal_binding(const RuleFacts& facts, const std::vector<Dim>& elements, std::size_t rank,
                        const std::string& source) {
  Binding literal{.op = rank == 0 ? Op::dim : Op::shape, .dims = elements, .source = source};
  std::vector<Dim> dims;
  if (rank == 1) dims.emplace_back(static_cast<std::int64_t>(elements.size()));
  literal.results = {facts.function.add_value("shape", TensorType{DType::I64, dims})};
  return literal;
}

}  // namespace

const ShapeData& RuleFacts::shape_data(ValueId value) const {
  static const ShapeData unknown;
  return value < inference.shape_data.size() ? inference.shape_data[value] : unknown;
}

std::optional<ValueId> unchanged(const RuleFacts& facts, const Binding& binding) {
  if (binding.results.size() != 1 || binding.operands.empty() || binding.operands[0] == no_value)
    return std::nullopt;
  const TensorType* from = tensor_of(facts, binding.operands[0]);
  const TensorType* to = tensor_of(facts, binding.results[0]);
  if (from == nullptr || to == nullptr) return std::nullopt;
  bool alike = from->dtype == to->dtype && same_dims(facts, from->dims, to->dims);
  if (info(binding.op).has(traits::reshapes))
    return alike ? std::optional(binding.operands[0]) : std::nullopt;
  switch (binding.op) {
    case Op::cast:
    case Op::bitcast:
    case Op::broadcast_to:
    case Op::dyn_broadcast_to: return alike ? std::optional(binding.operands[0]) : std::nullopt;
    case Op::transpose:
      return is_identity(binding, from->rank()) ? std::optional(binding.operands[0]) : std::nullopt;
    case Op::strided_slice:
    case Op::dyn_strided_slice:
      return alike && steps_are_one(facts, binding) ? std::optional(binding.operands[0])
                                                    : std::nullopt;
    case Op::reduce_sum:
    case Op::reduce_mean:
    case Op::reduce_max:
    case Op::reduce_min:
    case Op::reduce_prod:
      return normalised_axes(binding, from->rank()).empty() ? std::optional(binding.operands[0])
                                                            : std::nullopt;
    case Op::concat:
    case Op::split:
      return alike && binding.operands.size() == 1 ? std::optional(binding.operands[0])
                                                   : std::nullopt;
    case Op::where:
      for (std::size_t choice : {1u, 0u}) {
        ValueId chosen = binding.operands[choice == 1 ? 1 : 2];
        if (is_filled_with(facts, binding.operands[0], choice) &&
            same_dims(facts, facts.function.tensor_type(chosen).dims, to->dims))
          return chosen;
      }
      return std::nullopt;
    default: return without_neutral(facts, binding);
  }
}

std::optional<Binding> as_literal(const RuleFacts& facts, const Binding& binding) {
  if (binding.results.size() != 1 || info(binding.op).has(traits::control)) return std::nullopt;
  // What a literal was written over may have become numbers since.
  const bool over_dims = binding.op == Op::shape || binding.op == Op::dim;
  if (info(binding.op).has(traits::literal) && !(over_dims && all_constant(binding.dims)))
    return std::nullopt;
  const ShapeData& shape_data = facts.shape_data(binding.results[0]);
  const TensorType* type = tensor_of(facts, binding.results[0]);
  if (!shape_data || type == nullptr || type->rank() > 1) return std::nullopt;
  // An element whose expression was too large stands for itself.
  for (std::size_t i = 0; i < shape_data->size(); ++i)
    if ((*shape_data)[i] == Dim::value(binding.results[0], static_cast<std::int64_t>(i)))
      return std::nullopt;
  Binding literal{.results = binding.results, .source = binding.source};
  if (all_constant(*shape_data)) {
    literal.op = Op::constant;
    std::vector<std::int64_t> dims;
    if (type->rank() == 1) dims.push_back(static_cast<std::int64_t>(shape_data->size()));
    literal.attributes.emplace("value",
                               Tensor::of(type->dtype, dims, constant_extents(*shape_data)));
    return literal;
  }
  if (type->dtype != DType::I64) return std::nullopt;
  literal.op = type->rank() == 0 ? Op::dim : Op::shape;
  literal.dims = *shape_data;
  return literal;
}

std::vector<Binding> as_progression(const RuleFacts& facts, const Binding& binding) {
  if (binding.op != Op::constant) return {};
  const Tensor& tensor = tensor_attribute(binding, "value");
  std::int64_t count = tensor.elements();
  bool one_row = std::count_if(tensor.dims().begin(), tensor.dims().end(),
                               [](std::int64_t dim) { return dim != 1; }) == 1;
  if (tensor.dtype() != DType::I64 || !one_row || count < shortest_progression) return {};
  std::span<const std::int64_t> elements = tensor.as<std::int64_t>();
  std::int64_t step = 0, stop = 0;
  if (__builtin_sub_overflow(elements[1], elements[0], &step) || step == 0) return {};
  for (std::size_t i = 1; i < elements.size(); ++i) {
    std::int64_t next = 0;
    if (__builtin_add_overflow(elements[i - 1], step, &next) || next != elements[i]) return {};
  }
  if (__builtin_add_overflow(elements.back(), step, &stop)) return {};
  Binding arange{.op = Op::arange, .results = binding.results, .source = binding.source};
  arange.attributes = {
      {"start", elements[0]}, {"stop", stop}, {"step", step}, {"dtype", DType::I64}};
  if (tensor.rank() == 1) return {arange};
  arange.results = {
      facts.function.add_value(facts.function.values[binding.results[0]].name + "_counted",
                               TensorType{DType::I64, {Dim(count)}})};
  Binding reshape{.op = Op::reshape,
                  .operands = arange.results,
                  .results = binding.results,
                  .source = binding.source};
  reshape.attributes.emplace("shape", tensor.dims());
  return {arange, reshape};
}

// A conversion of a small quantised weight. Such weights stay as they are, which
// separate_zero_points multiplies.
bool widens_quantised(const RuleFacts& facts, const Binding& binding) {
  if (binding.op != Op::cast) return false;
  const Tensor* weight = facts.constants[binding.operands[0]];
  if (weight == nullptr || !is_integer(weight->dtype()) || size_of(weight->dtype()) != 1 ||
      weight->rank() < 2 || weight->elements() > folding_limit)
    return false;
  for (std::int64_t i = 1; i < weight->elements(); ++i)
    if (weight->integer_at(i) != weight->integer_at(0)) return true;
  return false;  // a zero point
}

std::optional<Binding> folded(const RuleFacts& facts, const Binding& binding) {
  const OpInfo& row = info(binding.op);
  if (binding.results.size() != 1 || binding.operands.empty() || row.has(traits::control) ||
      binding.op == Op::check_shape || binding.op == Op::bind || widens_quantised(facts, binding))
    return std::nullopt;
  const TensorType* type = tensor_of(facts, binding.results[0]);
  if (type == nullptr || !all_constant(type->dims) ||
      element_count(constant_extents(type->dims)) > folding_limit)
    return std::nullopt;
  std::vector<const Tensor*> operands;
  for (ValueId operand : binding.operands) {
    if (operand != no_value && (facts.constants[operand] == nullptr ||
                                facts.constants[operand]->elements() > folding_limit))
      return std::nullopt;
    operands.push_back(operand == no_value ? nullptr : facts.constants[operand]);
  }
  Tensor value = evaluate_binding(facts.function, binding, operands).at(0);
  return Binding{.op = Op::constant,
                 .results = binding.results,
                 .attributes = {{"value", value}},
                 .source = binding.source};
}

std::optional<Binding> resolved(const RuleFacts& facts, const Binding& binding,
                                std::vector<Binding>& literals) {
  if (!info(binding.op).has(traits::dynamic)) return std::nullopt;
  const TensorType* result =
      binding.results.empty() ? nullptr : tensor_of(facts, binding.results[0]);
  if (result == nullptr) return std::nullopt;
  if (auto made = static_form(facts, binding, *result)) return made;

  // Known elements, not all numbers: the op reads a literal made of dims.
  Binding partly = binding;
  bool changed = false;
  for (std::size_t i = first_shape_operand(binding.op); i < binding.operands.size(); ++i) {
    const std::vector<Dim>* elements = known_elements(facts, binding, i);
    if (elements == nullptr || all_constant(*elements)) continue;
    const TensorType& type = facts.function.tensor_type(binding.operands[i]);
    if (type.dtype != DType::I64) continue;
    bool decided = binding.op == Op::dyn_reshape && decides_whole_shape(*elements, result->dims);
    const std::vector<Dim>& wanted = decided ? result->dims : *elements;
    if (*elements == wanted && facts.literals[binding.operands[i]]) continue;
    literals.push_back(literal_binding(facts, wanted, type.rank() == 0 ? 0 : 1, binding.source));
    partly.operands[i] = literals.back().results[0];
    if (decided) partly.attributes["zero_copies"] = std::int64_t{0};
    changed = true;
  }
  return changed ? std::optional(partly) : std::nullopt;
}

std::string why_dynamic(const RuleFacts& facts, const Binding& binding) {
  if (!info(binding.op).has(traits::dynamic)) return {};
  for (std::size_t i = first_shape_operand(binding.op); i < binding.operands.size(); ++i) {
    ValueId operand = binding.operands[i];
    if (operand == no_value || facts.shape_data(operand)) continue;
    return fmt::format("{}: the elements of operand {} (%{}) are computed at run time",
                       describe(facts.function, binding), i, facts.function.values[operand].name);
  }
  return {};
}

}  // namespace anydim::passes
