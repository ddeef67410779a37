#include "passes/bias_program.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "ir/loops/scalar_program.h"
#include "ir/reference/evaluate.h"

namespace anydim::passes {

using namespace ir;

namespace {

void begin(ElementProgram& element, const Function& function, const Block& block) {
  element.subgraph = expand_subgraph(function, block.bindings);
  element.context.subgraph = &element.subgraph;
  element.context.symbols = function.symbols;
  for (const ValueId parameter : function.body.parameters) element.context.add_buffer(parameter);
}

void finish(ElementProgram& element, ValueId value, const std::vector<Dim>& index) {
  ProgramBuilder builder(element.context);
  std::int32_t root = builder.element(value, index);
  element.program = builder.take();
  prune(element.program, {&root});
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
  prune(bias.program, {&root});
}

// The tensor of one of the element's constants.
const Tensor& constant(const ElementProgram& element, std::size_t position) {
  return tensor_attribute(*element.subgraph.definition(element.constants[position]), "value");
}

// ---- What is assumed ----

// Where the keys lie, in terms of their row.
Dim place_of(Keys keys, SymbolTable& symbols) {
  if (keys == Keys::Own) return row_index();
  const DimLeaf between = loop_leaf(LoopRole::Key, 1);
  SymbolInfo others = symbols.info(row_index().leaf());
  others.low = 1;
  others.high = std::max<std::int64_t>(others.high, 1);
  symbols.declare(between, others);
  return keys == Keys::Before ? row_index() - Dim::of(between) : row_index() + Dim::of(between);
}

std::vector<Dim> replaced(std::vector<Dim> dims, const std::map<DimLeaf, Dim>& replacements) {
  for (Dim& dim : dims) dim = dim.substitute(replacements);
  return dims;
}

// Whether a step of the program is what an assumption speaks of, with the keys in its place.
bool speaks_of(const Assumption& assumption, const ScalarProgram& program, std::size_t step,
               const std::map<DimLeaf, Dim>& replacements) {
  const ScalarStep& original = program.steps[step];
  const auto in_place = [&](const std::vector<Dim>& index) {
    return replaced(index, replacements) == replaced(assumption.place, replacements);
  };
  if (assumption.function.steps.empty())
    return original.is<step::Load>() && original.as<step::Load>().buffer == assumption.buffer &&
           in_place(original.as<step::Load>().index);
  if (!original.is<step::Apply>() || !assumption.function.steps.back().applies(original.op()))
    return false;
  const auto found = entry_function(program, step);
  return found && found->buffer == assumption.buffer &&
         found->function.steps == assumption.function.steps && in_place(found->place);
}

// The numbers that steps of the element's program are taken to be.
std::vector<std::optional<double>> assumed(const ElementProgram& element,
                                           const Assumptions& assumptions,
                                           const std::map<DimLeaf, Dim>& replacements) {
  std::vector<std::optional<double>> numbers(element.program.steps.size());
  for (std::size_t step = 0; step < numbers.size(); ++step)
    for (const Assumption& assumption : assumptions.entries)
      if (speaks_of(assumption, element.program, step, replacements)) {
        numbers[step] = assumption.is;
        break;
      }
  return numbers;
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
    bias.context.add_buffer(binding.results[0]);
  }
  std::map<std::int32_t, std::int32_t> sums;
  for (const Binding& binding : bias.subgraph.bindings) {
    const auto parameter = summed_parameter(bias, binding);
    if (!parameter) continue;
    sums.emplace(bias.context.add_buffer(binding.results[0]), bias.context.buffers.at(*parameter));
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
  return &constant(element, buffer - parameters);
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
  element.context.others_are_buffers = true;
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
  ProgramFacts facts{.symbols = element.context.symbols, .finite = element.finite};
  if (keys != Keys::All) facts.replaced.emplace(key_index().leaf(), place_of(keys, facts.symbols));
  facts.numbers = assumed(element, assumptions, facts.replaced);
  const std::size_t parameters = element.subgraph.function->body.parameters.size();
  for (std::size_t i = 0; i < element.constants.size(); ++i)
    facts.constants.emplace(static_cast<std::int32_t>(parameters + i), &constant(element, i));
  if (assumptions.zero_or_one) facts.elements.emplace(*assumptions.zero_or_one, ValueRange{0, 1});
  return fold_program(element.program, std::move(facts));
}

}  // namespace anydim::passes
