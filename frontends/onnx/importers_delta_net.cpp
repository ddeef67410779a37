// Gated delta networks as ONNX Runtime (domain com.microsoft) has them.
#include <cmath>

#include "frontends/onnx/activation_names.h"
#include "frontends/onnx/attention.h"
#include "frontends/onnx/importers.h"
#include "frontends/onnx/linear_recurrence.h"
#include "frontends/onnx/window.h"
#include "frontends/sizes.h"

namespace anydim::frontends {

namespace {

// x over its length along the last dim; `least` is added to the square of that.
Value of_unit_length(Value x, double least) {
  const Value square = reduce(Op::reduce_sum, x * x, {-1}, true);
  return x / sqrt(square + least);
}

class GatedDeltaNet {
 public:
  explicit GatedDeltaNet(Node& node) : node_(node), computed_(computed_in(node.dtype())) {
    const std::string rule = node.string("update_rule", "gated_delta");
    gated_ = rule == "gated" || rule == "gated_delta";
    corrected_ = rule == "delta" || rule == "gated_delta";
    if (!gated_ && !corrected_ && rule != "linear")
      node.malformed("has the update_rule {}", quoted_name(rule));
    if (gated_ && !node.has_operand(4))
      node.malformed("lacks a decay (input 4) with update_rule = {}", quoted_name(rule));
    if (corrected_ && !node.has_operand(5))
      node.malformed("lacks a beta (input 5) with update_rule = {}", quoted_name(rule));
    if (node.has_operand(3)) node.unsupported("has sequences of several lengths (cu_seqlens)");
    if (const std::int64_t steps = node.integer("state_update_capacity", 0); steps != 0)
      node.unsupported("has state_update_capacity = {}", steps);
    node.integer("chunk_size", 64);  // how a device may compute it
    packed_ = !node.has_operand(1);
    if (packed_ != !node.has_operand(2))
      node.malformed("takes a key and a value (inputs 1 and 2) together, got one of them");
    const std::size_t rank = node.operand(0).rank(), flat = packed_ ? 2 : 3;
    if (rank != flat && rank != flat + 1) {
      node.malformed("takes rank {} or {} as input 0{}, got {}", flat, flat + 1,
                     packed_ ? " without a key and a value" : "", rank);
    }
    batch_apart_ = rank == flat + 1;
    if (!node.has_operand(6) && (packed_ || !batch_apart_))
      node.malformed("lacks an initial_state (input 6), which tells what its other inputs do not");
  }

  void emit() {
    LinearRecurrence parts;
    read_heads(parts);
    if (node_.flag("qk_l2_norm", false)) {
      constexpr double least = 1e-12;
      parts.q = of_unit_length(parts.q, least);
      parts.k = of_unit_length(parts.k, least);
    }
    const std::int64_t shared = extent(parts.q, 1, "heads"), heads = extent(parts.v, 1, "heads"),
                       key_size = extent(parts.q, 3, "elements of a key"),
                       value_size = extent(parts.v, 3, "elements of a value");
    if (shared < 1 || heads % shared != 0) {
      node_.malformed("has {} heads of queries, which do not divide the {} of values", shared,
                      heads);
    }
    parts.q = repeat_heads(node_, parts.q, heads / shared);
    parts.k = repeat_heads(node_, parts.k, heads / shared);
    if (gated_) parts.decay = exp(log_decay(heads, key_size));
    if (corrected_) {
      parts.beta = by_head(operand(5), false);
      const std::string name = node_.string("beta_activation", "none");
      if (name != "none" && name != "sigmoid")
        node_.malformed("has the beta_activation {}", quoted_name(name));
      if (name == "sigmoid") parts.beta = sigmoid(parts.beta);
    }
    node_.ignore_attribute("beta_activation");
    const double scale = node_.real("scale", 0);
    parts.scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(key_size));
    const auto turned = [&](Value state) { return transpose(state, {0, 1, 3, 2}); };
    if (node_.has_operand(6)) {
      parts.state = turned(operand(6));
    } else {
      const Value dims = concat({batch(), node_.index_vector({heads, key_size, value_size})}, 0);
      parts.state = node_.emit(Op::dyn_full, {node_.scalar(computed_, 0), dims});
    }
    const LinearRecurrenceResult result = emit_linear_recurrence(node_, parts);
    Value y = swap_heads_and_rows(result.y);
    if (!batch_apart_) {
      y = reshaped(y, {dim_of(node_.operand(0), 0), node_.index_vector({heads, value_size})});
    }
    node_.output(0, cast(y, node_.dtype()));
    node_.output(1, cast(turned(result.state), DType::F32));
  }

