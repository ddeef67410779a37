// Convolutions: windows of x times the weight, summed over the channels of a group and a window's
// places.
#include <algorithm>
#include <utility>

#include "frontends/onnx/activation_names.h"
#include "frontends/onnx/convolution.h"
#include "frontends/onnx/importers.h"
#include "frontends/onnx/quantisation.h"
#include "frontends/sizes.h"

namespace anydim::frontends {

using ir::Dim;

Value quotient(Node& node, Value vector, std::int64_t divisor) {
  return divisor == 1 ? vector : vector / node.index_vector({divisor});
}

std::int64_t groups_of(Node& node) {
  const std::int64_t groups = node.integer("group", 1);
  if (groups < 1) node.malformed("has group = {}; expected at least 1", groups);
  return groups;
}

Value with_bias(Node& node, Value y, Value bias, std::size_t count) {
  if (bias == no_value) return y;
  if (bias.rank() != 1) node.malformed("takes a bias of rank 1, got rank {}", bias.rank());
  const auto channels = y.extent(1), given = bias.extent(0);
  if (channels && given && *channels != *given) {
    node.malformed("takes a bias of {} elements, one for each output, got {}", *channels, *given);
  }
  return y + with_axes(bias, axes_between(1, count + 1));
}

namespace {

Value product_of(Node& node, const Sizes& sizes) {
  return node.emit(Op::reduce_prod, {vector_of(node, sizes)}, {{"keepdims", std::int64_t{1}}});
}

// `of` channels must be whole groups, and as many as the weight takes.
void check_channels(Node& node, Value x, Value weight, std::int64_t groups) {
  const auto channels = x.extent(1), outputs = weight.extent(0), taken = weight.extent(1);
  if (channels && *channels % groups != 0) {
    node.malformed("has group = {}, which does not divide the {} channels of input 0", groups,
                   *channels);
  }
  if (outputs && *outputs % groups != 0) {
    node.malformed("has group = {}, which does not divide the {} outputs of input 1 (the weight)",
                   groups, *outputs);
  }
  if (channels && taken && *channels != *taken * groups) {
    node.malformed("has an input 1 (the weight) for {} channels in {} groups; input 0 has {}",
                   *taken * groups, groups, *channels);
  }
  if (taken) node.hold_extent(x, 1, *taken * groups, "input 0");
}

// The weight [M, channels of a group, places...] as a matrix a group: [M, depth], or [groups, M /
// groups, depth].
Value weight_matrix(Node& node, Value weight, std::int64_t groups) {
  const Value flat = node.emit(Op::flatten, {weight}, {{"axis", std::int64_t{1}}});
  if (groups == 1) return flat;
  return reshaped(flat, {node.index_vector({groups}), quotient(node, dim_of(flat, 0), groups),
                         dim_of(flat, 1)});
}

// Every channel has windows of its own: a product of elements, summed over a window's places.
Value depthwise(Node& node, const Windows& windows, Value moved, Value weight) {
  const std::size_t count = windows.count();
  const Ints one_place(count - 1, 0);
  const auto channels = moved.extent(1), outputs = weight.extent(0);
  const Ints places = axes_between(1, count);
  const auto sum = [&](Value value, std::size_t from) {
    return node.emit(Op::reduce_sum, {value}, {{"axes", axes_between(from, from + count)}});
  };
  if (channels && outputs && *channels == *outputs) {
    // The weight's dim of 1 channel stands for the first place.
    const Value spread = places.empty() ? weight : with_axes(weight, places);
    return sum(moved * spread, 2 + count);
  }
  // [N, C, 1, places..., window...] times [C, outputs of a channel, 1..., window...].
  Values dims{dim_of(moved, 1), dim_of(weight, 0) / dim_of(moved, 1)};
  dims.push_back(node.index_vector(Ints(count, 1)));
  dims.push_back(vector_of(node, windows.kernel()));
  const Value product = with_axes(moved, {2}) * reshaped(weight, std::move(dims));
  const Value summed = sum(product, 3 + count);
  return reshaped(summed, {dim_of(moved, 0), dim_of(weight, 0),
                           vector_of(node, dims_between(node, moved, 2, 2 + count))});
}

}  // namespace

Value convolved(Node& node, const Windows& windows, Value moved, Value weight,
                std::int64_t groups) {
  const std::size_t count = windows.count();
  if (weight.extent(1) == 1 && (groups > 1 || weight.extent(0) == 1))
    return depthwise(node, windows, moved, weight);
  Ints order{0, 1};
  for (const std::int64_t axis : windows.window_axes()) order.push_back(axis);
  for (std::size_t i = 0; i < count; ++i) order.push_back(static_cast<std::int64_t>(i) + 2);
  const Sizes places = dims_between(node, moved, 2, 2 + count);
  const Value batch = dim_of(moved, 0);
  const Value depth = quotient(node, dim_of(moved, 1), groups) * product_of(node, windows.kernel());
  Values dims{batch};
  if (groups > 1) dims.push_back(node.index_vector({groups}));
  dims.insert(dims.end(), {depth, product_of(node, places)});
  const Value columns = reshaped(transpose(moved, std::move(order)), std::move(dims));
  const Value product = matmul(weight_matrix(node, weight, groups), columns);
  if (groups == 1 && count == 1) return product;  // of a line it has these dims
  return reshaped(product, {batch, dim_of(weight, 0), vector_of(node, places)});
}

namespace {

Value convolution(Node& node, Value x, Value weight) {
  const Windows windows(node, x, Windows::kernel_of(node, x, weight));
  const std::int64_t groups = groups_of(node);
  check_channels(node, x, weight, groups);
  // Places far apart may all lie beside a small image.
  const auto seen = ir::is_float(weight.dtype()) ? windows.seen() : std::nullopt;
  if (!seen) return convolved(node, windows, windows.over(windows.padded(x)), weight, groups);
  Ints ends = seen->first;
  for (std::size_t i = 0; i < ends.size(); ++i) ends[i] += seen->count[i];
  const Value part = node.emit(Op::strided_slice, {weight},
                               {{"starts", seen->first},
                                {"ends", std::move(ends)},
                                {"axes", axes_between(2, 2 + windows.count())}});
  const Windows some = windows.of_seen(*seen);
  return convolved(node, some, some.over(some.padded(x)), part, groups);
}

Value biased_convolution(Node& node) {
  node.check_same_dtypes();
  const Value x = node.operand(0);
  const Value y = convolution(node, x, node.operand(1));
  return with_bias(node, y, node.optional_operand(2), x.rank() - 2);
}

struct FusedActivation {
  std::string_view name;
  std::size_t parameters;
};
constexpr FusedActivation fused_activations[] = {{"Relu", 0},       {"Sigmoid", 0},   {"Tanh", 0},
                                                 {"HardSwish", 0},  {"LeakyRelu", 1}, {"Clip", 2},
                                                 {"HardSigmoid", 2}};

// What the attributes activation and activation_params say.
Value activated(Node& node, Value x) {
  const std::string name = node.string("activation", "");
  const auto parameters = node.has_attribute("activation_params") ? node.reals("activation_params")
                                                                  : std::vector<double>();
  if (name.empty()) {
    if (!parameters.empty()) node.malformed("has activation_params, but no activation");
    return x;
  }
  const auto* row = std::ranges::find(fused_activations, name, &FusedActivation::name);
  if (row == std::end(fused_activations))
    node.unsupported("has activation = {}, which Anydim does not support", quoted_name(name));
  if (parameters.size() != row->parameters)
    node.malformed("has {} numbers in activation_params; activation = '{}' takes {}",
                   parameters.size(), name, row->parameters);
  if (name == "Clip") return min(max(x, parameters[0]), parameters[1]);
  if (name == "HardSwish") return x * named_activation("HardSigmoid", x, 1.0 / 6, 0.5);
  const auto parameter = [&](std::size_t i) {
    return i < parameters.size() ? std::optional(parameters[i]) : std::nullopt;
  };
  return named_activation(name, x, parameter(0), parameter(1));
}

}  // namespace

void import_convolution(Node& node) { node.output(0, biased_convolution(node)); }

void import_fused_convolution(Node& node) {
  Value y = biased_convolution(node);
  if (node.has_operand(3)) {
    node.check_same_shape(3, "Z", y, "the result");
    y = y + node.operand(3);
  }
  node.output(0, activated(node, y));
}

// Inputs: x and the weight, then their zero points (the weight's may be one an output).
void import_integer_convolution(Node& node) {
  const Value x = centred(node.operand(0), node.optional_operand(2));
  const Value zero = node.has_operand(3)
                         ? along_axis(node, node.operand(3), node.operand(1), {.axis = 0})
                         : no_value;
  node.output(0, convolution(node, x, centred(node.operand(1), zero)));
}

namespace {

// Inputs: x, its scale and zero point; the weight likewise; scale and zero point of the result; a
// bias of scale x_scale * w_scale. `x` is input 0, with channels first.
Value quantised_convolution(Node& node, Value x) {
  x = centred(x, node.operand(2));
  const Value weight = node.operand(3);
  Value y =
      convolution(node, x, centred(weight, along_axis(node, node.operand(5), weight, {.axis = 0})));
  y = with_bias(node, y, node.optional_operand(8), x.rank() - 2);
  const Value scales = node.operand(1) * along_axis(node, node.operand(4), y, {.axis = 1});
  const Value ratio = node.operand(6) / scales;
  return quantised(node, cast(y, ratio.dtype()), ratio, node.operand(7), node.operand(7).dtype());
}

}  // namespace

void import_quantised_convolution(Node& node) {
  node.output(0, quantised_convolution(node, node.operand(0)));
}

// The weight has its channels first in either layout.
void import_runtime_quantised_convolution(Node& node) {
  const bool last = node.flag("channels_last", false);
  const Value x = node.operand(0);
  if (last)
    node.output(0, channels_last(node, quantised_convolution(node, channels_first(node, x))));
  else node.output(0, quantised_convolution(node, x));
}

namespace {

// The elements of windows whose places are moved by numbers that need not be whole: between the
// four pixels around, of which those outside of x are 0. Channels come in groups, each with offsets
// of its own: everything here is [batch, group, rows, columns, window rows, window columns].
class DeformedWindows {
 public:
  DeformedWindows(Node& node, const Windows& windows)
      : node_(node), windows_(windows), x_(node.operand(0)),
        groups_(node.integer("offset_group", 1)) {
    if (groups_ < 1) node.malformed("has offset_group = {}; expected at least 1", groups_);
    if (const auto channels = x_.extent(1); channels && *channels % groups_ != 0) {
      node.malformed("has offset_group = {}, which does not divide the {} channels of input 0",
                     groups_, *channels);
    }
    check(2, "offset", 2);
    if (node.has_operand(4)) check(4, "mask", 1);
  }

