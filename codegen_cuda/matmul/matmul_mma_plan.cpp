// Which matmul_mma schedules there are, which of them fit, and what they cost.

#include <algorithm>

#include "codegen_cuda/form_facts.h"
#include "codegen_cuda/matmul/matmul_cost.h"
#include "codegen_cuda/matmul/matmul_kinds.h"
#include "codegen_cuda/matmul/matmul_mma.h"
#include "codegen_cuda/occupancy.h"

namespace anydim::codegen_cuda {

namespace {

// Chunks of a row of a tile can only trade places (device/matmul_mma.cuh, swizzled) within 2, 4 or
// groups of 8.
bool swizzles(std::int64_t elements, const TensorOperands& operands) {
  const std::int64_t chunks = elements / operands.chunk();
  return elements % operands.chunk() == 0 &&
         (chunks == 2 || chunks == 4 || (chunks > 0 && chunks % 8 == 0));
}

struct Shape {
  std::int64_t rows, columns, down, across;
};
// Warps with 16 x 16 to 64 x 64 sums.
constexpr Shape shapes[] = {{16, 32, 1, 2},   {16, 64, 1, 4},   {16, 128, 1, 4},  {32, 32, 2, 2},
                            {32, 48, 2, 1},   {32, 64, 2, 2},   {32, 96, 2, 2},   {32, 128, 1, 4},
                            {64, 32, 4, 1},   {64, 48, 4, 1},   {64, 64, 2, 2},   {64, 96, 2, 2},
                            {64, 128, 2, 2},  {96, 64, 2, 2},   {128, 64, 2, 2},  {128, 96, 4, 2},
                            {128, 128, 2, 2}, {128, 128, 4, 2}, {128, 192, 2, 4}, {128, 256, 2, 4},
                            {256, 128, 4, 2}};

class MmaKind final : public MatmulKind<MmaSchedule> {
 public:
  explicit MmaKind(bool tf32) : tf32_(tf32) {}
  std::string_view name() const override { return tf32_ ? "matmul_tf32" : "matmul_mma"; }

  bool accepts(const PlanInputs& inputs) const override {
    return KindOf::accepts(inputs) && inputs.target.capability() >= 80 &&
           mma_operands(inputs, tf32_).has_value();
  }

  std::vector<ir::Schedule> space(const PlanInputs& inputs,
                                  const ir::Bucket& bucket) const override {
    return best_of_kinds(inputs, bucket,
                         [](const MmaSchedule& schedule) { return schedule.split; });
  }

  EmittedKernel emit(const PlanInputs& inputs, const ir::Bucket& bucket,
                     const ir::Schedule& schedule, bool) const override {
    // It waits for nothing but its own copies: its checked form is itself.
    return emit_mma(inputs, bucket, schedule);
  }

 private:
  bool same_tile(const MmaSchedule& a, const MmaSchedule& b) const override {
    return a.block_rows == b.block_rows && a.block_columns == b.block_columns &&
           a.warps_down == b.warps_down && a.split == b.split;
  }

  std::vector<MmaSchedule> legal(const PlanInputs& inputs,
                                 const ir::Bucket& bucket) const override {
    const TensorOperands& operands = mma_operands(inputs, tf32_).value();
    const MatmulExtents typical = matmul_extents(inputs, typical_keys(inputs, bucket));
    const std::int64_t most_rows = matmul_extents(inputs, largest_keys(inputs, bucket)).rows;
    std::vector<MmaSchedule> found;
    for (const Shape& shape : shapes) {
      if (shape.rows >= 2 * most_rows && shape.rows > 16) continue;
      for (const std::int64_t depth : {4 * operands.chunk(), 8 * operands.chunk()}) {
        for (const std::int64_t stages : {3, 4, 5}) {
          const MmaSchedule schedule{.tf32 = tf32_,
                                     .block_rows = shape.rows,
                                     .block_columns = shape.columns,
                                     .block_depth = depth,
                                     .stages = stages,
                                     .warps_down = shape.down,
                                     .warps_across = shape.across,
                                     .group = 8,
                                     .split = 1};
          add_with_splits(inputs, schedule, typical, [&](const MmaSchedule& one) {
            if (!reason_against(inputs, one)) found.push_back(one);
          });
        }
      }
    }
    return found;
  }

  std::optional<std::string> reason_against(const PlanInputs& inputs,
                                            const MmaSchedule& schedule) const override {
    const TensorOperands& operands = mma_operands(inputs, tf32_).value();
    if (schedule.warps_down < 1 || schedule.warps_across < 1 || schedule.threads() > 1024)
      return "a block has 1 to 32 warps";
    if (schedule.block_rows % (16 * schedule.warps_down) != 0 ||
        schedule.block_columns % (16 * schedule.warps_across) != 0)
      return "every warp computes whole fragments of 16 x 16";
    if (!swizzles(schedule.block_depth, operands))
      return operands.dtype == ir::DType::F32 ? "bk is 8, 16 or a multiple of 32"
                                              : "bk is 16, 32 or a multiple of 64";
    if (schedule.stages < 2 || schedule.group < 1)
      return "stages is at least 2 and group at least 1";
    if (operands.left.major == Major::Rows && !swizzles(schedule.block_rows, operands))
      return "rows of the left tile are 2, 4 or a multiple of 8 pieces of 16 bytes";
    if (operands.right.major == Major::Rows && !swizzles(schedule.block_columns, operands))
      return "rows of the right tile are 2, 4 or a multiple of 8 pieces of 16 bytes";
    if (schedule.split != 1 &&
        (schedule.split < 1 || schedule.split > 8 || inputs.target.capability() < 90))
      return "split is 1 to 8 blocks of a cluster, which needs sm_90";
    return resources_misfit(inputs.target, schedule.threads(), schedule.shared_bytes(),
                            mma_registers(schedule, operands));
  }

