// How many rows the segments of a form have.
#pragma once

#include <cstdint>

#include "ir/loops/loop_form.h"

namespace anydim::ir {

// What cost models take for the rows of a segment where sizes do not tell them.
inline constexpr std::int64_t typical_segment_rows = 64;

// Rows of a segment where `rows` are cut into them, on average, rounded up.
Dim mean_segment_rows(const Segments& segments, const Dim& rows);

}  // namespace anydim::ir
