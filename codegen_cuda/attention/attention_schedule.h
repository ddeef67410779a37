// The schedules of attention as structs, what they use, and what they cost.
#pragma once

#include <cstdint>
#include <span>

#include "codegen_cuda/attention/attention_score.h"
#include "codegen_cuda/kernel_kind.h"
#include "ir/schedule_fields.h"

namespace anydim::codegen_cuda {

// `attention_simt columns=4`: of the width, for each lane.
struct AttentionSimtSchedule {
  std::int64_t columns = 4;

  static constexpr auto fields() {
    return std::tuple{ir::ScheduleField{"columns", &AttentionSimtSchedule::columns}};
  }
  static AttentionSimtSchedule from(const ir::Schedule& schedule) {
    return ir::read_fields<AttentionSimtSchedule>(schedule);
  }
  ir::Schedule schedule() const { return ir::write_fields("attention_simt", *this); }
};

// `attention_mma warps=4 points=1 tiles=1 keys=64 stages=2`
//
// A block computes `points` batch points side by side, each by `warps` warps of `tiles` times 16
// queries that share the batch point's keys and values, which pass through shared memory `keys` at
// a time in a ring of `stages`.
struct AttentionMmaSchedule {
  std::int64_t warps = 4;
  std::int64_t points = 1;
  std::int64_t tiles = 1;
  std::int64_t keys = 64;  // a multiple of 16
  std::int64_t stages = 2;

  static constexpr auto fields() {
    return std::tuple{ir::ScheduleField{"warps", &AttentionMmaSchedule::warps},
                      ir::ScheduleField{"points", &AttentionMmaSchedule::points},
                      ir::ScheduleField{"tiles", &AttentionMmaSchedule::tiles},
                      ir::ScheduleField{"keys", &AttentionMmaSchedule::keys},
                      ir::ScheduleField{"stages", &AttentionMmaSchedule::stages}};
  }
  static AttentionMmaSchedule from(const ir::Schedule& schedule) {
    return ir::read_fields<AttentionMmaSchedule>(schedule);
  }
  ir::Schedule schedule() const { return ir::write_fields("attention_mma", *this); }

  std::int64_t threads() const { return 32 * warps * points; }
  std::int64_t block_rows() const { return 16 * tiles * warps; }  // of one batch point
  // Dynamic shared memory of a block; `column`: the score adds something for a key.
  std::int64_t shared_bytes(std::int64_t depth, std::int64_t width, bool column) const;
  // A thread needs at most about so many for accumulators and fragments.
  std::int64_t registers(std::int64_t depth, std::int64_t width) const;
  // Blocks that one multiprocessor holds at a time, at least 1; `ragged`: over sequences laid end
  // to end.
  std::int64_t resident_blocks(const CudaTarget& target, std::int64_t depth, std::int64_t width,
                               bool column, bool ragged) const;
};

// `attention_wgmma groups=2 keys=128 stages=2`
//
// A block computes `groups` times 64 queries of one batch point, a warpgroup each; another
// warpgroup fetches keys and values, `keys` at a time, into a ring of `stages`. With `pingpong=1`
// the warpgroups begin their multiplications in turn. With `persistent=1` there are as many blocks
// as run at a time, and each works on several places of the grid one after the other, whose queries
// lie in shared memory two at a time.
struct AttentionWgmmaSchedule {
  std::int64_t groups = 2;  // 1 to 3
  std::int64_t keys = 128;  // a multiple of 16, at most 256
  std::int64_t stages = 2;
  bool pingpong = false;  // of two groups or more
  bool persistent = false;
  // That a multiprocessor is to hold, among which its registers are shared out; 0: two of one
  // group, one of several.
  std::int64_t blocks = 0;

  static constexpr auto fields() {
    return std::tuple{ir::ScheduleField{"groups", &AttentionWgmmaSchedule::groups},
                      ir::ScheduleField{"keys", &AttentionWgmmaSchedule::keys},
                      ir::ScheduleField{"stages", &AttentionWgmmaSchedule::stages},
                      ir::ScheduleField{"pingpong", &AttentionWgmmaSchedule::pingpong, 0},
                      ir::ScheduleField{"persistent", &AttentionWgmmaSchedule::persistent, 0},
                      ir::ScheduleField{"blocks", &AttentionWgmmaSchedule::blocks, 0}};
  }
  static AttentionWgmmaSchedule from(const ir::Schedule& schedule) {
    return ir::read_fields<AttentionWgmmaSchedule>(schedule);
  }
  ir::Schedule schedule() const { return ir::write_fields("attention_wgmma", *this); }

  std::int64_t threads() const { return 128 * (groups + 1); }
  std::int64_t block_rows() const { return 64 * groups; }
  // The second launch bound. Without it registers cannot be traded between warpgroups.
  std::int64_t intended_blocks() const { return blocks > 0 ? blocks : groups == 1 ? 2 : 1; }
  // After the trade, of a thread, in multiples of 8: what all hold together is what the launch
  // bounds give. To find places takes more of them than to fetch.
  std::int64_t fetching_registers() const {
    return (groups == 3 ? 32 : 24) + (persistent ? groups * 8 : 0);
  }
  std::int64_t computing_registers(std::int64_t per_multiprocessor) const;
  std::int64_t shared_bytes(std::int64_t depth, std::int64_t width, bool column) const;
  // That a computing thread needs, about.
  std::int64_t registers(std::int64_t width, ScoreForm form) const;
  std::int64_t resident_blocks(const CudaTarget& target, std::int64_t depth, std::int64_t width,
                               bool column) const;
};

// Concrete sizes of one launch.
struct AttentionSizes {
  double points = 0, rows = 0, keys = 0;  // of sequences laid end to end: rows and keys of each
  double sequences = 1;                   // laid end to end, equally long
  double depth = 0, width = 0;
  double visible = 1;        // share of the keys that lie in a row's key range
  double element_bytes = 2;  // of an operand's element
  bool ragged = false;       // over sequences laid end to end
  // Instructions of a warp for what scores add: for each of a lane's scores, and once a tile.
  double added_per_score = 0, added_per_tile = 0;
};
// At values of the region's keys. Extents that are no key count as a middling size; of sequences
// laid end to end the mean is all that a call's sizes tell.
AttentionSizes attention_sizes(const PlanInputs& inputs, std::span<const std::int64_t> keys);

// Seconds of one launch.
double attention_mma_seconds(const CudaTarget& target, const AttentionMmaSchedule& schedule,
                             const AttentionSizes& sizes, bool column);
double attention_wgmma_seconds(const CudaTarget& target, const AttentionWgmmaSchedule& schedule,
                               const AttentionSizes& sizes, bool column);
LaunchCycles attention_mma_cycles(const CudaTarget& target, const AttentionMmaSchedule& schedule,
                                  const AttentionSizes& sizes);
LaunchCycles attention_wgmma_cycles(const CudaTarget& target,
                                    const AttentionWgmmaSchedule& schedule,
                                    const AttentionSizes& sizes);
LaunchCycles attention_simt_cycles(const CudaTarget& target, const AttentionSizes& sizes);
double attention_simt_seconds(const CudaTarget& target, const AttentionSizes& sizes);

inline const ir::AttentionForm& attention_form(const PlanInputs& inputs) {
  return std::get<ir::AttentionForm>(inputs.form.kind);
}

}  // namespace anydim::codegen_cuda