 private:
  Value operand(std::size_t i) const { return cast(node_.operand(i), computed_); }
  Value batch() { return dim_of(node_.operand(batch_apart_ ? 0 : 6), 0); }

  std::int64_t extent(Value value, std::int64_t axis, std::string_view what) const {
    const auto known = value.extent(axis);
    if (!known) node_.unsupported("has a number of {} that is not known before it runs", what);
    return *known;
  }

  // Tokens of all texts in a line, as texts of one length: [batch, steps, ...].
  Value with_batch(Value value) {
    if (batch_apart_) return value;
    const auto others = dims_between(node_, value, 1, value.rank());
    return reshaped(value, {batch(), node_.index_vector({-1}), vector_of(node_, others)});
  }

  // [batch, heads, steps, size] of [batch, steps, heads, size], or of one number a head.
  Value by_head(Value value, bool may_have_elements) {
    value = with_batch(value);
    const std::size_t rank = value.rank();
    if (rank != 3 && !(may_have_elements && rank == 4))
      node_.malformed("takes one number a head in each step; got rank {}", rank);
    if (rank == 3) value = with_axes(value, {3});
    return swap_heads_and_rows(value);
  }

  void read_heads(LinearRecurrence& parts) {
    if (!packed_) {
      for (const std::size_t i : {0U, 1U, 2U}) {
        if (node_.operand(i).rank() != node_.operand(0).rank())
          node_.malformed("takes inputs 0, 1 and 2 of one rank");
        (i == 0 ? parts.q : i == 1 ? parts.k : parts.v) = by_head(operand(i), true);
      }
      return;
    }
    const Value all = with_batch(operand(0)), state = node_.operand(6);
    const std::int64_t width = extent(all, 2, "elements of a token"),
                       heads = extent(state, 1, "heads"),
                       value_size = extent(state, 2, "elements of a value"),
                       key_size = extent(state, 3, "elements of a key");
    const std::int64_t both = width - heads * value_size;
    if (both <= 0 || key_size < 1 || both % (2 * key_size) != 0) {
      node_.malformed(
          "has {} elements a token in input 0, not those of queries and keys of {} elements and "
          "of {} values of {}",
          width, key_size, heads, value_size);
    }
    const auto part = [&](std::int64_t first, std::int64_t last, std::int64_t count) {
      return split_heads(node_, slice(all, 2, first, last), count, "heads");
    };
    parts.q = part(0, both / 2, both / 2 / key_size);
    parts.k = part(both / 2, both, both / 2 / key_size);
    parts.v = part(both, width, heads);
  }

  // A number a head, or one an element of its key, in dims that broadcast to [batch, heads, steps,
  // size].
  Value along_heads(std::size_t i, std::int64_t heads, std::int64_t key_size) {
    const Value value = operand(i);
    if (value.rank() == 1 && value.extent(0) == heads) return with_axes(value, {1, 2});
    return reshaped(value, {node_.index_vector({heads, 1, key_size})});
  }

  Value log_decay(std::int64_t heads, std::int64_t key_size) {
    Value decay = by_head(operand(4), true);
    const std::string name = node_.string("gate_activation", "none");
    const bool bounded = name == "sigmoid" || name == "kda";
    const double bound = node_.real("gate_lower_bound", -5);
    if (name == "none") return decay;
    if (!bounded && name != "softplus" && name != "qwen")
      node_.malformed("has the gate_activation {}", quoted_name(name));
    const Value rate = exp(along_heads(7, heads, key_size));
    if (node_.has_operand(8)) decay = decay + along_heads(8, heads, key_size);
    if (!bounded) return -(rate * softplus(decay));
    const Value gate = sigmoid(rate * decay);
    return gate * bound;
  }

  Node& node_;
  DType computed_;
  bool gated_ = false, corrected_ = false, packed_ = false, batch_apart_ = false;
};

}  // namespace

void import_gated_delta_net(Node& node) {
  GatedDeltaNet(node).emit();
  for (const auto* name : {"gate_activation", "gate_lower_bound"}) node.ignore_attribute(name);
}

// The decay of such a network, and how much of what it holds it replaces. Inputs: the decay's
// projection, a bias and a factor a head, the other's projection.
void import_linear_attention_gate(Node& node) {
  const auto wide = [&](std::size_t i) { return cast(node.operand(i), DType::F32); };
  const Value moved = wide(0) + wide(1);
  node.output(0, cast(wide(2) * softplus(moved), node.dtype()));
  if (node.wants_output(1)) node.output(1, cast(sigmoid(wide(3)), node.dtype()));
}

}  // namespace anydim::frontends
