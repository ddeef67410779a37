#include <algorithm>
#include <cmath>

#include "codegen_cuda/attention/attention_kinds.h"
#include "codegen_cuda/attention/attention_schedule.h"
#include "codegen_cuda/form_facts.h"
#include "codegen_cuda/occupancy.h"
#include "codegen_cuda/work.h"
#include "ir/region.h"

namespace anydim::codegen_cuda {

namespace {

constexpr double shared_bytes_per_cycle = 128;
constexpr double exponentials_per_cycle = 16;
constexpr double lanes_per_cycle = 128;
constexpr double simt_efficiency = 0.23;  // of the f32 rate, in the fallback: counted
// Instructions of a warp, counted on machine code (bench/cuda_counts.py), as those below.
constexpr double per_cycle = 4;            // of all schedulers
constexpr double sequence_search = 75;     // until its sequence is found, of those laid end to end
constexpr double idle_instructions = 135;  // of a block that finds no rows

double rounded(double value, double to) { return std::ceil(value / to) * to; }

double moved_bytes(const AttentionSizes& sizes) {
  return sizes.points * sizes.sequences * (sizes.rows + sizes.keys) * (sizes.depth + sizes.width) *
         sizes.element_bytes;
}

// A launch's blocks, and what each does for a batch point.
struct BlockTiles {
  double blocks = 0;  // with rows
  double idle = 0;    // that find none, as many as search
  double tiles = 0;   // of keys that a block passes
  double edges = 0;   // those of them in which it looks at each score whether its key is seen
  double read = 0;    // its rows and their keys, as far as they are there
};
// What sequences laid end to end are taken for.
enum class Lengths {
  Equal,   // as counts are taken
  Uniform  // between 0 and twice the mean, as those of texts that come together spread
};
// Blocks with `block_rows` rows of `points` batch points.
BlockTiles block_tiles(const AttentionSizes& sizes, double block_rows, double block_keys,
                       double points, Lengths lengths = Lengths::Equal) {
  // A row block sees at least the keys beside itself.
  const double beside = sizes.visible < 1 ? block_rows : 0;
  double seen = std::min(sizes.keys, sizes.visible * sizes.keys + beside);
  double tiles = std::ceil(seen / block_keys),
         row_blocks = std::ceil(sizes.rows / block_rows) * sizes.sequences;
  const double groups = std::ceil(sizes.points / points);
  if (lengths == Lengths::Uniform && sizes.ragged) {
    // A last block is half full in the mean, and most blocks are those of the longer sequences.
    constexpr double of_rows = 4.0 / 3;  // the mean over rows of their sequences' lengths
    if (2 * sizes.rows > block_rows) seen *= of_rows;
    tiles = std::max(1.0, seen / block_keys + 0.5);
    row_blocks = std::max(1.0, sizes.rows / block_rows + 0.5) * sizes.sequences;
  }
  // As row_blocks in attention_entry.cpp counts them.
  const double numbers = std::floor(sizes.rows * sizes.sequences / block_rows) + sizes.sequences;
  constexpr double behind = 0.25;  // of a search: the last block sees that it is behind all rows
  const bool partial = std::fmod(sizes.keys, block_keys) != 0;
  return {.blocks = groups * row_blocks,
          .idle = sizes.ragged ? groups * (std::max(0.0, numbers - row_blocks) + behind) : 0,
          .tiles = tiles,
          .edges = std::min(tiles, std::max(partial ? 1.0 : 0.0, std::ceil(beside / block_keys))),
          .read = std::min(sizes.rows, block_rows) + seen};
}

// Issue cycles for the scores of one of the block's tiles, on average.
double score_cycles(const CostConstants& costs, const AttentionSizes& sizes,
                    const BlockTiles& block, double scores) {
  const double edges = block.edges / std::max(1.0, block.tiles);
  return scores *
         (costs.operations_per_score + sizes.added_per_score +
          edges * costs.operations_per_edge_score) /
         lanes_per_cycle;
}

// What the four warps of each group issue for taking turns at a tile.
double turn_cycles(const CostConstants& costs, const AttentionWgmmaSchedule& schedule) {
  return schedule.pingpong ? static_cast<double>(schedule.groups) * costs.turn_instructions : 0;
}

// Cycles of instructions that whole warps carry out, four a cycle: products of 16 x 8 x 16, and
// reads of 16 x 16 keys or values for them. `keys` are a tile's, read by all warps.
double fragment_cycles(const AttentionSizes& sizes, double scores, double keys) {
  const double multiplications = scores * (sizes.depth + sizes.width) / (16 * 8 * 16) / 4;
  const double reads = keys * (sizes.depth + sizes.width) / (16 * 16) / 4;
  return multiplications + reads;
}

// What a block issues, in cycles of a multiprocessor.
struct BlockIssue {
  double setup = 0;  // besides its tiles
  double tile = 0;
  double idle = 0;  // of a block that finds no rows
};

// Cycles of a launch whose blocks have rows of `points` batch points, besides what the special
// function unit's instructions take longer than others.
LaunchCycles of_launch(const CudaTarget& target, const AttentionSizes& sizes,
                       const BlockTiles& block, const BlockIssue& issue, double points,
                       double block_rows, double block_keys) {
  constexpr double longer = 7.0 / 8;
  const double share = block.blocks / static_cast<double>(target.multiprocessors),
               idle_share = block.idle / static_cast<double>(target.multiprocessors);
  const double scores = points * block_rows * block_keys;
  const double bytes = points * block.read * (sizes.depth + sizes.width) * sizes.element_bytes;
  return {.issue = share * (issue.setup +
                            block.tiles * (issue.tile + longer * scores / exponentials_per_cycle)) +
                   idle_share * issue.idle,
          .tensor =
              share * block.tiles * 2 * scores * (sizes.depth + sizes.width) / target.tensor_flops,
          .memory = share * bytes / target.costs.l2_bytes_per_clock};
}

// A launch of so many cycles that moves so many bytes.
double launch_seconds(const CudaTarget& target, double cycles, double bytes) {
  const double rate = target.memory_bandwidth * target.costs.attention_memory_share;
  return target.costs.start_seconds + std::max(cycles / target.clock, bytes / rate);
}

// Blocks with `busy` cycles of a multiprocessor's work each, of which one alone takes `alone`
// cycles; those that find no rows come and go in `idle` cycles.
double launch_time(const CudaTarget& target, const BlockTiles& block, double resident, double busy,
                   double alone, double idle, double bytes) {
  const double share = std::ceil(block.blocks / target.multiprocessors),
               idle_share = block.idle / target.multiprocessors;
  const double cycles =
      std::max(share * busy, std::ceil(share / resident) * alone) + idle_share / resident * idle;
  return launch_seconds(target, cycles, bytes);
}

}  // namespace

AttentionSizes attention_sizes(const PlanInputs& inputs, std::span<const std::int64_t> keys) {
  const ir::AttentionForm& form = attention_form(inputs);
  const auto at = [&](const ir::Dim& extent) {
    constexpr double middling = 128;
    return ir::estimated_at(inputs.region, extent, keys, middling);
  };
  AttentionSizes sizes{.points = at(inputs.facts->points),
                       .rows = at(form.row.extent),
                       .keys = at(form.key.extent),
                       .depth = at(form.depth.extent),
                       .width = at(form.width.extent)};
  if (form.segments) {
    // Cells of buckets may have a mean that their rows do not reach.
    const double length = std::min(at(inputs.facts->sequence_rows), sizes.rows);
    sizes.ragged = true;
    sizes.sequences = length > 0 ? sizes.rows / length : 0;
    sizes.rows = sizes.keys = length;
  }
  const KeyRange& range = inputs.facts->key_range;
  if (!range.begins.empty() || !range.ends.empty()) sizes.visible = 0.5;
  const AttentionScore& score = inputs.facts->score;
  if (score.form == ScoreForm::Column) {
    sizes.added_per_score = 1.2;
    sizes.added_per_tile = 50;  // what is added is made for all rows at once
  } else if (score.form == ScoreForm::Element || score.form == ScoreForm::Plain) {
    sizes.added_per_score = point_clocks(score.program);
  }
  const ir::DType stored = form.k.steps.front().dtype;
  sizes.element_bytes = ir::is_float(stored) ? static_cast<double>(ir::size_of(stored)) : 4;
  return sizes;
}

namespace {

bool is_empty(const AttentionSizes& sizes) {
  return sizes.points == 0 || sizes.sequences == 0 || sizes.rows == 0;
}

BlockTiles tiles_of(const AttentionMmaSchedule& schedule, const AttentionSizes& sizes,
                    Lengths lengths) {
  return block_tiles(sizes, static_cast<double>(schedule.block_rows()),
                     static_cast<double>(schedule.keys), static_cast<double>(schedule.points),
                     lengths);
}
BlockTiles tiles_of(const AttentionWgmmaSchedule& schedule, const AttentionSizes& sizes,
                    Lengths lengths) {
  const double block_rows = static_cast<double>(schedule.block_rows()),
               block_keys = static_cast<double>(schedule.keys);
  BlockTiles tiles = block_tiles(sizes, block_rows, block_keys, 1, lengths);
  // Boxes are whole, and where nothing hides keys an edge is no other tile than the first.
  tiles.read = block_rows + tiles.tiles * block_keys;
  if (sizes.visible == 1) tiles.edges = 0;
  return tiles;
}

BlockIssue issue_of(const CudaTarget& target, const AttentionMmaSchedule& schedule,
                    const AttentionSizes& sizes, const BlockTiles& block) {
  // A warp issues `setup` instructions, `ahead` more where it fetches ahead, and for each 16 rows
  // `rows_setup` at first and `rows_tile` a tile; the copies of an edge take `edge`.
  constexpr double setup = 310, ahead = 70, rows_setup = 110, rows_tile = 34, edge = 40;
  const double warps = static_cast<double>(schedule.warps * schedule.points),
               tiles = static_cast<double>(schedule.tiles);
  const double scores =
      static_cast<double>(schedule.points * schedule.block_rows() * schedule.keys);
  const double first = setup + (schedule.stages > 1 ? ahead : 0) + (tiles - 1) * rows_setup +
                       (sizes.ragged ? sequence_search : 0);
  const double of_rows = tiles * (rows_tile + sizes.width / 2) + sizes.added_per_tile +
                         edge * block.edges / std::max(1.0, block.tiles);
  return {.setup = warps * first / per_cycle,
          .tile = score_cycles(target.costs, sizes, block, scores) +
                  fragment_cycles(sizes, scores, warps * static_cast<double>(schedule.keys)) +
                  warps * of_rows / per_cycle,
          .idle = warps * idle_instructions / per_cycle};
}

BlockIssue issue_of(const CudaTarget& target, const AttentionWgmmaSchedule& schedule,
                    const AttentionSizes& sizes, const BlockTiles& block) {
  // The warpgroup that fetches issues `fetching` instructions and `fetching_tile` a tile, a warp
  // that computes `setup` and `rows_tile` a tile.
  constexpr double fetching = 560, fetching_tile = 35, setup = 400, rows_tile = 43;
  const double groups = static_cast<double>(schedule.groups), warps = 4 * (1 + groups);
  const double first = fetching + 4 * groups * setup + (sizes.ragged ? warps * sequence_search : 0);
  const double of_rows = rows_tile + sizes.width / 2 + sizes.added_per_tile;
  return {.setup = first / per_cycle,
          .tile = score_cycles(target.costs, sizes, block,
                               static_cast<double>(schedule.block_rows() * schedule.keys)) +
                  (4 * groups * of_rows + fetching_tile) / per_cycle +
                  turn_cycles(target.costs, schedule),
          .idle = warps * idle_instructions / per_cycle};
}

}  // namespace

LaunchCycles attention_mma_cycles(const CudaTarget& target, const AttentionMmaSchedule& schedule,
                                  const AttentionSizes& sizes) {
  if (is_empty(sizes)) return {};
  const BlockTiles block = tiles_of(schedule, sizes, Lengths::Equal);
  return of_launch(target, sizes, block, issue_of(target, schedule, sizes, block),
                   static_cast<double>(schedule.points), static_cast<double>(schedule.block_rows()),
                   static_cast<double>(schedule.keys));
}

LaunchCycles attention_wgmma_cycles(const CudaTarget& target,
                                    const AttentionWgmmaSchedule& schedule,
                                    const AttentionSizes& sizes) {
  if (is_empty(sizes)) return {};
  const BlockTiles block = tiles_of(schedule, sizes, Lengths::Equal);
  return of_launch(target, sizes, block, issue_of(target, schedule, sizes, block), 1,
                   static_cast<double>(schedule.block_rows()), static_cast<double>(schedule.keys));
}

double attention_mma_seconds(const CudaTarget& target, const AttentionMmaSchedule& schedule,
                             const AttentionSizes& sizes, bool column) {
  if (is_empty(sizes)) return 0;
  const CostConstants& costs = target.costs;
  const auto depth = static_cast<std::int64_t>(sizes.depth),
             width = static_cast<std::int64_t>(sizes.width);
  const double block_keys = static_cast<double>(schedule.keys);
  const BlockTiles block = tiles_of(schedule, sizes, Lengths::Uniform);
  const BlockIssue issued = issue_of(target, schedule, sizes, block);
  const double warps = static_cast<double>(schedule.warps * schedule.points);
  // of one tile of the block
  const double scores = warps * 16 * static_cast<double>(schedule.tiles) * block_keys;
  const double rate = target.tensor_flops * (target.has_wgmma() ? costs.attention_mma_share : 1);
  const double products = 2 * scores * (sizes.depth + sizes.width) / rate;
  // Every warp reads the tile; copying it in is one more write a batch point.
  const double passes = warps + static_cast<double>(schedule.points);
  const double shared =
      passes * block_keys * (sizes.depth + sizes.width) * 2 / shared_bytes_per_cycle;
  const double exponentials = scores / exponentials_per_cycle, issue = issued.tile;
  const double most = std::max({products, shared, exponentials, issue}),
               in_order = products + shared + exponentials + issue;
  const double busy = block.tiles * (most + costs.overlap_loss * (in_order - most));
  // One block alone keeps only its own warps in flight, which do one thing after the other: four
  // sub-processors share its work unevenly.
  const double crowd = std::min(1.0, warps / 4);
  const double loads = schedule.stages == 1 ? costs.attention_mma_block_latency / 3
                                            : 0;  // of a tile that is not fetched ahead
  const double alone = costs.attention_mma_block_latency +
                       block.tiles * (costs.attention_mma_tile_latency + loads + in_order / crowd);
  const auto resident =
      static_cast<double>(schedule.resident_blocks(target, depth, width, column, sizes.ragged));
  return launch_time(target, block, resident, busy + issued.setup, alone, issued.idle,
                     moved_bytes(sizes));
}

double attention_wgmma_seconds(const CudaTarget& target, const AttentionWgmmaSchedule& schedule,
                               const AttentionSizes& sizes, bool column) {
  if (is_empty(sizes)) return 0;
  const CostConstants& costs = target.costs;
  const auto depth = static_cast<std::int64_t>(sizes.depth),
             width = static_cast<std::int64_t>(sizes.width);
  const double block_rows = static_cast<double>(schedule.block_rows()),
               block_keys = static_cast<double>(schedule.keys);
  const double groups = static_cast<double>(schedule.groups);
  const BlockTiles block = tiles_of(schedule, sizes, Lengths::Uniform);
  const double scores = block_rows * block_keys;
  const double products = 2 * scores * (sizes.depth + sizes.width) / target.tensor_flops;
  // Each warpgroup's multiplications read the tile, and the first product its queries.
  const double shared = groups * (block_keys * (sizes.depth + sizes.width) + 64 * sizes.depth) * 2 /
                        shared_bytes_per_cycle;
  const double exponentials = scores / exponentials_per_cycle;
  const BlockIssue issued = issue_of(target, schedule, sizes, block);
  const double multiply = std::max(products, shared), weigh = std::max(exponentials, issued.tile);
  // Within a warpgroup the values of one tile are summed beside the weights of the next; other
  // warpgroups and blocks fill what is left.
  const double resident =
      static_cast<double>(schedule.resident_blocks(target, depth, width, column));
  const double hidden = groups * resident > 1 ? costs.overlap_loss : 0.5;
  const double in_order = costs.attention_tile_latency + multiply + weigh;
  double tile = std::max(multiply, weigh) + hidden * std::min(multiply, weigh),
         next_tile = in_order;
  if (schedule.pingpong) {
    // A warpgroup waits for the scores of its own tile before it makes weights; all else lies under
    // what the others do.
    const double scores_share = sizes.depth / (sizes.depth + sizes.width);
    const double own = (multiply * scores_share + weigh) / groups + costs.attention_tile_latency +
                       costs.turn_latency;
    tile = next_tile = std::max({multiply, weigh, own});
  }
  const double busy = block.tiles * tile;
  // The first tile has nobody's to lie under.
  const double in_place = in_order + std::max(0.0, block.tiles - 1) * next_tile;
  if (!schedule.persistent)
    return launch_time(target, block, resident, busy + issued.setup,
                       costs.attention_block_latency + in_place, issued.idle, moved_bytes(sizes));
  // Loads, and searches of places without rows, lie under what is computed.
  const double at_once = static_cast<double>(target.multiprocessors) * resident;
  const double cycles =
      costs.attention_block_latency +
      std::max(std::ceil(block.blocks / target.multiprocessors) * (busy + issued.setup),
               std::ceil(block.blocks / at_once) * (costs.attention_place_latency + in_place));
  return launch_seconds(target, cycles, moved_bytes(sizes));
}

namespace {

constexpr double simt_rows = 16, simt_keys = 32, simt_width = 128;  // of a block

// Blocks that differ in the columns of values have the same rows.
BlockTiles simt_tiles(const AttentionSizes& sizes) {
  AttentionSizes blocks = sizes;
  blocks.points *= std::ceil(sizes.width / simt_width);
  return block_tiles(blocks, simt_rows, simt_keys, 1);
}

BlockIssue simt_issue(const AttentionSizes& sizes) {
  constexpr double setup = 2800, warps = 4;
  constexpr double scores = simt_rows * simt_keys;
  const double width_blocks = std::ceil(sizes.width / simt_width);
  return {.setup = (setup + (sizes.ragged ? warps * sequence_search : 0)) / per_cycle,
          .tile = scores * (rounded(sizes.depth, 32) + rounded(sizes.width, 32) / width_blocks) /
                  (lanes_per_cycle * simt_efficiency),
          .idle = warps * idle_instructions / per_cycle};
}

}  // namespace

LaunchCycles attention_simt_cycles(const CudaTarget& target, const AttentionSizes& sizes) {
  if (is_empty(sizes)) return {};
  AttentionSizes of_block = sizes;
  of_block.width /= std::ceil(sizes.width / simt_width);
  LaunchCycles cycles =
      of_launch(target, of_block, simt_tiles(sizes), simt_issue(sizes), 1, simt_rows, simt_keys);
  cycles.tensor = 0;
  return cycles;
}

double attention_simt_seconds(const CudaTarget& target, const AttentionSizes& sizes) {
  if (is_empty(sizes)) return 0;
  const CostConstants& costs = target.costs;
  const BlockTiles block = simt_tiles(sizes);
  const BlockIssue issued = simt_issue(sizes);
  const double busy = block.tiles * (issued.tile + simt_rows * simt_keys / exponentials_per_cycle);
  constexpr std::int64_t threads = 128;
  const auto resident = static_cast<double>(streaming_blocks(target, threads));
  return launch_time(
      target, block, resident, busy + issued.setup,
      costs.attention_block_latency + block.tiles * 2 * costs.attention_block_latency + busy,
      issued.idle, moved_bytes(sizes));
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
      const ir::BucketInterval interval = bucket.of_key(i);
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
    if (form.segments && key == inputs.facts->sequence_rows)
      edges.push_back({9, 17, 33, 65, 129, 257});
    else if (form.segments && key == form.row.extent) edges.push_back({129, 513, 2049, 8193});
    else if (key == form.row.extent || key == form.key.extent)
      edges.push_back({17, 33, 65, 129, 193, 257, 513, 1025});
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
