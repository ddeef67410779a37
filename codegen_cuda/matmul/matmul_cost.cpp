#include "codegen_cuda/matmul/matmul_cost.h"

#include <algorithm>
#include <cmath>

#include "codegen_cuda/form_facts.h"
#include "codegen_cuda/matmul/matmul_kinds.h"
#include "codegen_cuda/matmul/matmul_operands.h"
#include "codegen_cuda/work.h"
#include "ir/region.h"

namespace anydim::codegen_cuda {

namespace {

constexpr double shared_bytes_per_clock = 128;
constexpr double sum_bytes = 4;
constexpr double lanes = 128;  // of one multiprocessor, per clock

const ir::MatmulForm& form_of(const PlanInputs& inputs) {
  return std::get<ir::MatmulForm>(inputs.form.kind);
}

double ceiling(double a, double b) { return std::ceil(a / b); }

}  // namespace

MatmulExtents matmul_extents(const PlanInputs& inputs, std::span<const std::int64_t> keys) {
  const ir::MatmulForm& form = form_of(inputs);
  const auto size = [&](const ir::Dim& extent) {
    return static_cast<std::int64_t>(ir::estimated_at(inputs.region, extent, keys));
  };
  return {.batch = size(inputs.facts->points),
          .rows = size(form.m.extent),
          .columns = size(form.n.extent),
          .depth = size(form.k.extent)};
}

std::vector<std::int64_t> typical_keys(const PlanInputs& inputs, const ir::Bucket& bucket) {
  constexpr std::int64_t most = 8192;  // beyond, what is best changes no more
  std::vector<std::int64_t> keys;
  for (std::size_t i = 0; i < inputs.region.keys.size(); ++i) {
    const ir::BucketInterval interval = bucket.of_key(i);
    const std::int64_t low = std::max<std::int64_t>(interval.low, 1),
                       high = std::max(low, std::min(interval.high, most));
    keys.push_back(
        static_cast<std::int64_t>(std::sqrt(static_cast<double>(low) * static_cast<double>(high))));
  }
  return keys;
}

std::vector<std::int64_t> largest_keys(const PlanInputs& inputs, const ir::Bucket& bucket) {
  std::vector<std::int64_t> keys;
  for (std::size_t i = 0; i < inputs.region.keys.size(); ++i)
    keys.push_back(std::max<std::int64_t>(bucket.of_key(i).high, 1));
  return keys;
}

namespace {

// Blocks of a launch, and what one of them does.
struct BlockWork {
  double blocks = 0, depth_tiles = 0, depth = 0;
  double flops = 0, rows_bytes = 0, columns_bytes = 0, output_bytes = 0;
  double loop_issue = 0, epilogue = 0;  // cycles of all schedulers
  double remote_bytes = 0;              // from other blocks' shared memory
};

double number(std::int64_t value) { return static_cast<double>(value); }

BlockWork block_work(const MatmulWork& work, const MatmulExtents& extents) {
  const double rows = number(work.block_rows), columns = number(work.block_columns),
               split = number(work.split);
  // A cluster has as many blocks below (beside) each other, also at the end.
  const double below = number(work.shared_columns), beside = number(work.shared_rows);
  const double across = ceiling(number(extents.columns), columns * beside) * beside;
  BlockWork block;
  block.blocks =
      number(extents.batch) * ceiling(number(extents.rows), rows * below) * below * across * split;
  block.depth_tiles = ceiling(ceiling(number(extents.depth), number(work.block_depth)), split);
  block.depth = block.depth_tiles * number(work.block_depth);
  block.flops = 2 * rows * columns * block.depth;
  block.rows_bytes = block.depth * rows / beside * work.operand_bytes;
  block.columns_bytes = block.depth * columns / below * work.operand_bytes;
  block.output_bytes = rows * columns * work.output_bytes / split;
  block.loop_issue = work.block_issue + block.depth_tiles * work.tile_issue;
  block.epilogue = rows * columns * (work.sum_cycles + work.epilogue_cycles / split) /
                   std::min(lanes, number(work.threads));
  // Each block reads its part of the other blocks' sums.
  block.remote_bytes = rows * columns * sum_bytes * (split - 1) / split;
  return block;
}

// Blocks of a cluster are on multiprocessors of one group (GPC), which has 16 or 18: clusters of
// more than two leave some of them without.
double multiprocessors_for(const CudaTarget& target, const MatmulWork& work) {
  constexpr std::int64_t group = 16;
  const std::int64_t all = target.multiprocessors;
  return number(work.split > 2 && all > group ? all / group * group : all);
}

// For blocks that run at once.
double places_of(const CudaTarget& target, const MatmulWork& work) {
  return multiprocessors_for(target, work) * number(work.blocks_per_multiprocessor);
}

// A launch's blocks in waves: each begins when the one before has ended.
class Waves {
 public:
  Waves(const CudaTarget& target, const MatmulWork& work, const MatmulExtents& extents)
      : target_(target), costs_(target.costs), work_(work), block_(block_work(work, extents)) {
    places_ = places_of(target, work);
    whole_ = std::floor(block_.blocks / places_);
    rest_ = block_.blocks - whole_ * places_;
    // What a launch leaves of a multiprocessor the next one takes while it runs: a place for a
    // block that none of its own is for, or those that persistent blocks leave to its last wave,
    // where they are enough for what decides the next one's time. So it is with the launch ahead,
    // as far as a model of one can tell.
    const bool leaves_places = whole_ == 0
                                   ? together(rest_) < number(work.blocks_per_multiprocessor)
                                   : work.persistent && rest_ > 0 && 2 * rest_ <= places_;
    early_ = work.begins_early && leaves_places;
  }

