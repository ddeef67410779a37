#include "passes/bias_program.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "ir/error.h"
#include "ir/loops/derive.h"
#include "ir/loops/scalar_program.h"
#include "ir/loops/scalar_simplify.h"
#include "ir/reference/evaluate.h"

namespace anydim::passes {

using namespace ir;

namespace {

ScalarStep integer_step(DType dtype, std::int64_t value) {
  return {dtype, step::Constant{.integer = value}};
}
bool is_zero(const ScalarStep& step) {
  return step.is<step::Constant>() &&
         (is_float(step.dtype) ? step.as<step::Constant>().real == 0
                               : step.as<step::Constant>().integer == 0);
}

// A matrix with one number where column <= row + diagonal and another elsewhere.
struct Triangle {
  ScalarStep below, above;
  std::int64_t diagonal = 0;
};

bool is_matrix(const Tensor& tensor) {
  if (tensor.rank() < 2) return false;
  const std::int64_t rows = tensor.dims()[tensor.rank() - 2],
                     columns = tensor.dims()[tensor.rank() - 1];
  return rows > 1 && columns > 1 && tensor.elements() == rows * columns;
}

std::optional<Triangle> triangle_of(const Tensor& tensor) {
  const std::int64_t rows = tensor.dims()[tensor.rank() - 2],
                     columns = tensor.dims()[tensor.rank() - 1];
  Triangle triangle{element_step(tensor, (rows - 1) * columns), element_step(tensor, columns - 1)};
  std::int64_t leading = 0, row = 0;
  while (leading < columns && element_step(tensor, leading) == triangle.below) ++leading;
  if (leading == 0)
    while (row < rows && !(element_step(tensor, row * columns) == triangle.below)) ++row;
  triangle.diagonal = leading > 0 ? leading - 1 : -row;
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      if (!(element_step(tensor, i * columns + j) ==
            (j <= i + triangle.diagonal ? triangle.below : triangle.above)))
        return std::nullopt;
  return triangle;
}

class Folding {
 public:
  Folding(const ElementProgram& element, const Assumptions& assumptions, Keys keys)
      : element_(element), assumptions_(assumptions), symbols_(element.context.symbols) {
    if (keys != Keys::All) replaced_.emplace(key_index().leaf(), place_of(keys));
    for (Assumption& assumption : assumptions_.entries)
      for (Dim& dim : assumption.place) dim = dim.substitute(replaced_);
  }

  Folded run() {
    const std::vector<ScalarStep>& steps = element_.program.steps;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const std::optional<double> known = assumed(i);
      position_.push_back(known ? push(number_step(steps[i].dtype, *known)) : folded(steps[i]));
    }
    std::int32_t root = position_.back();
    const ValueRange range = range_of(root);
    ScalarProgram program{std::move(steps_)};
    derive::prune(program, {&root});
    return {std::move(program), range};
  }

 private:
  // Of the keys, in terms of their row.
  Dim place_of(Keys keys) {
    if (keys == Keys::Own) return row_index();
    const DimLeaf between = loop_leaf(LoopRole::Key, 1);
    const SymbolInfo* rows = symbols_.find(row_index().leaf());
    SymbolInfo others = rows != nullptr ? *rows : SymbolInfo{};
    others.low = 1;
    others.high = std::max<std::int64_t>(others.high, 1);
    symbols_.declare(between, others);
    return keys == Keys::Before ? row_index() - Dim::of(between) : row_index() + Dim::of(between);
  }

  const ScalarStep& at(std::int32_t position) const {
    return steps_[static_cast<std::size_t>(position)];
  }
  const ValueRange& range_of(std::int32_t position) const {
    return ranges_[static_cast<std::size_t>(position)];
  }

  std::vector<Dim> replaced(std::vector<Dim> dims) const {
    for (Dim& dim : dims) dim = dim.substitute(replaced_);
    return dims;
  }

