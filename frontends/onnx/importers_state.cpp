// Ops that carry a state from call to call: caches, linear attention, causal convolution; and
// running products.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "frontends/onnx/activation_names.h"
#include "frontends/onnx/attention.h"
#include "frontends/onnx/importers.h"
#include "frontends/onnx/linear_recurrence.h"
#include "frontends/onnx/run_time_axis.h"
#include "frontends/sizes.h"

namespace anydim::frontends {

using ir::no_value;

namespace {

using Ints = std::vector<std::int64_t>;
using Values = std::vector<ValueId>;

ValueId integer(Node& node, std::int64_t value) {
  return node.scalar(DType::I64, static_cast<double>(value));
}

// An attribute of ONNX Runtime's form: states after several last steps, not the last one alone.
void refuse_state_window(Node& node) {
  if (const std::int64_t steps = node.integer("state_window", 0); steps != 0)
    node.unsupported("has state_window = {}", steps);
}

}  // namespace

// present = past, with the update's steps from write_indices[batch] on. Each step of the result is
// picked from the update or from the past.
void import_tensor_scatter(Node& node) {
  const ValueId past = node.operand(0), update = node.operand(1);
  if (node.dtype(past) != node.dtype(update))
    node.malformed("takes inputs 0 and 1 of one element type");
  const std::size_t rank = node.rank(past);
  const auto axis = static_cast<std::int64_t>(node.axis(node.integer("axis", -2), rank));
  if (axis == 0) node.malformed("has axis = 0, which is the batch's");
  const std::string mode = node.string("mode", "linear");
  if (mode != "linear" && mode != "circular") {
    node.malformed("takes 'linear' or 'circular' as attribute 'mode', got {}", quoted_name(mode));
  }
  const ValueId capacity = node.without_axes(node.dim_of(past, axis), {0}),
                steps = node.without_axes(node.dim_of(update, axis), {0});
  const ValueId zero = integer(node, 0);
  ValueId fits = node.emit(Op::less_equal, {steps, capacity});
  const ValueId position = node.positions(node.dim_of(past, axis));  // [capacity]
  ValueId step = node.with_axes(position, {0});                      // [batch, capacity]
  if (node.has_operand(2)) {
    const ValueId first = node.index_operand(2);
    step = node.emit(Op::sub, {step, node.with_axes(first, {1})});
    if (mode == "circular") {
      step = node.emit(Op::mod, {step, capacity});
    } else {
      const ValueId last =
          node.emit(Op::less_equal, {node.emit(Op::add, {first, steps}), capacity});
      fits = node.emit(
          Op::logical_and,
          {fits, node.emit(Op::logical_and, {last, node.emit(Op::greater_equal, {first, zero})})});
    }
  }
  node.emit_many(Op::assertion, {fits, steps, capacity},
                 {{"message", fmt::format("{}: the update and its write_indices do not fit the "
                                          "cache: its steps, and the cache's:",
                                          node.description())}},
                 0);
  const ValueId fresh = node.emit(Op::logical_and, {node.emit(Op::greater_equal, {step, zero}),
                                                    node.emit(Op::less, {step, steps})});
  ValueId from = node.emit(Op::where, {fresh, step, node.emit(Op::add, {position, steps})});
  Ints other;  // dims of 1 for all but the batch and the axis
  for (std::int64_t i = 1; i < static_cast<std::int64_t>(rank); ++i)
    if (i != axis) other.push_back(i);
  if (!other.empty()) from = node.with_axes(from, other);
  const ValueId indices = node.emit(Op::dyn_broadcast_to, {from, node.emit(Op::shape_of, {past})});
  const ValueId all = node.emit(Op::concat, {update, past}, {{"axis", axis}});
  node.output(0, node.emit(Op::gather_elements, {all, indices}, {{"axis", axis}}));
}

// A depthwise convolution over the last positions, of which the state holds as many as the kernel
// reaches back.
void import_causal_conv(Node& node) {
  const std::string activation = node.string("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish") {
    node.malformed("takes 'none', 'silu' or 'swish' as attribute 'activation', got {}",
                   quoted_name(activation));
  }
  refuse_state_window(node);
  if (const std::int64_t sides = node.integer("ndim", 1); sides != 1)
    node.unsupported("has ndim = {}; Anydim supports 1", sides);
  const std::int64_t dilation = node.integer("dilation", 1);
  if (dilation < 1 || dilation > 1024)
    node.unsupported("has dilation = {}; Anydim supports 1 to 1024", dilation);
  const bool channels_last = node.flag("channels_last", false);
  // x and the state have the positions last from here on.
  const auto turned = [&](ValueId value) {
    return channels_last ? node.emit(Op::transpose, {value}, {{"perm", Ints{0, 2, 1}}}) : value;
  };
  const ValueId given = node.operand(0), weight = node.operand(1);
  if (node.rank(given) != 3 || node.rank(weight) != 3) {
    node.malformed("takes rank 3 as inputs 0 and 1, got {} and {}", node.rank(given),
                   node.rank(weight));
  }
  const ValueId x = turned(given);
  const DType dtype = node.dtype(), computed = computed_in(dtype);
  const auto taps = node.extent(weight, 2);
  if (!taps) node.unsupported("has a kernel of a length that is not known before it runs");
  if (*taps < 1 || *taps > 1024)
    node.unsupported("has a kernel of {} positions; Anydim supports from 1 to 1024", *taps);
  const std::int64_t reach = (*taps - 1) * dilation;
  ValueId state = node.optional_operand(3);
  if (state != no_value) state = turned(state);
  if (state == no_value) {
    const ValueId shape =
        node.emit(Op::concat, {node.dim_of(x, 0), node.dim_of(x, 1), node.index_vector({reach})},
                  {{"axis", std::int64_t{0}}});
    state = node.emit(Op::dyn_full, {node.scalar(dtype, 0), shape});
  } else if (const auto held = node.extent(state, 2); held && *held != reach) {
    node.malformed("takes a past_state of {} positions, got {}", reach, *held);
  }
  const ValueId all = node.emit(Op::concat, {state, x}, {{"axis", std::int64_t{2}}});
  const ValueId wide = node.cast(all, computed),
                kernel = node.without_axes(node.cast(weight, computed), {1});
  ValueId sum =
      node.has_operand(2) ? node.with_axes(node.cast(node.operand(2), computed), {1}) : no_value;
  for (std::int64_t i = 0; i < *taps; ++i) {
    const std::int64_t end =
        i + 1 == *taps ? std::numeric_limits<std::int64_t>::max() : (i + 1 - *taps) * dilation;
    const ValueId term = node.emit(
        Op::mul, {node.slice(wide, 2, i * dilation, end), node.slice(kernel, 1, i, i + 1)});
    sum = sum == no_value ? term : node.emit(Op::add, {sum, term});
  }
  node.output(0, turned(node.cast(activation == "none" ? sum : swish(node, sum), dtype)));
  const std::int64_t first = reach == 0 ? std::numeric_limits<std::int64_t>::max() : -reach;
  node.output(1, turned(node.slice(all, 2, first, std::numeric_limits<std::int64_t>::max())));
}

// A loop over steps that decays, corrects, writes and reads a state [batch, heads, key size, value
// size], in f32 or wider.
void import_linear_attention(Node& node) {
  const std::int64_t query_heads = node.integer("q_num_heads"),
                     heads = node.integer("kv_num_heads");
  // ONNX Runtime's may also have more heads of keys and values, each group of which reads one
  // query.
  const bool read_again = query_heads > 0 && heads > query_heads && node.opset() == 1;
  if (heads < 1 || query_heads < 1 ||
      (read_again ? heads % query_heads : query_heads % heads) != 0) {
    node.malformed("has kv_num_heads = {}, which does not divide q_num_heads = {}", heads,
                   query_heads);
  }
  refuse_state_window(node);
  node.integer("chunk_size", 64);  // how a device may compute it
  const std::string rule = node.string("update_rule", "gated_delta");
  const bool gated = rule == "gated" || rule == "gated_delta",
             corrected = rule == "delta" || rule == "gated_delta";
  if (!gated && !corrected && rule != "linear")
    node.malformed("has the update_rule {}", quoted_name(rule));
  if (node.has_operand(4) != gated)
    node.malformed("{} a decay (input 4) with update_rule = '{}'", gated ? "lacks" : "has", rule);
  if (node.has_operand(5) != corrected) {
    node.malformed("{} a beta (input 5) with update_rule = '{}'", corrected ? "lacks" : "has",
                   rule);
  }
  for (const std::size_t i : {0u, 1u, 2u}) {
    if (node.rank(node.operand(i)) != 3)
      node.malformed("takes rank 3 as input {}, got {}", i, node.rank(node.operand(i)));
  }
  const DType dtype = node.dtype(), computed = computed_in(dtype);
  const auto split = [&](std::size_t operand, std::int64_t count, std::string_view attribute) {
    return split_heads(node, node.cast(node.operand(operand), computed), count, attribute);
  };
  const ValueId own = split(0, query_heads, "q_num_heads"),
                q = read_again ? repeat_heads(node, own, heads / query_heads) : own,
                k = split(1, heads, "kv_num_heads"), v = split(2, heads, "kv_num_heads");
  const auto key_size = node.extent(q, 3), value_size = node.extent(v, 3);
  if (!key_size || !value_size)
    node.unsupported("has heads of a size that is not known before it runs");
  const double given = node.real("scale", 0);
  const double scale = given != 0 ? given : 1 / std::sqrt(static_cast<double>(*key_size));
  // [batch, heads, steps, 1] where the last dim has a number a head, else with a number an element.
  const auto per_head = [&](std::size_t operand, bool elements) {
    const auto width = node.extent(node.operand(operand), -1);
    if (!width)
      node.unsupported("has an input {} of a width that is not known before it runs", operand);
    const std::int64_t count = *width == 1 ? 1 : heads;
    if (*width != count && !(elements && *width == heads * *key_size)) {
      node.malformed("takes {} numbers a step as input {}, got {}", heads, operand, *width);
    }
    return split(operand, count, "kv_num_heads");
  };
  const ValueId decay = gated ? node.emit(Op::exp, {per_head(4, true)}) : no_value;
  const ValueId beta = corrected ? per_head(5, false) : no_value;
  ValueId state = no_value;
  if (node.has_operand(3)) {
    state = node.cast(node.operand(3), computed);
  } else {
    const ValueId shape = node.emit(
        Op::concat, {node.dim_of(q, 0), node.index_vector({heads, *key_size, *value_size})},
        {{"axis", std::int64_t{0}}});
    state = node.emit(Op::dyn_full, {node.scalar(computed, 0), shape});
  }
  const LinearRecurrenceResult result =
      emit_linear_recurrence(node, {.q = q,
                                    .k = k,
                                    .v = v,
                                    .decay = decay,
                                    .beta = beta,
                                    .state = state,
                                    .scale = scale,
                                    .queries = read_again ? 1 : query_heads / heads});
  node.output(0, node.cast(merge_heads(node, result.y), dtype));
  node.output(1,
              node.cast(result.state, node.has_operand(3) ? node.dtype(node.operand(3)) : dtype));
}

// A loop along the axis, which stands between the dims before it and those after it.
void import_cumulative_product(Node& node) {
  const bool exclusive = node.flag("exclusive", false), reverse = node.flag("reverse", false);
  const ValueId x = node.operand(0), shape = node.emit(Op::shape_of, {x});
  const RunTimeAxis axis = run_time_axis(node, node.index_operand(1), shape);
  const ValueId middle = node.reshaped(x, {axis.before, axis.count, axis.after});
  const ValueId steps = node.without_axes(axis.count, {0});
  const DType dtype = node.dtype();
  const ValueId start_shape =
      node.emit(Op::concat, {axis.before, axis.after}, {{"axis", std::int64_t{0}}});
  const ValueId start = node.emit(Op::dyn_full, {node.scalar(dtype, 1), start_shape});
  Node::Loop loop(node, steps, no_value, {start});
  const ValueId before = loop.carried()[0];
  const ValueId step = reverse ? loop.round_from_end() : loop.round();
  const ValueId after = node.emit(
      Op::mul, {before, node.emit(Op::gather, {middle, step}, {{"axis", std::int64_t{1}}})});
  const ValueId out = exclusive ? before : after;
  const Values results = loop.close({loop.goes_on(), after, out});
  ValueId all = results[1];
  if (reverse) {
    all = node.emit(Op::strided_slice, {all},
                    {{"starts", Ints{-1}},
                     {"ends", Ints{std::numeric_limits<std::int64_t>::min()}},
                     {"axes", Ints{0}},
                     {"steps", Ints{-1}}});
  }
  const ValueId ordered = node.emit(Op::transpose, {all}, {{"perm", Ints{1, 0, 2}}});
  node.output(0, node.emit(Op::dyn_reshape, {ordered, shape}));
}

}  // namespace anydim::frontends