  // [batch, channel, rows, columns, window rows, window columns]
  Value elements() {
    const Value grouped =
        reshaped(x_, {dim_of(x_, 0), node_.index_vector({groups_}),
                      quotient(node_, dim_of(x_, 1), groups_), dim_of(x_, 2), dim_of(x_, 3)});
    pixels_ = turned(grouped, {0, 1, 3, 4, 2});
    const Value offsets = turned(split(2, 2), {0, 1, 5, 6, 2, 3, 4});
    const Value y = position(offsets, 0), x = position(offsets, 1);
    const Value top = floor(y), left = floor(x);
    const Value down = y - top, right = x - left;
    Value sum = no_value;
    const auto take = [&](double row, Value row_share, double column, Value column_share) {
      const Value part = pixel(top + row, left + column, row_share * column_share);
      sum = sum == no_value ? part : sum + part;
    };
    const Value up = 1 - down, back = 1 - right;
    take(0, up, 0, back);
    take(0, up, 1, right);
    take(1, down, 0, back);
    take(1, down, 1, right);
    if (node_.has_operand(4)) {
      const Value mask = turned(split(4, 1), {0, 1, 5, 6, 2, 3, 4});
      sum = sum * mask;
    }
    const Value channels = turned(sum, {0, 1, 6, 2, 3, 4, 5});
    return reshaped(channels, {dim_of(x_, 0), dim_of(x_, 1), rows_and_columns(),
                               vector_of(node_, windows_.kernel())});
  }

