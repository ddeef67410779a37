// The recurrence of linear attention: a matrix a head, read and rewritten in each step.
#pragma once

#include <cstdint>

#include "frontends/onnx/node.h"

namespace anydim::frontends {

struct LinearRecurrence {
  // [batch, heads, steps, size]; q has `queries` heads for each of k and v.
  ir::ValueId q = ir::no_value, k = ir::no_value, v = ir::no_value;
  ir::ValueId decay = ir::no_value;  // what the matrix is multiplied by before each step: [batch,
                                     // heads, steps, 1 or key size]
  ir::ValueId beta = ir::no_value;   // [batch, heads, steps, 1]: so much of what the matrix holds
                                     // for the key is replaced; none: v is added to it
  ir::ValueId state = ir::no_value;  // the first matrices: [batch, heads, key size, value size]
  double scale = 1;
  std::int64_t queries = 1;
};
struct LinearRecurrenceResult {
  ir::ValueId y = ir::no_value, state = ir::no_value;  // y: [batch, heads of q, steps, value size]
};
LinearRecurrenceResult emit_linear_recurrence(Node& node, const LinearRecurrence& parts);

}  // namespace anydim::frontends
