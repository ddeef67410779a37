// ONNX Runtime's GroupQueryAttention: decoders' attention, with rotary positions and caches.
#include <fmt/format.h>

#include "frontends/onnx/attention.h"
#include "frontends/onnx/importers.h"
#include "frontends/onnx/runtime_attention.h"
#include "frontends/sizes.h"

namespace anydim::frontends {

namespace {

// Caches are buffers: how much of them is filled differs from row to row of the batch.
class GroupQuery {
 public:
  explicit GroupQuery(Node& node)
      : node_(node), heads_(head_count(node, "num_heads")),
        key_heads_(head_count(node, "kv_num_heads")) {}

  void run() {
    refuse_what_is_left_out();
    read_heads();
    parts_.scale = scale_of(node_, parts_.q);
    parts_.softcap = node_.real("softcap", 0);
    read_lengths();
    turn();
    fill_caches();
    read_mask();
    const std::int64_t mode = node_.integer("qk_output", 0);
    if (mode < 0 || mode > 2) node_.malformed("has qk_output = {}; expected 0 to 2", mode);
    if (node_.wants_output(3) && mode == 0) node_.malformed("has qk_output = 0 and an output 3");
    std::optional<AttentionStep> wanted;
    if (node_.wants_output(3))
      wanted = mode == 1 ? AttentionStep::Capped : AttentionStep::Probabilities;
    const AttentionResult result = emit_attention(node_, parts_, wanted);
    node_.output(0, merge_heads(node_, result.y));
    node_.output(3, result.step);
  }

 private:
  void refuse_what_is_left_out() {
    for (const std::string_view name : {"k_quant_type", "v_quant_type"}) {
      if (const std::string type = node_.string(name, "NONE"); type != "NONE" && !type.empty()) {
        node_.unsupported("has {} = {}", name, quoted_name(type));
      }
    }
    node_.ignore_attribute("kv_cache_bit_width");
    node_.ignore_attribute("qk_norm_epsilon");
    refuse_flag(node_, "sliding_window_cache");
    refuse_operand(node_, 12, "k_scale");
    refuse_operand(node_, 13, "v_scale");
    refuse_operand(node_, 14, "q_norm_weight");
    refuse_operand(node_, 15, "k_norm_weight");
  }

  void read_heads() {
    if (heads_ % key_heads_ != 0) {
      node_.malformed("has kv_num_heads = {}, which does not divide num_heads = {}", key_heads_,
                      heads_);
    }
    const Value q = node_.operand(0), k = node_.optional_operand(1), v = node_.optional_operand(2);
    check_both_or_neither(node_, "key", k, "value", v);
    for (const Value value : {q, k, v}) {
      if (value != no_value && value.rank() != 3)
        node_.malformed("takes rank 3 as query, key and value, got {}", value.rank());
    }
    if (k != no_value) {
      parts_.q = split_heads(node_, q, heads_, "num_heads");
      parts_.k = split_heads(node_, k, key_heads_, "kv_num_heads");
      parts_.v = split_heads(node_, v, key_heads_, "kv_num_heads");
      return;
    }
    const std::int64_t all = heads_ + 2 * key_heads_;
    const auto width = q.extent(2);
    if (!width) node_.unsupported("has a packed query of a width that is not known before it runs");
    if (*width % all != 0) {
      node_.malformed(
          "has num_heads + 2 kv_num_heads = {}, which does not divide the {} elements of a row",
          all, *width);
    }
    const std::int64_t size = *width / all, query = heads_ * size, key = key_heads_ * size;
    parts_.q = split_heads(node_, slice(q, -1, 0, query), heads_, "num_heads");
    parts_.k = split_heads(node_, slice(q, -1, query, query + key), key_heads_, "kv_num_heads");
    parts_.v = split_heads(node_, slice(q, -1, query + key, *width), key_heads_, "kv_num_heads");
  }

  // Reads how many keys each row of the batch has in all, and how many were there before. A first
  // call, whose keys are all new, has none from before.
  void read_lengths() {
    rows_ = dim_of(parts_.q, 2);
    const Value batch = dim_of(parts_.q, 0), one = node_.index_vector({1});
    const Value last = reshaped(node_.index_operand(5), {batch, one, one, one});
    filled_ = last + 1;
    total_ = reshaped(node_.index_operand(6), {one});
    const Value before = filled_ - rows_;
    const Value first = equal(total_, rows_);
    before_ = where(first, 0, before);
    const Value zero = node_.scalar(DType::I64, 0);
    const Value held = both(before_ >= zero, filled_ <= total_);
    node_.emit_many(
        Op::assertion, {held, filled_, rows_, total_},
        {{"message", fmt::format("{}: seqlens_k does not fit total_sequence_length and the new "
                                 "rows; filled keys, new rows, total_sequence_length:",
                                 node_.description())}},
        0);
  }