  // What the assumptions say of a step of the element's program.
  std::optional<double> assumed(std::size_t step) const {
    const ScalarStep& original = element_.program.steps[step];
    for (const Assumption& assumption : assumptions_.entries) {
      if (assumption.function.steps.empty()) {
        if (original.is<step::Load>() && original.as<step::Load>().buffer == assumption.buffer &&
            replaced(original.as<step::Load>().index) == assumption.place)
          return assumption.is;
        continue;
      }
      if (!original.is<step::Apply>() || !assumption.function.steps.back().applies(original.op()))
        continue;
      const auto found = entry_function(element_.program, step);
      if (found && found->buffer == assumption.buffer &&
          found->function.steps == assumption.function.steps &&
          replaced(found->place) == assumption.place)
        return assumption.is;
    }
    return std::nullopt;
  }

  ValueRange new_range(const ScalarStep& step) const {
    if (step.is<step::Load>()) return loaded_range(step);
    std::vector<OperandRange> operands;
    for (const std::int32_t operand : step.operands)
      operands.push_back({range_of(operand), at(operand).dtype});
    return range_of_step(step, operands, symbols_);
  }

  ValueRange loaded_range(const ScalarStep& step) const {
    if (step.as<step::Load>().buffer == assumptions_.zero_or_one) return {0, 1, false};
    if (const Tensor* constant = constant_of(element_, step)) {
      ValueRange range = range_of_step(element_step(*constant, 0), {}, symbols_);
      for (std::int64_t at = 1; at < constant->elements(); ++at)
        range = united(range, range_of_step(element_step(*constant, at), {}, symbols_));
      return range;
    }
    return element_.finite ? every_finite_value(step.dtype) : every_value(step.dtype);
  }

  std::int32_t push(ScalarStep step) {
    const auto same = std::find(steps_.begin(), steps_.end(), step);
    const auto position = static_cast<std::int32_t>(same - steps_.begin());
    if (same != steps_.end()) return position;
    ranges_.push_back(new_range(step));
    steps_.push_back(std::move(step));
    return position;
  }

  std::int32_t folded(ScalarStep step) {
    for (std::int32_t& operand : step.operands)
      operand = position_[static_cast<std::size_t>(operand)];
    for_each_dim(step, [&](Dim& dim) { dim = dim.substitute(replaced_); });
    if (step.is<step::Load>()) return loaded(std::move(step));
    if (step.is<step::Guarded>()) return guarded(std::move(step));
    if (step.is<step::Apply>()) return applied(std::move(step));
    if (const auto* extent = std::get_if<step::Extent>(&step.kind))
      if (const auto constant = extent->value.constant())
        return push(integer_step(DType::I64, *constant));
    const bool index = step.is<step::CheckedIndex>();
    const std::int32_t position = push(std::move(step));
    if (index)
      replaced_.emplace(step_leaf(static_cast<std::int32_t>(position_.size())),
                        Dim::of(step_leaf(position)));
    return position;
  }

  std::int32_t loaded(ScalarStep step) {
    if (constant_of(element_, step) == nullptr) return push(std::move(step));
    const Tensor& tensor = *constant_of(element_, step);
    const auto triangle = is_matrix(tensor) ? triangle_of(tensor) : std::nullopt;
    if (!triangle) return push(std::move(step));
    const std::vector<Dim>& index = step.as<step::Load>().index;
    const Dim row = index[index.size() - 2], column = index.back();
    return guarded({step.dtype,
                    step::Guarded{{{Comparison::LessEqual, column, row + triangle->diagonal}}},
                    {push(triangle->below), push(triangle->above)}});
  }

  std::int32_t guarded(ScalarStep step) {
    bool all = true;
    for (const auto& condition : step.as<step::Guarded>().conditions) {
      const Proof proof = prove(condition.comparison, condition.left, condition.right, symbols_);
      if (proof == Proof::No) return step.operands[1];
      all = all && proof == Proof::Yes;
    }
    return all || step.operands[0] == step.operands[1] ? step.operands[0] : push(std::move(step));
  }

