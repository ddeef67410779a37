#include "frontends/onnx/attention.h"

#include <cmath>

#include <limits>

namespace anydim::frontends {

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

// 0 copies a dim, -1 is inferred.
Value reshaped_like(Node& node, Value x, Ints shape) {
  return node.emit(Op::dyn_reshape, {x, node.index_vector(std::move(shape))},
                   {{"zero_copies", std::int64_t{1}}});
}

Value largest(Value x) { return reduce(Op::reduce_max, x, {-1}, true); }

// True for rows of which a key is seen.
Value sees_any(Node& node, const AttentionParts& parts) {
  if (parts.bias == no_value) return largest(parts.seen);
  Value bias = parts.bias;
  const DType dtype = bias.dtype();
  const Value nothing = node.scalar(dtype, -inf);
  if (parts.seen != no_value) bias = where(parts.seen, bias, nothing);
  return largest(bias) > nothing;
}

Value masked(const AttentionParts& parts, Value scores) {
  if (parts.bias != no_value) scores = scores + parts.bias;
  if (parts.seen != no_value) scores = where(parts.seen, scores, -inf);
  return scores;
}

// softmax with one score more a row, which is not among the results.
Value softmax_beside(Value scores, Value sink) {
  const DType dtype = scores.dtype();
  sink = cast(sink, dtype);
  if (sink.rank() == 1) sink = with_axes(sink, {1, 2});
  const Value top = max(largest(scores), sink);
  const Value shares = exp(scores - top);
  const Value sum = reduce(Op::reduce_sum, shares, {-1}, true);
  const Value all = sum + exp(sink - top);
  return shares / all;
}

// The bias as the attention op takes it: one operand, bools or numbers.
Value one_bias(const AttentionParts& parts) {
  if (parts.seen == no_value) return parts.bias;
  if (parts.bias == no_value) return parts.seen;
  return where(parts.seen, parts.bias, -inf);
}

}  // namespace

Value swap_heads_and_rows(Value x) { return transpose(x, {0, 2, 1, 3}); }

Value split_heads(Node& node, Value x, std::int64_t heads, std::string_view attribute) {
  if (heads < 1) node.malformed("has {} = {}; expected at least 1", attribute, heads);
  const auto width = x.extent(2);
  if (width && *width % heads != 0) {
    node.malformed("has {} = {}, which does not divide the {} elements of a row", attribute, heads,
                   *width);
  }
  return swap_heads_and_rows(reshaped_like(node, x, {0, 0, heads, -1}));
}

Value merge_heads(Node& node, Value x) {
  return reshaped_like(node, swap_heads_and_rows(x), {0, 0, -1});
}

Value after_past(Value past, Value x) {
  if (past == no_value) return x;
  return concat({cast(past, x.dtype()), x}, 2);
}

Value repeat_heads(Node& node, Value x, std::int64_t times) {
  return times == 1 ? x
                    : node.emit(Op::repeat, {x}, {{"repeats", times}, {"axis", std::int64_t{1}}});
}

Value extended(Node& node, Value mask, Value keys, double fill) {
  const Value zero = node.index_vector({0});
  const Value missing = max(keys - dim_of(mask, -1), zero);
  return node.emit(Op::dyn_pad,
                   {mask, node.scalar(mask.dtype(), fill), zero, missing, node.index_vector({-1})});
}

Value both(Value a, Value b) {
  if (a == no_value || b == no_value) return a == no_value ? b : a;
  return a & b;
}

Value keys_seen(Node& node, const Window& window, Value rows, Value keys) {
  Value own = with_axes(positions(rows), {1});
  if (window.offset != no_value) own = own + window.offset;
  const Value key = positions(keys);
  Value seen = no_value;
  const auto bound = [&](Op op, std::int64_t distance) {
    const Value limit = distance == 0 ? own : own + distance;
    seen = both(seen, node.emit(op, {key, limit}));
  };
  if (window.causal) bound(Op::less_equal, 0);
  if (window.left) bound(Op::greater_equal, -*window.left);
  if (window.right) bound(Op::less_equal, *window.right);
  return seen;
}

double default_scale(Node& node, Value q) {
  const auto size = q.extent(3);
  if (!size)
    node.unsupported(
        "has heads of a size that is not known before it runs, and no attribute 'scale'");
  return 1 / std::sqrt(static_cast<double>(*size));
}

AttentionResult emit_attention(Node& node, const AttentionParts& parts,
                               std::optional<AttentionStep> wanted) {
  const DType dtype = parts.q.dtype();
  const bool wide = dtype == DType::F32 || dtype == DType::F64;
  const bool plain_softmax = !parts.softmax_dtype || *parts.softmax_dtype == dtype;
  const bool guarded =
      parts.blind_rows_are_zero && (parts.seen != no_value || parts.bias != no_value);
  const Value zero = node.scalar(dtype, 0);
  if (!wanted && wide && plain_softmax && parts.sink == no_value) {
    const ir::Attributes attributes{
        {"scale", parts.scale}, {"softcap", parts.softcap}, {"fill", -inf}};
    const Value y =
        node.emit(Op::attention, {parts.q, parts.k, parts.v, one_bias(parts)}, attributes);
    return {guarded ? where(sees_any(node, parts), y, zero) : y};
  }
  const Value columns = transpose(parts.k, {0, 1, 3, 2});
  const Value product = matmul(parts.q, columns) * parts.scale;
  Value capped = product;
  if (parts.softcap != 0) {
    const Value cap = node.scalar(dtype, parts.softcap);
    capped = tanh(product / cap) * cap;
  }
  const Value biased = masked(parts, capped);
  const Value scores = cast(biased, parts.softmax_dtype.value_or(dtype));
  Value shares = parts.sink != no_value
                     ? softmax_beside(scores, parts.sink)
                     : node.emit(Op::softmax, {scores}, {{"axis", std::int64_t{-1}}});
  shares = cast(shares, dtype);
  if (guarded) shares = where(sees_any(node, parts), shares, zero);
  AttentionResult result{matmul(shares, parts.v)};
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

Value rotated(Node& node, Value x, Value cos, Value sin, std::int64_t width, bool interleaved) {
  const std::int64_t half = width / 2;
  const Value first = interleaved ? slice(x, -1, 0, width, 2) : slice(x, -1, 0, half);
  const Value second = interleaved ? slice(x, -1, 1, width, 2) : slice(x, -1, half, width);
  cos = with_axes(cos, {1});
  sin = with_axes(sin, {1});
  const auto turned = [&](Op op, Value a, Value b) { return node.emit(op, {cos * a, sin * b}); };
  const Value real = turned(Op::sub, first, second), imaginary = turned(Op::add, second, first);
  Values parts{real, imaginary};
  if (interleaved) {
    const Value pairs = concat({with_axes(real, {4}), with_axes(imaginary, {4})}, 4);
    parts = {reshaped_like(node, pairs, {0, 0, 0, width})};
  }
  if (x.extent(-1) != width)
    parts.push_back(slice(x, -1, width, std::numeric_limits<std::int64_t>::max()));
  return parts.size() == 1 ? parts[0] : concat(std::move(parts), 3);
}

}  // namespace anydim::frontends
