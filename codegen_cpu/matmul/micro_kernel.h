// Micro-kernel: a small block of a product, held in registers while it runs over k.
//
//   tile[r * tile_stride + c] = sum over k of
//       left[r * left_stride + k * left_step] *
//       right[(c / panel) * panel_stride + k * right_stride + c % panel]
//
// for r in [0, rows) and c in [0, vectors * lanes). The left operand is read in place (left_step =
// 1) or as a panel of its rows, step by step, the right operand as column panels of `panel`
// elements. With k = 0 the tile is zero.
// A row of the left operand may be runs of steps that lie elsewhere each, numbered by several
// counters, each of which moves the run's begin by a stride of its own, an argument. An argument
// may tell those of some runs that are not 0: others are left out, which would be no 0 times an
// infinite element of the right operand.
//
// Where operands are narrower than sums, k counts steps of D depths (codegen_cpu/matmul/product.h):
// a step of the right operand and of panels is D of its elements in place of one, and step k of a
// row of the left operand is its elements D k to D k + D - 1. Strides of the left operand are in
// its own elements.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "codegen_cpu/matmul/product.h"
#include "codegen_cpu/target.h"

namespace llvm {
class Function;
class Module;
class Type;
}  // namespace llvm

namespace anydim::codegen_cpu {

enum class Multiply : std::uint8_t {
  Elements,      // a multiply-add of each element
  Pairs,         // the processor's dot product of bf16 pairs (denormals count as zero)
  WidenedPairs,  // both elements of a pair widened to f32, which is exact, and multiplied one after
                 // the other
  IntegerPairs,  // the processor's sum of two products of 16-bit integers
  Bytes,         // the processor's dot product of four u8 and four i8, which keeps all bits
  BytesExchanged,  // the same of four i8 and four u8
};

// As many rows and columns as the tile has, of a tensor in memory.
struct FetchedRows {
  std::int64_t stride = 0;  // bytes between rows
  std::int64_t element_bytes = 0;
  bool written = false;
};

struct MicroKernel {
  Multiply multiply = Multiply::Elements;
  std::int64_t depths = 1;        // of a step
  llvm::Type* element = nullptr;  // of accumulators and tile, and of operands of one depth a step:
                                  // a float or an integer type
  bool fused_multiply_add = false;  // the target has it for `element`
  std::int64_t lanes = 0;           // elements in a vector register
  std::int64_t rows = 0;
  std::int64_t vectors = 0;
  std::int64_t panel = 0;        // elements; a multiple of lanes
  std::int64_t tile_stride = 0;  // elements, whole vectors; 0: vectors * lanes
  std::int64_t left_step = 1;    // steps
  // How many runs each counter of a row's runs tells apart, the outermost first; with any, `depth`
  // is known.
  std::vector<std::int64_t> runs = {};
  bool some_runs = false;  // an argument says which, of one counter and at most 64
  // depths of a right operand of bytes that share a scale; 0: it is of `element` and has none. With
  // steps of several depths rows of the left operand are as emit_round_rows() leaves them.
  std::int64_t block = 0;
  // The right operand is in 4 bits (PackedWeight); its steps are then those.
  bool in_4_bits = false;
  bool zeros = false;  // they also share a zero point
  // Of all steps, in place of what arguments have.
  std::optional<double> scale = {}, zero = {};
  std::int64_t fetches = 0;  // each step over k fetches this many lines into the second-level
                             // cache, ahead_step bytes apart from `ahead` on
  // Only where the depth is known: the first steps each fetch a line of what is read and written
  // beside the tile into the first-level cache, and the steps after those one each of those that
  // follow each other from `behind` on into the second-level one.
  std::vector<FetchedRows> beside = {};
  bool fetches_behind = false;
  bool fetches_early = true;  // else `beside` and `behind` are left alone
  // Constants where known; they override the arguments.
  std::optional<std::int64_t> left_stride, panel_stride, right_stride, depth;
};

// For sums of `element`, with all that follows from what it multiplies; panels of the product's own
// width.
MicroKernel micro_kernel_of(const Target& target, const Product& product, llvm::Type* element,
                            std::int64_t lanes);

// An internal function void(left, left_stride, right, panel_stride, right_stride, depth, tile,
// ahead, ahead_step), then with fetches_behind behind, behind_lines, then the first element of each
// of `beside`, then the stride of each of `runs`, then with some_runs an i64 with bit r set for run
// r; strides in elements (of the left operand) and in elements or steps (of the right one),
// pointers aligned to an element. `ahead` and `behind` are any addresses. With blocks `ahead` is
// the scales, f32, of the first column and block, those of the next block a panel behind;
// ahead_step is their panel stride in elements. With zeros the last argument is these, as the
// scales.
llvm::Function* emit_micro_kernel(llvm::Module& module, const Target& target,
                                  const std::string& name, const MicroKernel& kernel);

// All micro-kernels of one kernel behind one function: void(variant, rows, left, left_stride,
// right, panel_stride, right_stride, depth, tile, ahead, ahead_step, ..), where `variant` is a
// position in `widths` (columns, i64) and `rows` one of `row_counts`. `micro` gives everything
// else.
llvm::Function* emit_multiply(llvm::Module& module, const Target& target, const std::string& name,
                              MicroKernel micro, const std::set<std::int64_t>& row_counts,
                              const std::vector<std::int64_t>& widths);

}  // namespace anydim::codegen_cpu
