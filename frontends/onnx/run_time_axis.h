// An axis that a tensor names, perhaps only in the run.
#pragma once

#include "frontends/onnx/node.h"

namespace anydim::frontends {

struct RunTimeAxis {
  Value place = no_value;  // counted from the front, rank 0
  // Extents of the dims before it, of its own and of those after it: vectors of one element.
  Value before = no_value, count = no_value, after = no_value;
};

// `axis`, of one element, names a dim of `shape`; a negative one counts from the end of that and of
// `behind` dims more, which it cannot name. Out of range it fails an assertion.
RunTimeAxis run_time_axis(Node& node, Value axis, Value shape, std::int64_t behind = 0);

}  // namespace anydim::frontends