  double cycles() const {
    double cycles = whole_ > 0 ? wave(places_, true) : 0;
    if (whole_ > 1) cycles += (whole_ - 1) * wave(places_, false);
    if (rest_ > 0) cycles += wave(rest_, whole_ == 0);
    // One tile is finished under the other's multiplications, all but the last.
    if (work_.in_turn)
      cycles +=
          costs_.epilogue_latency + work_.end_latency + finishing(rest_ > 0 ? rest_ : places_);
    return cycles;
  }

 private:
  double together(double blocks) const {
    return ceiling(blocks, multiprocessors_for(target_, work_));
  }

  // Blocks bring tiles to each other.
  bool shares_tiles() const { return work_.shared_columns * work_.shared_rows > 1; }

  double epilogue() const {
    return block_.epilogue + block_.remote_bytes / costs_.remote_bytes_per_clock;
  }

  // What one multiprocessor gets.
  double cache_bytes_per_clock(double blocks) const {
    return std::min(
        costs_.l2_bytes_per_clock,
        costs_.l2_total_bytes_per_clock / std::min<double>(target_.multiprocessors, blocks));
  }

  // What blocks that run together do behind their last multiplications: those of a wave store at
  // about the same time.
  double finishing(double blocks) const {
    return epilogue() + block_.output_bytes / cache_bytes_per_clock(blocks);
  }

  double throughput(double blocks, bool first) const {
    const double depth_tiles = block_.depth_tiles,
                 early_share =
                     early_ && first
                         ? std::min(1.0, number(work_.early_tiles) / std::max(depth_tiles, 1.0))
                         : 0,
                 copied = block_.rows_bytes + block_.columns_bytes * (1 - early_share),
                 shared =
                     depth_tiles * work_.shared_bytes_per_tile +
                     work_.shared_bytes_per_sum * number(work_.block_rows * work_.block_columns);
    const double most =
        std::max({block_.flops / work_.flops_per_clock, block_.loop_issue,
                  shared / shared_bytes_per_clock, copied / cache_bytes_per_clock(blocks)});
    return most + (shares_tiles() ? depth_tiles * costs_.multicast_wait : 0);
  }

  // A block alone waits for its own loads and products; with others beside it those waits are
  // filled.
  double loop_alone() const {
    double waits = work_.split > 1 ? number(work_.meetings) * costs_.split_latency : 0;
    if (work_.tiles_under_way > 0) {
      // All tiles under way pass in the time that one takes from being asked for to the end of its
      // multiplication; where a place is free a tile late, one fewer in an arrival.
      const double arrival = costs_.arrival_cycles, under_way = number(work_.tiles_under_way),
                   whole_round = (arrival + work_.multiplication_latency) / under_way,
                   apart = work_.freed_late ? std::max(whole_round, arrival / (under_way - 1))
                                            : whole_round;
      waits +=
          std::max(0.0, block_.depth_tiles - under_way) * std::max(0.0, apart - work_.tile_latency);
    }
    return block_.depth_tiles * work_.tile_latency + waits;
  }

  // `first`: none of the launch's was before.
  double wave(double blocks, bool first) const {
    double begin = costs_.first_bytes_cycles;
    if (shares_tiles()) begin += costs_.multicast_latency;
    // A persistent block's copies run on while it finishes a tile.
    if (!first && work_.persistent) begin = 0;
    if (first && early_) begin -= costs_.setup_cycles;
    const double loop = loop_alone(), finish = finishing(blocks),
                 alone = loop + costs_.epilogue_latency + work_.end_latency + finish,
                 at_once = together(blocks), busy = throughput(blocks, first);
    if (work_.in_turn) return std::max({at_once * busy, at_once * finish, begin + loop, alone / 2});
    return std::max(at_once * (busy + finish), begin + alone);
  }

