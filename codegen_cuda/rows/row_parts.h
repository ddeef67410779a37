// Rows of points that several blocks share.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "codegen_cuda/scalars/linear_space.h"

namespace anydim::codegen_cuda {

// The work of one entry: `split` blocks share a row, each taking a part that is made of whole tiles
// of `tile` points (the last ends with the row). Names are those of variables that the entry and
// each part define.
struct RowParts {
  LinearSpace rows, inner;
  std::int64_t split = 1, tile = 1;
  bool wide = false;          // counters of points
  std::string row{}, part{};  // long long
  std::string points{};       // of a row
  // A part's points; `point` is a name for a counter that the body declares.
  std::string first{}, last{}, point{};
};
RowParts row_parts(KernelWriter& kernel, std::span<const ir::Iteration> rows,
                   std::span<const ir::Iteration> inner, std::int64_t split, std::int64_t tile);

// Blocks stride over all rows' parts; `body` is written where a part's variables and its row's
// symbols are defined.
void write_row_parts(KernelWriter& kernel, CodeScope& entry, const RowParts& parts,
                     const std::function<void(CodeScope&)>& body);
// Blocks of a launch of it: no more than run at once.
ir::Dim grid_of(const KernelWriter& kernel, const RowParts& parts, std::int64_t threads);

}  // namespace anydim::codegen_cuda
