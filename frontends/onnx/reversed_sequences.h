// Sequences of a batch, each turned round over its own length.
#pragma once

#include <cstdint>

#include "frontends/onnx/node.h"

namespace anydim::frontends {

// x is [time, batch, ...], or [batch, time, ...] where `time_axis` is 1; `lengths` is [batch], i64.
// What comes after a sequence's end stays.
Value reversed_sequences(Node& node, Value x, Value lengths, std::int64_t time_axis = 0);

}  // namespace anydim::frontends