  std::int32_t applied(ScalarStep step) {
    std::vector<const ScalarStep*> operands;
    for (const std::int32_t operand : step.operands) operands.push_back(&at(operand));
    const auto known = [](const ScalarStep* operand) { return operand->is<step::Constant>(); };
    if (std::all_of(operands.begin(), operands.end(), known)) return computed(std::move(step));
    const Simplified simple = simplify_step(step.op(), step.dtype, operands, symbols_);
    if (const Dim* dim = std::get_if<Dim>(&simple)) {
      if (const auto constant = dim->constant()) return push(integer_step(DType::I64, *constant));
      return push({DType::I64, step::Extent{*dim}});
    }
    if (const bool* truth = std::get_if<bool>(&simple))
      return push(integer_step(DType::Bool, *truth ? 1 : 0));
    if (const double* real = std::get_if<double>(&simple))
      return push(number_step(step.dtype, *real));
    if (const Forwarded* forwarded = std::get_if<Forwarded>(&simple))
      return step.operands[forwarded->operand];
    if (step.op() == Op::where && step.operands[1] == step.operands[2]) return step.operands[1];
    const bool equal = step.operands.size() == 2 && step.operands[0] == step.operands[1];
    if (equal && !range_of(step.operands[0]).nan && info(step.op()).has(traits::compares)) {
      const bool holds =
          step.op() == Op::equal || step.op() == Op::less_equal || step.op() == Op::greater_equal;
      return push(integer_step(DType::Bool, holds ? 1 : 0));
    }
    if (equal && step.op() == Op::sub && range_of(step.operands[0]).finite())
      return push(number_step(step.dtype, 0));
    if (step.op() == Op::mul) {
      for (const std::size_t i : {0u, 1u})
        if (is_zero(*operands[i]) && (element_.finite || range_of(step.operands[1 - i]).finite()))
          return push(number_step(step.dtype, 0));
    }
    if (step.op() == Op::add && is_zero(*operands[0])) return step.operands[1];
    if ((step.op() == Op::add || step.op() == Op::sub) && is_zero(*operands[1]))
      return step.operands[0];
    if (const ValueRange range = new_range(step);
        range.single() && (std::abs(range.low) < 0x1p53 || std::isinf(range.low)))
      return push(number_step(step.dtype, range.low));
    return push(std::move(step));
  }

  // Kernels and libraries differ in a function's last bits, and kernels need not round between ops
  // on narrow floats.
  bool is_exact(const ScalarStep& step, const ScalarStep& number) const {
    if (!is_float(step.dtype) || number.as<step::Constant>().real == 0) return true;
    return is_function_of_reals(step.op()) ? std::isinf(number.as<step::Constant>().real)
                                           : new_range(step).single();
  }

  std::int32_t computed(ScalarStep step) {
    std::vector<Tensor> operands;
    for (const std::int32_t operand : step.operands)
      operands.push_back(constant_tensor(at(operand)));
    const auto result = apply_elementwise(scalar_op(step), step.dtype, operands);
    if (!result) return push(std::move(step));  // an integer divided by zero
    ScalarStep number = element_step(*result, 0);
    return push(is_exact(step, number) ? std::move(number) : std::move(step));
  }

