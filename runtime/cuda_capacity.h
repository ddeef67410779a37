// The sizes that a captured graph is made for: a little larger than the call that asks, so that one
// graph serves its neighbours.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/program.h"

namespace anydim::runtime::cuda {

// The next step of a ladder with four steps an octave (8, 10, 12, 14, 16, 20, ...), as a multiple
// of `multiple` and no larger than `limit`; `value` where that leaves nothing. At most a quarter of
// the blocks of a graph then have no work.
std::int64_t capacity_step(std::int64_t value, std::int64_t multiple, std::int64_t limit);

// Sizes that a graph of a program can be captured for. The program has one stage, whose leaves are
// all known before it runs.
class CapacityPlan {
 public:
  explicit CapacityPlan(const ir::Program& program);

  // Values of the leaf slots at the capacity of a call with these slots. `limits`: for each slot
  // the largest value that the kernels chosen for the call were made for.
  std::vector<std::int64_t> leaves_at_capacity(std::span<const std::int64_t> slots,
                                               std::span<const std::int64_t> limits) const;
  // Whether a graph for the sizes `capacity` serves a call of the sizes `slots`: no buffer and no
  // extent is larger.
  bool holds(std::span<const std::int64_t> capacity, std::span<const std::int64_t> slots) const;

 private:
  const ir::Program& program_;
  std::vector<ir::Code::Slot> watched_;  // extents of launches and sizes of buffers
};

}  // namespace anydim::runtime::cuda
