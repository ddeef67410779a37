#include "codegen_cuda/scalars/scalar_writer.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/error.h"
#include "ir/loops/scalar_program.h"
#include "ir/overloaded.h"

namespace anydim::codegen_cuda {

namespace {

std::size_t at(std::int32_t position) { return static_cast<std::size_t>(position); }

}  // namespace

ScalarWriter::ScalarWriter(KernelWriter& kernel, const ir::ScalarProgram& program, CodeScope& floor,
                           const std::vector<std::int32_t>& roots)
    : StepPlacer(ir::KernelProgram(program, roots, kernel.fresh_number(), kernel.symbols()), floor),
      kernel_(kernel) {}

void ScalarWriter::set_scratch(std::int32_t slot, const std::string& expression, CodeScope& home) {
  for (std::size_t i = 0; i < program().steps().size(); ++i) {
    const auto* element = std::get_if<ir::step::Scratch>(&program().steps()[i].kind);
    if (element && element->slot == slot) set_step(static_cast<std::int32_t>(i), expression, home);
  }
}

Dim ScalarWriter::load_offset(std::int32_t position) const {
  const auto& [buffer, index] = program().step(position).as<ir::step::Load>();
  return ir::linear_offset(index, kernel_.buffer_type(at(buffer)).dims, kernel_.symbols());
}

Dim ScalarWriter::store_offset(const ir::Store& store) const {
  return ir::linear_offset(store_index(store), kernel_.output_type(at(store.output)).dims,
                           kernel_.symbols());
}

void ScalarWriter::place_store(CodeScope& scope, const ir::Store& store) {
  for (const Dim& index : store.index) place_indices(scope, index);
}

bool ScalarWriter::index_varies(std::int32_t load, const ir::DimLeaf& variable) const {
  return ir::any_dim(program().step(load), [&](const Dim& dim) {
    return std::ranges::any_of(ir::steps_mentioned(dim), [&](std::int32_t step) {
      return ir::varies(program().steps(), step, variable);
    });
  });
}

std::string ScalarWriter::address(CodeScope& scope, std::int32_t load) {
  const ir::step::Load& read = program().step(load).as<ir::step::Load>();
  for (const Dim& index : read.index) place_indices(scope, index);
  const auto buffer = at(read.buffer);
  return fmt::format(
      "{} + {}", kernel_.buffer(buffer),
      write_offset(kernel_, scope, load_offset(load), kernel_.buffer_type(buffer).dims));
}

std::string ScalarWriter::mask(CodeScope& scope, const ir::KernelMask& mask) {
  std::string any;
  for (const auto& conditions : mask.alternatives) {
    const std::string one = write_all_of(kernel_, scope, conditions);
    any = any.empty() ? one : "(" + any + " || " + one + ")";
  }
  return any;
}

std::string ScalarWriter::write(CodeScope& home, const ir::PlacedInverse& inverse) {
  return named(home, DType::F32, "inverse", "1.0f / " + value_of(home, inverse.of));
}

std::string ScalarWriter::named(CodeScope& home, DType dtype, std::string_view stem,
                                const std::string& expression) {
  const std::string name = kernel_.fresh_numbered(stem);
  home.line("const {} {} = {};", value_type(dtype), name, expression);
  return name;
}

std::string ScalarWriter::write(CodeScope& home, const ir::PlacedStep& placed) {
  const DType dtype = placed.step.dtype;
  const ir::Overloaded text{
      [&](const ir::step::Constant& constant) {
        return literal(dtype, constant.real, constant.integer);
      },
      [&](const ir::step::Extent& extent) {
        return named(home, dtype, "extent", write_index(kernel_, home, extent.value));
      },
      [&](const ir::step::Load& read) {
        return named(home, dtype, "loaded", load(home, placed, read));
      },
      [&](const ir::step::CheckedIndex& index) { return checked_index(home, placed, index); },
      [&](const ir::step::Guarded& guarded) {
        return named(home, dtype, "guarded",
                     fmt::format("{} ? {} : {}", write_all_of(kernel_, home, guarded.conditions),
                                 value_of(home, placed.operands.at(0)),
                                 value_of(home, placed.operands.at(1))));
      },
      [&](const ir::step::Apply& apply) {
        std::vector<std::string> operands;
        for (const ir::KernelValue& operand : placed.operands)
          operands.push_back(value_of(home, operand));
        if (apply.check >= 0) {
          kernel_.use("report");
          const std::string where = mask(home, placed.mask);
          home.line("if ({}{} == 0) report(error, {}, 0);", where.empty() ? "" : where + " && ",
                    operands.at(1), apply.check);
        }
        return named(
            home, dtype, ir::info(apply.op).text,
            elementwise(kernel_, placed.step, program().operand_dtype(placed.number), operands));
      },
      [](const ir::step::Accumulated&) -> std::string { internal_error("a slot is no statement"); },
      [](const ir::step::Scratch&) -> std::string {
        internal_error("an element of scratch is given");
      },
  };
  return std::visit(text, placed.step.kind);
}

bool ScalarWriter::conditional(std::int32_t step) { return !load_mask(step).alternatives.empty(); }

std::string ScalarWriter::load(CodeScope& home, const ir::PlacedStep& placed,
                               const ir::step::Load& read) {
  const std::size_t buffer = at(read.buffer);
  const DType dtype = placed.step.dtype;
  const std::vector<Dim>& dims = kernel_.buffer_type(buffer).dims;
  const std::string offset =
      write_offset(kernel_, home, ir::linear_offset(read.index, dims, kernel_.symbols()), dims);
  const std::string element =
      widened(kernel_, dtype, fmt::format("{}[{}]", kernel_.buffer(buffer), bare(offset)));
  const std::string where = mask(home, placed.mask);
  return where.empty() ? element
                       : fmt::format("{} ? {} : {}", where, element, literal(dtype, 0, 0));
}

std::string ScalarWriter::checked_index(CodeScope& home, const ir::PlacedStep& placed,
                                        const ir::step::CheckedIndex& checked) {
  const bool wide = !kernel_.fits_int(checked.extent);
  const std::string limit = write_index(kernel_, home, checked.extent),
                    where = mask(home, placed.mask);
  kernel_.use("report");
  const std::string name = kernel_.fresh_numbered("index");
  home.line("const {} {} = {}checked_index(error, {}, {}, {}, {});", index_type(wide), name,
            wide ? "" : "(int)", checked.check, value_of(home, placed.operands.at(0)), limit,
            where.empty() ? "true" : where);
  home.define(program().leaf_of(placed.number), {name, wide});
  return name;
}

// A conversion to the result's own narrow type happens once.
std::int32_t ScalarWriter::stored_step(const ir::Store& store) const {
  const DType dtype = kernel_.output_type(at(store.output)).dtype;
  const ScalarStep& step = program().step(store.step);
  const bool converts = step.applies(ir::Op::cast) && step.dtype == dtype && ir::is_half(dtype) &&
                        program().operand_dtype(store.step) == DType::F32;
  return converts ? step.operands[0] : store.step;
}

std::string ScalarWriter::stored_value(CodeScope& scope, const ir::Store& store) {
  return narrowed(kernel_, kernel_.output_type(at(store.output)).dtype,
                  unrounded_value(scope, store));
}

void ScalarWriter::write(CodeScope& scope, const ir::PlacedStore& store) {
  const std::string where = mask(scope, store.mask);
  if (where.empty()) return put(scope, store);
  kernel_.block(scope, fmt::format("if ({})", bare(where)),
                [&](CodeScope& inner) { put(inner, store); });
}

void ScalarWriter::put(CodeScope& scope, const ir::PlacedStore& store) {
  const ir::TensorType& type = kernel_.output_type(at(store.output));
  const Dim offset = ir::linear_offset(store.index, type.dims, kernel_.symbols());
  const std::string element = fmt::format("{}[{}]", kernel_.output(at(store.output)),
                                          bare(write_offset(kernel_, scope, offset, type.dims)));
  std::string stored = value_of(scope, store.value);
  if (store.combine) {
    const ScalarStep step{type.dtype, ir::step::Apply{*store.combine}};
    const std::string there =
        named(scope, type.dtype, "there", widened(kernel_, type.dtype, element));
    stored = elementwise(kernel_, step, type.dtype, {there, stored});
  }
  scope.line("{} = {};", element, narrowed(kernel_, type.dtype, stored));
}

}  // namespace anydim::codegen_cuda