  const ElementProgram& element_;
  Assumptions assumptions_;
  SymbolTable symbols_;
  std::map<DimLeaf, Dim> replaced_;
  std::vector<ScalarStep> steps_;
  std::vector<ValueRange> ranges_;      // of each of them
  std::vector<std::int32_t> position_;  // of each step of the element's program, among those made
};

// Values whose elements ProgramBuilder makes of their operands' elements without looking into more.
bool is_scalar_form(const Binding& binding) {
  const OpInfo& op = info(binding.op);
  if (op.has(traits::elementwise) || op.has(traits::reshapes)) return true;
  switch (binding.op) {  // NOLINT: the others are buffers
    case Op::constant: return tensor_attribute(binding, "value").elements() == 1;
    case Op::shape:
    case Op::dim:
    case Op::shape_of:
    case Op::full:
    case Op::dyn_full:
    case Op::zeros:
    case Op::dyn_zeros:
    case Op::ones:
    case Op::dyn_ones:
    case Op::arange:
    case Op::dyn_arange:
    case Op::concat:
    case Op::broadcast_to:
    case Op::dyn_broadcast_to:
    case Op::transpose: return true;
    default: return false;
  }
}

void add_buffer(ElementProgram& element, ValueId value) {
  element.context.buffers.emplace(value, static_cast<std::int32_t>(element.context.buffers.size()));
}

void begin(ElementProgram& element, const Function& function, const Block& block) {
  element.subgraph = expand_subgraph(function, block.bindings);
  element.context.subgraph = &element.subgraph;
  element.context.symbols = function.symbols;
  for (const ValueId parameter : function.body.parameters) add_buffer(element, parameter);
}

void finish(ElementProgram& element, ValueId value, const std::vector<Dim>& index) {
  ProgramBuilder builder(element.context);
  std::int32_t root = builder.element(value, index);
  element.program = builder.take();
  derive::prune(element.program, {&root});
}

// ---- Sums of a mask's entries ----

// Rows are fewer than 2^31.
bool counts_exactly(DType dtype) { return is_integer(dtype) && size_of(dtype) >= 4; }

// The parameter whose entries an integer sum over the second of two dims has, conversions between
// integers aside.
std::optional<ValueId> summed_parameter(const ElementProgram& element, const Binding& sum) {
  const Subgraph& subgraph = element.subgraph;
  if (sum.op != Op::reduce_sum || !counts_exactly(subgraph.tensor(sum.results[0]).dtype))
    return std::nullopt;
  ValueId entries = sum.operands[0];
  if (subgraph.tensor(entries).rank() != 2 ||
      normalised_axes(sum, 2) != std::vector<std::size_t>{1})
    return std::nullopt;
  for (const Binding* cast = subgraph.definition(entries); cast != nullptr;
       cast = subgraph.definition(entries)) {
    if (cast->op != Op::cast || !is_integer(subgraph.tensor(cast->operands[0]).dtype))
      return std::nullopt;
    entries = cast->operands[0];
  }
  const std::vector<ValueId>& parameters = subgraph.function->body.parameters;
  return std::ranges::find(parameters, entries) == parameters.end() ? std::nullopt
                                                                    : std::optional(entries);
}

// `key < sum` becomes the key's entry. `sums`: by buffer of a sum, the buffer of what it sums.
// Throws NoLoopForm where a sum is read in another way.
void compare_entries(ElementProgram& bias, const std::map<std::int32_t, std::int32_t>& sums) {
  if (sums.empty()) return;
  std::vector<ScalarStep>& steps = bias.program.steps;
  // steps that are a sum, by the Load that they come from
  std::map<std::int32_t, std::int32_t> sum_of;
  const auto other_use = [] {
    throw NoLoopForm{"the number of rows that a mask leaves is more than compared with a key"};
  };
  const auto is_key = [&](std::int32_t at) {
    const ScalarStep* step = &steps[static_cast<std::size_t>(at)];
    if (step->applies(Op::cast) && counts_exactly(step->dtype))
      step = &steps[static_cast<std::size_t>(step->operands[0])];
    return step->is<step::Extent>() && step->as<step::Extent>().value == key_index();
  };
  std::map<std::int32_t, std::int32_t> compared;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(steps.size()); ++i) {
    const ScalarStep& step = steps[static_cast<std::size_t>(i)];
    if (step.is<step::Load>() && sums.contains(step.as<step::Load>().buffer)) {
      if (step.as<step::Load>().index.size() == 2 && !step.as<step::Load>().index[1].is_constant(0))
        other_use();
      sum_of.emplace(i, i);
      continue;
    }
    const auto from_sum = [&](std::size_t operand) {
      return sum_of.contains(step.operands[operand]);
    };
    if (std::ranges::none_of(step.operands,
                             [&](std::int32_t operand) { return sum_of.contains(operand); }))
      continue;
    if (!step.is<step::Apply>()) other_use();
    if (step.op() == Op::cast && counts_exactly(step.dtype))
      sum_of.emplace(i, sum_of.at(step.operands[0]));
    else if (step.op() == Op::less && from_sum(1) && is_key(step.operands[0]))
      compared.emplace(i, sum_of.at(step.operands[1]));
    else if (step.op() == Op::greater && from_sum(0) && is_key(step.operands[1]))
      compared.emplace(i, sum_of.at(step.operands[0]));
    else other_use();
  }
  for (const auto& [at, load] : compared) {
    ScalarStep& comparison = steps[static_cast<std::size_t>(at)];
    comparison = {DType::Bool, step::Apply{Op::cast}, {load}};
  }
  for (const auto& [at, load] : sum_of) {
    if (at != load) continue;
    ScalarStep& step = steps[static_cast<std::size_t>(at)];
    auto& [buffer, index] = step.as<step::Load>();
    buffer = sums.at(buffer);
    index = {index[0], key_index()};
    const auto entries = static_cast<std::size_t>(buffer);
    step.dtype = bias.subgraph.tensor(bias.subgraph.function->body.parameters[entries]).dtype;
  }
  bias.counts_rows = !sum_of.empty();
  auto root = static_cast<std::int32_t>(steps.size()) - 1;
  derive::prune(bias.program, {&root});
}

}  // namespace

