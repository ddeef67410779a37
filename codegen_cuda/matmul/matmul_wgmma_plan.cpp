// Which matmul_wgmma schedules there are, which of them fit, and what they cost.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "codegen_cuda/form_facts.h"
#include "codegen_cuda/matmul/matmul_kinds.h"
#include "codegen_cuda/matmul/matmul_wgmma.h"

namespace anydim::codegen_cuda {

namespace {

std::int64_t depth_of(const PlanInputs& inputs) {
  return std::get<ir::MatmulForm>(inputs.form.kind).k.extent.constant().value();
}

class WgmmaKind final : public MatmulKind<WgmmaSchedule> {
 public:
  std::string_view name() const override { return "matmul_wgmma"; }

  bool accepts(const PlanInputs& inputs) const override {
    return KindOf::accepts(inputs) && inputs.facts->tma.has_value();
  }

  std::vector<ir::Schedule> space(const PlanInputs& inputs,
                                  const ir::Bucket& bucket) const override {
    const auto kind = [](const WgmmaSchedule& schedule) {
      return std::tuple(schedule.blocks, schedule.swap_ab, schedule.persistent, schedule.split,
                        schedule.multicast_columns, schedule.multicast_rows, schedule.tma_store,
                        schedule.fragments, schedule.pingpong);
    };
    return best_of_kinds(inputs, bucket, kind);
  }

  std::vector<std::vector<std::int64_t>> key_edges(const PlanInputs& inputs) const override {
    std::vector<std::vector<std::int64_t>> edges = matmul_edges(inputs);
    if (inputs.region.keys.size() == 1 && !edges[0].empty()) add_wave_edges(inputs, edges[0]);
    return edges;
  }

  EmittedKernel emit(const PlanInputs& inputs, const ir::Bucket& bucket,
                     const ir::Schedule& schedule, bool checked) const override {
    return emit_wgmma(inputs, bucket, schedule, checked);
  }

 private:
  bool same_tile(const WgmmaSchedule& a, const WgmmaSchedule& b) const override {
    return a.block_rows == b.block_rows && a.block_columns == b.block_columns &&
           a.swap_ab == b.swap_ab && a.split == b.split &&
           a.multicast_columns == b.multicast_columns && a.multicast_rows == b.multicast_rows &&
           a.pingpong == b.pingpong;
  }

