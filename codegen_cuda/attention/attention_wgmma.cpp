// Attention on wgmma and tensor memory access: sm_90a.
#include <fmt/format.h>

#include <algorithm>

#include "codegen_cuda/attention/attention_entry.h"
#include "codegen_cuda/attention/attention_kinds.h"
#include "codegen_cuda/attention/attention_schedule.h"
#include "codegen_cuda/device_struct.h"
#include "codegen_cuda/form_facts.h"
#include "ir/error.h"

namespace anydim::codegen_cuda {

namespace {

// Rows seen as a matrix of whole strides: where row 0 of a batch point lies in it.
struct MappedRows {
  ir::TensorMap map;
  Dim column, row;
};

// nullopt where the rows are no part of such a matrix: their stride isn't known, or a row may run
// over a stride's end.
std::optional<MappedRows> mapped(const ir::Region& region, const DirectOperand& rows,
                                 ir::DType dtype, std::int64_t columns, std::int64_t box_rows,
                                 const ir::SymbolTable& symbols) {
  const auto stride = rows.stride.constant();
  if (!stride || *stride < columns) return std::nullopt;
  const ir::ValueId parameter =
      region.body.body.parameters.at(static_cast<std::size_t>(rows.buffer));
  const Dim elements = ir::product(region.body.tensor_type(parameter).dims);
  if (ir::divisor(elements, symbols) % *stride != 0) return std::nullopt;
  MappedRows result;
  result.column = ir::simplify(ir::mod(rows.offset, *stride), symbols);
  result.row = ir::simplify(ir::floor_div(rows.offset, *stride), symbols);
  const ir::Interval first = ir::bounds(result.column, symbols);
  if (first.low < 0 || first.high > *stride - columns) return std::nullopt;
  const std::int64_t part = std::min<std::int64_t>(columns, 64);
  result.map = {
      .buffer = rows.buffer,
      .dtype = dtype,
      // No map has an empty dim; of nothing, no row is read.
      .dims = {Dim(*stride), ir::max(ir::simplify(ir::floor_div(elements, *stride), symbols), 1)},
      .strides = {Dim(*stride * 2)},
      .box = {static_cast<std::int32_t>(part), static_cast<std::int32_t>(box_rows)},
      .swizzle_bytes = static_cast<std::int32_t>(part * 2)};
  return result;
}

struct MappedOperands {
  AttentionOperands operands;
  MappedRows query, key, value;
};

std::optional<MappedOperands> mapped_operands(const PlanInputs& inputs, std::int64_t tile_keys) {
  const ir::SymbolTable& symbols = inputs.form.symbols;
  const auto& operands = inputs.facts->attention;
  if (!operands) return std::nullopt;
  const auto fits = [](std::int64_t columns) {
    return columns == 32 || columns == 64 || columns == 128;
  };
  if (!fits(operands->depth) || !fits(operands->width)) return std::nullopt;
  const auto rows = [&](const DirectOperand& of, std::int64_t columns, std::int64_t box_rows) {
    return mapped(inputs.region, of, operands->dtype, columns, box_rows, symbols);
  };
  auto query = rows(operands->query, operands->depth, 64),
       key = rows(operands->key, operands->depth, tile_keys),
       value = rows(operands->value, operands->width, tile_keys);
  if (!query || !key || !value) return std::nullopt;
  return MappedOperands{*operands, *query, *key, *value};
}

class AttentionWgmma final : public AttentionKind {
 public:
  std::string_view name() const override { return "attention_wgmma"; }

