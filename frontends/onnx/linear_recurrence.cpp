#include "frontends/onnx/linear_recurrence.h"

#include <vector>

#include "frontends/onnx/attention.h"

namespace anydim::frontends {

LinearRecurrenceResult emit_linear_recurrence(Node& node, const LinearRecurrence& parts) {
  const Value steps = node.without_axes(node.dim_of(parts.q, 2), {0});
  const Value scale = node.scalar(node.dtype(parts.q), parts.scale);
  Node::Loop loop(node, steps, no_value, {parts.state});
  const Value i = loop.round();
  const auto now = [&](Value value) { return gather(value, i, 2); };
  Value held = loop.carried()[0];
  if (parts.decay != no_value) held = held * node.with_axes(now(parts.decay), {3});
  const Value key = now(parts.k);
  Value written = node.with_axes(now(parts.v), {2});  // [batch, heads, 1, value size]
  if (parts.beta != no_value) {
    const Value known = matmul(node.with_axes(key, {2}), held);
    written = node.with_axes(now(parts.beta), {3}) * (written - known);
  }
  const Value after = held + node.with_axes(key, {3}) * written;
  const Value read = matmul(node.with_axes(now(parts.q), {2}),
                            parts.queries == 1 ? after : repeat_heads(node, after, parts.queries));
  const Value out = node.without_axes(read * scale, {2});
  const auto results = loop.close({loop.goes_on(), after, out});
  // [steps, batch, heads, size] to [batch, heads, steps, size]
  const Value y = transpose(results[1], {1, 2, 0, 3});
  return {y, results[0]};
}

}  // namespace anydim::frontends
