// The attention operators of ONNX Runtime (domain com.microsoft).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "frontends/onnx/attention.h"
#include "frontends/onnx/importers.h"
#include "frontends/onnx/quantisation.h"
#include "frontends/onnx/runtime_attention.h"

namespace anydim::frontends {

void refuse_operand(const Node& node, std::size_t index, std::string_view name) {
  if (node.has_operand(index)) node.unsupported("has an input {} ({})", index, name);
}

void refuse_flag(Node& node, std::string_view name) {
  if (node.flag(name, false)) node.unsupported("has {} = 1", name);
}

std::int64_t head_count(Node& node, std::string_view name) {
  const std::int64_t heads = node.integer(name);
  constexpr std::int64_t most = 1 << 20;
  if (heads < 1 || heads > most) node.malformed("has {} = {}; expected 1 to {}", name, heads, most);
  return heads;
}

double scale_of(Node& node, Value q) {
  const double given = node.real("scale", 0);
  return given != 0 ? given : default_scale(node, q);
}

void check_both_or_neither(const Node& node, std::string_view first_name, Value first,
                           std::string_view second_name, Value second) {
  if ((first == no_value) == (second == no_value)) return;
  node.malformed("takes {} and {} together, got one of them", first_name, second_name);
}

void check_cache(const Node& node, std::string_view name, Value cache, Value fresh) {
  if (cache == no_value) return;
  if (cache.rank() != 4) node.malformed("takes rank 4 as {}, got {}", name, cache.rank());
  for (const std::int64_t axis : {1, 3}) {
    const auto held = cache.extent(axis), added = fresh.extent(axis);
    if (held && added && *held != *added) {
      node.malformed("has {} of {} {}, expected {}", name, *held,
                     axis == 1 ? "heads" : "elements a head", *added);
    }
  }
}

void add_bias(AttentionParts& parts, Value bias) {
  if (bias == no_value) return;
  bias = cast(bias, parts.q.dtype());
  parts.bias = parts.bias == no_value ? bias : parts.bias + bias;
}

namespace {

// What a mask of integers says, as a bias: 0 where a key is seen, else `filter`. By rank: [batch]
// how many keys are seen, [2 batch] where they end and where they begin, [batch, keys] and [batch,
// rows, keys] which are seen: 1, others 0.
Value mask_bias(Node& node, Value mask, const AttentionParts& parts, double filter) {
  const Value batch = dim_of(parts.q, 0), keys = dim_of(parts.k, 2), one = node.index_vector({1});
  const DType dtype = parts.q.dtype();
  const auto bias = [&](Value seen) { return where(seen, node.scalar(dtype, 0), filter); };
  const auto each_batch = [&](Value lengths) {
    return reshaped(cast(lengths, DType::I64), {batch, one, one, one});
  };
  const auto nonzero = [&](Value value) { return !equal(value, 0); };
  if (!ir::is_integer(mask.dtype()))
    node.malformed("takes integers as mask, got {}", ir::name_of(mask.dtype()));
  switch (mask.rank()) {
    case 1: {
      const auto entries = mask.extent(0), rows = parts.q.extent(0);
      const Value key = positions(keys);
      if (!entries || !rows || *entries == *rows) return bias(key < each_batch(mask));
      if (*entries != 2 * *rows)
        node.unsupported("has a mask of {} lengths for {} rows", *entries, *rows);
      const Value ends =
          node.emit(Op::strided_slice, {mask}, {{"starts", Ints{0}}, {"ends", Ints{*rows}}});
      const Value starts = node.emit(Op::strided_slice, {mask},
                                     {{"starts", Ints{*rows}}, {"ends", Ints{2 * *rows}}});
      return bias(both(key < each_batch(ends), key >= each_batch(starts)));
    }
    case 2:
      if (mask.extent(1) == 1 && parts.k.extent(2) != 1)
        return no_value;  // the same for every key: as none
      if (node.same_extent(mask, 0, parts.q, 0) && node.same_extent(mask, 1, parts.k, 2))
        return bias(nonzero(with_axes(mask, {1, 2})));
      return bias(nonzero(reshaped(mask, {batch, one, one, keys})));
    case 3: return bias(nonzero(with_axes(mask, {1})));
    default: node.unsupported("has a mask of rank {}; Anydim supports 1 to 3", mask.rank());
  }
}

// Queries see no later keys. ONNX Runtime lets the last query see all, which is the same where each
// key that is not past has its query. A row that a mask hides whole still prefers keys up to its
// own, as in ONNX Runtime.
void add_causal(Node& node, AttentionParts& parts, Value fresh_keys, Value past_rows) {
  const Value rows = dim_of(parts.q, 2), keys = dim_of(parts.k, 2);
  Value seen = keys_seen(node, {.causal = true, .offset = past_rows}, rows, keys);
  if (!node.same_extent(parts.q, 2, fresh_keys, 2)) {
    const Value next = positions(rows) + 1;
    seen = seen | with_axes(equal(next, rows), {1});
  }
  if (parts.bias == no_value) {
    parts.seen = seen;
    return;
  }
  const DType dtype = parts.bias.dtype();
  const double least =
      dtype == DType::F16 ? -65504 : -static_cast<double>(std::numeric_limits<float>::max());
  parts.bias = where(seen, parts.bias, least);
}

// Attention and QAttention, from the projections of all three.
void self_attention(Node& node, Value projected, const Ints& widths, std::size_t mask, Value past,
                    Value attention_bias) {
  const std::int64_t heads = head_count(node, "num_heads");
  refuse_flag(node, "past_present_share_buffer");
  refuse_flag(node, "do_rotary");
  node.ignore_attribute("rotary_embedding_dim");
  for (const std::int64_t width : widths) {
    if (width % heads != 0)
      node.malformed("has num_heads = {}, which does not divide the hidden size {}", heads, width);
  }
  const auto split =
      node.emit_many(Op::split, {projected}, {{"axis", std::int64_t{-1}}, {"sizes", widths}}, 3);
  AttentionParts parts;
  parts.q = split_heads(node, split[0], heads, "num_heads");
  parts.k = split_heads(node, split[1], heads, "num_heads");
  parts.v = split_heads(node, split[2], heads, "num_heads");
  parts.scale = scale_of(node, parts.q);
  const Value fresh_keys = parts.k;
  Value past_rows = no_value;
  if (past != no_value) {
    if (past.rank() != 5 || (past.extent(0) && past.extent(0) != 2)) {
      node.malformed("takes a past of [2, batch, num_heads, rows, head size]");
    }
    const Value past_key = gather(past, 0, 0), past_value = gather(past, 1, 0);
    check_cache(node, "past", past_key, parts.k);
    check_cache(node, "past", past_value, parts.v);
    past_rows = dim_of(past, 3);
    parts.k = after_past(past_key, parts.k);
    parts.v = after_past(past_value, parts.v);
  }
  if (node.wants_output(1)) {
    node.output(1, concat({with_axes(parts.k, {0}), with_axes(parts.v, {0})}, 0));
  }
  const double filter = node.real("mask_filter_value", -10000);
  if (node.has_operand(mask)) parts.bias = mask_bias(node, node.operand(mask), parts, filter);
  if (node.flag("unidirectional", false)) add_causal(node, parts, fresh_keys, past_rows);
  add_bias(parts, attention_bias);
  node.output(0, merge_heads(node, emit_attention(node, parts).y));
}

// Hidden sizes of q, k and v, which together are the columns of the weights.
Ints hidden_sizes(Node& node, Value weights) {
  const auto columns = weights.extent(1);
  const auto given = node.optional_integers("qkv_hidden_sizes");
  if (!given || given->empty()) {
    if (!columns)
      node.unsupported(
          "has weights of a width that is not known before it runs, and no attribute "
          "'qkv_hidden_sizes'");
    if (*columns % 3 != 0)
      node.malformed("has weights of {} columns, expected three times the hidden size", *columns);
    return {*columns / 3, *columns / 3, *columns / 3};
  }
  if (given->size() != 3)
    node.malformed("takes 3 elements as attribute 'qkv_hidden_sizes', got {}", given->size());
  constexpr std::int64_t most = std::int64_t{1} << 40;
  std::int64_t sum = 0;
  for (const std::int64_t size : *given) {
    if (size < 1 || size > most)
      node.malformed("has {} in qkv_hidden_sizes; expected 1 to {}", size, most);
    sum += size;
  }
  if ((*given)[0] != (*given)[1]) {
    node.malformed("has qkv_hidden_sizes of {} for q and {} for k, which must be one", (*given)[0],
                   (*given)[1]);
  }
  if (columns && *columns != sum) {
    node.malformed("has qkv_hidden_sizes that sum to {}, but weights of {} columns", sum, *columns);
  }
  return *given;
}

}  // namespace

void import_runtime_attention(Node& node) {
  refuse_operand(node, 6, "past_sequence_length");
  const Value x = node.operand(0), weights = node.operand(1);
  node.check_rank(0, 3);
  Value projected = matmul(x, weights);
  if (node.has_operand(2)) projected = projected + node.operand(2);
  self_attention(node, projected, hidden_sizes(node, weights), 3, node.optional_operand(4),
                 node.optional_operand(5));
}

// Inputs: x, weights, bias, their scales, the mask, their zero points, the past.
void import_quantised_attention(Node& node) {
  const Value x = node.operand(0), weights = node.operand(1);
  node.check_rank(0, 3);
  const Value product =
      integer_product(x, node.optional_operand(6), weights, node.optional_operand(7));
  const Value scale = node.operand(3) * node.operand(4);
  const Value real = cast(product, scale.dtype()) * scale;
  self_attention(node, real + node.operand(2), hidden_sizes(node, weights), 5,
                 node.optional_operand(8), no_value);
}

namespace {

class MultiHead {
 public:
  explicit MultiHead(Node& node) : node_(node), heads_(head_count(node, "num_heads")) {}

