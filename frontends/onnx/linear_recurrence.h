// The recurrence of linear attention: a matrix a head, read and rewritten in each step.
#pragma once

#include <cstdint>

#include "frontends/onnx/node.h"

namespace anydim::frontends {

struct LinearRecurrence {
  // [batch, heads, steps, size]; q has `queries` heads for each of k and v.
  Value q = no_value, k = no_value, v = no_value;
  Value decay = no_value;  // what the matrix is multiplied by before each step: [batch,
                           // heads, steps, 1 or key size]
  Value beta = no_value;   // [batch, heads, steps, 1]: so much of what the matrix holds
                           // for the key is replaced; none: v is added to it
  Value state = no_value;  // the first matrices: [batch, heads, key size, value size]
  double scale = 1;
  std::int64_t queries = 1;
};
struct LinearRecurrenceResult {
  Value y = no_value, state = no_value;  // y: [batch, heads of q, steps, value size]
};
LinearRecurrenceResult emit_linear_recurrence(Node& node, const LinearRecurrence& parts);

}  // namespace anydim::frontends
