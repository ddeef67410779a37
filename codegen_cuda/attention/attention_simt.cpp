// Attention on ordinary arithmetic: what tensor cores don't take.
#include <fmt/format.h>

#include <algorithm>

#include "codegen_cuda/attention/attention_entry.h"
#include "codegen_cuda/attention/attention_kinds.h"
#include "codegen_cuda/attention/attention_schedule.h"
#include "codegen_cuda/form_facts.h"
#include "ir/region.h"

namespace anydim::codegen_cuda {

namespace {

// device/attention_simt.cuh
constexpr std::int64_t block_rows = 16, lanes = 32, threads = 128;

class AttentionSimt final : public AttentionKind {
 public:
  std::string_view name() const override { return "attention_simt"; }

  // Fewer columns a lane than the widest head needs mean that scores are computed more than once.
  std::vector<ir::Schedule> candidates(const PlanInputs& inputs, const ir::Bucket&) const override {
    const std::int64_t most = is_double(inputs) ? 2 : 4;
    const std::int64_t width =
        attention_form(inputs).width.extent.constant().value_or(most * lanes);
    const auto columns = std::clamp<std::int64_t>((width + lanes - 1) / lanes, 1, most);
    return {AttentionSimtSchedule{.columns = columns}.schedule()};
  }
  double estimate(const PlanInputs& inputs, const ir::Schedule&,
                  std::span<const std::int64_t> keys) const override {
    return attention_simt_seconds(inputs.target, attention_sizes(inputs, keys));
  }
  LaunchCycles cycles(const PlanInputs& inputs, const ir::Schedule&,
                      std::span<const std::int64_t> keys) const override {
    return attention_simt_cycles(inputs.target, attention_sizes(inputs, keys));
  }
  std::optional<std::string> misfit(const PlanInputs& inputs,
                                    const ir::Schedule& wanted) const override {
    const std::int64_t columns = AttentionSimtSchedule::from(wanted).columns,
                       most = is_double(inputs) ? 2 : 4;
    if (columns < 1 || columns > most) return fmt::format("columns are 1 to {}", most);
    return std::nullopt;
  }
  EmittedKernel emit(const PlanInputs& inputs, const ir::Bucket& bucket,
                     const ir::Schedule& schedule, bool checked) const override;