  const CudaTarget& target_;
  const CostConstants& costs_;
  const MatmulWork& work_;
  BlockWork block_;
  double places_ = 0;
  double whole_ = 0, rest_ = 0;  // waves, and blocks of the last one
  bool early_ = false;
};

}  // namespace

double matmul_seconds(const CudaTarget& target, const MatmulWork& work,
                      const MatmulExtents& extents) {
  if (extents.batch == 0 || extents.rows == 0 || extents.columns == 0) return 0;
  const double unique = (number(extents.rows) * number(extents.depth) +
                         number(extents.depth) * number(extents.columns)) *
                            work.operand_bytes +
                        number(extents.rows) * number(extents.columns) * work.output_bytes;
  const double memory = number(extents.batch) * unique / target.memory_bandwidth;
  return target.costs.start_seconds +
         std::max(Waves(target, work, extents).cycles() / target.clock, memory);
}

std::vector<std::int64_t> wave_ends(const CudaTarget& target, const MatmulWork& work,
                                    MatmulExtents extents) {
  constexpr int most = 4;  // one more is little beside as many
  const std::int64_t down = work.block_rows * work.shared_columns;
  extents.rows = down;
  const double blocks = block_work(work, extents).blocks,
               multiprocessors = multiprocessors_for(target, work);
  std::vector<std::int64_t> ends;
  for (int i = 1; i <= most; ++i)
    ends.push_back(down * static_cast<std::int64_t>(i * multiprocessors / blocks));
  return ends;
}

LaunchCycles matmul_cycles(const CudaTarget& target, const MatmulWork& work,
                           const MatmulExtents& extents) {
  if (extents.batch == 0 || extents.rows == 0 || extents.columns == 0) return {};
  const BlockWork block = block_work(work, extents);
  const double share = block.blocks / target.multiprocessors;
  // A block whose threads are fewer than lanes has its epilogue's instructions on fewer schedulers.
  const double epilogue = block.epilogue * std::min(lanes, number(work.threads)) / lanes;
  return {.issue = share * (block.loop_issue + epilogue),
          .tensor = work.tensor_flops == 0 ? 0 : share * block.flops / work.tensor_flops,
          .memory = share * (block.rows_bytes + block.columns_bytes + block.output_bytes) /
                    target.costs.l2_bytes_per_clock};
}

double program_cycles(const ir::ScalarProgram& program) {
  double cycles = 0;
  // A thread has four neighbours: one instruction loads for them, and one converts two to 16 bits.
  constexpr double load = 0.25, narrow = 0.5;
  for (const ir::ScalarStep& step : program.steps) {
    if (step.is<ir::step::Load>()) cycles += load;
    if (!step.is<ir::step::Apply>()) continue;
    const bool converts = step.op() == ir::Op::cast && ir::size_of(step.dtype) == 2;
    cycles += converts ? narrow : operation_clocks(step);
  }
  return cycles;
}

double streamed_bytes(const ir::MatmulForm& form) {
  double bytes = 0;
  for (const ir::ScalarStep& step : form.epilogue.steps)
    if (is_load_by_row(form, step)) bytes += static_cast<double>(ir::size_of(step.dtype));
  for (const ir::Store& store : form.stores)
    bytes += static_cast<double>(
        ir::size_of(form.epilogue.steps[static_cast<std::size_t>(store.step)].dtype));
  return bytes;
}

MatmulWork common_work(const PlanInputs& inputs) {
  const ir::MatmulForm& form = form_of(inputs);
  MatmulWork work;
  work.output_bytes = streamed_bytes(form);
  work.sum_cycles = inputs.target.costs.piece_instructions;
  work.epilogue_cycles = program_cycles(form.epilogue);
  return work;
}

std::vector<std::vector<std::int64_t>> matmul_edges(const PlanInputs& inputs) {
  const ir::MatmulForm& form = form_of(inputs);
  std::vector<std::vector<std::int64_t>> edges;
  for (const ir::Dim& key : inputs.region.keys) {
    const bool rows = key == form.m.extent;
    edges.push_back(
        rows ? std::vector<std::int64_t>{17, 33, 65, 129, 193, 257, 385, 513, 769, 1025, 2049, 4097}
             : std::vector<std::int64_t>{});
  }
  return edges;
}

}  // namespace anydim::codegen_cuda
