// Attention on mma.sync: sm_80 and everything newer.
#include <fmt/format.h>

#include <algorithm>

#include "codegen_cuda/attention/attention_entry.h"
#include "codegen_cuda/attention/attention_kinds.h"
#include "codegen_cuda/attention/attention_schedule.h"
#include "codegen_cuda/device_struct.h"
#include "codegen_cuda/form_facts.h"
#include "ir/error.h"
#include "ir/region.h"

namespace anydim::codegen_cuda {

namespace {

class AttentionMma final : public AttentionKind {
 public:
  std::string_view name() const override { return "attention_mma"; }

  bool accepts(const PlanInputs& inputs) const override {
    if (!AttentionKind::accepts(inputs)) return false;
    const ir::AttentionForm& form = attention_form(inputs);
    // Rows and keys are counted in 32 bits.
    for (const Dim& extent : {form.row.extent, form.key.extent})
      if (ir::bounds(extent, inputs.form.symbols).high > ir::default_symbol_maximum) return false;
    return inputs.facts->attention.has_value();
  }

  std::vector<ir::Schedule> space(const PlanInputs& inputs,
                                  const ir::Bucket& bucket) const override;
  double estimate(const PlanInputs& inputs, const ir::Schedule& schedule,
                  std::span<const std::int64_t> keys) const override {
    return attention_mma_seconds(inputs.target, AttentionMmaSchedule::from(schedule),
                                 attention_sizes(inputs, keys), has_column(inputs));
  }
  LaunchCycles cycles(const PlanInputs& inputs, const ir::Schedule& schedule,
                      std::span<const std::int64_t> keys) const override {
    return attention_mma_cycles(inputs.target, AttentionMmaSchedule::from(schedule),
                                attention_sizes(inputs, keys));
  }
  std::optional<std::string> misfit(const PlanInputs& inputs,
                                    const ir::Schedule& schedule) const override;
  EmittedKernel emit(const PlanInputs& inputs, const ir::Bucket& bucket,
                     const ir::Schedule& schedule, bool checked) const override;
};

std::vector<ir::Schedule> AttentionMma::space(const PlanInputs& inputs,
                                              const ir::Bucket& bucket) const {
  const ir::Interval rows = rows_in_bucket(inputs, bucket),
                     keys = attention_form(inputs).segments
                                ? rows
                                : ir::bounds_in(inputs.region, bucket,
                                                attention_form(inputs).key.extent,
                                                inputs.form.symbols);
  std::vector<AttentionMmaSchedule> schedules{
      {.warps = 4, .points = 1, .tiles = 1, .keys = 64, .stages = 2},  // the safe one
      {.warps = 8, .points = 1, .tiles = 1, .keys = 64, .stages = 2},
      {.warps = 4, .points = 1, .tiles = 2, .keys = 64, .stages = 2},
      {.warps = 4, .points = 1, .tiles = 2, .keys = 32, .stages = 3},
      {.warps = 4, .points = 1, .tiles = 2, .keys = 48, .stages = 2},
      {.warps = 4, .points = 1, .tiles = 1, .keys = 128, .stages = 2},
      {.warps = 4, .points = 1, .tiles = 1, .keys = 64, .stages = 1},
      {.warps = 2, .points = 1, .tiles = 1, .keys = 64, .stages = 2},
  };
  // Short sequences: the rows of one need few warps, so several batch points share a block.
  for (const std::int64_t warps : {1, 2, 4}) {
    if (rows.low > 16 * warps || 2 * 16 * warps < rows.low) continue;
    for (const std::int64_t points : {1, 2, 4, 8}) {
      if (warps * points > 8) continue;
      for (const std::int64_t block_keys : {16, 32, 64, 128}) {
        if (block_keys > 16 && block_keys >= 2 * keys.high) continue;
        schedules.push_back(
            {.warps = warps, .points = points, .tiles = 1, .keys = block_keys, .stages = 1});
      }
    }
  }
  std::vector<ir::Schedule> result;
  for (const AttentionMmaSchedule& fields : schedules) {
    ir::Schedule schedule = fields.schedule();
    if (!misfit(inputs, schedule) &&
        std::find(result.begin(), result.end(), schedule) == result.end())
      result.push_back(std::move(schedule));
  }
  return result;
}

std::optional<std::string> AttentionMma::misfit(const PlanInputs& inputs,
                                                const ir::Schedule& schedule) const {
  const AttentionMmaSchedule fields = AttentionMmaSchedule::from(schedule);
  const ir::AttentionForm& form = attention_form(inputs);
  const std::int64_t depth = *form.depth.extent.constant(), width = *form.width.extent.constant();
  if (fields.warps < 1 || fields.points < 1 || fields.tiles < 1 || fields.stages < 1 ||
      fields.keys < 16 || fields.keys % 16 != 0)
    return "warps, points, tiles and stages are at least 1, keys a multiple of 16";
  if (fields.threads() > 512)
    return fmt::format("{} threads a block; at most 512 are planned for", fields.threads());
  const std::int64_t registers = fields.registers(depth, width);
  // The assembler needs more room for sm_100 and newer: it spills where it doesn't for sm_90.
  const std::int64_t most = inputs.target.capability() >= 100 ? 240 : 255;
  if (registers > most)
    return fmt::format("about {} registers a thread; {} is the most", registers, most);
  if (registers * fields.threads() > inputs.target.registers_per_multiprocessor)
    return fmt::format("about {} registers for {} threads; a multiprocessor has {}",
                       registers * fields.threads(), fields.threads(),
                       inputs.target.registers_per_multiprocessor);
  const std::int64_t shared = fields.shared_bytes(depth, width, has_column(inputs));
  if (shared > inputs.target.shared_per_block)
    return fmt::format("{} bytes of shared memory; a block may have {}", shared,
                       inputs.target.shared_per_block);
  if (fields.points > 1 && fields.warps > 1 && inputs.facts->key_range.depends_on_batch)
    return "batch points that share a barrier see different numbers of keys";
  return std::nullopt;
}

// The struct that the device function takes its numbers from.
std::string numbers(const AttentionMmaSchedule& fields, const FormFacts& facts) {
  return "struct Attention {\n" + form_members(facts) +
         members({{"warps", fields.warps},    // of a batch point
                  {"points", fields.points},  // batch points of a block
                  {"tiles", fields.tiles},    // fragments of 16 queries of a warp
                  {"keys", fields.keys},      // of a tile
                  {"stages", fields.stages}}) +
         "};\nusing Kernel = AttentionMma<Attention>;\n";
}

EmittedKernel AttentionMma::emit(const PlanInputs& inputs, const ir::Bucket& bucket,
                                 const ir::Schedule& schedule, bool) const {
  const AttentionMmaSchedule fields = AttentionMmaSchedule::from(schedule);
  const ir::AttentionForm& form = attention_form(inputs);
  const auto& operands = inputs.facts->attention;
  internal_check(operands.has_value(), "attention_mma emits what it accepts");
  const AttentionScore& score = inputs.facts->score;

  KernelWriter kernel(inputs, bucket,
                      fmt::format("// {}: {}\n", inputs.region.name, to_string(schedule)));
  for (const char* piece :
       {"report", "tensor_cores", "attention_blocks", "attention", "attention_mma"})
    kernel.use(piece);
  kernel.declare(numbers(fields, *inputs.facts));
  reserve_attention_names(kernel);
  const EntryOptions options{.name = "attention",
                             .threads = static_cast<int>(fields.threads()),
                             .blocks = static_cast<int>(fields.resident_blocks(
                                 inputs.target, operands->depth, operands->width,
                                 score.form == ScoreForm::Column, form.segments.has_value())),
                             .tensor_maps = 0,
                             .dependent = true};
  CodeScope& scope = kernel.begin_entry(options);
  begin_block(kernel, scope, form,
              {.batch_points = write_index(kernel, scope, batch_points(form)),
               .block_rows = "Kernel::block_rows",
               .points = "Attention::points",
               .slot = fields.points == 1 ? "0" : "threadIdx.x / Kernel::point_threads"});
  begin_point(kernel, scope, form);
  write_row_functions(kernel, scope, form, *operands, score);
  const std::string query = operand_rows(kernel, scope, operands->query),
                    key = operand_rows(kernel, scope, operands->key),
                    value = operand_rows(kernel, scope, operands->value);
  scope.line("const OperandRows query{}, key{}, value{};", query, key, value);
  scope.line(
      "Kernel::run(place, query, key, value, output, rows, keys, tiles, added, score_value, "
      "write_element);");
  kernel.end_entry();

  ir::DeviceLaunch launch;
  launch.entry = options.name;
  launch.grid[0] =
      row_blocks(form, fields.block_rows()) * ir::ceil_div(batch_points(form), fields.points);
  launch.block[0] = options.threads;
  launch.shared_bytes =
      fields.shared_bytes(operands->depth, operands->width, score.form == ScoreForm::Column);
  launch.dependent = inputs.target.has_dependent_launch();
  return kernel.finish({std::move(launch)});
}

}  // namespace

std::unique_ptr<KernelKind> make_attention_mma_kind() { return std::make_unique<AttentionMma>(); }

}  // namespace anydim::codegen_cuda
