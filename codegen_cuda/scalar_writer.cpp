#include "codegen_cuda/scalar_writer.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/error.h"
#include "ir/scalar_program.h"

namespace anydim::codegen_cuda {

namespace {

using ir::Dim;
using ir::DType;
using ir::ScalarStep;

std::size_t at(std::int32_t position) { return static_cast<std::size_t>(position); }

std::string zero_of(DType dtype) { return literal(dtype, 0, 0); }

}  // namespace

ScalarWriter::ScalarWriter(KernelWriter& kernel, const ir::ScalarProgram& program, CodeScope& floor, const std::vector<std::int32_t>& roots)
    : kernel_(kernel), floor_(floor), number_(kernel.fresh_number()), steps_(program.steps) {
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    ScalarStep& step = steps_[i];
    for (Dim& index : step.index) index = own(index);
    for (ScalarStep::Condition& condition : step.conditions) {
      condition.left = own(condition.left);
      condition.right = own(condition.right);
    }
    if (step.kind != ScalarStep::Kind::CheckedIndex) continue;
    // Programs of one kernel number their steps alike; their leaves must differ.
    const auto position = static_cast<std::int32_t>(i);
    const ir::DimLeaf leaf = ir::step_leaf(position, number_);
    names_.emplace(ir::step_leaf(position), Dim::of(leaf));
    ir::SymbolInfo info;
    info.below = step.index.at(0);
    kernel_.symbols().declare(leaf, std::move(info));
  }
  guards_ = ir::guards_of(program, roots);
  reduced_ = ir::computed_from_accumulated(program);
}

void ScalarWriter::set_accumulated(std::int32_t slot, std::string expression, CodeScope& home) {
  accumulated_[slot] = {std::move(expression), &home};
}
void ScalarWriter::set_scratch(std::int32_t slot, std::string expression, CodeScope& home) {
  scratch_[slot] = {std::move(expression), &home};
}
void ScalarWriter::set_load(std::int32_t step, std::string expression, CodeScope& home) { loads_[step] = {std::move(expression), &home}; }

Dim ScalarWriter::load_offset(std::int32_t position) const {
  const ScalarStep& step = steps_.at(at(position));
  return row_major(step.index, kernel_.buffer_type(at(step.buffer)).dims, kernel_.symbols());
}

std::vector<Dim> ScalarWriter::store_index(const ir::Store& store) const {
  std::vector<Dim> index;
  for (const Dim& dim : store.index) index.push_back(own(dim));
  return index;
}

Dim ScalarWriter::store_offset(const ir::Store& store) const {
  return row_major(store_index(store), kernel_.output_type(at(store.output)).dims, kernel_.symbols());
}

ScalarWriter::Placed ScalarWriter::place(CodeScope& scope, std::int32_t position) {
  const ScalarStep& step = steps_.at(at(position));
  if (step.kind == ScalarStep::Kind::Accumulated) return accumulated_.at(step.slot);
  if (step.kind == ScalarStep::Kind::Scratch) return scratch_.at(step.slot);
  if (const auto given = loads_.find(position); given != loads_.end()) return given->second;
  if (step.kind == ScalarStep::Kind::Constant) return {literal(step.dtype, step.real, step.integer), &floor_};
  const auto key = std::pair(number_, position);
  for (CodeScope* at = &scope; at != nullptr; at = at->parent()) {
    if (const auto found = at->steps.find(key); found != at->steps.end()) return {found->second, at};
  }
  place_steps(scope, step);
  std::vector<Placed> operands;
  for (const std::int32_t operand : step.operands) operands.push_back(place(scope, operand));
  CodeScope& home = home_of_step(scope, step, position, operands);
  const Placed placed = write(home, position, operands);
  placed.home->steps[key] = placed.text;
  return placed;
}

// A step in an index is an operand too: its scope must know it before the index is looked at.
void ScalarWriter::place_steps(CodeScope& scope, const ScalarStep& step) {
  for (const Dim& index : step.index) place_steps(scope, index);
  for (const ScalarStep::Condition& condition : step.conditions) {
    place_steps(scope, condition.left);
    place_steps(scope, condition.right);
  }
}

void ScalarWriter::place_steps(CodeScope& scope, const Dim& dim) {
  for (const ir::DimLeaf& leaf : dim.leaves())
    if (leaf.is_step()) place(scope, leaf.step());
}

void ScalarWriter::place_indices(CodeScope& scope, const ir::Store& store) {
  for (const Dim& index : store_index(store)) place_steps(scope, index);
}

bool ScalarWriter::varies(std::int32_t position, const ir::DimLeaf& variable) const {
  const ScalarStep& step = steps_.at(at(position));
  const auto mentions = [&](const Dim& dim) {
    return std::ranges::any_of(
        dim.leaves(), [&](const ir::DimLeaf& leaf) { return leaf == variable || (leaf.is_step() && varies(leaf.step(), variable)); });
  };
  return std::ranges::any_of(step.index, mentions) ||
         std::ranges::any_of(step.conditions,
                             [&](const auto& condition) { return mentions(condition.left) || mentions(condition.right); }) ||
         std::ranges::any_of(step.operands, [&](std::int32_t operand) { return varies(operand, variable); });
}