 private:
  Value turned(Value value, Ints perm) { return transpose(value, std::move(perm)); }
  Value rows_and_columns() { return vector_of(node_, dims_between(node_, node_.operand(2), 2, 4)); }

  // Each place of a window has `each` numbers for each place of the result.
  void check(std::size_t operand, const char* name, std::int64_t each) const {
    const Value value = node_.operand(operand);
    if (value.rank() != 4)
      node_.malformed("takes an input {} ({}) of rank 4, got rank {}", operand, name, value.rank());
    if (!windows_.kernel().known) return;
    std::int64_t wanted = groups_ * each;
    for (const std::int64_t size : *windows_.kernel().known) wanted *= size;
    if (const auto given = value.extent(1); given && *given != wanted)
      node_.malformed(
          "has offset_group = {} and kernel_shape = {}, so {} channels of "
          "input {} ({}), got {}",
          groups_, dims_text(*windows_.kernel().known), wanted, operand, name, *given);
  }

  // [batch, group, window rows, window columns, each, rows, columns]
  Value split(std::size_t operand, std::int64_t each) {
    const Value value = node_.operand(operand);
    return reshaped(value, {dim_of(value, 0), node_.index_vector({groups_}),
                            vector_of(node_, windows_.kernel()), node_.index_vector({each}),
                            vector_of(node_, dims_between(node_, value, 2, 4))});
  }

