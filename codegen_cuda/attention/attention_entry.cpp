#include "codegen_cuda/attention/attention_entry.h"

#include <fmt/format.h>

#include "codegen_cuda/device_struct.h"
#include "ir/loops/scalar_program.h"

namespace anydim::codegen_cuda {

namespace {

void declare_below(KernelWriter& kernel, const ir::DimLeaf& leaf, const Dim& below) {
  ir::SymbolInfo info;
  info.below = below;
  kernel.symbols().declare(leaf, std::move(info));
}

// Their blocks are begun first.
bool later_rows_see_more(const KernelWriter& kernel) {
  const KeyRange& range = kernel.inputs().facts->key_range;
  return !range.ends.empty() && range.begins.empty();
}

std::string place_of(KernelWriter& kernel, CodeScope& scope, const DirectOperand& rows,
                     const std::string& pointer) {
  const auto buffer = static_cast<std::size_t>(rows.buffer);
  const std::string offset =
      write_offset(kernel, scope, rows.offset, kernel.buffer_type(buffer).dims);
  const std::string stride = write_index(kernel, scope, rows.stride);
  return fmt::format("{{reinterpret_cast<{}>({}) + {}, {}}}", pointer, kernel.buffer(buffer),
                     offset, stride);
}

}  // namespace

void reserve_attention_names(KernelWriter& kernel) {
  for (const char* name :
       {"rows",    "keys",    "depth",       "width",         "row_blocks",   "width_blocks",
        "place",   "point",   "first_row",   "last_row",      "first_column", "first_key",
        "end_key", "tiles",   "query",       "key",           "value",        "output",
        "score",   "added",   "score_value", "write_element", "row",          "column",
        "key_row", "element", "product",     "number",        "place_of",     "at_place",
        "work"})
    kernel.fresh(name);
}

Dim batch_points(const ir::AttentionForm& form) { return ir::points_of(form.batch); }

void define_batch_point(KernelWriter& kernel, CodeScope& scope, const ir::AttentionForm& form,
                        const IndexVariable& point) {
  const ir::DimLeaf number = ir::loop_leaf(ir::LoopRole::Made);
  declare_below(kernel, number, batch_points(form));
  scope.define(number, point);
  Dim rest = Dim::of(number);
  for (std::size_t i = form.batch.size(); i-- > 0;) {
    const ir::Iteration& iteration = form.batch[i];
    const Dim value = i == 0 ? rest : ir::mod(rest, iteration.extent);
    rest = ir::floor_div(rest, iteration.extent);
    scope.define(iteration.variable,
                 name_index(kernel, scope, value, to_string(iteration.variable)));
  }
}

BlockKeys block_keys(KernelWriter& kernel, CodeScope& scope, const ir::AttentionForm& form,
                     const KeyRange& range, const BlockNames& names, bool wide) {
  const auto define = [&](const ir::DimLeaf& leaf, const std::string& name, const Dim& below) {
    declare_below(kernel, leaf, below);
    scope.define(leaf, {name, wide});
    return Dim::of(leaf);
  };
  define(first_row_leaf, names.first_row, form.row.extent);
  define(last_row_leaf, names.last_row, form.row.extent);
  Dim start = 0, last = form.key.extent;
  if (form.segments) {
    start = define(ir::loop_leaf(ir::LoopRole::Bound, 2), names.first, form.key.extent + 1);
    last = define(ir::loop_leaf(ir::LoopRole::Bound, 3), names.end, form.key.extent + 1);
  }
  BlockKeys keys{start, last, start, last};
  for (const Dim& begin : range.begins) keys.first = ir::max(keys.first, begin);
  for (const Dim& end : range.ends) keys.end = ir::min(keys.end, end);
  if (!range.ends.empty()) keys.end = ir::max(keys.end, start);
  if (!range.begins.empty()) keys.first = ir::min(keys.first, last);
  for (const Dim& begin : range.whole_begins) keys.whole_first = ir::max(keys.whole_first, begin);
  for (const Dim& end : range.whole_ends) keys.whole_end = ir::min(keys.whole_end, end);
  return keys;
}

namespace {

std::string work_list(KernelWriter& kernel, const ir::Segments& segments) {
  return segments.work < 0 ? "nullptr" : kernel.buffer(static_cast<std::size_t>(segments.work));
}

}  // namespace

void check_segments(KernelWriter& kernel, CodeScope& scope, const ir::AttentionForm& form) {
  if (!form.segments) return;
  kernel.use("report");
  kernel.use("segments");
  const std::string offsets = kernel.buffer(static_cast<std::size_t>(form.segments->offsets)),
                    count = write_index(kernel, scope, form.segments->count);
  scope.line("check_offsets(error, {}, {}, {}, {});", form.segments->check, offsets, count,
             write_index(kernel, scope, form.row.extent));
  if (form.segments->work >= 0)
    scope.line("check_work(error, {}, {}, {}, {});", form.segments->work_check, offsets,
               work_list(kernel, *form.segments), count);
  scope.line("__syncwarp();  // a report has parted the lanes");
}

std::string block_place(KernelWriter& kernel, CodeScope& scope, const ir::AttentionForm& form,
                        const std::string& number, const BlockShape& shape) {
  const std::string rows = write_index(kernel, scope, form.row.extent),
                    shared_out = fmt::format("{}, {}, {}, {}, {}, {}", rows, shape.batch_points,
                                             shape.block_rows, shape.points, shape.slot,
                                             later_rows_see_more(kernel));
  if (!form.segments) return fmt::format("place_block({}, {})", number, shared_out);
  return fmt::format("place_segment_block<{}>({}, {}, {}, {}, {})", shape.search, number,
                     kernel.buffer(static_cast<std::size_t>(form.segments->offsets)),
                     work_list(kernel, *form.segments),
                     write_index(kernel, scope, form.segments->count), shared_out);
}

void begin_block(KernelWriter& kernel, CodeScope& scope, const ir::AttentionForm& form,
                 const BlockShape& shape) {
  check_segments(kernel, scope, form);
  scope.line("const BlockPlace place = {};", block_place(kernel, scope, form, "blockIdx.x", shape));
  scope.line("if (!place.any) return;");
}

Dim row_blocks(const ir::AttentionForm& form, std::int64_t block_rows) {
  if (!form.segments) return ir::ceil_div(form.row.extent, block_rows);
  return ir::floor_div(form.row.extent, block_rows) + form.segments->count +
         1;  // device/attention_blocks.cuh; one where there is nothing but offsets to check
}

void write_element_function(KernelWriter& kernel, CodeScope& scope, const ElementFunction& function,
                            const ir::ScalarProgram& program) {
  std::string parameters;
  for (const ElementParameter& parameter : function.parameters)
    parameters += fmt::format("{}{} {}", parameters.empty() ? "" : ", ", index_type(function.wide),
                              parameter.name);
  if (!function.product.empty())
    parameters += fmt::format(", {} {}", function.type, function.product);
  write_lambda(
      scope, function.name, parameters,
      [&](CodeScope& body) {
        for (const ElementParameter& parameter : function.parameters)
          body.define(parameter.leaf, {parameter.name, function.wide});
        const std::int32_t element = ir::last_step(program);
        ScalarWriter writer(kernel, program, body, {element});
        if (!function.product.empty()) writer.set_accumulated(0, function.product, body);
        body.line("return {};", writer.value(body, element));
      },
      function.type);
}

void write_store_function(KernelWriter& kernel, CodeScope& scope, const std::string& name,
                          const std::string& type, const ir::AttentionForm& form, bool wide) {
  const std::string index = index_type(wide);
  write_lambda(scope, name, fmt::format("{} row, {} column, {} value", index, index, type),
               [&](CodeScope& body) {
                 body.define(form.row.variable, {"row", wide});
                 body.define(form.width.variable, {"column", wide});
                 ScalarWriter writer(kernel, form.epilogue, body, ir::roots_of(form));
                 writer.set_accumulated(0, "value", body);
                 for (const ir::Store& store : form.stores) writer.store(body, store);
               });
}

std::string operand_rows(KernelWriter& kernel, CodeScope& scope, const DirectOperand& rows) {
  return place_of(kernel, scope, rows, "const unsigned short*");
}

namespace {

std::string name_of(ScoreForm form) {
  static constexpr const char* names[] = {"scaled", "masked", "column", "element", "plain"};
  return fmt::format("ScoreForm::{}", names[static_cast<int>(form)]);
}

std::string name_of(OutputForm form) {
  static constexpr const char* names[] = {"narrow", "wide", "program"};
  return fmt::format("OutputForm::{}", names[static_cast<int>(form)]);
}

}  // namespace

std::string form_members(const FormFacts& facts) {
  constexpr double log2_e = 1.4426950408889634;
  const AttentionOperands& operands = *facts.attention;
  const AttentionScore& score = facts.score;
  return members(
      {{"depth", operands.depth},  // of a head's queries and keys
       {"width", operands.width},  // of its values
       {"brain", operands.dtype == ir::DType::BF16},
       {"output_brain", operands.output_dtype == ir::DType::BF16},
       {"ScoreForm", "score", name_of(score.form)},
       {"none_behind_row", facts.key_range.none_behind_row},  // no row sees keys behind its number
       {"float", "scale", fmt::format("{:.9g}f", score.scale * log2_e)},  // of a product, for exp2
       {"OutputForm", "output", name_of(operands.output_form)}});
}

void begin_point(KernelWriter& kernel, CodeScope& scope, const ir::AttentionForm& form) {
  const KeyRange& range = kernel.inputs().facts->key_range;
  if (form.segments) {
    scope.line("const int rows = place.end, keys = place.end - place.first;");
  } else {
    scope.line("const int rows = {}, keys = {};", write_index(kernel, scope, form.row.extent),
               write_index(kernel, scope, form.key.extent));
  }
  const bool wide = !kernel.fits_int(batch_points(form));
  scope.line("const {} point = {}place.point;", index_type(wide), wide ? "" : "(int)");
  define_batch_point(kernel, scope, form, {"point", wide});
  const BlockKeys seen =
      block_keys(kernel, scope, form, range,
                 {"place.first_row", "place.last_row", "place.first", "place.end"}, false);
  std::string bounds;
  for (const Dim& bound : {seen.first, seen.end, seen.whole_first, seen.whole_end})
    bounds += (bounds.empty() ? "" : ", ") + write_index(kernel, scope, bound);
  scope.line("const KeyTiles<Attention::keys> tiles = key_tiles<Attention::keys>({});", bounds);
}

void write_row_functions(KernelWriter& kernel, CodeScope& scope, const ir::AttentionForm& form,
                         const AttentionOperands& operands, const AttentionScore& score) {
  if (score.form == ScoreForm::Column) {
    write_element_function(
        kernel, scope,
        {.name = "added", .type = "float", .parameters = {{form.key.variable, "key"}}},
        score.program);
  } else {
    scope.line("const auto added = [](int) { return 0.0f; };");
  }
  if (score.form != ScoreForm::Scaled && score.form != ScoreForm::Column) {
    const std::vector<ElementParameter> parameters{{form.row.variable, "row"},
                                                   {form.key.variable, "key"}};
    write_element_function(
        kernel, scope,
        {.name = "score_value", .type = "float", .parameters = parameters, .product = "product"},
        score.program);
  } else {
    scope.line("const auto score_value = [](int, int, float product) { return product; };");
  }
  std::string output = "{nullptr, 0}";
  if (operands.output_form == OutputForm::Program) {
    write_store_function(kernel, scope, "write_element", "float", form, false);
  } else {
    scope.line("const auto write_element = [](int, int, float) {};");
    output = place_of(kernel, scope, operands.output, storage_type(operands.output_dtype) + "*");
  }
  scope.line("const OutputRows output{};", output);
}

}  // namespace anydim::codegen_cuda
