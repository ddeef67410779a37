// Attention of the standard domains, and what turns positions into angles.

#include "frontends/onnx/attention.h"
#include "frontends/onnx/importers.h"

namespace anydim::frontends {

namespace {

// How often each head of k stands for one of q.
std::int64_t heads_shared(Node& node, Value q, Value k) {
  if (node.same_extent(q, 1, k, 1)) return 1;
  const auto query_heads = q.extent(1), key_heads = k.extent(1);
  if (!query_heads || !key_heads)
    node.unsupported("has numbers of heads that are not known before it runs");
  if (*key_heads < 1 || *query_heads % *key_heads != 0) {
    node.malformed("has {} heads in input 1, which do not divide the {} of input 0", *key_heads,
                   *query_heads);
  }
  return *query_heads / *key_heads;
}

double scale_of(Node& node, Value q) {
  return node.has_attribute("scale") ? node.real("scale") : default_scale(node, q);
}

std::optional<DType> softmax_dtype(Node& node) {
  const auto dtype = node.element_type("softmax_precision");
  if (dtype && !ir::is_float(*dtype))
    node.malformed("takes a real type as attribute 'softmax_precision', got {}",
                   ir::name_of(*dtype));
  return dtype;
}

class StandardAttention {
 public:
  explicit StandardAttention(Node& node) : node_(node), flat_(node.operand(0).rank() == 3) {}

  void run() {
    read_heads();
    parts_.scale = scale_of(node_, parts_.q);
    parts_.softcap = node_.real("softcap", 0);
    parts_.softmax_dtype = softmax_dtype(node_);
    read_cache();
    const std::int64_t shared = heads_shared(node_, parts_.q, parts_.k);
    parts_.k = repeat_heads(node_, parts_.k, shared);
    parts_.v = repeat_heads(node_, parts_.v, shared);
    read_mask();
    read_window();
    const std::int64_t mode = node_.integer("qk_matmul_output_mode", 0);
    if (mode < 0 || mode > 3)
      node_.malformed("has qk_matmul_output_mode = {}; expected 0 to 3", mode);
    std::optional<AttentionStep> wanted;
    if (node_.wants_output(3)) {
      constexpr AttentionStep steps[] = {AttentionStep::Product, AttentionStep::Capped,
                                         AttentionStep::Biased, AttentionStep::Probabilities};
      wanted = steps[mode];
    }
    const AttentionResult result = emit_attention(node_, parts_, wanted);
    node_.output(0, flat_ ? merge_heads(node_, result.y) : result.y);
    node_.output(3, result.step);
  }

 private:
  void read_heads() {
    const Value q = node_.operand(0), k = node_.operand(1),
                v = cast(node_.operand(2), node_.dtype());
    const std::size_t rank = q.rank();
    if ((rank != 3 && rank != 4) || k.rank() != rank || v.rank() != rank) {
      node_.malformed("takes inputs 0 to 2 of rank 3, or of rank 4, got {}, {} and {}", rank,
                      k.rank(), v.rank());
    }
    if (!flat_) {
      const bool told = node_.has_attribute("q_num_heads") || node_.has_attribute("kv_num_heads");
      if (told && node_.opset() >= 25)
        node_.malformed(
            "has q_num_heads or kv_num_heads beside inputs of rank 4, whose heads are apart");
      node_.ignore_attribute("q_num_heads");
      node_.ignore_attribute("kv_num_heads");
      parts_.q = q, parts_.k = k, parts_.v = v;
      return;
    }
    const std::int64_t query_heads = node_.integer("q_num_heads"),
                       key_heads = node_.integer("kv_num_heads");
    parts_.q = split_heads(node_, q, query_heads, "q_num_heads");
    parts_.k = split_heads(node_, k, key_heads, "kv_num_heads");
    parts_.v = split_heads(node_, v, key_heads, "kv_num_heads");
    if (query_heads % key_heads != 0) {
      node_.malformed("has kv_num_heads = {}, which does not divide q_num_heads = {}", key_heads,
                      query_heads);
    }
  }

  void read_cache() {
    const Value past_key = node_.optional_operand(4), past_value = node_.optional_operand(5);
    if ((past_key == no_value) != (past_value == no_value))
      node_.malformed("takes past_key and past_value together, got one of them");
    const Value filled = node_.optional_index_operand(6);
    if (filled != no_value && past_key != no_value)
      node_.malformed("takes past_key or nonpad_kv_seqlen, got both");
    rows_ = dim_of(parts_.q, 2);
    if (past_key != no_value) window_.offset = dim_of(past_key, 2);
    parts_.k = after_past(past_key, parts_.k);
    parts_.v = after_past(past_value, parts_.v);
    node_.output(1, parts_.k);
    node_.output(2, parts_.v);
    keys_ = dim_of(parts_.k, 2);
    if (filled == no_value) return;
    const Value lengths = with_axes(filled, {1, 2, 3});
    window_.offset = lengths - rows_;
    parts_.seen = positions(keys_) < lengths;
    parts_.blind_rows_are_zero = true;
  }

