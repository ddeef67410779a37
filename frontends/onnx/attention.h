// What the attention operators of ONNX and of ONNX Runtime share. Heads are apart as [batch, heads,
// rows, head size] everywhere here.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "frontends/onnx/node.h"

namespace anydim::frontends {

// x [batch, rows, heads * size]. Malformed where the attribute's heads do not divide the last dim.
Value split_heads(Node& node, Value x, std::int64_t heads, std::string_view attribute);
Value merge_heads(Node& node, Value x);
Value swap_heads_and_rows(Value x);
// past and x one after the other along the rows; x itself where nothing is past.
Value after_past(Value past, Value x);
// Each head of x as often, one after the other.
Value repeat_heads(Node& node, Value x, std::int64_t times);

// Which keys a query sees: bools [rows, keys], or [batch, 1, rows, keys] where `offset` has a
// batch.
struct Window {
  bool causal = false;
  std::optional<std::int64_t> left{}, right{};  // so many keys before and behind its own position
  Value offset = no_value;  // of the first query among the keys: a vector of one element
                            // or [batch, 1, 1, 1]; none: 0
  bool any() const { return causal || left || right; }
};
Value keys_seen(Node& node, const Window& window, Value rows, Value keys);
// A mask or bias of fewer columns than keys, with `fill` for the rest.
Value extended(Node& node, Value mask, Value keys, double fill);
// Both conditions; each may be missing.
Value both(Value a, Value b);

// 1 / sqrt(size of a head) of q [batch, heads, rows, size]. Unsupported where the size is not
// known.
double default_scale(Node& node, Value q);

struct AttentionParts {
  Value q = no_value, k = no_value, v = no_value;  // of as many heads
  Value seen = no_value;                           // bools: the others count as -inf
  Value bias = no_value;                           // added to the scaled product
  Value sink = no_value;  // [heads] or rank 0: a score beside each row's, which takes its
                          // share and gives nothing
  double scale = 1;
  double softcap = 0;  // 0: none
  std::optional<ir::DType> softmax_dtype{};
  bool blind_rows_are_zero = false;  // rows that see no key; else they are NaN
};

// Steps of softmax(softcap(scale q k^T) + bias) v; where only `y` is wanted it is one attention op.
enum class AttentionStep { Product, Capped, Biased, Probabilities };
struct AttentionResult {
  Value y = no_value, step = no_value;
};
AttentionResult emit_attention(Node& node, const AttentionParts& parts,
                               std::optional<AttentionStep> wanted = std::nullopt);

// x [batch, heads, rows, size] with its first `width` elements turned by angles, of which cos and
// sin [batch or 1, rows, width / 2] are given: pairs are the elements of two halves, or neighbours.
Value rotated(Node& node, Value x, Value cos, Value sin, std::int64_t width, bool interleaved);

}  // namespace anydim::frontends
