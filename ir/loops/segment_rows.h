// How many rows the segments of a form have.
#pragma once

#include "ir/loops/loop_form.h"

namespace anydim::ir {

// Rows of a segment where `rows` are cut into them, on average, rounded up.
Dim mean_segment_rows(const Segments& segments, const Dim& rows);

}  // namespace anydim::ir