  void run() {
    refuse_operand(node_, 8, "past_sequence_length");
    refuse_operand(node_, 9, "cache_indirection");
    read_heads();
    parts_.scale = scale_of(node_, parts_.q);
    const Value past_key = node_.optional_operand(6), past_value = node_.optional_operand(7);
    check_both_or_neither(node_, "past_key", past_key, "past_value", past_value);
    check_cache(node_, "past_key", past_key, parts_.k);
    check_cache(node_, "past_value", past_value, parts_.v);
    const Value fresh_keys = parts_.k,
                past_rows = past_key == no_value ? no_value : dim_of(past_key, 2);
    parts_.k = after_past(past_key, parts_.k);
    parts_.v = after_past(past_value, parts_.v);
    node_.output(1, parts_.k);
    node_.output(2, parts_.v);
    const double filter = node_.real("mask_filter_value", -10000);
    if (node_.has_operand(4)) parts_.bias = mask_bias(node_, node_.operand(4), parts_, filter);
    if (node_.flag("unidirectional", false)) add_causal(node_, parts_, fresh_keys, past_rows);
    add_bias(parts_, node_.optional_operand(5));
    const auto wanted = node_.wants_output(3) ? std::optional(AttentionStep::Biased) : std::nullopt;
    const AttentionResult result = emit_attention(node_, parts_, wanted);
    node_.output(0, merge_heads(node_, result.y));
    node_.output(3, result.step);
  }

