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

namespace {

Value integer(Node& node, std::int64_t value) {
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
  const Value past = node.operand(0), update = node.operand(1);
  if (past.dtype() != update.dtype()) node.malformed("takes inputs 0 and 1 of one element type");
  const std::size_t rank = past.rank();
  const auto axis = static_cast<std::int64_t>(node.axis(node.integer("axis", -2), rank));
  if (axis == 0) node.malformed("has axis = 0, which is the batch's");
  const std::string mode = node.one_of({"linear", "circular"}, "mode", "linear");
  const Value capacity = without_axes(dim_of(past, axis), {0}),
              steps = without_axes(dim_of(update, axis), {0});
  const Value zero = integer(node, 0);
  Value fits = steps <= capacity;
  const Value position = positions(dim_of(past, axis));  // [capacity]
  Value step = with_axes(position, {0});                 // [batch, capacity]
  if (node.has_operand(2)) {
    const Value first = node.index_operand(2);
    step = step - with_axes(first, {1});
    if (mode == "circular") {
      step = step % capacity;
    } else {
      const Value last = first + steps <= capacity;
      fits = fits & (last & (first >= zero));
    }
  }
  node.emit_many(Op::assertion, {fits, steps, capacity},
                 {{"message", fmt::format("{}: the update and its write_indices do not fit the "
                                          "cache: its steps, and the cache's:",
                                          node.description())}},
                 0);
  const Value fresh = (step >= zero) & (step < steps);
  Value from = where(fresh, step, position + steps);
  Ints other;  // dims of 1 for all but the batch and the axis
  for (std::int64_t i = 1; i < static_cast<std::int64_t>(rank); ++i)
    if (i != axis) other.push_back(i);
  if (!other.empty()) from = with_axes(from, other);
  const Value indices = node.emit(Op::dyn_broadcast_to, {from, shape_of(past)});
  const Value all = concat({update, past}, axis);
  node.output(0, node.emit(Op::gather_elements, {all, indices}, {{"axis", axis}}));
}

// A depthwise convolution over the last positions, of which the state holds as many as the kernel
// reaches back.
void import_causal_conv(Node& node) {
  const std::string activation = node.one_of({"none", "silu", "swish"}, "activation", "none");
  refuse_state_window(node);
  if (const std::int64_t sides = node.integer("ndim", 1); sides != 1)
    node.unsupported("has ndim = {}; Anydim supports 1", sides);
  const std::int64_t dilation = node.integer("dilation", 1);
  if (dilation < 1 || dilation > 1024)
    node.unsupported("has dilation = {}; Anydim supports 1 to 1024", dilation);
  const bool channels_last = node.flag("channels_last", false);
  // x and the state have the positions last from here on.
  const auto turned = [&](Value value) {
    return channels_last ? transpose(value, {0, 2, 1}) : value;
  };
  const Value given = node.operand(0), weight = node.operand(1);
  if (given.rank() != 3 || weight.rank() != 3) {
    node.malformed("takes rank 3 as inputs 0 and 1, got {} and {}", given.rank(), weight.rank());
  }
  const Value x = turned(given);
  const DType dtype = node.dtype(), computed = computed_in(dtype);
  const auto taps = weight.extent(2);
  if (!taps) node.unsupported("has a kernel of a length that is not known before it runs");
  if (*taps < 1 || *taps > 1024)
    node.unsupported("has a kernel of {} positions; Anydim supports from 1 to 1024", *taps);
  const std::int64_t reach = (*taps - 1) * dilation;
  Value state = node.optional_operand(3);
  if (state != no_value) state = turned(state);
  if (state == no_value) {
    const Value shape = concat({dim_of(x, 0), dim_of(x, 1), node.index_vector({reach})}, 0);
    state = node.emit(Op::dyn_full, {node.scalar(dtype, 0), shape});
  } else if (const auto held = state.extent(2); held && *held != reach) {
    node.malformed("takes a past_state of {} positions, got {}", reach, *held);
  }
  const Value all = concat({state, x}, 2);
  const Value wide = cast(all, computed), kernel = without_axes(cast(weight, computed), {1});
  Value sum = node.has_operand(2) ? with_axes(cast(node.operand(2), computed), {1}) : no_value;
  for (std::int64_t i = 0; i < *taps; ++i) {
    const std::int64_t end =
        i + 1 == *taps ? std::numeric_limits<std::int64_t>::max() : (i + 1 - *taps) * dilation;
    const Value term = slice(wide, 2, i * dilation, end) * slice(kernel, 1, i, i + 1);
    sum = sum == no_value ? term : sum + term;
  }
  node.output(0, turned(cast(activation == "none" ? sum : swish(sum), dtype)));
  const std::int64_t first = reach == 0 ? std::numeric_limits<std::int64_t>::max() : -reach;
  node.output(1, turned(slice(all, 2, first, std::numeric_limits<std::int64_t>::max())));
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
  for (const std::size_t i : {0, 1, 2}) node.check_rank(i, 3);
  const DType dtype = node.dtype(), computed = computed_in(dtype);
  const auto split = [&](std::size_t operand, std::int64_t count, std::string_view attribute) {
    return split_heads(node, cast(node.operand(operand), computed), count, attribute);
  };
  const Value own = split(0, query_heads, "q_num_heads"),
              q = read_again ? repeat_heads(node, own, heads / query_heads) : own,
              k = split(1, heads, "kv_num_heads"), v = split(2, heads, "kv_num_heads");
  const auto key_size = q.extent(3), value_size = v.extent(3);
  if (!key_size || !value_size)
    node.unsupported("has heads of a size that is not known before it runs");
  const double given = node.real("scale", 0);
  const double scale = given != 0 ? given : 1 / std::sqrt(static_cast<double>(*key_size));
  // [batch, heads, steps, 1] where the last dim has a number a head, else with a number an element.
  const auto per_head = [&](std::size_t operand, bool elements) {
    const auto width = node.operand(operand).extent(-1);
    if (!width)
      node.unsupported("has an input {} of a width that is not known before it runs", operand);
    const std::int64_t count = *width == 1 ? 1 : heads;
    if (*width != count && !(elements && *width == heads * *key_size)) {
      node.malformed("takes {} numbers a step as input {}, got {}", heads, operand, *width);
    }
    return split(operand, count, "kv_num_heads");
  };
  const Value decay = gated ? exp(per_head(4, true)) : no_value;
  const Value beta = corrected ? per_head(5, false) : no_value;
  Value state = no_value;
  if (node.has_operand(3)) {
    state = cast(node.operand(3), computed);
  } else {
    const Value shape =
        concat({dim_of(q, 0), node.index_vector({heads, *key_size, *value_size})}, 0);
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
  node.output(0, cast(merge_heads(node, result.y), dtype));
  node.output(1, cast(result.state, node.has_operand(3) ? node.operand(3).dtype() : dtype));
}

// A loop along the axis, which stands between the dims before it and those after it.
void import_cumulative_product(Node& node) {
  const bool exclusive = node.flag("exclusive", false), reverse = node.flag("reverse", false);
  const Value x = node.operand(0), shape = shape_of(x);
  const RunTimeAxis axis = run_time_axis(node, node.index_operand(1), shape);
  const Value middle = reshaped(x, {axis.before, axis.count, axis.after});
  const Value steps = without_axes(axis.count, {0});
  const DType dtype = node.dtype();
  const Value start_shape = concat({axis.before, axis.after}, 0);
  const Value start = node.emit(Op::dyn_full, {node.scalar(dtype, 1), start_shape});
  Node::Loop loop(node, steps, no_value, {start});
  const Value before = loop.carried()[0];
  const Value step = reverse ? loop.round_from_end() : loop.round();
  const Value after = before * gather(middle, step, 1);
  const Value out = exclusive ? before : after;
  const Values results = loop.close({loop.goes_on(), after, out});
  Value all = results[1];
  if (reverse) {
    all = node.emit(Op::strided_slice, {all},
                    {{"starts", Ints{-1}},
                     {"ends", Ints{std::numeric_limits<std::int64_t>::min()}},
                     {"axes", Ints{0}},
                     {"steps", Ints{-1}}});
  }
  const Value ordered = transpose(all, {1, 0, 2});
  node.output(0, node.emit(Op::dyn_reshape, {ordered, shape}));
}

}  // namespace anydim::frontends