  std::vector<WgmmaSchedule> legal(const PlanInputs& inputs,
                                   const ir::Bucket& bucket) const override {
    const MatmulExtents typical = matmul_extents(inputs, typical_keys(inputs, bucket));
    const MatmulExtents most = matmul_extents(inputs, largest_keys(inputs, bucket));
    const TmaOperands& operands = inputs.facts->tma.value();
    std::vector<WgmmaSchedule> found;
    const auto add = [&](WgmmaSchedule schedule) {
      // As many stages as memory has room for; more than the depth has tiles are never used.
      const std::int64_t tiles = (typical.depth + schedule.block_depth - 1) / schedule.block_depth;
      const std::int64_t budget =
          std::min(inputs.target.shared_per_block,
                   inputs.target.shared_per_multiprocessor / schedule.blocks - reserved);
      constexpr std::int64_t barriers = 16;  // bytes of a stage
      schedule.stages = 0;
      const std::int64_t fitting = (budget - schedule.shared_bytes() -
                                    (schedule.tma_store != 0 ? schedule.box_alignment() : 0)) /
                                   (schedule.stage_bytes() + barriers);
      schedule.stages = std::min({std::int64_t{12}, std::max<std::int64_t>(2, tiles), fitting});
      if (reason_against(inputs, schedule)) return;
      add_with_splits(inputs, schedule, typical, [&](WgmmaSchedule one) {
        // A block has fewer tiles of depth, and puts down its sums where stages were.
        const std::int64_t share = (tiles + one.split - 1) / one.split,
                           holding =
                               (one.joined_bytes() + one.stage_bytes() - 1) / one.stage_bytes();
        if (one.split > 1)
          one.stages = std::min(one.stages, std::max({std::int64_t{2}, share, holding}));
        if (!reason_against(inputs, one)) found.push_back(one);
      });
    };
    const auto add_with_boxes = [&](WgmmaSchedule schedule) {
      add(schedule);
      schedule.tma_store = operands.result_bytes;
      if (schedule.tma_store != 0) add(schedule);
      schedule.fragments = true;
      if (schedule.tma_store != 0) add(schedule);
    };
    // Sharing an operand pays where wide tiles lie below or beside each other anyway.
    const auto add_with_sharing = [&](WgmmaSchedule schedule) {
      add_with_boxes(schedule);
      if (schedule.block_columns < 64) return;
      schedule.multicast_columns = 2;
      if (typical.rows >= 4 * schedule.block_rows) add_with_boxes(schedule);
      schedule.multicast_columns = 1;
      schedule.multicast_rows = 2;
      if (typical.columns >= 2 * schedule.block_columns) add_with_boxes(schedule);
    };
    for (const std::int64_t rows : {64, 128}) {
      for (std::int64_t columns = 16; columns <= 256; columns += 16) {
        if (columns >= typical.columns + 64) break;
        for (const std::int64_t blocks : {1, 2, 3}) {
          for (const bool persistent : {false, true}) {
            WgmmaSchedule schedule{.block_rows = rows,
                                   .block_columns = columns,
                                   .stages = 0,
                                   .blocks = blocks,
                                   .persistent = persistent};
            if (rows < 2 * most.rows) {
              add_with_sharing(schedule);
              schedule.pingpong = true;
              if (persistent && rows == 64) add_with_sharing(schedule);
              schedule.pingpong = false;
            }
            schedule.swap_ab = true;
            if (columns <= 64 && rows == 64 && columns < 2 * most.rows + 16) add(schedule);
          }
        }
      }
    }
    return found;
  }

  // Between two edges one schedule serves. Where what is best at either takes much longer beyond a
  // size within, because a multiprocessor gets one block more, the sizes beyond are a bucket of
  // their own.
  void add_wave_edges(const PlanInputs& inputs, std::vector<std::int64_t>& edges) const {
    constexpr double much = 1.1;
    // The first such size in [low, high) of the schedule that is best at `rows`.
    const auto end_within = [&](std::int64_t rows, std::int64_t low, std::int64_t high) {
      const auto extents = [&](std::int64_t at) { return matmul_extents(inputs, std::array{at}); };
      const ir::Bucket bucket{{{rows, rows}}};
      const auto best = best_of(legal(inputs, bucket), cost(inputs, bucket), 1);
      if (best.empty()) return high;
      const MatmulWork work = work_of(inputs, WgmmaSchedule::from(best[0]));
      const auto at = [&](std::int64_t size) {
        return matmul_seconds(inputs.target, work, extents(size));
      };
      for (const std::int64_t end : wave_ends(inputs.target, work, extents(rows)))
        if (end >= low && end < high && at(end + 1) > much * at(end)) return end;
      return high;
    };
    const std::vector<std::int64_t> fixed = edges;
    edges.push_back(2 * fixed.back() - 1);
    for (std::size_t i = 0; i < fixed.size(); ++i) {
      const std::int64_t first = fixed[i], high = edges[i + 1] - 1;
      for (std::int64_t low = first; low < high;)
        edges.push_back(low = end_within(low, low, high) + 1);
      edges.push_back(end_within(high, first, high) + 1);
    }
    std::sort(edges.begin(), edges.end());
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  }

  // bytes of shared memory of each block, by the system
  static constexpr std::int64_t reserved = 1024;