 private:
  // Part `which` of [batch, rows, heads, parts, size].
  Value packed(Value value, std::int64_t which) {
    return swap_heads_and_rows(gather(value, which, 3));
  }

  Value split(Value value) { return split_heads(node_, value, heads_, "num_heads"); }

  // Adds the elements [first, last) of the projections' bias, where the node has one.
  Value with_bias(Value x, std::int64_t first, std::int64_t last) {
    if (!node_.has_operand(3)) return x;
    return x + slice(node_.operand(3), -1, first, last);
  }

  void read_heads() {
    const Value q = node_.operand(0), k = node_.optional_operand(1), v = node_.optional_operand(2);
    const std::size_t rank = q.rank();
    const bool biased = node_.has_operand(3);
    if (k == no_value) {
      if (rank != 5 || v != no_value)
        node_.malformed(
            "takes a query of [batch, rows, num_heads, 3, head size] without key and value");
      if (biased) node_.unsupported("has a bias (input 3) beside packed queries, keys and values");
      check_packed(q, 0, 3);
      parts_.q = packed(q, 0), parts_.k = packed(q, 1), parts_.v = packed(q, 2);
      return;
    }
    if (rank != 3) node_.malformed("takes rank 3 as input 0 beside a key, got {}", rank);
    const auto width = q.extent(2);
    if (biased && !width)
      node_.unsupported("has a bias (input 3) and a hidden size that is not known before it runs");
    parts_.q = split(biased ? with_bias(q, 0, *width) : q);
    switch (k.rank()) {
      case 3:
        if (v == no_value || v.rank() != 3)
          node_.malformed("takes a value of rank 3 beside a key of rank 3");
        parts_.k = split(biased ? with_bias(k, *width, 2 * *width) : k);
        parts_.v =
            split(biased ? with_bias(v, 2 * *width, std::numeric_limits<std::int64_t>::max()) : v);
        return;
      case 4:
        if (v == no_value || v.rank() != 4)
          node_.malformed("takes a value of rank 4 beside a key of rank 4");
        if (biased) node_.malformed("takes no bias (input 3) beside a key of rank 4");
        parts_.k = k, parts_.v = v;
        return;
      case 5:
        if (v != no_value) node_.malformed("takes no value beside a key of rank 5, which holds it");
        if (biased) node_.unsupported("has a bias (input 3) beside packed keys and values");
        check_packed(k, 1, 2);
        parts_.k = packed(k, 0), parts_.v = packed(k, 1);
        return;
      default: node_.malformed("takes rank 3, 4 or 5 as input 1, got {}", k.rank());
    }
  }

