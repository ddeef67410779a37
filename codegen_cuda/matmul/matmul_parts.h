// What every way to compute a matmul writes alike: where a block's tile lies, and the epilogue of
// sums that lie in shared memory.
#pragma once

#include <string>

#include "codegen_cuda/kernel_writer.h"
#include "codegen_cuda/scalars/vector_lanes.h"
#include "ir/loops/loop_form.h"

namespace anydim::codegen_cuda {

// const TYPE NAME = expression; at the end of the scope.
IndexVariable write_variable(CodeScope& scope, KernelWriter& kernel, std::string_view stem,
                             bool wide, const std::string& expression);

// Keeps names that are written out in text from being given to anything else; before the first
// entry.
void reserve_names(KernelWriter& kernel);
// Whether `dim` + `slack` is an int within the bucket.
bool fits_with(const KernelWriter& kernel, const ir::Dim& dim, std::int64_t slack);

// A value of one dtype as another.
std::string converted(KernelWriter& kernel, ir::DType from, ir::DType to, const std::string& value);

// `#pragma unroll` and a loop of `count` turns, counted by `i`, around what `body` writes.
void write_unrolled(CodeScope& scope, std::int64_t count,
                    const std::function<void(CodeScope&)>& body);

// Extents of a matmul as variables of an entry.
struct MatmulNames {
  IndexVariable rows, columns, depth;
};
// `with_depth`: where code asks for it by name.
MatmulNames write_extents(KernelWriter& kernel, CodeScope& entry, const ir::MatmulForm& form,
                          bool with_depth = true);

// `width` elements of an operand's tile along its rows or along the depth, whichever lies
// contiguous in memory: number `chunk` (an int in scope) of that direction, and number `line` (an
// int expression) of the other. The depth begins at `first_depth` (in scope).
struct OperandChunk {
  const ir::ScalarProgram& program;
  const ir::Iteration& row;
  std::string first_row, row_extent;  // index expressions
  bool wide_row = false, wide_depth = false;
  bool along_rows = false;
  int width = 8;
  std::string line;
};
// Computes those of the elements that lie within the operand: `at_point` is called as LaneProgram
// has it, with the program's last step as the only root.
void write_operand_chunk(
    KernelWriter& kernel, CodeScope& scope, const ir::MatmulForm& form, const MatmulNames& names,
    const OperandChunk& chunk,
    const std::function<void(ScalarWriter& writer, CodeScope& point, const std::string& lane,
                             std::int32_t last)>& at_point);

struct TileShape {
  std::int64_t rows = 0, columns = 0;
  std::int64_t group = 8;  // tiles below each other that have neighbouring numbers, so that they
                           // find the right operand in caches
};
// Number of tiles, over the region's symbols.
ir::Dim tile_count(const ir::MatmulForm& form, const TileShape& shape);
// The same within an entry, at actual extents.
struct TileNames {
  std::string down, across, count;  // ints; `down` and `across` of one batch point
};
TileNames write_tile_counts(KernelWriter& kernel, CodeScope& entry, const ir::MatmulForm& form,
                            const MatmulNames& names, const TileShape& shape);
struct TilePlace {
  IndexVariable first_row, first_column;
};
// Finds the tile of number `tile` (an int expression below `count`), and defines the symbols of
// batch iterations.
TilePlace write_tile_place(KernelWriter& kernel, CodeScope& scope, const ir::MatmulForm& form,
                           const TileNames& tiles, const TileShape& shape, const std::string& tile);

// A rectangle of sums in shared memory, shared out among `threads` threads of which this one is
// number `thread`.
struct SumPiece {
  std::string base;  // pointer to the first, elements of value_type of the accumulator's dtype
  std::int64_t rows = 16, columns = 64;
  std::int64_t pitch = 72;    // elements between rows of the product in it
  std::string first_row;      // of the product: an index expression
  std::int64_t row_step = 1;  // rows of the product between rows of the piece
  std::string first_column;
  std::string thread;
  std::int64_t threads = 32;
  int width = 4;  // columns of the product that a thread does at a time
  int split = 1;  // blocks of the cluster whose pieces, at the same place of their shared memory,
                  // are added; `thread` counts over all of them, and `rank` is this block's number
  // A block passes here once: more turns of the loop in its code would cost more to fetch than they
  // save.
  bool once = false;
  bool transposed = false;  // rows of the piece are columns of the product (first_column is of the
                            // first), and the other way round

  std::int64_t vectors_of_thread() const {
    return (rows * columns + threads * width - 1) / (threads * width);
  }
};
// Where the only result of a piece goes that leaves as a box: element (row, column) of the piece,
// which is not transposed, to memory[row * columns + column].
struct ResultBox {
  std::string memory;  // pointer to elements of the result's dtype, aligned for vectors of `width`
  const ir::Store& result;
};
// `box`: results go there, and none is stored; null: to the outputs.
void write_epilogue(KernelWriter& kernel, CodeScope& scope, const ir::MatmulForm& form,
                    const MatmulNames& names, const SumPiece& piece,
                    const ResultBox* box = nullptr);

}  // namespace anydim::codegen_cuda