  std::optional<std::string> reason_against(const PlanInputs& inputs,
                                            const WgmmaSchedule& schedule) const override {
    const TmaOperands& operands = inputs.facts->tma.value();
    if (schedule.block_rows != 64 && schedule.block_rows != 128)
      return "bm is 64 or 128, 64 rows a warpgroup";
    if (schedule.block_columns < 16 || schedule.block_columns > 256 ||
        schedule.block_columns % 16 != 0)
      return "bn is a multiple of 16 from 16 to 256";
    if ((schedule.swap_ab ? operands.left : operands.right).major == Major::Rows &&
        schedule.block_columns % 64 != 0)
      return "bn is a multiple of 64 where the operand's rows lie contiguous";
    if (schedule.stages < 2 || schedule.group < 1 || schedule.blocks < 1)
      return "stages is at least 2, group and blocks at least 1";
    const std::int64_t tiles = (depth_of(inputs) + schedule.block_depth - 1) / schedule.block_depth;
    const std::int64_t share =
        (tiles + schedule.split - 1) / std::max<std::int64_t>(schedule.split, 1);
    if (schedule.split < 1 || schedule.split > 8 ||
        (schedule.split > 1 && (schedule.persistent || (schedule.split - 1) * share >= tiles)))
      return "split is 1 to 8, every block of a cluster has a tile of depth, and none is "
             "persistent";
    if (schedule.joined_bytes() > schedule.stages * schedule.stage_bytes())
      return fmt::format(
          "sums of a split tile lie where its stages were: {} bytes, and {} stages have {}",
          schedule.joined_bytes(), schedule.stages, schedule.stages * schedule.stage_bytes());
    const CudaTarget& target = inputs.target;
    if (const char* reason = reason_against_sharing(operands, schedule)) return reason;
    if (schedule.tma_store != 0 &&
        (schedule.tma_store != operands.result_bytes || schedule.swap_ab || schedule.split > 1))
      return fmt::format(
          "tma_store is 0 or {}, the bytes of an element of a result that boxes can hold, and 0 "
          "where swap_ab or split",
          operands.result_bytes);
    if (schedule.fragments && (schedule.tma_store != 2 || schedule.block_columns % 64 != 0))
      return "fragments are of results with tma_store=2, and bn is a multiple of 64";
    if (schedule.pingpong &&
        (!schedule.persistent || schedule.block_rows != 64 || schedule.swap_ab))
      return "warpgroups take turns at persistent tiles of 64 rows (bm=64, without swap_ab)";
    const std::int64_t shared = schedule.shared_bytes();
    if (shared > target.shared_per_block ||
        (shared + reserved) * schedule.blocks > target.shared_per_multiprocessor)
      return fmt::format("{} blocks of a multiprocessor need {} bytes of shared memory each",
                         schedule.blocks, shared);
    const WgmmaSchedule::Registers registers =
        schedule.registers(target.registers_per_multiprocessor);
    const std::int64_t most = registers.consumer == 0 ? registers.launch : registers.consumer;
    if (schedule.registers_needed() > most)
      return fmt::format("sums of {} columns need {} registers a thread, and there are {}",
                         schedule.block_columns, schedule.registers_needed(), most);
    // One instruction names all sums and some more; the assembler wants to hold them in what a
    // thread has at launch, whatever is traded later.
    constexpr std::int64_t besides_sums = 26;
    if (schedule.block_columns / 2 + besides_sums > registers.launch)
      return fmt::format("{} blocks leave {} registers a thread at launch", schedule.blocks,
                         registers.launch);
    return std::nullopt;
  }