  void check_packed(Value value, std::size_t operand, std::int64_t count) {
    const auto found = value.extent(3), heads = value.extent(2);
    if (found && *found != count)
      node_.malformed("has {} parts in dim 3 of input {}, expected {}", *found, operand, count);
    if (heads && *heads != heads_) {
      node_.malformed("has num_heads = {}, but {} heads in input {}", heads_, *heads, operand);
    }
  }

  Node& node_;
  std::int64_t heads_;
  AttentionParts parts_;
};

}  // namespace

void import_multi_head_attention(Node& node) { MultiHead(node).run(); }

namespace {

// Inputs: x, positions, tables of cos and sin. `angles(node, x, table)` picks from a table, as
// [batch or 1, rows, columns of the table]; x has its heads apart.
template <typename Angles>
void turn_heads(Node& node, const Angles& angles) {
  refuse_flag(node, "is_packed_batching");
  const double scale = node.real("scale", 1);
  if (scale != 1) node.unsupported("has scale = {}", scale);
  const bool interleaved = node.flag("interleaved", false);
  Value x = node.operand(0);
  const bool flat = x.rank() == 3;
  if (!flat && x.rank() != 4) node.malformed("takes rank 3 or 4 as input 0, got {}", x.rank());
  node.check_same_shape(3, "sin_cache", node.operand(2), "cos_cache");
  const auto half = node.operand(2).extent(1);
  if (!half) node.unsupported("has a cos_cache of a width that is not known before it runs");
  const std::int64_t width = node.integer("rotary_embedding_dim", 0), turned = 2 * *half;
  if (width != 0 && width != turned) {
    node.malformed("has rotary_embedding_dim = {}, but a cos_cache of {} columns", width, *half);
  }
  std::int64_t heads = node.integer("num_heads", 0);
  if (width != 0 && heads == 0) node.malformed("has rotary_embedding_dim, which needs num_heads");
  if (flat && heads == 0) {
    const auto hidden = x.extent(2);
    if (!hidden)
      node.unsupported(
          "has a hidden size that is not known before it runs, and no attribute 'num_heads'");
    if (turned < 1 || *hidden % turned != 0) {
      node.malformed(
          "has a cos_cache of {} columns, whose double does not divide the {} elements of a row",
          *half, *hidden);
    }
    heads = *hidden / turned;
  }
  if (flat) x = split_heads(node, x, heads, "num_heads");
  if (const auto size = x.extent(3); turned < 1 || (size && turned > *size)) {
    node.malformed("has a cos_cache of {} columns for heads of {} elements", *half,
                   size.value_or(0));
  }
  const Value result = rotated(node, x, angles(node, x, node.operand(2)),
                               angles(node, x, node.operand(3)), turned, interleaved);
  node.output(0, flat ? merge_heads(node, result) : result);
}

}  // namespace

void import_runtime_rotary_embedding(Node& node) {
  turn_heads(node, [](Node& self, Value x, Value table) {
    Value position = self.index_operand(1);
    if (position.rank() == 1) {  // of the first row
      position = reshaped(position, {self.index_vector({1, 1})}) + positions(dim_of(x, 2));
    }
    return gather(table, position, 0);
  });
}

// Each column of the tables goes by one of three positions: of time, of height, of width.
void import_multimodal_rotary_embedding(Node& node) {
  const auto sections = node.integers("mrope_section");
  const std::int64_t layout = node.integer("mrope_layout", 0);
  const Value positions = node.index_operand(1);
  node.check_rank(1, 3);
  if (const auto streams = positions.extent(0); streams && *streams != 3)
    node.malformed("takes positions of 3 kinds as input 1, got {}", *streams);
  const auto columns = node.operand(2).extent(1);
  if (sections.size() != 3 || std::ranges::min(sections) < 0 ||
      std::ranges::max(sections) > columns.value_or(0) ||
      sections[0] + sections[1] + sections[2] != columns) {
    node.malformed(
        "has mrope_section = {}; expected three numbers that add up to the {} columns of cos_cache",
        fmt::join(sections, ", "), columns.value_or(0));
  }
  if (layout != 0 && layout != 1) node.malformed("has mrope_layout = {}; expected 0 or 1", layout);
  Ints kinds;  // of the columns
  for (std::int64_t column = 0; column < *columns; ++column) {
    const std::int64_t kind = column % 3;
    if (layout == 0) {
      kinds.push_back(column < sections[0] ? 0 : column < sections[0] + sections[1] ? 1 : 2);
    } else {
      kinds.push_back(column < 3 * sections[static_cast<std::size_t>(kind)] ? kind : 0);
    }
  }
  turn_heads(node, [&](Node& self, Value, Value table) {
    const Value by_column = self.index_vector(kinds);
    Value angles = no_value;
    for (std::int64_t kind = 0; kind < 3; ++kind) {
      const Value its = gather(table, without_axes(slice(positions, 0, kind, kind + 1), {0}), 0);
      const Value here = equal(by_column, kind);
      angles = angles == no_value ? its : where(here, its, angles);
    }
    return angles;
  });
}

namespace {

// The buckets of distances -longest to longest, key less query. T5 (arXiv:1910.10683): half of the
// buckets of a direction hold one distance each, the others ever more by its logarithm, in f32 as
// exporters compute it; keys before a query have the first half of a two-sided table, and those
// after it have none in a one-sided one.
Ints distance_buckets(std::int64_t buckets, std::int64_t longest, bool both_sides) {
  const std::int64_t side = both_sides ? buckets / 2 : buckets, exact = side / 2;
  const float scale = std::log(static_cast<float>(longest) / static_cast<float>(exact));
  const auto bucket_of = [&](std::int64_t distance) {
    if (distance < exact) return distance;
    const float part = std::log(static_cast<float>(distance) / static_cast<float>(exact)) / scale;
    return std::min(side - 1,
                    exact + static_cast<std::int64_t>(part * static_cast<float>(side - exact)));
  };
  Ints found;
  for (std::int64_t ahead = -longest; ahead <= longest; ++ahead) {
    if (ahead <= 0) found.push_back(bucket_of(-ahead));
    else found.push_back(both_sides ? side + bucket_of(ahead) : 0);
  }
  return found;
}

}  // namespace

void import_relative_position_bias(Node& node) {
  const Value table = node.operand(0);
  node.check_rank(0, 2);
  const auto buckets = table.extent(0);
  if (!buckets) node.unsupported("has a bias_table whose rows are not known before it runs");
  const bool both_sides = node.flag("is_bidirectional", false);
  const std::int64_t longest = node.integer("max_distance"), least = both_sides ? 4 : 2;
  if (*buckets < least || (both_sides && *buckets % 2 != 0)) {
    node.malformed("has a bias_table of {} rows; expected {}at least {}", *buckets,
                   both_sides ? "an even number, " : "", least);
  }
  const std::int64_t exact = *buckets / (both_sides ? 4 : 2);
  constexpr std::int64_t most = 1 << 20;
  if (longest <= exact || longest > most) {
    node.malformed("has max_distance = {}; expected {} to {}", longest, exact + 1, most);
  }
  const auto places = [&](std::size_t operand) {
    return positions(reshaped(node.index_operand(operand), {node.index_vector({1})}));
  };
  const Value ahead = with_axes(places(2), {0}) - with_axes(places(1), {1});
  const Value within = min(max(ahead, -longest), longest);
  const Value bucket = gather(node.index_vector(distance_buckets(*buckets, longest, both_sides)),
                              within + longest, 0);
  // Its shape is (buckets, heads), but heads come one after the other in it.
  const Value by_head = reshaped(table, {dim_of(table, 1), node.index_vector({*buckets})});
  const Value bias = gather(by_head, bucket, 1);
  node.output(0, with_axes(bias, {0}));
}

}  // namespace anydim::frontends
