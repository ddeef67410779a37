// Normalisations of models that see images and sound: x is [N, C, d...].
#include <limits>

#include "frontends/onnx/importers.h"

namespace anydim::frontends {

namespace {

// A parameter a channel, in dims that broadcast to x's.
Value along_channels(Value parameter, std::size_t rank) {
  Ints after;
  for (std::size_t i = 2; i < rank; ++i) after.push_back(static_cast<std::int64_t>(i) - 1);
  return after.empty() ? parameter : with_axes(parameter, std::move(after));
}

Ints axes_from(std::int64_t first, std::size_t rank) {
  Ints axes;
  for (std::int64_t i = first; i < static_cast<std::int64_t>(rank); ++i) axes.push_back(i);
  return axes;
}

Value mean(Value x, const Ints& axes) { return reduce(Op::reduce_mean, x, axes, true); }

// (x - mean) / sqrt(variance + epsilon)
Value normalised(Value x, Value middle, Value variance, double epsilon) {
  const Value deviation = sqrt(variance + epsilon);
  return (x - middle) / deviation;
}

Value normalised_over(Value x, const Ints& axes, double epsilon) {
  const Value middle = mean(x, axes);
  const Value centred = x - middle;
  return normalised(x, middle, mean(centred * centred, axes), epsilon);
}

// Input 1 has one element for each channel of input 0.
void hold_channels(Node& node, Value x) {
  if (const auto channels = node.operand(1).extent(0); channels && x.rank() > 1)
    node.hold_extent(x, 1, *channels, "input 0");
}

}  // namespace

// With training_mode = 1 the batch's own mean and variance, and running ones as further outputs.
void import_batch_normalization(Node& node) {
  const double epsilon = node.real("epsilon", 1e-5), momentum = node.real("momentum", 0.9);
  const bool trains = node.opset() >= 14 && node.flag("training_mode", false);
  if (node.opset() < 9) node.integer("spatial", 1);
  const Value x = node.operand(0);
  const std::size_t rank = x.rank();
  hold_channels(node, x);
  const auto channel = [&](std::size_t operand) {
    return along_channels(cast(node.operand(operand), node.dtype()), rank);
  };
  if (!trains) {
    if (node.wants_output(1))
      node.unsupported("asks for running statistics without training_mode = 1");
    node.output(0, normalised(x, channel(3), channel(4), epsilon) * channel(1) + channel(2));
    return;
  }
  Ints axes = axes_from(2, rank);
  axes.insert(axes.begin(), 0);
  const Value middle = mean(x, axes);
  const Value centred = x - middle;
  const Value variance = mean(centred * centred, axes);
  node.output(0, normalised(x, middle, variance, epsilon) * channel(1) + channel(2));
  const auto running = [&](std::size_t operand, Value now) {
    const DType dtype = node.operand(operand).dtype();
    const Value old = node.operand(operand) * momentum;
    const Value fresh = cast(without_axes(now, axes), dtype);
    return old + fresh * (1 - momentum);
  };
  node.output(1, running(3, middle));
  node.output(2, running(4, variance));
}

void import_instance_normalization(Node& node) {
  node.check_same_dtypes();
  const double epsilon = node.real("epsilon", 1e-5);
  const Value x = node.operand(0);
  const std::size_t rank = x.rank();
  hold_channels(node, x);
  const Value normal = normalised_over(x, axes_from(2, rank), epsilon);
  node.output(
      0, normal * along_channels(node.operand(1), rank) + along_channels(node.operand(2), rank));
}

namespace {

void check_groups(Node& node, std::string_view name, std::int64_t groups,
                  std::optional<std::int64_t> channels) {
  if (groups < 1) node.malformed("has {} = {}; expected at least 1", name, groups);
  if (channels && *channels % groups != 0) {
    node.malformed("has {} = {}, which does not divide the {} channels of input 0", name, groups,
                   *channels);
  }
}

// Channels in groups: x as [N, groups, everything else of a group].
Value normalised_groups(Node& node, Value x, std::int64_t groups, double epsilon) {
  const Value grouped =
      reshaped(x, {dim_of(x, 0), node.index_vector({groups}), node.index_vector({-1})});
  return normalised_over(grouped, {2}, epsilon);
}

Value with_dims_of(Node& node, Value value, Value x) {
  return node.emit(Op::dyn_reshape, {value, shape_of(x)});
}

}  // namespace

void import_group_normalization(Node& node) {
  node.check_same_dtypes();
  const double epsilon = node.real("epsilon", 1e-5);
  const std::int64_t groups = node.integer("num_groups");
  if (node.opset() >= 21) node.integer("stash_type", 1);
  const Value x = node.operand(0);
  const std::size_t rank = x.rank();
  const auto own = x.extent(1);
  check_groups(node, "num_groups", groups,
               own || node.opset() < 21 ? own : node.operand(1).extent(0));
  const Value normal = normalised_groups(node, x, groups, epsilon);
  if (node.opset() >= 21) {
    const Value back = with_dims_of(node, normal, x);
    node.output(
        0, back * along_channels(node.operand(1), rank) + along_channels(node.operand(2), rank));
    return;
  }
  // Before opset 21 scale and bias are one a group.
  const Value moved = normal * with_axes(node.operand(1), {1}) + with_axes(node.operand(2), {1});
  node.output(0, with_dims_of(node, moved, x));
}

namespace {

// Of com.microsoft: images with channels last (or first), scale and bias one a channel in f32, and
// swish behind.
void output_group_norm(Node& node, Value x) {
  const double epsilon = node.real("epsilon", 1e-5);
  const std::int64_t groups = node.integer("groups");
  const std::int64_t activation = node.integer("activation");
  const bool last = node.flag("channels_last", true);
  if (activation != 0 && activation != 1) {
    node.malformed("takes 0 (none) or 1 (swish) as attribute 'activation', got {}", activation);
  }
  constexpr std::size_t rank = 4;
  if (x.rank() != rank) node.malformed("takes images as input 0, got rank {}", x.rank());
  check_groups(node, "groups", groups, x.extent(last ? -1 : 1));
  const auto turned = [&](Value value, Ints order) {
    return last ? transpose(value, std::move(order)) : value;
  };
  const Value image = turned(x, {0, 3, 1, 2});
  const auto by_channel = [&](std::size_t operand) {
    return along_channels(cast(node.operand(operand), x.dtype()), rank);
  };
  const Value normal = with_dims_of(node, normalised_groups(node, image, groups, epsilon), image);
  Value y = normal * by_channel(1) + by_channel(2);
  if (activation == 1) y = y * sigmoid(y);
  node.output(0, turned(y, {0, 2, 3, 1}));
}

}  // namespace

void import_group_norm(Node& node) { output_group_norm(node, node.operand(0)); }

void import_skip_group_norm(Node& node) {
  const bool last = node.flag("channels_last", true);
  const Value x = node.operand(0);
  // What is added may be one for all places: [N, C].
  Value skip = node.operand(3);
  if (skip.rank() == 2) skip = last ? with_axes(skip, {1, 2}) : with_axes(skip, {2, 3});
  Value sum = x + skip;
  if (node.has_operand(4)) {
    const Value bias = node.operand(4);
    sum = sum + (last ? bias : along_channels(bias, x.rank()));
  }
  output_group_norm(node, sum);
  node.output(1, sum);
}

void import_lp_normalization(Node& node) {
  const std::int64_t p = node.integer("p", 2);
  if (p != 1 && p != 2) node.malformed("takes 1 or 2 as attribute 'p', got {}", p);
  const Ints axes{node.integer("axis", -1)};
  const Value x = node.operand(0);
  const Value size = p == 1 ? abs(x) : x * x;
  const Value sum = reduce(Op::reduce_sum, size, axes, true);
  const Value norm = p == 1 ? sum : sqrt(sum);
  // What has no length stays 0.
  const Value none = node.scalar(node.dtype(), 0);
  node.output(0, where(equal(norm, none), none, x / norm));
}

// (x - E[x]) / (sqrt(E[x^2] - E[x]^2) + 1e-9)
void import_mean_variance_normalization(Node& node) {
  const Ints axes = node.optional_integers("axes").value_or(Ints{0, 2, 3});
  const Value x = node.operand(0);
  const Value middle = mean(x, axes);
  const Value squares = mean(x * x, axes);
  const Value deviation = sqrt(squares - middle * middle);
  node.output(0, (x - middle) / (deviation + 1e-9));
}

// x / (bias + alpha / size * sum of squares over the neighbouring channels)^beta
void import_local_response_normalization(Node& node) {
  const double alpha = node.real("alpha", 1e-4), beta = node.real("beta", 0.75),
               bias = node.real("bias", 1);
  const std::int64_t size = node.integer("size");
  if (size < 1 || size > 1024)
    node.unsupported("has size = {}; Anydim supports from 1 to 1024", size);
  const Value x = node.operand(0);
  const DType dtype = node.dtype();
  const auto one = [](std::int64_t value) { return Ints{value}; };
  const Value padded =
      node.emit(Op::pad, {x * x, node.scalar(dtype, 0)},
                {{"before", one((size - 1) / 2)}, {"after", one(size / 2)}, {"axes", one(1)}});
  Value sum = no_value;
  for (std::int64_t i = 0; i < size; ++i) {
    const std::int64_t end =
        i + 1 == size ? std::numeric_limits<std::int64_t>::max() : i + 1 - size;
    const Value shifted = node.emit(Op::strided_slice, {padded},
                                    {{"starts", one(i)}, {"ends", one(end)}, {"axes", one(1)}});
    sum = sum == no_value ? shifted : sum + shifted;
  }
  const Value share = sum * (alpha / static_cast<double>(size));
  node.output(0, x / pow(share + bias, beta));
}

}  // namespace anydim::frontends