Dim batch_index(std::size_t axis) {
  return Dim::of(loop_leaf(LoopRole::Batch, static_cast<std::int64_t>(axis)));
}
Dim row_index() { return Dim::of(loop_leaf(LoopRole::Query)); }
Dim key_index() { return Dim::of(loop_leaf(LoopRole::Key)); }

void build_bias(ElementProgram& bias, const Function& function, const Block& block,
                const Binding& attention) {
  begin(bias, function, block);
  for (const Binding& binding : bias.subgraph.bindings) {
    if (binding.op != Op::constant || tensor_attribute(binding, "value").elements() < 2) continue;
    bias.constants.push_back(binding.results[0]);
    add_buffer(bias, binding.results[0]);
  }
  std::map<std::int32_t, std::int32_t> sums;
  for (const Binding& binding : bias.subgraph.bindings) {
    const auto parameter = summed_parameter(bias, binding);
    if (!parameter) continue;
    add_buffer(bias, binding.results[0]);
    sums.emplace(bias.context.buffers.at(binding.results[0]), bias.context.buffers.at(*parameter));
  }
  const std::vector<Dim>& dims = function.tensor_type(attention.results[0]).dims;
  const std::vector<Dim>& keys = function.tensor_type(attention.operands[1]).dims;
  bias.batch_rank = dims.size() - 2;
  std::vector<Dim> scores(dims.begin(), dims.end() - 2), index;
  for (std::size_t axis = 0; axis < bias.batch_rank; ++axis) {
    bias.context.iterate(LoopRole::Batch, dims[axis]);
    index.push_back(batch_index(axis));
  }
  scores.push_back(dims[dims.size() - 2]);
  scores.push_back(keys[keys.size() - 2]);
  bias.context.iterate(LoopRole::Query, scores[bias.batch_rank]);
  bias.context.iterate(LoopRole::Key, scores.back());
  index.push_back(row_index());
  index.push_back(key_index());
  const ValueId operand = attention.operands[3];
  if (function.tensor_type(operand).dtype == DType::Bool)
    bias.fill = real_attribute(attention, "fill");
  finish(bias, operand,
         broadcast_index(index, scores, bias.subgraph.tensor(operand).dims, bias.context.symbols));
  compare_entries(bias, sums);
}

const Tensor* constant_of(const ElementProgram& element, const ScalarStep& load) {
  const std::size_t parameters = element.subgraph.function->body.parameters.size();
  const auto buffer = static_cast<std::size_t>(load.as<step::Load>().buffer);
  if (buffer < parameters || buffer >= parameters + element.constants.size()) return nullptr;
  return &tensor_attribute(*element.subgraph.definition(element.constants[buffer - parameters]),
                           "value");
}

ElementProgram as_added(const ElementProgram& bias, DType dtype) {
  ElementProgram added = bias;
  if (!bias.fill) return added;
  std::vector<ScalarStep>& steps = added.program.steps;
  const auto condition = static_cast<std::int32_t>(steps.size()) - 1;
  steps.push_back(number_step(dtype, 0));
  steps.push_back(number_step(dtype, *bias.fill));
  steps.push_back({dtype, step::Apply{Op::where}, {condition, condition + 1, condition + 2}});
  return added;
}