  void read_mask() {
    if (!node_.has_operand(3)) return;
    const DType dtype = node_.operand(3).dtype();
    if (dtype != DType::Bool && dtype != node_.dtype()) {
      node_.malformed("takes bool or {} as input 3 (attn_mask), got {}", ir::name_of(node_.dtype()),
                      ir::name_of(dtype));
    }
    parts_.blind_rows_are_zero = true;
    const Value mask = whole(node_.operand(3), dtype);
    if (dtype == DType::Bool) parts_.seen = both(mask, parts_.seen);
    else parts_.bias = mask;
  }

  // From opset 24 a mask may tell of the first keys only: the others are not seen.
  Value whole(Value mask, DType dtype) {
    if (mask.rank() == 0 || node_.same_extent(mask, -1, parts_.k, 2)) return mask;
    const auto told = mask.extent(-1), all = parts_.k.extent(2);
    if (node_.opset() < 24 && !(told && all && 1 < *told)) return mask;
    return extended(node_, mask, keys_, dtype == DType::Bool ? 0 : -INFINITY);
  }

  void read_window() {
    window_.causal = node_.flag("is_causal", false);
    const auto side = [&](std::string_view name) -> std::optional<std::int64_t> {
      const std::int64_t width = node_.opset() >= 25 ? node_.integer(name, -1) : -1;
      constexpr std::int64_t most = std::int64_t{1} << 40;  // more keys than any tensor has
      if (width < -1 || width > most)
        node_.malformed("has {} = {}; expected -1 or a number of keys", name, width);
      return width < 0 ? std::nullopt : std::optional(width);
    };
    window_.left = side("left_window_size");
    window_.right = side("right_window_size");
    if (!window_.any()) return;
    parts_.seen = both(parts_.seen, keys_seen(node_, window_, rows_, keys_));
    // Without the left bound every query sees the first key.
    if (window_.left) parts_.blind_rows_are_zero = true;
  }

  Node& node_;
  bool flat_;  // heads are packed in rows
  AttentionParts parts_;
  Window window_;
  Value rows_ = no_value, keys_ = no_value;
};

Value modified(Node& node, std::string_view graph, Value value) {
  if (!node.has_attribute(graph)) return value;
  const Values results = node.graph(graph, {value});
  if (results.size() != 1)
    node.malformed("has a graph of {} outputs as attribute '{}', expected 1", results.size(),
                   graph);
  if (results[0].dtype() != value.dtype()) {
    node.malformed("has a graph that gives {} as attribute '{}', expected {}",
                   ir::name_of(results[0].dtype()), graph, ir::name_of(value.dtype()));
  }
  return results[0];
}

}  // namespace

void import_attention(Node& node) { StandardAttention(node).run(); }

void import_flex_attention(Node& node) {
  node.check_same_dtypes();
  for (const std::size_t i : {0, 1, 2}) node.check_rank(i, 4);
  AttentionParts parts{.q = node.operand(0), .k = node.operand(1), .v = node.operand(2)};
  parts.scale = scale_of(node, parts.q);
  const std::int64_t shared = heads_shared(node, parts.q, parts.k);
  parts.k = repeat_heads(node, parts.k, shared);
  parts.v = repeat_heads(node, parts.v, shared);
  const DType dtype = node.dtype(), computed = softmax_dtype(node).value_or(computed_in(dtype));
  parts.softmax_dtype = computed;
  if (!node.has_attribute("score_mod") && !node.has_attribute("prob_mod")) {
    node.output(0, emit_attention(node, parts).y);
    return;
  }
  const Value columns = transpose(parts.k, {0, 1, 3, 2});
  const Value product = matmul(parts.q, columns) * parts.scale;
  const Value scores = modified(node, "score_mod", cast(product, computed));
  const Value shares =
      modified(node, "prob_mod", node.emit(Op::softmax, {scores}, {{"axis", std::int64_t{-1}}}));
  node.output(0, cast(matmul(shares, cast(parts.v, computed)), dtype));
}

void import_rotary_embedding(Node& node) {
  Value x = node.operand(0);
  const bool flat = x.rank() == 3;
  if (!flat && x.rank() != 4) node.malformed("takes rank 3 or 4 as input 0, got {}", x.rank());
  if (flat) x = split_heads(node, x, node.integer("num_heads"), "num_heads");
  else node.ignore_attribute("num_heads");
  const bool interleaved = node.flag("interleaved", false);
  const auto size = x.extent(3);
  std::int64_t width = node.integer("rotary_embedding_dim", 0);
  if (width == 0) {
    if (!size) node.unsupported("has heads of a size that is not known before it runs");
    width = *size;
  }
  if (width < 2 || width % 2 != 0 || (size && width > *size)) {
    node.malformed("turns {} elements of a head; expected an even number up to its size", width);
  }
  const auto angles = [&](std::size_t operand) {
    const Value table = node.operand(operand);
    node.check_rank(operand, node.has_operand(3) ? 2 : 3);
    const auto half = table.extent(-1);
    if (half && *half != width / 2) {
      node.malformed("takes rows of {} elements as input {}, got {}", width / 2, operand, *half);
    }
    if (!node.has_operand(3)) return table;
    return gather(table, node.index_operand(3), 0);
  };
  const Value cos = angles(1), sin = angles(2);
  const Value turned = rotated(node, x, cos, sin, width, interleaved);
  node.output(0, flat ? merge_heads(node, turned) : turned);
}

}  // namespace anydim::frontends
