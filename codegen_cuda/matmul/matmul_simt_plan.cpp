// Which matmul_simt schedules there are, which of them fit, and what they cost.

#include "codegen_cuda/matmul/matmul_kinds.h"
#include "codegen_cuda/matmul/matmul_simt.h"
#include "codegen_cuda/occupancy.h"

namespace anydim::codegen_cuda {

namespace {

const ir::MatmulForm& form_of(const PlanInputs& inputs) {
  return std::get<ir::MatmulForm>(inputs.form.kind);
}

std::int64_t value_bytes(const ir::MatmulForm& form) {
  return std::max<std::int64_t>(4, static_cast<std::int64_t>(ir::size_of(form.accumulate)));
}

struct Shape {
  std::int64_t rows, columns, depth, thread_rows, thread_columns;
};
constexpr Shape shapes[] = {{16, 32, 16, 2, 4},  {16, 64, 16, 2, 4},  {32, 32, 16, 4, 4},
                            {32, 64, 16, 4, 4},  {64, 64, 16, 4, 4},  {64, 64, 16, 8, 4},
                            {64, 128, 8, 8, 4},  {128, 64, 16, 8, 4}, {128, 128, 8, 8, 8},
                            {128, 128, 16, 8, 8}};

class SimtKind final : public MatmulKind<SimtSchedule> {
 public:
  std::string_view name() const override { return "matmul_simt"; }

  EmittedKernel emit(const PlanInputs& inputs, const ir::Bucket& bucket,
                     const ir::Schedule& schedule, bool) const override {
    return emit_simt(inputs, bucket, schedule);  // it waits for nothing: its checked form is itself
  }

 private:
  std::vector<SimtSchedule> legal(const PlanInputs& inputs,
                                  const ir::Bucket& bucket) const override {
    const std::int64_t most_rows = matmul_extents(inputs, largest_keys(inputs, bucket)).rows;
    std::vector<SimtSchedule> found;
    for (const Shape& shape : shapes) {
      if (shape.rows >= 2 * most_rows && shape.rows > 16) continue;
      const SimtSchedule schedule{.block_rows = shape.rows,
                                  .block_columns = shape.columns,
                                  .block_depth = shape.depth,
                                  .thread_rows = shape.thread_rows,
                                  .thread_columns = shape.thread_columns,
                                  .group = 8};
      if (!reason_against(inputs, schedule)) found.push_back(schedule);
    }
    return found;
  }

  std::optional<std::string> reason_against(const PlanInputs& inputs,
                                            const SimtSchedule& schedule) const override {
    const auto power = [](std::int64_t value) {
      return value == 1 || value == 2 || value == 4 || value == 8 || value == 16;
    };
    if (!power(schedule.thread_rows) || !power(schedule.thread_columns) ||
        schedule.thread_columns < 4)
      return "a thread's part is 1 to 16 rows by 4 to 16 columns, powers of two";
    if (schedule.block_rows < 1 || schedule.block_rows % schedule.thread_rows != 0 ||
        schedule.block_rows % 4 != 0 || schedule.block_columns < 1 ||
        schedule.block_columns % schedule.thread_columns != 0 || schedule.block_depth < 4 ||
        schedule.block_depth % 4 != 0)
      return "threads share the tile evenly, and its sides are multiples of 4";
    if (schedule.threads() % 32 != 0 || schedule.threads() > 1024)
      return "a block has 1 to 32 whole warps";
    if (schedule.group < 1) return "group is at least 1";
    return resources_misfit(inputs.target, schedule.threads(), simt_shared_bytes(inputs, schedule),
                            simt_registers(inputs, schedule));
  }

  MatmulWork work_of(const PlanInputs& inputs, const SimtSchedule& schedule) const override {
    const ir::MatmulForm& form = form_of(inputs);
    const bool slow = form.accumulate == ir::DType::F64 || !ir::is_float(form.accumulate);
    const double rate =
        slow ? 64
             : 256 * (inputs.target.capability() == 80
                          ? 0.5
                          : 1);  // additions and multiplications of one multiprocessor
    MatmulWork work = common_work(inputs);
    work.block_rows = schedule.block_rows;
    work.block_columns = schedule.block_columns;
    work.block_depth = schedule.block_depth;
    work.threads = schedule.threads();
    work.operand_bytes = static_cast<double>(value_bytes(form));
    work.blocks_per_multiprocessor = simt_resident_blocks(inputs, schedule);
    // Counted on machine code: of a thread for a step of depth besides its multiplications, of its
    // start.
    constexpr double step = 7, start = 150, lanes = 128;
    const auto threads = static_cast<double>(schedule.threads());
    work.block_issue = threads * start / lanes;
    work.tile_issue =
        threads * static_cast<double>(schedule.block_depth) *
        (static_cast<double>(schedule.thread_rows * schedule.thread_columns) * (slow ? 4 : 1) +
         step) /
        lanes;
    work.flops_per_clock = rate * 0.85;
    const double loads =
        static_cast<double>(schedule.thread_rows + schedule.thread_columns) * work.operand_bytes;
    // Neighbouring threads read the same left elements at once.
    work.shared_bytes_per_tile =
        static_cast<double>(schedule.threads() * schedule.block_depth) * loads / 2;
    const double thread_flops =
        2.0 *
        static_cast<double>(schedule.thread_rows * schedule.thread_columns * schedule.block_depth);
    work.tile_latency = 500 + thread_flops * static_cast<double>(schedule.threads()) /
                                  std::min(rate, 2.0 * static_cast<double>(schedule.threads()));
    return work;
  }
};

}  // namespace

std::int64_t simt_registers(const PlanInputs& inputs, const SimtSchedule& schedule) {
  constexpr std::int64_t rest = 56;
  const std::int64_t words = value_bytes(form_of(inputs)) / 4;
  const std::int64_t fetched =
      (schedule.block_rows + schedule.block_columns) * schedule.block_depth / schedule.threads();
  return (schedule.thread_rows * schedule.thread_columns + schedule.thread_rows +
          schedule.thread_columns + fetched) *
             words +
         rest;
}

std::int64_t simt_resident_blocks(const PlanInputs& inputs, const SimtSchedule& schedule) {
  return resident_blocks(inputs.target, schedule.threads(), simt_shared_bytes(inputs, schedule),
                         simt_registers(inputs, schedule));
}

std::unique_ptr<KernelKind> make_matmul_simt_kind() { return std::make_unique<SimtKind>(); }

}  // namespace anydim::codegen_cuda