bool ScalarWriter::index_varies(std::int32_t load, const ir::DimLeaf& variable) const {
  return std::ranges::any_of(steps_read_at(steps_.at(at(load))), [&](std::int32_t step) { return varies(step, variable); });
}

std::set<std::int32_t> ScalarWriter::steps_read_at(const ScalarStep& load) {
  std::set<std::int32_t> steps;
  for (const Dim& dim : load.index)
    for (const ir::DimLeaf& leaf : dim.leaves())
      if (leaf.is_step()) steps.insert(leaf.step());
  return steps;
}

std::string ScalarWriter::address(CodeScope& scope, std::int32_t load) {
  const ScalarStep& step = steps_.at(at(load));
  place_steps(scope, step);
  const auto buffer = at(step.buffer);
  return fmt::format("{} + {}", kernel_.buffer(buffer), write_offset(kernel_, scope, load_offset(load), kernel_.buffer_type(buffer).dims));
}

CodeScope& ScalarWriter::home_of_step(CodeScope& scope, const ScalarStep& step, std::int32_t position,
                                      const std::vector<Placed>& operands) {
  CodeScope* home = &floor_;
  const auto deepen = [&](CodeScope& other) {
    if (other.depth() > home->depth()) home = &other;
  };
  const auto deepen_conditions = [&](const ScalarStep& guarded) {
    for (const ScalarStep::Condition& condition : guarded.conditions) {
      deepen(home_of(scope, condition.left));
      deepen(home_of(scope, condition.right));
    }
  };
  for (const Placed& operand : operands) deepen(*operand.home);
  for (const Dim& index : step.index) deepen(home_of(scope, index));
  deepen_conditions(step);
  if (step.kind == ScalarStep::Kind::Load || step.kind == ScalarStep::Kind::CheckedIndex || step.kind == ScalarStep::Kind::Apply) {
    std::vector<std::int32_t> open = guards_[at(position)];
    for (std::size_t i = 0; i < open.size(); ++i) {
      deepen_conditions(steps_[at(open[i])]);
      for (const std::int32_t outer : guards_[at(open[i])]) open.push_back(outer);
    }
  }
  return *home;
}

std::string ScalarWriter::conditions(CodeScope& scope, const ScalarStep& guarded) {
  std::string all;
  for (const ScalarStep::Condition& condition : guarded.conditions) {
    all += (all.empty() ? "" : " && ") + write_condition(kernel_, scope, condition);
  }
  return guarded.conditions.size() > 1 ? "(" + all + ")" : all.empty() ? "true" : all;
}

std::string ScalarWriter::mask_of(CodeScope& scope, std::int32_t position) {
  std::string any;
  for (const std::int32_t guard : guards_[at(position)]) {
    std::string holds = conditions(scope, steps_[at(guard)]);
    if (const std::string outer = mask_of(scope, guard); !outer.empty()) holds = "(" + holds + " && " + outer + ")";
    any += (any.empty() ? "" : " || ") + holds;
  }
  return guards_[at(position)].size() > 1 ? "(" + any + ")" : any;
}

std::string ScalarWriter::named(CodeScope& home, DType dtype, std::string_view stem, const std::string& expression) {
  const std::string name = kernel_.fresh_numbered(stem);
  home.line(fmt::format("const {} {} = {};", value_type(dtype), name, expression));
  return name;
}

ScalarWriter::Placed ScalarWriter::write(CodeScope& home, std::int32_t position, const std::vector<Placed>& operands) {
  const ScalarStep& step = steps_[at(position)];
  std::vector<std::string> values;
  for (const Placed& operand : operands) values.push_back(operand.text);
  switch (step.kind) {
    case ScalarStep::Kind::Extent: {
      const std::string index = write_index(kernel_, home, step.index.at(0));
      return {named(home, step.dtype, "extent", index), &home};
    }
    case ScalarStep::Kind::Load: return {named(home, step.dtype, "loaded", load(home, position)), &home};
    case ScalarStep::Kind::CheckedIndex: return {checked_index(home, position, values.at(0)), &home};
    case ScalarStep::Kind::Guarded:
      return {named(home, step.dtype, "guarded", fmt::format("{} ? {} : {}", conditions(home, step), values.at(0), values.at(1))), &home};
    case ScalarStep::Kind::Apply: {
      if (const std::string quotient = shared_division(home, position, operands); !quotient.empty()) return {quotient, &home};
      const DType operand_dtype = dtype(step.operands.back());
      if (step.check >= 0) {
        kernel_.use("report");
        const std::string mask = mask_of(home, position);
        home.line(fmt::format("if ({}{} == 0) report(error, {}, 0);", mask.empty() ? "" : mask + " && ", values.at(1), step.check));
      }
      return {named(home, step.dtype, ir::info(step.op).text, elementwise(kernel_, step, operand_dtype, values)), &home};
    }
    case ScalarStep::Kind::Constant:
    case ScalarStep::Kind::Accumulated:
    case ScalarStep::Kind::Scratch: break;
  }
  internal_error("a step is written by its kind");
}

