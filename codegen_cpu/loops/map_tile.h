// Maps that read across: operands whose neighbours lie along another iteration than the result's,
// as in a transpose. Read in square tiles, vectors along that iteration are transposed in registers
// into vectors along the last.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/loops/loop_form.h"

namespace anydim::codegen_cpu {

struct MapTile {
  std::size_t axis = 0;             // position in the part's space, not the last
  std::vector<std::int32_t> loads;  // contiguous along `axis`, of the program's steps
  std::int64_t lanes = 1;           // most that a side has
};

// The other iteration along which most loads are contiguous that are not so along the last; nullopt
// where there is none, or where the steps of a tile would be too much code.
std::optional<MapTile> tile_of(const ir::MapPart& part, const ir::LoopForm& form);

}  // namespace anydim::codegen_cpu
