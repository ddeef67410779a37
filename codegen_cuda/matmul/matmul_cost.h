// A model of a matmul kernel's time: waves of blocks, each bound by arithmetic, shared memory, the
// second-level cache or latency. The traffic terms follow DeepGEMM's choice of tiles
// (deep_gemm/jit_kernels, read at 54e2261); constants are data sheets' and those of
// cost_constants.def.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codegen_cuda/kernel_kind.h"

namespace anydim::codegen_cuda {

struct MatmulExtents {
  std::int64_t batch = 1, rows = 0, columns = 0, depth = 0;
};
// The form's extents where its keys have these values.
MatmulExtents matmul_extents(const PlanInputs& inputs, std::span<const std::int64_t> keys);
// The values that a bucket's candidates are ranked at: towards the low end of each interval, as
// lengths are.
std::vector<std::int64_t> typical_keys(const PlanInputs& inputs, const ir::Bucket& bucket);
// Largest values of a bucket.
std::vector<std::int64_t> largest_keys(const PlanInputs& inputs, const ir::Bucket& bucket);

// What one way of computing does, told in numbers.
struct MatmulWork {
  std::int64_t block_rows = 0, block_columns = 0, block_depth = 0;
  std::int64_t threads = 0;
  // Tiles of depth that are copied before the first is multiplied, and that each later one follows
  // when one has been; 0: what copies take is in `tile_latency`.
  std::int64_t tiles_under_way = 0;
  bool freed_late = false;    // a tile's place is free again when the next one is being multiplied;
                              // of at least two under way
  std::int64_t split = 1;     // blocks that share the depth of one tile
  std::int64_t meetings = 1;  // of those, each followed by reads of each other's sums
  // blocks below each other that bring the columns' operand to each other
  std::int64_t shared_columns = 1;
  // blocks beside each other that bring the rows' operand to each other
  std::int64_t shared_rows = 1;
  std::int64_t blocks_per_multiprocessor = 1;  // that registers and shared memory let run together
  double operand_bytes = 2;                    // of an element
  double flops_per_clock = 0;                  // of a multiprocessor, in its main loop
  double tensor_flops = 0;                     // the same at most; 0: not on tensor cores
  // Cycles of all schedulers: of a tile of depth, and of a block besides its tiles and epilogue.
  double tile_issue = 0, block_issue = 0;
  double shared_bytes_per_tile =
      0;  // read from shared memory by the multiplication of one tile of depth
  double shared_bytes_per_sum = 8;  // written and read again between multiplication and results
  double tile_latency = 0;  // cycles that one tile of depth takes a block that is alone, when it
                            // is there; and its multiplication by itself
  double multiplication_latency = 0;
  // stored for one element of the product, what the epilogue loads included
  double output_bytes = 2;
  // Cycles of one lane for one element: those that bring its sum from the multiplication to the
  // epilogue, and the epilogue's, which only one of the blocks that share a tile's depth computes.
  double sum_cycles = 0, epilogue_cycles = 0;
  // A block sets itself up while the launch ahead still runs, where that leaves it room, and brings
  // this many of its tiles of depth of the columns' operand.
  bool begins_early = false;
  std::int64_t early_tiles = 0;
  // As many blocks as run at once take one tile after the other.
  bool persistent = false;
  bool in_turn = false;    // a block has two tiles: one is finished while the other is multiplied
  double end_latency = 0;  // cycles between a block's epilogue and its end
};
double matmul_seconds(const CudaTarget& target, const MatmulWork& work,
                      const MatmulExtents& extents);
// The most rows at which each multiprocessor has no more than 1, 2, .. of a launch's blocks, for a
// few of these; whatever the rows of `extents` are.
std::vector<std::int64_t> wave_ends(const CudaTarget& target, const MatmulWork& work,
                                    MatmulExtents extents);
LaunchCycles matmul_cycles(const CudaTarget& target, const MatmulWork& work,
                           const MatmulExtents& extents);

// Lane cycles of a program for one element: functions count as their instructions.
double program_cycles(const ir::ScalarProgram& program);
// Bytes of an element's loads that run along the columns.
double streamed_bytes(const ir::MatmulForm& form);

}  // namespace anydim::codegen_cuda
