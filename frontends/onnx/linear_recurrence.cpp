#include "frontends/onnx/linear_recurrence.h"

#include "frontends/onnx/attention.h"

namespace anydim::frontends {

LinearRecurrenceResult emit_linear_recurrence(Node& node, const LinearRecurrence& parts) {
  const Value steps = without_axes(dim_of(parts.q, 2), {0});
  const Value scale = node.scalar(parts.q.dtype(), parts.scale);
  Node::Loop loop(node, steps, no_value, {parts.state});
  const Value i = loop.round();
  const auto now = [&](Value value) { return gather(value, i, 2); };
  Value held = loop.carried()[0];
  if (parts.decay != no_value) held = held * with_axes(now(parts.decay), {3});
  const Value key = now(parts.k);
  Value written = with_axes(now(parts.v), {2});  // [batch, heads, 1, value size]
  if (parts.beta != no_value) {
    const Value known = matmul(with_axes(key, {2}), held);
    written = with_axes(now(parts.beta), {3}) * (written - known);
  }
  const Value after = held + with_axes(key, {3}) * written;
  const Value read = matmul(with_axes(now(parts.q), {2}),
                            parts.queries == 1 ? after : repeat_heads(node, after, parts.queries));
  const Value out = without_axes(read * scale, {2});
  const auto results = loop.close({loop.goes_on(), after, out});
  // [steps, batch, heads, size] to [batch, heads, steps, size]
  const Value y = transpose(results[1], {1, 2, 0, 3});
  return {y, results[0]};
}

}  // namespace anydim::frontends