  // Null: none.
  static const char* reason_against_sharing(const TmaOperands& operands,
                                            const WgmmaSchedule& schedule) {
    for (const std::int64_t blocks : {schedule.multicast_columns, schedule.multicast_rows})
      if (blocks != 1 && blocks != 2 && blocks != 4)
        return "multicast_columns and multicast_rows are 1, 2 or 4 blocks";
    if (schedule.sharing() == 1) return nullptr;
    const bool columns = schedule.multicast_columns > 1;
    const TmaOperand& operand = columns ? operands.right : operands.left;
    if ((columns && schedule.multicast_rows > 1) || schedule.swap_ab || schedule.split > 1 ||
        !operand.batch.empty())
      return "blocks share one operand, the same at every batch point, and are neither swap_ab nor "
             "split";
    const std::int64_t all = columns ? schedule.block_columns : schedule.block_rows;
    if (all % (8 * schedule.sharing()) != 0 ||
        (operand.major == Major::Rows && all / schedule.sharing() % 64 != 0))
      return "every block brings whole groups of 8 rows, 64 where the operand's rows lie "
             "contiguous";
    return nullptr;
  }

  MatmulWork work_of(const PlanInputs& inputs, const WgmmaSchedule& schedule) const override {
    const CudaTarget& target = inputs.target;
    const CostConstants& costs = target.costs;
    constexpr double schedulers = 4;
    MatmulWork work = common_work(inputs);
    work.block_rows = schedule.swap_ab ? schedule.block_columns : schedule.block_rows;
    work.block_columns = schedule.swap_ab ? schedule.block_rows : schedule.block_columns;
    work.block_depth = schedule.block_depth;
    work.threads = 2 * schedule.block_rows;  // that finish a tile
    work.persistent = schedule.persistent;
    work.in_turn = schedule.pingpong;
    work.tiles_under_way = schedule.stages;
    work.freed_late = true;
    work.split = schedule.split;
    work.shared_columns = schedule.multicast_columns;
    work.shared_rows = schedule.multicast_rows;
    if (schedule.tma_store != 0) {
      // Boxes spare threads addresses, bounds and stores; the last one is asked for and read before
      // a block ends.
      const double boxes = 2 * static_cast<double>(schedule.tma_store);
      if (schedule.fragments) {
        work.sum_cycles = costs.fragment_instructions;
        work.shared_bytes_per_sum = boxes;
      } else {
        work.sum_cycles -= costs.box_store_instructions;
        work.shared_bytes_per_sum += boxes;
      }
      work.end_latency = schedule.persistent ? costs.box_latency_under_copies : costs.box_latency;
    }
    const double warps = static_cast<double>(schedule.threads()) / 32,
                 multiplying = static_cast<double>(schedule.block_rows) / 16;
    work.block_issue = warps *
                       (costs.wgmma_start_instructions +
                        (schedule.split > 1 ? costs.wgmma_meeting_instructions : 0)) /
                       schedulers;
    work.tile_issue =
        (costs.wgmma_copy_instructions + multiplying * costs.wgmma_multiply_instructions) /
        schedulers;
    if (schedule.split > 1) work.sum_cycles = costs.joined_instructions;
    work.blocks_per_multiprocessor = schedule.blocks;
    work.begins_early = target.has_dependent_launch();
    const TmaOperands& operands = inputs.facts->tma.value();
    if (inputs.region.is_weight(static_cast<std::size_t>(operands.right.buffer)))
      work.early_tiles = schedule.stages;
    work.tensor_flops = target.tensor_flops;
    work.flops_per_clock = target.tensor_flops * costs.wgmma_share;
    // m64nNk16 reads its 64 rows and all columns, for each warpgroup; copies write both once.
    const double columns = static_cast<double>(schedule.block_columns),
                 rows = static_cast<double>(schedule.block_rows);
    work.shared_bytes_per_tile = ((rows + columns * rows / 64) + rows + columns) *
                                 static_cast<double>(schedule.block_depth) * 2;
    const double issue = static_cast<double>(schedule.block_depth) / 16 *
                         std::max(columns / 2, 16 + columns / 4) * rows / 64;
    work.tile_latency = costs.wgmma_wait + costs.wgmma_latency + issue;
    work.multiplication_latency = issue;
    return work;
  }
};

}  // namespace

std::unique_ptr<KernelKind> make_matmul_wgmma_kind() { return std::make_unique<WgmmaKind>(); }

}  // namespace anydim::codegen_cuda