std::vector<Dim> ScalarWriter::extents_that_may_be_empty(const ScalarStep& load) const {
  std::vector<Dim> extents;
  for (const std::int32_t step : steps_read_at(load)) {
    const Dim& extent = steps_[at(step)].index.at(0);
    if (kernel_.interval_of(extent).low <= 0) extents.push_back(extent);
  }
  return extents;
}

bool ScalarWriter::conditional(std::int32_t step) const {
  return !guards_.at(at(step)).empty() || !extents_that_may_be_empty(steps_.at(at(step))).empty();
}

std::string ScalarWriter::load(CodeScope& home, std::int32_t position) {
  const ScalarStep& step = steps_[at(position)];
  const auto& dims = kernel_.buffer_type(at(step.buffer)).dims;
  const std::string offset = write_offset(kernel_, home, load_offset(position), dims);
  const std::string element = widened(kernel_, step.dtype, fmt::format("{}[{}]", kernel_.buffer(at(step.buffer)), bare(offset)));
  std::string mask = mask_of(home, position);
  for (const Dim& extent : extents_that_may_be_empty(step)) {
    mask += (mask.empty() ? "" : " && ") + write_condition(kernel_, home, {ir::Comparison::Less, Dim(0), extent});
  }
  return mask.empty() ? element : fmt::format("{} ? {} : {}", mask, element, zero_of(step.dtype));
}

std::string ScalarWriter::checked_index(CodeScope& home, std::int32_t position, const std::string& index) {
  const ScalarStep& step = steps_[at(position)];
  const Dim& extent = step.index.at(0);
  const bool wide = !kernel_.fits_int(extent);
  const std::string limit = write_index(kernel_, home, extent), mask = mask_of(home, position);
  kernel_.use("report");
  const std::string name = kernel_.fresh_numbered("index");
  home.line(fmt::format("const {} {} = {}checked_index(error, {}, {}, {}, {});", index_type(wide), name, wide ? "" : "(int)", step.check,
                        index, limit, mask.empty() ? "true" : mask));
  home.define(ir::step_leaf(position, number_), {name, wide});
  return name;
}

std::string ScalarWriter::shared_division(CodeScope& home, std::int32_t position, const std::vector<Placed>& operands) {
  const ScalarStep& step = steps_[at(position)];
  if (step.op != ir::Op::div || step.dtype != DType::F32) return {};
  const std::int32_t divisor = step.operands[1];
  if (!reduced_[at(divisor)] || operands[1].home->depth() >= home.depth()) return {};
  // Kept beside the steps, under numbers that no step has.
  std::string& reciprocal = operands[1].home->steps[{number_, -1 - divisor}];
  if (reciprocal.empty()) reciprocal = named(*operands[1].home, DType::F32, "inverse", "1.0f / " + operands[1].text);
  return named(home, DType::F32, "div", operands[0].text + " * " + reciprocal);
}

std::string ScalarWriter::stored_value(CodeScope& scope, const ir::Store& store) {
  const DType dtype = kernel_.output_type(at(store.output)).dtype;
  const ScalarStep& step = steps_.at(at(store.step));
  // A conversion to the result's own narrow type happens once.
  const bool same = step.kind == ScalarStep::Kind::Apply && step.op == ir::Op::cast && step.dtype == dtype &&
                    (dtype == DType::F16 || dtype == DType::BF16);
  if (same && steps_.at(at(step.operands[0])).dtype == DType::F32) return narrowed(kernel_, dtype, value(scope, step.operands[0]));
  return narrowed(kernel_, dtype, value(scope, store.step));
}

void ScalarWriter::update(CodeScope& scope, const ir::Store& store, const std::optional<ir::Op>& combine) {
  const ir::TensorType& type = kernel_.output_type(at(store.output));
  place_indices(scope, store);
  std::string element = stored_value(scope, store);
  const std::string place =
      fmt::format("{}[{}]", kernel_.output(at(store.output)), bare(write_offset(kernel_, scope, store_offset(store), type.dims)));
  if (combine) {
    ScalarStep step;
    step.op = *combine;
    step.dtype = type.dtype;
    const std::string there = named(scope, type.dtype, "there", widened(kernel_, type.dtype, place));
    element = narrowed(kernel_, type.dtype, elementwise(kernel_, step, type.dtype, {there, value(scope, store.step)}));
  }
  scope.line(fmt::format("{} = {};", place, element));
}

}  // namespace anydim::codegen_cuda
