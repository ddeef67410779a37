#include <algorithm>
#include <cmath>

#include "codegen_cuda/attention/attention_kinds.h"
#include "codegen_cuda/attention/attention_schedule.h"
#include "codegen_cuda/form_facts.h"
#include "codegen_cuda/occupancy.h"
#include "codegen_cuda/work.h"

namespace anydim::codegen_cuda {

namespace {

constexpr double shared_bytes_per_cycle = 128;
constexpr double exponentials_per_cycle = 16;
constexpr double lanes_per_cycle = 128;
constexpr double simt_efficiency = 0.23;  // of the f32 rate, in the fallback: counted
// Cycles of all schedulers until a warp has found its sequence, of those laid end to end.
constexpr double sequence_cycles = 120;

double rounded(double value, double to) { return std::ceil(value / to) * to; }

double moved_bytes(const AttentionSizes& sizes) {
  return sizes.points * (sizes.rows + sizes.keys) * (sizes.depth + sizes.width) *
         sizes.element_bytes;
}

// What a block does, of a batch point.
struct BlockTiles {
  double row_blocks = 0;
  double tiles = 0;  // of keys that a block passes
  double edges = 0;  // those of them in which it looks at each score whether its key is seen
};
BlockTiles block_tiles(const AttentionSizes& sizes, double block_rows, double block_keys) {
  // A row block sees at least the keys beside itself.
  const double beside = sizes.visible < 1 ? block_rows : 0;
  const double seen = std::min(sizes.keys, sizes.visible * sizes.keys + beside);
  const double tiles = std::ceil(seen / block_keys);
  return {.row_blocks = std::ceil(sizes.rows / block_rows),
          .tiles = tiles,
          .edges = std::min(tiles, std::max(1.0, std::ceil(beside / block_keys)))};
}

// Issue cycles for the scores of one of the block's tiles, on average.
double score_cycles(const CostConstants& costs, const BlockTiles& block, double scores) {
  const double edges = block.edges / std::max(1.0, block.tiles);
  return scores * (costs.operations_per_score + edges * costs.operations_per_edge_score) /
         lanes_per_cycle;
}

// Of the four warps of each group, for a tile.
double turn_cycles(const CostConstants& costs, const AttentionWgmmaSchedule& schedule) {
  return schedule.pingpong ? static_cast<double>(schedule.groups) * costs.turn_instructions : 0;
}

// Of instructions of whole warps, four a cycle: products of 16 x 8 x 16, which read 16 x 16 of keys
// or values at a time. `keys`: of a tile, by all warps.
double fragment_cycles(const AttentionSizes& sizes, double scores, double keys) {
  const double multiplications = scores * (sizes.depth + sizes.width) / (16 * 8 * 16) / 4;
  const double reads = keys * (sizes.depth + sizes.width) / (16 * 16) / 4;
  return multiplications + reads;
}

// Of `blocks`, each with `scores` of a tile that issue for `tile_issue` cycles, besides what the
// special function unit's instructions take longer than others.
LaunchCycles of_launch(const CudaTarget& target, const AttentionSizes& sizes,
                       const BlockTiles& block, double blocks, double points, double block_rows,
                       double block_keys, double setup, double tile_issue) {
  constexpr double longer = 7.0 / 8;
  const double share = blocks / static_cast<double>(target.multiprocessors);
  const double scores = points * block_rows * block_keys;
  const double bytes = points * (block_rows + block.tiles * block_keys) *
                       (sizes.depth + sizes.width) * sizes.element_bytes;
  return {.issue = share *
                   (setup + block.tiles * (tile_issue + longer * scores / exponentials_per_cycle)),
          .tensor =
              share * block.tiles * 2 * scores * (sizes.depth + sizes.width) / target.tensor_flops,
          .memory = share * bytes / target.costs.l2_bytes_per_clock};
}

// Blocks with `busy` cycles of a multiprocessor's work each, of which one alone takes `alone`
// cycles.
double launch_time(const CudaTarget& target, double blocks, double resident, double busy,
                   double alone, double bytes) {
  const double share = std::ceil(blocks / target.multiprocessors);
  const double cycles = std::max(share * busy, std::ceil(share / resident) * alone);
  return target.costs.start_seconds +
         std::max(cycles / target.clock, bytes / target.memory_bandwidth);
}

}  // namespace

AttentionSizes attention_sizes(const PlanInputs& inputs, std::span<const std::int64_t> keys) {
  const ir::AttentionForm& form = attention_form(inputs);
  constexpr double middling = 128;
  AttentionSizes sizes{.points = extent_at(inputs, inputs.facts->points, keys, middling),
                       .rows = extent_at(inputs, form.row.extent, keys, middling),
                       .keys = extent_at(inputs, form.key.extent, keys, middling),
                       .depth = extent_at(inputs, form.depth.extent, keys, middling),
                       .width = extent_at(inputs, form.width.extent, keys, middling)};
  if (form.segments) {
    // As many sequences of a typical length as there are rows for.
    constexpr double typical = 64;
    const double length = std::min(typical, sizes.rows);
    sizes.ragged = true;
    sizes.points *= length > 0 ? sizes.rows / length : 0;
    sizes.rows = sizes.keys = length;
  }
  const KeyRange& range = inputs.facts->key_range;
  if (!range.begins.empty() || !range.ends.empty()) sizes.visible = 0.5;
  const ir::DType stored = form.k.steps.front().dtype;
  sizes.element_bytes = ir::is_float(stored) ? static_cast<double>(ir::size_of(stored)) : 4;
  return sizes;
}

LaunchCycles attention_mma_cycles(const CudaTarget& target, const AttentionMmaSchedule& schedule,
                                  const AttentionSizes& sizes) {
  if (sizes.points == 0 || sizes.rows == 0) return {};
  constexpr double warp_setup = 120;  // counted on machine code, cycles of all schedulers
  const auto block_rows = static_cast<double>(schedule.block_rows()),
             block_keys = static_cast<double>(schedule.keys),
             points = static_cast<double>(schedule.points);
  const double warps = static_cast<double>(schedule.warps) * points;
  const BlockTiles block = block_tiles(sizes, block_rows, block_keys);
  const double scores = points * block_rows * block_keys;
  return of_launch(target, sizes, block, block.row_blocks * std::ceil(sizes.points / points),
                   points, block_rows, block_keys,
                   (warp_setup + (sizes.ragged ? sequence_cycles : 0)) * warps,
                   score_cycles(target.costs, block, scores) +
                       fragment_cycles(sizes, scores, warps * block_keys));
}

LaunchCycles attention_wgmma_cycles(const CudaTarget& target,
                                    const AttentionWgmmaSchedule& schedule,
                                    const AttentionSizes& sizes) {
  if (sizes.points == 0 || sizes.rows == 0) return {};
  constexpr double group_setup = 518;  // as above
  const auto block_rows = static_cast<double>(schedule.block_rows()),
             block_keys = static_cast<double>(schedule.keys),
             groups = static_cast<double>(schedule.groups);
  const BlockTiles block = block_tiles(sizes, block_rows, block_keys);
  return of_launch(target, sizes, block, block.row_blocks * sizes.points, 1, block_rows, block_keys,
                   group_setup * groups + (sizes.ragged ? 4 * (1 + groups) * sequence_cycles : 0),
                   score_cycles(target.costs, block, block_rows * block_keys) +
                       turn_cycles(target.costs, schedule));
}

double attention_mma_seconds(const CudaTarget& target, const AttentionMmaSchedule& schedule,
                             const AttentionSizes& sizes, bool column) {
  if (sizes.points == 0 || sizes.rows == 0) return 0;
  const CostConstants& costs = target.costs;
  const auto depth = static_cast<std::int64_t>(sizes.depth),
             width = static_cast<std::int64_t>(sizes.width);
  const double block_rows = static_cast<double>(schedule.block_rows()),
               block_keys = static_cast<double>(schedule.keys);
  const BlockTiles block = block_tiles(sizes, block_rows, block_keys);
  const double warps = static_cast<double>(schedule.warps * schedule.points);
  // of one tile of the block
  const double scores = warps * 16 * static_cast<double>(schedule.tiles) * block_keys;
  const double rate = target.tensor_flops * (target.has_wgmma() ? costs.mma_share_of_wgmma : 1);
  const double products = 2 * scores * (sizes.depth + sizes.width) / rate;
  // Every warp reads the tile; copying it in is one more write a batch point.
  const double passes = warps + static_cast<double>(schedule.points);
  const double shared =
      passes * block_keys * (sizes.depth + sizes.width) * 2 / shared_bytes_per_cycle;
  const double exponentials = scores / exponentials_per_cycle,
               rescaling = scores / block_keys * sizes.width / lanes_per_cycle;
  const double issue = score_cycles(costs, block, scores) + rescaling +
                       fragment_cycles(sizes, scores, warps * block_keys);
  const double most = std::max({products, shared, exponentials, issue});
  const double busy =
      block.tiles * (most + costs.overlap_loss * (products + shared + exponentials + issue - most));
  // One block alone keeps only its own warps in flight: four sub-processors share its work
  // unevenly.
  const double crowd = std::min(1.0, warps / 4);
  const double loads = schedule.stages == 1 ? costs.attention_block_latency / 3
                                            : 0;  // of a tile that is not fetched ahead
  const double alone = costs.attention_block_latency +
                       block.tiles * (costs.attention_tile_latency + loads) + busy / crowd;
  const auto resident = static_cast<double>(schedule.resident_blocks(target, depth, width, column));
  const double blocks =
      block.row_blocks * std::ceil(sizes.points / static_cast<double>(schedule.points));
  return launch_time(target, blocks, resident, busy + costs.attention_block_latency / 8, alone,
                     moved_bytes(sizes));
}

double attention_wgmma_seconds(const CudaTarget& target, const AttentionWgmmaSchedule& schedule,
                               const AttentionSizes& sizes, bool column) {
  if (sizes.points == 0 || sizes.rows == 0) return 0;
  const CostConstants& costs = target.costs;
  const auto depth = static_cast<std::int64_t>(sizes.depth),
             width = static_cast<std::int64_t>(sizes.width);
  const double block_rows = static_cast<double>(schedule.block_rows()),
               block_keys = static_cast<double>(schedule.keys);
  const double groups = static_cast<double>(schedule.groups);
  const BlockTiles block = block_tiles(sizes, block_rows, block_keys);
  const double scores = block_rows * block_keys;
  const double products = 2 * scores * (sizes.depth + sizes.width) / target.tensor_flops;
  // Each warpgroup's multiplications read the tile, and the first product its queries.
  const double shared = groups * (block_keys * (sizes.depth + sizes.width) + 64 * sizes.depth) * 2 /
                        shared_bytes_per_cycle;
  const double exponentials = scores / exponentials_per_cycle;
  const double issue = score_cycles(costs, block, scores) +
                       block_rows * sizes.width / lanes_per_cycle + turn_cycles(costs, schedule);
  const double multiply = std::max(products, shared), weigh = std::max(exponentials, issue);
  // Within a warpgroup the values of one tile are summed beside the weights of the next; other
  // warpgroups and blocks fill what is left.
  const double resident =
      static_cast<double>(schedule.resident_blocks(target, depth, width, column));
  const double hidden = groups * resident > 1 ? costs.overlap_loss : 0.5;
  const double in_order = costs.attention_tile_latency + multiply + weigh;
  double tile = std::max(multiply, weigh) + hidden * std::min(multiply, weigh),
         next_tile = in_order;
  if (schedule.pingpong) {
    // Of its own tile a warpgroup waits for the scores before it makes weights; all else lies under
    // what the others do.
    const double scores_share = sizes.depth / (sizes.depth + sizes.width);
    const double own = (multiply * scores_share + weigh) / groups + costs.attention_tile_latency +
                       costs.turn_latency;
    tile = next_tile = std::max({multiply, weigh, own});
  }
  const double busy = block.tiles * tile;
  // The first tile has nobody's to lie under.
  const double alone =
      costs.attention_block_latency + in_order + std::max(0.0, block.tiles - 1) * next_tile;
  return launch_time(target, block.row_blocks * sizes.points, resident,
                     busy + costs.attention_block_latency / 4, alone, moved_bytes(sizes));
}

namespace {

double simt_tile_cycles(const AttentionSizes& sizes, double width_blocks) {
  constexpr double scores = 16.0 * 32;
  return scores * (rounded(sizes.depth, 32) + rounded(sizes.width, 32) / width_blocks) /
             (lanes_per_cycle * simt_efficiency) +
         scores / exponentials_per_cycle;
}

}  // namespace

LaunchCycles attention_simt_cycles(const CudaTarget& target, const AttentionSizes& sizes) {
  if (sizes.points == 0 || sizes.rows == 0) return {};
  constexpr double setup = 700, warps = 4;  // counted on machine code
  const double width_blocks = std::ceil(sizes.width / 128),
               blocks = sizes.points * std::ceil(sizes.rows / 16) * width_blocks,
               tiles = std::ceil(std::max(1.0, sizes.visible * sizes.keys) / 32);
  const double multiprocessors = target.multiprocessors, share = blocks / multiprocessors;
  return {.issue = share * (setup + (sizes.ragged ? warps * sequence_cycles : 0) +
                            tiles * simt_tile_cycles(sizes, width_blocks)),
          .memory = share * (16 + tiles * 32) * (sizes.depth + sizes.width / width_blocks) *
                    sizes.element_bytes / target.costs.l2_bytes_per_clock};
}

double attention_simt_seconds(const CudaTarget& target, const AttentionSizes& sizes) {
  if (sizes.points == 0 || sizes.rows == 0) return 0;
  const CostConstants& costs = target.costs;
  const double row_blocks = std::ceil(sizes.rows / 16), width_blocks = std::ceil(sizes.width / 128);
  const double tiles = std::ceil(std::max(1.0, sizes.visible * sizes.keys) / 32);
  const double work = simt_tile_cycles(sizes, width_blocks);
  const double busy = tiles * work;
  constexpr std::int64_t threads = 128;
  const auto resident = static_cast<double>(streaming_blocks(target, threads));
  return launch_time(
      target, sizes.points * row_blocks * width_blocks, resident, busy,
      costs.attention_block_latency + tiles * 2 * costs.attention_block_latency + busy,
      moved_bytes(sizes));
}

std::vector<ir::Schedule> AttentionKind::candidates(const PlanInputs& inputs,
                                                    const ir::Bucket& bucket) const {
  std::vector<ir::Schedule> schedules = space(inputs, bucket);
  constexpr std::size_t most = 8;
  if (schedules.size() <= most) return schedules;
  std::vector<double> costs(schedules.size(), 0);
  for (const bool upper : {false, true}) {
    std::vector<std::int64_t> keys;
    for (std::size_t i = 0; i < inputs.region.keys.size(); ++i) {
      const ir::BucketInterval interval =
          i < bucket.intervals.size() ? bucket.intervals[i] : ir::BucketInterval{};
      const std::int64_t low = std::max<std::int64_t>(interval.low, 1);
      // An open bucket is judged where most work is.
      keys.push_back(
          upper ? std::max(low, std::min(interval.high, std::max<std::int64_t>(4 * low, 512)))
                : low);
    }
    std::vector<double> seconds;
    for (const ir::Schedule& schedule : schedules)
      seconds.push_back(estimate(inputs, schedule, keys));
    const double best = *std::min_element(seconds.begin(), seconds.end());
    for (std::size_t i = 0; i < schedules.size(); ++i) costs[i] += seconds[i] / best;
  }
  std::vector<std::pair<double, std::size_t>> ranked;
  for (std::size_t i = 0; i < schedules.size(); ++i) ranked.emplace_back(i == 0 ? 0 : costs[i], i);
  std::sort(ranked.begin(), ranked.end());
  std::vector<ir::Schedule> result;
  for (std::size_t i = 0; i < most; ++i) result.push_back(std::move(schedules[ranked[i].second]));
  return result;
}

std::vector<std::vector<std::int64_t>> AttentionKind::key_edges(const PlanInputs& inputs) const {
  const ir::AttentionForm& form = attention_form(inputs);
  const std::int64_t processors = inputs.target.multiprocessors;
  std::vector<std::vector<std::int64_t>> edges;
  for (const ir::Dim& key : inputs.region.keys) {
    if (key == form.row.extent || key == form.key.extent)
      edges.push_back({17, 33, 65, 129, 257, 513, 1025});
    else if (key == inputs.facts->points)
      edges.push_back(
          {processors / 2 + 1, processors + 1, 4 * processors + 1, 16 * processors + 1});
    else edges.emplace_back();
  }
  return edges;
}

bool AttentionKind::has_column(const PlanInputs& inputs) {
  return inputs.facts->score.form == ScoreForm::Column;
}

}  // namespace anydim::codegen_cuda