  MatmulWork work_of(const PlanInputs& inputs, const MmaSchedule& schedule) const override {
    const TensorOperands& operands = mma_operands(inputs, tf32_).value();
    // Products of TF32 numbers run at half the rate.
    const CostConstants& costs = inputs.target.costs;
    const double narrow_rate =
        inputs.target.tensor_flops * (inputs.target.has_wgmma() ? costs.mma_share_of_wgmma : 1);
    const double rate = schedule.tf32 ? narrow_rate / 2 : narrow_rate;
    const std::int64_t warps = schedule.threads() / 32;
    const double warp_flops =
        2.0 *
        static_cast<double>(schedule.warp_rows() * schedule.warp_columns() * schedule.block_depth);
    MatmulWork work = common_work(inputs);
    work.block_rows = schedule.block_rows;
    work.block_columns = schedule.block_columns;
    work.block_depth = schedule.block_depth;
    work.threads = schedule.threads();
    work.tiles_under_way = schedule.stages - 1;
    work.split = schedule.split;
    work.meetings =
        schedule.warp_rows() / 16 * (schedule.warp_columns() / schedule.piece_columns());
    work.blocks_per_multiprocessor = mma_resident_blocks(inputs, schedule, operands);
    work.operand_bytes = static_cast<double>(schedule.element_bytes());
    work.tensor_flops = inputs.target.tensor_flops / (schedule.tf32 ? 2 : 1);
    work.flops_per_clock = rate * costs.mma_share;
    // Every warp reads its rows and its columns; copies write both once.
    work.shared_bytes_per_tile =
        static_cast<double>((warps * (schedule.warp_rows() + schedule.warp_columns()) +
                             schedule.block_rows + schedule.block_columns) *
                            schedule.block_depth * schedule.element_bytes());
    // Counted on machine code: of a warp's start, of its loop for a tile of depth, of 16 bytes a
    // thread copies; a fragment of 16 x 16 is one instruction to load, and two products of 8
    // columns.
    constexpr double start = 300, loop = 40, copy = 6, schedulers = 4;
    const double depths = static_cast<double>(schedule.block_depth * schedule.element_bytes()) / 32,
                 down = static_cast<double>(schedule.warp_rows()) / 16,
                 across = static_cast<double>(schedule.warp_columns()) / 16;
    const double copied = static_cast<double>((schedule.block_rows + schedule.block_columns) *
                                              schedule.block_depth * schedule.element_bytes()) /
                          (16.0 * static_cast<double>(schedule.threads()));
    work.block_issue = static_cast<double>(warps) * start / schedulers;
    work.tile_issue = static_cast<double>(warps) *
                      (loop + copy * copied + depths * (down + across + 2 * down * across)) /
                      schedulers;
    constexpr double barrier = 60, fragment_load = 35;
    work.multiplication_latency =
        warp_flops / (rate / 4) * std::max(1.0, static_cast<double>(warps) / 4);
    work.tile_latency =
        barrier +
        fragment_load * static_cast<double>(schedule.block_depth * schedule.element_bytes()) / 32 +
        work.multiplication_latency;
    if (!operands.left.direct || !operands.right.direct) work.tile_latency += 400;
    return work;
  }

  bool tf32_;
};

}  // namespace

const std::optional<TensorOperands>& mma_operands(const PlanInputs& inputs, bool tf32) {
  return tf32 ? inputs.facts->tf32 : inputs.facts->tensor;
}

std::int64_t mma_registers(const MmaSchedule& schedule, const TensorOperands& operands) {
  const std::int64_t rest = schedule.block_depth > 4 * operands.chunk()
                                ? 76
                                : 52;  // addresses, fragments fetched ahead, loop variables
  std::int64_t registers =
      schedule.warp_rows() * schedule.warp_columns() / 32 + schedule.warp_rows() / 16 * 4 + rest;
  // Numbers read one by one from tiles by rows: their addresses are found before the loop.
  constexpr std::int64_t addresses = 40;
  if (schedule.tf32 && (operands.left.major == Major::Rows || operands.right.major == Major::Rows))
    registers += addresses;
  const auto computed = [&](const TensorOperand& operand, std::int64_t rows) {
    if (!operand.direct)
      registers += (rows * schedule.block_depth / operands.chunk() + schedule.threads() - 1) /
                       schedule.threads() * 4 +
                   16;
  };
  computed(operands.left, schedule.block_rows);
  computed(operands.right, schedule.block_columns);
  return registers;
}

std::int64_t mma_resident_blocks(const PlanInputs& inputs, const MmaSchedule& schedule,
                                 const TensorOperands& operands) {
  return resident_blocks(inputs.target, schedule.threads(), schedule.shared_bytes(),
                         mma_registers(schedule, operands));
}

std::unique_ptr<KernelKind> make_matmul_mma_kind() { return std::make_unique<MmaKind>(false); }
std::unique_ptr<KernelKind> make_matmul_tf32_kind() { return std::make_unique<MmaKind>(true); }

}  // namespace anydim::codegen_cuda