  void turn() {
    if (!node_.flag("do_rotary", false)) {
      node_.ignore_attribute("rotary_interleaved");
      return;
    }
    if (!node_.has_operand(7) || !node_.has_operand(8))
      node_.malformed("has do_rotary = 1, which needs cos_cache and sin_cache");
    node_.check_same_shape(8, "sin_cache", node_.operand(7), "cos_cache");
    const bool interleaved = node_.flag("rotary_interleaved", false);
    const auto half = node_.operand(7).extent(1), size = parts_.q.extent(3);
    if (!half) node_.unsupported("has a cos_cache of a width that is not known before it runs");
    if (*half < 1 || (size && 2 * *half > *size))
      node_.malformed("has a cos_cache of {} columns for heads of {} elements", *half, *size);
    Value position = no_value;
    if (node_.has_operand(9)) {
      position = node_.index_operand(9);
    } else {
      // Rows behind the last key of a first call are padding; they are turned as the first.
      const Value zero = node_.scalar(DType::I64, 0);
      position = without_axes(before_, {2, 3}) + with_axes(positions(rows_), {0});
      const Value within = position < without_axes(filled_, {2, 3});
      position = where(within, position, zero);
    }
    const auto angles = [&](std::size_t operand) {
      return gather(node_.operand(operand), position, 0);
    };
    const Value cos = angles(7), sin = angles(8);
    parts_.q = rotated(node_, parts_.q, cos, sin, 2 * *half, interleaved);
    parts_.k = rotated(node_, parts_.k, cos, sin, 2 * *half, interleaved);
  }

  // Each key of the buffer is a new one, one from before, or none (0).
  Value cached(Value past, Value fresh, Value keys) {
    const DType dtype = fresh.dtype();
    const auto joined = [&](std::initializer_list<Value> dims) { return concat(dims, 0); };
    const Value batch = dim_of(fresh, 0), heads = dim_of(fresh, 1), size = dim_of(fresh, 3),
                one = node_.index_vector({1});
    const Value nothing =
        node_.emit(Op::dyn_full, {node_.scalar(dtype, 0), joined({batch, heads, one, size})});
    const Value all = concat({fresh, cast(past, dtype), nothing}, 2);
    const Value key = with_axes(positions(keys), {0, 1, 3});  // [1, 1, keys, 1]
    const Value step = key - before_, zero = node_.scalar(DType::I64, 0);
    const Value is_new = both(step >= zero, step < rows_);
    const Value old_end = rows_ + dim_of(past, 2);
    const Value old = where(step < zero, key + rows_, old_end);
    const Value from = where(is_new, step, old);
    const Value indices =
        node_.emit(Op::dyn_broadcast_to, {from, joined({batch, heads, keys, size})});
    return node_.emit(Op::gather_elements, {all, indices}, {{"axis", std::int64_t{2}}});
  }

  void fill_caches() {
    const Value past_key = node_.optional_operand(3), past_value = node_.optional_operand(4);
    check_both_or_neither(node_, "past_key", past_key, "past_value", past_value);
    check_cache(node_, "past_key", past_key, parts_.k);
    check_cache(node_, "past_value", past_value, parts_.v);
    if (past_key == no_value) {
      // Nothing was there before: what is said of it must agree.
      node_.emit_many(
          Op::assertion, {equal(total_, rows_), total_, rows_},
          {{"message",
            fmt::format(
                "{}: without past_key, total_sequence_length must be the number of new rows; got:",
                node_.description())}},
          0);
    } else {
      const Value held = dim_of(past_key, 2);
      const Value enough = before_ <= held;
      node_.emit_many(Op::assertion, {enough, before_, held},
                      {{"message", fmt::format("{}: past_key is shorter than the keys that were "
                                               "there before; keys, and its length:",
                                               node_.description())}},
                      0);
      const Value keys = max(total_, held);
      parts_.k = cached(past_key, parts_.k, keys);
      parts_.v = cached(past_value, parts_.v, keys);
    }
    node_.output(1, parts_.k);
    node_.output(2, parts_.v);
    parts_.k = repeat_heads(node_, parts_.k, heads_ / key_heads_);
    parts_.v = repeat_heads(node_, parts_.v, heads_ / key_heads_);
  }

  void read_mask() {
    const bool causal = node_.flag("causal", true);
    const std::int64_t local = node_.integer("local_window_size", -1);
    constexpr std::int64_t most = std::int64_t{1} << 40;
    if (local < -1 || local == 0 || local > most)
      node_.malformed("has local_window_size = {}; expected -1 or a number of keys", local);
    if (local != -1 && !causal) node_.malformed("has local_window_size = {} and causal = 0", local);
    const Value keys = dim_of(parts_.k, 2);
    if (causal) {
      Window window{.causal = true, .offset = before_};
      if (local > 0) window.left = local - 1;
      parts_.seen = keys_seen(node_, window, rows_, keys);
    } else {
      parts_.seen = positions(keys) < filled_;
    }
    if (node_.has_operand(10)) add_bias(parts_, extended(node_, node_.operand(10), keys, 0));
    if (node_.has_operand(11)) parts_.sink = node_.operand(11);
    if (node_.integer("smooth_softmax", -1) == 1 && parts_.sink == no_value)
      parts_.sink = node_.scalar(node_.dtype(), 0);
  }

  Node& node_;
  std::int64_t heads_, key_heads_;
  AttentionParts parts_;
  Value rows_ = no_value, filled_ = no_value, before_ = no_value, total_ = no_value;
};

}  // namespace

void import_group_query_attention(Node& node) { GroupQuery(node).run(); }

}  // namespace anydim::frontends
