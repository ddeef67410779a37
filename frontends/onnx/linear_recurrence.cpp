#include "frontends/onnx/linear_recurrence.h"

#include <vector>

#include "frontends/onnx/attention.h"

namespace anydim::frontends {

using ir::no_value;

LinearRecurrenceResult emit_linear_recurrence(Node& node, const LinearRecurrence& parts) {
  const ValueId steps = node.without_axes(node.dim_of(parts.q, 2), {0});
  const ValueId scale = node.scalar(node.dtype(parts.q), parts.scale);
  Node::Loop loop(node, steps, no_value, {parts.state});
  const ValueId i = loop.round();
  const auto now = [&](ValueId value) {
    return node.emit(Op::gather, {value, i}, {{"axis", std::int64_t{2}}});
  };
  ValueId held = loop.carried()[0];
  if (parts.decay != no_value)
    held = node.emit(Op::mul, {held, node.with_axes(now(parts.decay), {3})});
  const ValueId key = now(parts.k);
  ValueId written = node.with_axes(now(parts.v), {2});  // [batch, heads, 1, value size]
  if (parts.beta != no_value) {
    const ValueId known = node.emit(Op::matmul, {node.with_axes(key, {2}), held});
    written = node.emit(
        Op::mul, {node.with_axes(now(parts.beta), {3}), node.emit(Op::sub, {written, known})});
  }
  const ValueId after =
      node.emit(Op::add, {held, node.emit(Op::mul, {node.with_axes(key, {3}), written})});
  const ValueId read = node.emit(
      Op::matmul, {node.with_axes(now(parts.q), {2}),
                   parts.queries == 1 ? after : repeat_heads(node, after, parts.queries)});
  const ValueId out = node.without_axes(node.emit(Op::mul, {read, scale}), {2});
  const auto results = loop.close({loop.goes_on(), after, out});
  // [steps, batch, heads, size] to [batch, heads, steps, size]
  const ValueId y =
      node.emit(Op::transpose, {results[1]}, {{"perm", std::vector<std::int64_t>{1, 2, 0, 3}}});
  return {y, results[0]};
}

}  // namespace anydim::frontends