  bool accepts(const PlanInputs& inputs) const override {
    return inputs.target.has_wgmma() && AttentionKind::accepts(inputs) &&
           mapped_operands(inputs, 64).has_value();
  }
  std::vector<ir::Schedule> space(const PlanInputs& inputs,
                                  const ir::Bucket& bucket) const override;
  double estimate(const PlanInputs& inputs, const ir::Schedule& schedule,
                  std::span<const std::int64_t> keys) const override {
    return attention_wgmma_seconds(inputs.target, AttentionWgmmaSchedule::from(schedule),
                                   attention_sizes(inputs, keys), has_column(inputs));
  }
  LaunchCycles cycles(const PlanInputs& inputs, const ir::Schedule& schedule,
                      std::span<const std::int64_t> keys) const override {
    return attention_wgmma_cycles(inputs.target, AttentionWgmmaSchedule::from(schedule),
                                  attention_sizes(inputs, keys));
  }
  std::optional<std::string> misfit(const PlanInputs& inputs,
                                    const ir::Schedule& schedule) const override;
  EmittedKernel emit(const PlanInputs& inputs, const ir::Bucket& bucket,
                     const ir::Schedule& schedule, bool checked) const override;
};

std::vector<ir::Schedule> AttentionWgmma::space(const PlanInputs& inputs,
                                                const ir::Bucket& bucket) const {
  // Shorter sequences leave most of 64 queries idle.
  if (rows_in_bucket(inputs, bucket).high <= 32) return {};
  std::vector<ir::Schedule> schedules;
  const auto offer = [&](const AttentionWgmmaSchedule& fields) {
    ir::Schedule schedule = fields.schedule();
    if (!misfit(inputs, schedule)) schedules.push_back(std::move(schedule));
  };
  for (const std::int64_t groups : {2, 1, 3}) {
    for (const std::int64_t keys : {128, 64, 176, 192}) {
      for (const std::int64_t stages : {2, 3}) {
        for (const bool persistent : {false, true}) {
          AttentionWgmmaSchedule fields{
              .groups = groups, .keys = keys, .stages = stages, .persistent = persistent};
          for (const bool pingpong : {false, true}) {
            fields.pingpong = pingpong;
            offer(fields);
          }
          // What there is to do at short sequences waits more than it computes.
          fields.pingpong = false;
          fields.blocks = 3;
          if (persistent && groups == 1) offer(fields);
        }
      }
    }
  }
  return schedules;
}

std::optional<std::string> AttentionWgmma::misfit(const PlanInputs& inputs,
                                                  const ir::Schedule& schedule) const {
  const AttentionWgmmaSchedule fields = AttentionWgmmaSchedule::from(schedule);
  const ir::AttentionForm& form = attention_form(inputs);
  const std::int64_t depth = *form.depth.extent.constant(), width = *form.width.extent.constant();
  if (fields.groups < 1 || fields.groups > 3 || fields.stages < 1 || fields.keys < 16 ||
      fields.keys > 256 || fields.keys % 16 != 0 || fields.blocks < 0 || fields.blocks > 4)
    return "groups are 1 to 3, stages at least 1, keys a multiple of 16 and at most 256, blocks at "
           "most 4";
  if (fields.pingpong && fields.groups < 2) return "one group has nobody to take turns with";
  const std::int64_t registers = fields.registers(width, inputs.facts->score.form),
                     there = fields.computing_registers(inputs.target.registers_per_multiprocessor);
  if (registers > there)
    return fmt::format("about {} registers a thread; {} are there", registers, there);
  const std::int64_t shared = fields.shared_bytes(depth, width, has_column(inputs));
  if (shared > inputs.target.shared_per_block)
    return fmt::format("{} bytes of shared memory; a block may have {}", shared,
                       inputs.target.shared_per_block);
  return std::nullopt;
}

// The struct that the device function takes its numbers and multiplications from.
std::string numbers(const AttentionWgmmaSchedule& fields, const CudaTarget& target,
                    const FormFacts& facts, bool checked) {
  const bool brain = facts.attention->dtype == ir::DType::BF16;
  return "struct Attention {\n" + form_members(facts) +
         members({{"groups", fields.groups},  // warpgroups that compute 64 queries each
                  {"keys", fields.keys},      // of a tile
                  {"stages", fields.stages},
                  {"pingpong", fields.pingpong},  // they begin multiplications in turn
                  {"persistent", fields.persistent},
                  {"fetching_registers", fields.fetching_registers()},  // of a thread
                  {"computing_registers",
                   fields.computing_registers(target.registers_per_multiprocessor)},
                  {"checked", checked}}) +
         member({.name = "multiply_keys", .columns = fields.keys, .brain = brain}) +
         member_of_registers({.name = "multiply_values",
                              .columns = facts.attention->width,
                              .brain = brain,
                              .right_by_rows = true}) +
         "};\nusing Kernel = AttentionWgmma<Attention>;\n";
}

EmittedKernel AttentionWgmma::emit(const PlanInputs& inputs, const ir::Bucket& bucket,
                                   const ir::Schedule& schedule, bool checked) const {
  const AttentionWgmmaSchedule fields = AttentionWgmmaSchedule::from(schedule);
  const ir::AttentionForm& form = attention_form(inputs);
  const auto mapped = mapped_operands(inputs, fields.keys);
  internal_check(mapped.has_value(), "attention_wgmma emits what it accepts");
  const AttentionScore& score = inputs.facts->score;

  KernelWriter kernel(inputs, bucket,
                      fmt::format("// {}: {}{}\n", inputs.region.name, to_string(schedule),
                                  checked ? ", checked" : ""));
  for (const char* piece : {"report", "tensor_cores", "checked_wait", "barriers", "wgmma",
                            "attention_blocks", "attention", "attention_wgmma"})
    kernel.use(piece);
  kernel.declare(numbers(fields, inputs.target, *inputs.facts, checked));
  reserve_attention_names(kernel);
  const EntryOptions options{.name = "attention",
                             .threads = static_cast<int>(fields.threads()),
                             .blocks = static_cast<int>(fields.intended_blocks()),
                             .tensor_maps = 3,
                             .dependent = true};
  CodeScope& scope = kernel.begin_entry(options);
  check_segments(kernel, scope, form);
  const Dim numbers = row_blocks(form, fields.block_rows()) * batch_points(form);
  const std::string number = kernel.fits_int(numbers) ? "unsigned" : "unsigned long long";
  const std::string place_of =
      block_place(kernel, scope, form, "number",
                  {.batch_points = write_index(kernel, scope, batch_points(form)),
                   .block_rows = "Kernel::block_rows",
                   .points = "1",
                   .slot = "0",
                   .search = fields.persistent ? "Search::Alone" : "Search::Together"});
  scope.line("const auto place_of = [&]({} number) {{ return {}; }};", number, place_of);
  write_lambda(scope, "at_place", "const BlockPlace& place, const auto& work",
               [&](CodeScope& at_place) {
                 begin_point(kernel, at_place, form);
                 write_row_functions(kernel, at_place, form, mapped->operands, score);
                 const auto rows = [&](const MappedRows& of) {
                   return fmt::format("{{static_cast<int>({}), static_cast<int>({})}}",
                                      write_index(kernel, at_place, of.column),
                                      write_index(kernel, at_place, of.row));
                 };
                 at_place.line(
                     "work(Kernel::Rows{{{}, {}, {}}}, output, rows, keys, tiles, added, "
                     "score_value, write_element);",
                     rows(mapped->query), rows(mapped->key), rows(mapped->value));
               });
  scope.line(
      "Kernel::run(static_cast<{}>({}), place_of, at_place, tensor_map0, tensor_map1, tensor_map2, "
      "error);",
      number, write_index(kernel, scope, numbers));
  kernel.end_entry();

  ir::DeviceLaunch launch;
  launch.entry = options.name;
  launch.grid[0] = numbers;
  if (fields.persistent)
    launch.grid[0] =
        ir::min(numbers, inputs.target.multiprocessors *
                             fields.resident_blocks(inputs.target, mapped->operands.depth,
                                                    mapped->operands.width, has_column(inputs)));
  launch.block[0] = options.threads;
  launch.shared_bytes = fields.shared_bytes(mapped->operands.depth, mapped->operands.width,
                                            score.form == ScoreForm::Column);
  launch.tensor_maps = {mapped->query.map, mapped->key.map, mapped->value.map};
  launch.dependent = true;
  EmittedKernel emitted = kernel.finish({std::move(launch)});
  emitted.waits = true;
  return emitted;
}

}  // namespace

std::unique_ptr<KernelKind> make_attention_wgmma_kind() {
  return std::make_unique<AttentionWgmma>();
}

}  // namespace anydim::codegen_cuda
