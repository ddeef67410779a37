#include "frontends/onnx/attention.h"

#include <cmath>

#include <limits>

namespace anydim::frontends {

using ir::no_value;

namespace {

using Ints = std::vector<std::int64_t>;
constexpr double inf = std::numeric_limits<double>::infinity();

// 0 copies a dim, -1 is inferred.
ValueId reshaped_like(Node& node, ValueId x, Ints shape) {
  return node.emit(Op::dyn_reshape, {x, node.index_vector(std::move(shape))},
                   {{"zero_copies", std::int64_t{1}}});
}

ValueId largest(Node& node, ValueId x) {
  return node.emit(Op::reduce_max, {x}, {{"axes", Ints{-1}}, {"keepdims", std::int64_t{1}}});
}

// True for rows of which a key is seen.
ValueId sees_any(Node& node, const AttentionParts& parts) {
  if (parts.bias == no_value) return largest(node, parts.seen);
  ValueId bias = parts.bias;
  const DType dtype = node.dtype(bias);
  const ValueId nothing = node.scalar(dtype, -inf);
  if (parts.seen != no_value) bias = node.emit(Op::where, {parts.seen, bias, nothing});
  return node.emit(Op::greater, {largest(node, bias), nothing});
}

ValueId masked(Node& node, const AttentionParts& parts, ValueId scores) {
  if (parts.bias != no_value) scores = node.emit(Op::add, {scores, parts.bias});
  if (parts.seen != no_value)
    scores = node.emit(Op::where, {parts.seen, scores, node.scalar(node.dtype(scores), -inf)});
  return scores;
}

// softmax with one score more a row, which is not among the results.
ValueId softmax_beside(Node& node, ValueId scores, ValueId sink) {
  const DType dtype = node.dtype(scores);
  sink = node.cast(sink, dtype);
  if (node.rank(sink) == 1) sink = node.with_axes(sink, {1, 2});
  const ValueId top = node.emit(Op::max, {largest(node, scores), sink});
  const ValueId shares = node.emit(Op::exp, {node.emit(Op::sub, {scores, top})});
  const ValueId sum =
      node.emit(Op::reduce_sum, {shares}, {{"axes", Ints{-1}}, {"keepdims", std::int64_t{1}}});
  const ValueId all =
      node.emit(Op::add, {sum, node.emit(Op::exp, {node.emit(Op::sub, {sink, top})})});
  return node.emit(Op::div, {shares, all});
}

// The bias as the attention op takes it: one operand, bools or numbers.
ValueId one_bias(Node& node, const AttentionParts& parts) {
  if (parts.seen == no_value) return parts.bias;
  if (parts.bias == no_value) return parts.seen;
  return node.emit(Op::where, {parts.seen, parts.bias, node.scalar(node.dtype(parts.bias), -inf)});
}

}  // namespace

ValueId swap_heads_and_rows(Node& node, ValueId x) {
  return node.emit(Op::transpose, {x}, {{"perm", Ints{0, 2, 1, 3}}});
}

ValueId split_heads(Node& node, ValueId x, std::int64_t heads, std::string_view attribute) {
  if (heads < 1) node.malformed("has {} = {}; expected at least 1", attribute, heads);
  const auto width = node.extent(x, 2);
  if (width && *width % heads != 0) {
    node.malformed("has {} = {}, which does not divide the {} elements of a row", attribute, heads,
                   *width);
  }
  return swap_heads_and_rows(node, reshaped_like(node, x, {0, 0, heads, -1}));
}

ValueId merge_heads(Node& node, ValueId x) {
  return reshaped_like(node, swap_heads_and_rows(node, x), {0, 0, -1});
}

ValueId after_past(Node& node, ValueId past, ValueId x) {
  if (past == no_value) return x;
  return node.emit(Op::concat, {node.cast(past, node.dtype(x)), x}, {{"axis", std::int64_t{2}}});
}

ValueId repeat_heads(Node& node, ValueId x, std::int64_t times) {
  return times == 1 ? x
                    : node.emit(Op::repeat, {x}, {{"repeats", times}, {"axis", std::int64_t{1}}});
}

ValueId extended(Node& node, ValueId mask, ValueId keys, double fill) {
  const ValueId zero = node.index_vector({0});
  const ValueId missing =
      node.emit(Op::max, {node.emit(Op::sub, {keys, node.dim_of(mask, -1)}), zero});
  return node.emit(Op::dyn_pad, {mask, node.scalar(node.dtype(mask), fill), zero, missing,
                                 node.index_vector({-1})});
}

ValueId both(Node& node, ValueId a, ValueId b) {
  if (a == no_value || b == no_value) return a == no_value ? b : a;
  return node.emit(Op::logical_and, {a, b});
}

ValueId keys_seen(Node& node, const Window& window, ValueId rows, ValueId keys) {
  ValueId own = node.with_axes(node.positions(rows), {1});
  if (window.offset != no_value) own = node.emit(Op::add, {own, window.offset});
  const ValueId key = node.positions(keys);
  ValueId seen = no_value;
  const auto bound = [&](Op op, std::int64_t distance) {
    const ValueId limit =
        distance == 0
            ? own
            : node.emit(Op::add, {own, node.scalar(DType::I64, static_cast<double>(distance))});
    seen = both(node, seen, node.emit(op, {key, limit}));
  };
  if (window.causal) bound(Op::less_equal, 0);
  if (window.left) bound(Op::greater_equal, -*window.left);
  if (window.right) bound(Op::less_equal, *window.right);
  return seen;
}

double default_scale(Node& node, ValueId q) {
  const auto size = node.extent(q, 3);
  if (!size)
    node.unsupported(
        "has heads of a size that is not known before it runs, and no attribute 'scale'");
  return 1 / std::sqrt(static_cast<double>(*size));
}

AttentionResult emit_attention(Node& node, const AttentionParts& parts,
                               std::optional<AttentionStep> wanted) {
  const DType dtype = node.dtype(parts.q);
  const bool wide = dtype == DType::F32 || dtype == DType::F64;
  const bool plain_softmax = !parts.softmax_dtype || *parts.softmax_dtype == dtype;
  const bool guarded =
      parts.blind_rows_are_zero && (parts.seen != no_value || parts.bias != no_value);
  const ValueId zero = node.scalar(dtype, 0);
  if (!wanted && wide && plain_softmax && parts.sink == no_value) {
    const ir::Attributes attributes{
        {"scale", parts.scale}, {"softcap", parts.softcap}, {"fill", -inf}};
    const ValueId y =
        node.emit(Op::attention, {parts.q, parts.k, parts.v, one_bias(node, parts)}, attributes);
    return {guarded ? node.emit(Op::where, {sees_any(node, parts), y, zero}) : y};
  }
  const ValueId columns = node.emit(Op::transpose, {parts.k}, {{"perm", Ints{0, 1, 3, 2}}});
  const ValueId product = node.emit(
      Op::mul, {node.emit(Op::matmul, {parts.q, columns}), node.scalar(dtype, parts.scale)});
  ValueId capped = product;
  if (parts.softcap != 0) {
    const ValueId cap = node.scalar(dtype, parts.softcap);
    capped = node.emit(Op::mul, {node.emit(Op::tanh, {node.emit(Op::div, {product, cap})}), cap});
  }
  const ValueId biased = masked(node, parts, capped);
  const ValueId scores = node.cast(biased, parts.softmax_dtype.value_or(dtype));
  ValueId shares = parts.sink != no_value
                       ? softmax_beside(node, scores, parts.sink)
                       : node.emit(Op::softmax, {scores}, {{"axis", std::int64_t{-1}}});
  shares = node.cast(shares, dtype);
  if (guarded) shares = node.emit(Op::where, {sees_any(node, parts), shares, zero});
  AttentionResult result{node.emit(Op::matmul, {shares, parts.v})};
  if (wanted) {
    switch (*wanted) {
      case AttentionStep::Product: result.step = product; break;
      case AttentionStep::Capped: result.step = capped; break;
      case AttentionStep::Biased: result.step = biased; break;
      case AttentionStep::Probabilities: result.step = shares; break;
    }
  }
  return result;
}

ValueId rotated(Node& node, ValueId x, ValueId cos, ValueId sin, std::int64_t width,
                bool interleaved) {
  const std::int64_t half = width / 2;
  const ValueId first = interleaved ? node.slice(x, -1, 0, width, 2) : node.slice(x, -1, 0, half);
  const ValueId second =
      interleaved ? node.slice(x, -1, 1, width, 2) : node.slice(x, -1, half, width);
  cos = node.with_axes(cos, {1});
  sin = node.with_axes(sin, {1});
  const auto turned = [&](Op op, ValueId a, ValueId b) {
    return node.emit(op, {node.emit(Op::mul, {cos, a}), node.emit(Op::mul, {sin, b})});
  };
  const ValueId real = turned(Op::sub, first, second), imaginary = turned(Op::add, second, first);
  std::vector<ValueId> parts{real, imaginary};
  if (interleaved) {
    const ValueId pairs =
        node.emit(Op::concat, {node.with_axes(real, {4}), node.with_axes(imaginary, {4})},
                  {{"axis", std::int64_t{4}}});
    parts = {reshaped_like(node, pairs, {0, 0, 0, width})};
  }
  if (node.extent(x, -1) != width)
    parts.push_back(node.slice(x, -1, width, std::numeric_limits<std::int64_t>::max()));
  return parts.size() == 1 ? parts[0]
                           : node.emit(Op::concat, std::move(parts), {{"axis", std::int64_t{3}}});
}

}  // namespace anydim::frontends