 private:
  static bool is_double(const PlanInputs& inputs) {
    return attention_form(inputs).score.steps.back().dtype == ir::DType::F64;
  }
};

EmittedKernel AttentionSimt::emit(const PlanInputs& inputs, const ir::Bucket& bucket,
                                  const ir::Schedule& schedule, bool) const {
  const ir::AttentionForm& form = attention_form(inputs);
  const std::int64_t columns = AttentionSimtSchedule::from(schedule).columns;
  const std::string real = is_double(inputs) ? "double" : "float";
  KernelWriter kernel(inputs, bucket,
                      fmt::format("// {}: {}\n", inputs.region.name, to_string(schedule)));
  kernel.use("attention_simt");
  kernel.declare(fmt::format("\nusing Kernel = AttentionSimt<{}, {}>;\n", real, columns));
  reserve_attention_names(kernel);
  const EntryOptions options{
      .name = "attention", .threads = threads, .blocks = 0, .tensor_maps = 0, .dependent = true};
  CodeScope& scope = kernel.begin_entry(options);
  const Dim points = batch_points(form);
  // Loop variables are 32 bits wide where that suffices for all of them.
  const bool wide = !kernel.fits_int(form.row.extent) || !kernel.fits_int(form.key.extent) ||
                    !kernel.fits_int(form.depth.extent) || !kernel.fits_int(form.width.extent);
  const std::string index = index_type(wide);
  const auto line = [&](const char* name, const Dim& dim) {
    scope.line("const long long {} = {};", name, write_index(kernel, scope, dim));
  };
  line("depth", form.depth.extent);
  line("width", form.width.extent);
  scope.line(
      "const long long width_blocks = (width + Kernel::tile_width - 1) / Kernel::tile_width;");
  const KeyRange& range = inputs.facts->key_range;
  const bool wide_point = !kernel.fits_int(points);
  if (form.segments) {
    kernel.use("attention_blocks");
    begin_block(kernel, scope, form,
                {.batch_points = write_index(kernel, scope, points) + " * width_blocks",
                 .block_rows = "Kernel::block_rows",
                 .points = "1",
                 .slot = "0"});
    scope.line("const long long rows = place.end, keys = place.end - place.first;");
    scope.line("const {} first_row = place.first_row;", index);
    scope.line("const long long first_column = place.point % width_blocks * Kernel::tile_width;");
    scope.line("const {} point = place.point / width_blocks;", index_type(wide_point));
  } else {
    line("rows", form.row.extent);
    line("keys", form.key.extent);
    scope.line(
        "const long long row_blocks = (rows + Kernel::block_rows - 1) / Kernel::block_rows;");
    scope.line("if (blockIdx.x >= {} * row_blocks * width_blocks) return;",
               write_index(kernel, scope, points));
    scope.line("// Blocks of one batch point follow each other: rows, then columns.");
    scope.line("const {} first_row = blockIdx.x % row_blocks * Kernel::block_rows;", index);
    scope.line(
        "const long long first_column = blockIdx.x / row_blocks % width_blocks * "
        "Kernel::tile_width;");
    scope.line("const {} point = blockIdx.x / row_blocks / width_blocks;", index_type(wide_point));
  }
  if (!range.begins.empty() || !range.ends.empty())
    scope.line(
        "const {} last_row = (first_row + Kernel::block_rows < rows ? first_row + "
        "Kernel::block_rows : rows) - 1;",
        index);
  define_batch_point(kernel, scope, form, {"point", wide_point});
  const BlockKeys seen = block_keys(kernel, scope, form, range,
                                    {"first_row", "last_row", "place.first", "place.end"}, wide);
  scope.line("const {} first_key = {}, end_key = {};", index,
             write_index(kernel, scope, seen.first), write_index(kernel, scope, seen.end));
  const auto element = [&](const char* name, const ElementParameter& row,
                           const ElementParameter& column, const ir::ScalarProgram& program) {
    write_element_function(kernel, scope,
                           {.name = name, .type = real, .parameters = {row, column}, .wide = wide},
                           program);
  };
  const ElementParameter row{form.row.variable, "row"}, key{form.key.variable, "key_row"},
      depth{form.depth.variable, "element"}, column{form.width.variable, "column"};
  element("query", row, depth, form.q);
  element("key", key, depth, form.k);
  element("value", key, column, form.v);
  write_element_function(
      kernel, scope,
      {.name = "score", .type = real, .parameters = {row, key}, .product = "product", .wide = wide},
      form.score);
  write_store_function(kernel, scope, "write_element", real, form, wide);
  scope.line(
      "Kernel::run(first_row, rows, keys, first_key, end_key, depth, first_column, width, query, "
      "key, value, score, write_element);");
  kernel.end_entry();

  ir::DeviceLaunch launch;
  launch.entry = options.name;
  launch.grid[0] =
      row_blocks(form, block_rows) * ir::ceil_div(form.width.extent, columns * lanes) * points;
  launch.block[0] = options.threads;
  launch.dependent = inputs.target.has_dependent_launch();
  return kernel.finish({std::move(launch)});
}

}  // namespace

ir::Interval rows_in_bucket(const PlanInputs& inputs, const ir::Bucket& bucket) {
  const ir::AttentionForm& form = attention_form(inputs);
  return ir::bounds_in(inputs.region, bucket,
                       form.segments ? inputs.facts->sequence_rows : form.row.extent,
                       inputs.form.symbols);
}

std::unique_ptr<KernelKind> make_attention_simt_kind() { return std::make_unique<AttentionSimt>(); }

}  // namespace anydim::codegen_cuda
