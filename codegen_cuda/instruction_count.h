// Instructions that threads issue for a placed kernel (ir/loops/placed_kernel.h), and what they
// take from the second-level cache, by the loops that statements stand in: of what linear_space,
// index_writer, scalar_writer and vector_lanes write, as the assembler joins it. What one division,
// check or function takes is counted on machine code (bench/cuda_counts.py).
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "ir/loops/placed_kernel.h"

namespace anydim::codegen_cuda {

// Instructions of a thread; those of the special function unit count as the eight that could run
// meanwhile.
struct SectionCount {
  bool has_points = false;            // it runs over the inner loops
  double once = 0;                    // each time that it runs
  double vector = 0;                  // for each vector of neighbouring points
  std::vector<ir::DType> reductions;  // what accumulates, one entry each
};

// An element that is loaded or stored at each point of `loops`, which are all that it varies with.
struct AccessCount {
  std::set<ir::DimLeaf> loops;
  double bytes = 0;   // that a lane brings: a whole sector where its neighbours have others
  double beside = 1;  // neighbouring rows, at most, that share such a sector
};

struct KernelCount {
  double block = 0;  // outside of all loops
  double row = 0;    // for each point of the outer loops, outside of sections
  std::vector<SectionCount> sections;
  std::vector<AccessCount> accesses;
};

// How a schedule runs the inner loops: the first `outer` of a nest are rows, the last counts
// vectors of `width` points.
struct CountedLoops {
  std::size_t outer = 0;
  std::int64_t width = 1;
  bool unrolled = false;  // a thread's vectors of a row, of which it has a fixed number
  ir::DimLeaf lanes{};    // the loop whose neighbouring points lanes of a warp take
  ir::DimLeaf beside{};   // the loop whose neighbouring points are rows of a block
};
KernelCount count_kernel(const ir::PlacedKernel& kernel, const CountedLoops& loops);

// Instructions by which threads of a row put what they have accumulated together, for one
// reduction.
double warp_exchange(ir::DType dtype);
double block_exchange(ir::DType dtype);
// The same for a block whose `parts` warps have a part of 32 rows each.
double column_exchange(ir::DType dtype, double parts);

// Different elements that the points [0, together) of a space touch, where an access varies with
// `loops` of it; `extents` are those of the space, outermost first.
double touched(std::span<const ir::Iteration> space, std::span<const double> extents,
               const std::set<ir::DimLeaf>& loops, double together);

}  // namespace anydim::codegen_cuda