void build_element(ElementProgram& element, const Function& function, const Block& block,
                   ValueId value, const std::vector<Dim>& index,
                   const std::vector<Iteration>& space) {
  begin(element, function, block);
  element.finite = true;
  for (const Binding& binding : element.subgraph.bindings) {
    if (is_scalar_form(binding)) continue;
    for (const ValueId result : binding.results)
      if (element.subgraph.type(result).is_tensor()) add_buffer(element, result);
  }
  for (const Iteration& iteration : space)
    element.context.declare(iteration.variable, iteration.extent);
  finish(element, value, index);
}

std::optional<EntryFunction> entry_function(const ScalarProgram& program, std::size_t step) {
  std::set<std::size_t> needed{step};
  EntryFunction found;
  for (auto next = needed.rbegin(); next != needed.rend(); ++next) {
    const ScalarStep& at = program.steps[*next];
    if (const auto* load = std::get_if<step::Load>(&at.kind)) {
      if (found.buffer >= 0 && (found.buffer != load->buffer || found.place != load->index))
        return std::nullopt;
      found.buffer = load->buffer;
      found.place = load->index;
    } else if (!at.is<step::Constant>() && (!at.is<step::Apply>() || check_of(at) >= 0)) {
      return std::nullopt;
    }
    for (const std::int32_t operand : at.operands) needed.insert(static_cast<std::size_t>(operand));
  }
  if (found.buffer < 0) return std::nullopt;
  std::map<std::size_t, std::int32_t> position;
  for (const std::size_t at : needed) {
    ScalarStep copy = program.steps[at];
    if (copy.is<step::Load>()) copy.as<step::Load>().index.clear();
    for (std::int32_t& operand : copy.operands)
      operand = position.at(static_cast<std::size_t>(operand));
    const auto same = std::ranges::find(found.function.steps, copy);
    position[at] = static_cast<std::int32_t>(same - found.function.steps.begin());
    if (same == found.function.steps.end()) found.function.steps.push_back(std::move(copy));
  }
  return found;
}

std::optional<double> only_entry(const ScalarProgram& function, bool truth) {
  const std::vector<ScalarStep>& steps = function.steps;
  const ScalarStep* step = &steps.back();
  const auto operand = [&](std::size_t i) {
    return &steps[static_cast<std::size_t>(step->operands[i])];
  };
  while (step->applies(Op::logical_not)) {
    truth = !truth;
    step = operand(0);
  }
  if (step->is<step::Load>() && step->dtype == DType::Bool) return truth ? 1 : 0;
  if (!step->is<step::Apply>()) return std::nullopt;
  if (step->op() == Op::cast && step->dtype == DType::Bool && operand(0)->is<step::Load>() &&
      !truth)
    return 0;
  if (step->op() != Op::equal || !truth) return std::nullopt;
  for (const std::size_t i : {0u, 1u}) {
    const ScalarStep* number = operand(1 - i);
    if (!operand(i)->is<step::Load>() || !number->is<step::Constant>()) continue;
    if (is_float(number->dtype)) return number->as<step::Constant>().real;
    // As a double it would be another number.
    if (std::abs(static_cast<double>(number->as<step::Constant>().integer)) < 0x1p53)
      return static_cast<double>(number->as<step::Constant>().integer);
  }
  return std::nullopt;
}

std::optional<std::int64_t> entry_that_answers(const ScalarProgram& function, DType dtype,
                                               bool truth) {
  std::vector<std::int64_t> entries{truth ? 1 : 0, truth ? 0 : 1};
  for (const ScalarStep& step : function.steps) {
    if (!step.is<step::Constant>()) continue;
    const std::int64_t number =
        is_float(step.dtype) ? truncate_to_integer(step.as<step::Constant>().real, DType::I32)
                             : step.as<step::Constant>().integer;
    for (const std::int64_t near : {number, number - 1, number + 1})
      if (near >= 0 && near < (1 << 24)) entries.push_back(near);
  }
  for (const std::int64_t entry : entries) {
    Tensor tensor(dtype, {});
    if (is_float(dtype)) tensor.set_real(0, static_cast<double>(entry));
    else tensor.set_integer(0, entry);
    if ((apply_program(function, tensor).integer_at(0) != 0) == truth) return entry;
  }
  return std::nullopt;
}

Folded fold(const ElementProgram& element, const Assumptions& assumptions, Keys keys) {
  return Folding(element, assumptions, keys).run();
}

}  // namespace anydim::passes
