#include "codegen_cuda/scalars/scalar_writer.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/error.h"
#include "ir/loops/scalar_program.h"

namespace anydim::codegen_cuda {

namespace {

using ir::Dim;
using ir::DType;
using ir::ScalarStep;

std::size_t at(std::int32_t position) { return static_cast<std::size_t>(position); }

std::string zero_of(DType dtype) { return literal(dtype, 0, 0); }

}  // namespace

ScalarWriter::ScalarWriter(KernelWriter& kernel, const ir::ScalarProgram& program, CodeScope& floor,
                           const std::vector<std::int32_t>& roots)
    : StepPlacer(ir::KernelProgram(program, roots, kernel.fresh_number(), kernel.symbols()), floor),
      kernel_(kernel), floor_(floor) {}

void ScalarWriter::set_accumulated(std::int32_t slot, std::string expression, CodeScope& home) {
  accumulated_[slot] = {std::move(expression), &home};
}
void ScalarWriter::set_scratch(std::int32_t slot, std::string expression, CodeScope& home) {
  scratch_[slot] = {std::move(expression), &home};
}
void ScalarWriter::set_load(std::int32_t step, std::string expression, CodeScope& home) {
  loads_[step] = {std::move(expression), &home};
}

Dim ScalarWriter::load_offset(std::int32_t position) const {
  const ScalarStep& step = program().step(position);
  return row_major(step.index, kernel_.buffer_type(at(step.buffer)).dims, kernel_.symbols());
}

std::vector<Dim> ScalarWriter::store_index(const ir::Store& store) const {
  std::vector<Dim> index;
  for (const Dim& dim : store.index) index.push_back(program().own(dim));
  return index;
}

Dim ScalarWriter::store_offset(const ir::Store& store) const {
  return row_major(store_index(store), kernel_.output_type(at(store.output)).dims,
                   kernel_.symbols());
}

std::optional<ScalarWriter::Placed> ScalarWriter::given(std::int32_t position) {
  const ScalarStep& step = program().step(position);
  if (step.kind == ScalarStep::Kind::Accumulated) return accumulated_.at(step.slot);
  if (step.kind == ScalarStep::Kind::Scratch) return scratch_.at(step.slot);
  if (const auto found = loads_.find(position); found != loads_.end()) return found->second;
  if (step.kind == ScalarStep::Kind::Constant)
    return Placed{literal(step.dtype, step.real, step.integer), &floor_};
  return std::nullopt;
}

void ScalarWriter::place_store(CodeScope& scope, const ir::Store& store) {
  for (const Dim& index : store.index) place_indices(scope, index);
}

bool ScalarWriter::index_varies(std::int32_t load, const ir::DimLeaf& variable) const {
  return std::ranges::any_of(program().step(load).index, [&](const Dim& dim) {
    return std::ranges::any_of(ir::steps_mentioned(dim), [&](std::int32_t step) {
      return ir::varies(program().steps(), step, variable);
    });
  });
}

std::string ScalarWriter::address(CodeScope& scope, std::int32_t load) {
  const ScalarStep& step = program().step(load);
  for (const Dim& index : step.index) place_indices(scope, index);
  const auto buffer = at(step.buffer);
  return fmt::format(
      "{} + {}", kernel_.buffer(buffer),
      write_offset(kernel_, scope, load_offset(load), kernel_.buffer_type(buffer).dims));
}

std::string ScalarWriter::holds(CodeScope& scope, const ScalarStep::Condition& condition) {
  return write_condition(kernel_, scope, condition);
}

std::string ScalarWriter::reciprocal(CodeScope& scope, std::int32_t, const std::string& value) {
  return named(scope, DType::F32, "inverse", "1.0f / " + value);
}

std::string ScalarWriter::product(CodeScope& scope, std::int32_t, const std::string& a,
                                  const std::string& b) {
  return named(scope, DType::F32, "div", a + " * " + b);
}

std::string ScalarWriter::named(CodeScope& home, DType dtype, std::string_view stem,
                                const std::string& expression) {
  const std::string name = kernel_.fresh_numbered(stem);
  home.line(fmt::format("const {} {} = {};", value_type(dtype), name, expression));
  return name;
}

std::string ScalarWriter::emit(CodeScope& home, std::int32_t position,
                               const std::vector<std::string>& operands) {
  const ScalarStep& step = program().step(position);
  switch (step.kind) {
    case ScalarStep::Kind::Extent:
      return named(home, step.dtype, "extent", write_index(kernel_, home, step.index.at(0)));
    case ScalarStep::Kind::Load: return named(home, step.dtype, "loaded", load(home, position));
    case ScalarStep::Kind::CheckedIndex: return checked_index(home, position, operands.at(0));
    case ScalarStep::Kind::Guarded:
      return named(
          home, step.dtype, "guarded",
          fmt::format("{} ? {} : {}", conditions(home, step), operands.at(0), operands.at(1)));
    case ScalarStep::Kind::Apply: {
      if (step.check >= 0) {
        kernel_.use("report");
        const std::string mask = mask_of(home, position);
        home.line(fmt::format("if ({}{} == 0) report(error, {}, 0);",
                              mask.empty() ? "" : mask + " && ", operands.at(1), step.check));
      }
      return named(home, step.dtype, ir::info(step.op).text,
                   elementwise(kernel_, step, dtype(step.operands.back()), operands));
    }
    case ScalarStep::Kind::Constant:
    case ScalarStep::Kind::Accumulated:
    case ScalarStep::Kind::Scratch: break;
  }
  internal_error("a step is written by its kind");
}

bool ScalarWriter::conditional(std::int32_t step) {
  return !program().guards(step).empty() || !extents_that_may_be_empty(step).empty();
}

std::string ScalarWriter::load(CodeScope& home, std::int32_t position) {
  const ScalarStep& step = program().step(position);
  const auto& dims = kernel_.buffer_type(at(step.buffer)).dims;
  const std::string offset = write_offset(kernel_, home, load_offset(position), dims);
  const std::string element = widened(
      kernel_, step.dtype, fmt::format("{}[{}]", kernel_.buffer(at(step.buffer)), bare(offset)));
  const std::string mask = load_mask(home, position);
  return mask.empty() ? element : fmt::format("{} ? {} : {}", mask, element, zero_of(step.dtype));
}

std::string ScalarWriter::checked_index(CodeScope& home, std::int32_t position,
                                        const std::string& index) {
  const ScalarStep& step = program().step(position);
  const Dim& extent = step.index.at(0);
  const bool wide = !kernel_.fits_int(extent);
  const std::string limit = write_index(kernel_, home, extent), mask = mask_of(home, position);
  kernel_.use("report");
  const std::string name = kernel_.fresh_numbered("index");
  home.line(fmt::format("const {} {} = {}checked_index(error, {}, {}, {}, {});", index_type(wide),
                        name, wide ? "" : "(int)", step.check, index, limit,
                        mask.empty() ? "true" : mask));
  home.define(program().leaf_of(position), {name, wide});
  return name;
}

std::string ScalarWriter::stored_value(CodeScope& scope, const ir::Store& store) {
  const DType dtype = kernel_.output_type(at(store.output)).dtype;
  const ScalarStep& step = program().step(store.step);
  // A conversion to the result's own narrow type happens once.
  const bool same = step.kind == ScalarStep::Kind::Apply && step.op == ir::Op::cast &&
                    step.dtype == dtype && ir::is_half(dtype);
  if (same && program().dtype(step.operands[0]) == DType::F32)
    return narrowed(kernel_, dtype, value(scope, step.operands[0]));
  return narrowed(kernel_, dtype, value(scope, store.step));
}

void ScalarWriter::update(CodeScope& scope, const ir::Store& store,
                          const std::optional<ir::Op>& combine) {
  const ir::TensorType& type = kernel_.output_type(at(store.output));
  place_store(scope, store);
  std::string element = stored_value(scope, store);
  const std::string place =
      fmt::format("{}[{}]", kernel_.output(at(store.output)),
                  bare(write_offset(kernel_, scope, store_offset(store), type.dims)));
  if (combine) {
    ScalarStep step;
    step.op = *combine;
    step.dtype = type.dtype;
    const std::string there =
        named(scope, type.dtype, "there", widened(kernel_, type.dtype, place));
    element = narrowed(kernel_, type.dtype,
                       elementwise(kernel_, step, type.dtype, {there, value(scope, store.step)}));
  }
  scope.line(fmt::format("{} = {};", place, element));
}

}  // namespace anydim::codegen_cuda