  // Along side 0 (rows) or 1, of offsets with both as their last dim.
  Value position(Value offsets, std::int64_t side) {
    const auto at = static_cast<std::size_t>(side);
    const auto steps = [&](Value extent, std::int64_t step, std::int64_t axis) {
      Ints others;
      for (std::int64_t i = 0; i < 6; ++i)
        if (i != axis) others.push_back(i);
      return with_axes(positions(extent) * step, others);
    };
    const auto element = [&](Value vector) { return slice(vector, 0, side, side + 1); };
    const Value first = steps(element(rows_and_columns()), windows_.strides()[at], 2 + side) -
                        element(vector_of(node_, windows_.before()));
    const Value whole = first + steps(element(vector_of(node_, windows_.kernel())),
                                      windows_.dilations()[at], 4 + side);
    const Value moved = without_axes(slice(offsets, 6, side, side + 1), {6});
    return cast(whole, node_.dtype()) + moved;
  }

  Value pixel(Value row, Value column, Value share) {
    Values indices;
    std::int64_t axis = 2;
    for (const Value place : {row, column}) {
      const Value last = cast(rank_0(dim_of(x_, axis++)), node_.dtype()) - 1;
      const Value within = min(max(place, 0), last);
      share = where(equal(place, within), share, 0);
      indices.push_back(with_axes(cast(within, DType::I64), {6}));
    }
    const Value found =
        node_.emit(Op::gather_nd, {pixels_, concat(indices, 6)}, {{"batch_dims", std::int64_t{2}}});
    return found * with_axes(share, {6});
  }

  Node& node_;
  const Windows& windows_;
  Value x_;
  std::int64_t groups_;
  Value pixels_ = no_value;
};

}  // namespace

// Inputs: x, the weight, offsets of each window's places, a bias, factors of them.
void import_deformable_convolution(Node& node) {
  node.check_same_dtypes();
  const Value x = node.operand(0), weight = node.operand(1);
  if (x.rank() != 4)
    node.unsupported("convolves something else than images [batch, channel, height, width]");
  const Windows windows(node, x, Windows::kernel_of(node, x, weight));
  const std::int64_t groups = groups_of(node);
  check_channels(node, x, weight, groups);
  const Value moved = DeformedWindows(node, windows).elements();
  node.output(0, with_bias(node, convolved(node, windows, moved, weight, groups),
                           node.optional_operand(3), 2));
}

}  // namespace anydim::frontends
