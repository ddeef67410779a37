// Normalisation of rows: by mean and variance, or by the root of the mean square.
#include <functional>

#include "frontends/onnx/activation_names.h"
#include "frontends/onnx/importers.h"
#include "frontends/onnx/quantisation.h"

namespace anydim::frontends {

namespace {

// The dims from `axis` on, as a tensor: the rank is known only to inference.
Value axes_from(Node& node, Value x, std::int64_t axis) {
  if (axis < 0) {
    Ints axes;
    for (std::int64_t i = axis; i < 0; ++i) axes.push_back(i);
    return node.index_vector(std::move(axes));
  }
  const Value rank = node.emit(Op::reduce_sum, {shape_of(shape_of(x))});
  const Value first = node.scalar(DType::I64, static_cast<double>(axis));
  return node.emit(Op::dyn_arange, {first, rank, node.scalar(DType::I64, 1)});
}

Value mean_over(Node& node, Value x, Value axes) {
  return node.emit(Op::dyn_reduce_mean, {x, axes},
                   {{"keepdims", std::int64_t{1}}, {"empty_keeps", std::int64_t{1}}});
}

std::int64_t first_axis(Node& node) {
  const std::int64_t axis = node.integer("axis", -1);
  if (axis < -64 || axis > 64) node.malformed("has axis = {}; no tensor has that many dims", axis);
  return axis;
}

// 1 / sqrt(mean square + epsilon)
Value inverse_root(Node& node, Value squares, double epsilon) {
  const Value deviation = sqrt(squares + epsilon);
  return node.emit(Op::reciprocal, {deviation});
}

// Mean and 1 / sqrt(variance + epsilon) over the dims from `axis` on, which ONNX offers as further
// outputs, always in f32.
void output_moments(Node& node, Value x, std::int64_t axis, double epsilon) {
  const DType dtype = computed_in(x.dtype());
  x = cast(x, dtype);
  const Value axes = axes_from(node, x, axis);
  const Value mean = mean_over(node, x, axes);
  const Value centred = x - mean;
  const Value variance = mean_over(node, centred * centred, axes);
  node.output(1, cast(mean, DType::F32));
  node.output(2, cast(inverse_root(node, variance, epsilon), DType::F32));
}

struct RootNormalised {
  Value y, inverse;
};

// x / sqrt(mean(x^2) + epsilon) * scale, the first factor computed in f32 or wider.
RootNormalised root_normalised(Node& node, Value x, Value scale, std::int64_t axis,
                               double epsilon) {
  const DType computed = computed_in(x.dtype());
  const Value wide = cast(x, computed);
  const Value inverse =
      inverse_root(node, mean_over(node, wide * wide, axes_from(node, x, axis)), epsilon);
  const Value normal = cast(wide * inverse, scale.dtype());
  return {normal * scale, inverse};
}

// ONNX Runtime's operators have this default.
double runtime_epsilon(Node& node) {
  const double epsilon = node.real("epsilon", 1e-12);
  if (!(epsilon >= 0)) node.malformed("has epsilon = {}; expected at least 0", epsilon);
  return epsilon;
}

Value sum_of(Value a, Value b) { return b == no_value ? a : a + b; }

// An operand, or what was gathered from it, as real numbers.
using Real = std::function<Value(std::size_t operand, Value value)>;

// Rows of the tables of words, positions and segments, added and normalised; and how many tokens of
// each text the mask leaves.
void embed_layer_normalization(Node& node, Value position, const Real& real) {
  const double epsilon = runtime_epsilon(node);
  const Value words = node.index_operand(0);
  if (position == no_value) position = with_axes(positions(dim_of(words, 1)), {0});
  const auto rows = [&](std::size_t table, Value indices) {
    return real(table, gather(node.operand(table), indices, 0));
  };
  Value sum = rows(2, words) + rows(3, position);
  if (node.has_operand(1) != node.has_operand(4)) {
    node.malformed("takes segment_ids and segment_embedding together, got one of them");
  }
  if (node.has_operand(1)) sum = sum + rows(4, node.index_operand(1));
  const ir::Attributes attributes{{"axis", std::int64_t{-1}}, {"epsilon", epsilon}};
  node.output(0, node.emit(Op::layer_norm,
                           {sum, real(5, node.operand(5)), real(6, node.operand(6))}, attributes));
  node.output(2, sum);
  const std::int64_t counted = node.integer("mask_index_type", 1);
  if (!node.wants_output(1)) return;
  if (counted == 0) node.malformed("has mask_index_type = 0 (none) and an output 1 (mask_index)");
  if (!node.has_operand(7)) {
    const Value batch = dim_of(words, 0);
    node.output(1, node.emit(Op::dyn_full, {node.scalar(DType::I32, 0), batch}));
    return;
  }
  const Value ones = cast(equal(node.operand(7), 1), DType::I32);
  node.output(1, node.emit(Op::reduce_sum, {ones}, {{"axes", Ints{1}}}));
}

}  // namespace

void import_layer_normalization(Node& node) {
  node.check_same_dtypes();
  const std::int64_t axis = first_axis(node);
  const double epsilon = node.real("epsilon", 1e-5);
  const std::int64_t stash_type = node.integer("stash_type", 1);
  if (stash_type != 1)
    node.unsupported("has stash_type = {}; Anydim supports only 1 (f32)", stash_type);
  node.output(
      0, node.emit(Op::layer_norm, {node.operand(0), node.operand(1), node.optional_operand(2)},
                   {{"axis", axis}, {"epsilon", epsilon}}));
  if (node.wants_output(1) || node.wants_output(2))
    output_moments(node, node.operand(0), axis, epsilon);
}

void import_rms_normalization(Node& node) {
  const std::int64_t stash_type = node.integer("stash_type", 1);
  if (stash_type != 1)
    node.unsupported("has stash_type = {}; Anydim supports only 1 (f32)", stash_type);
  const std::int64_t axis = first_axis(node);
  const RootNormalised result =
      root_normalised(node, node.operand(0), node.operand(1), axis, node.real("epsilon", 1e-5));
  node.output(0, result.y);
  node.output(1, cast(result.inverse, DType::F32));  // of SimplifiedLayerNormalization
}

// Of ONNX Runtime: groups of as many elements of a row as the scale has, times a gate, in f32.
void import_gated_rms_norm(Node& node) {
  node.check_same_dtypes();
  const std::string name = node.one_of({"silu", "swish", "sigmoid"}, "activation", "silu");
  const double epsilon = node.real("epsilon", 1e-5);
  const Value x = node.operand(0), scale = node.operand(1);
  node.check_same_shape(2, "gate", x, "input 0");
  const auto wide = [&](Value value) { return cast(value, DType::F32); };
  const Value size = dim_of(scale, 0), flat = node.index_vector({-1});
  const Value groups =
      node.same_extent(x, -1, scale, 0) ? wide(x) : reshaped(wide(x), {flat, size});
  const Value y = root_normalised(node, groups, wide(scale), -1, epsilon).y;
  const Value back = node.emit(Op::dyn_reshape, {y, shape_of(x)});
  const Value gate = wide(node.operand(2));
  const Value opened = name == "sigmoid" ? sigmoid(gate) : swish(gate);
  node.output(0, cast(back * opened, node.dtype()));
}

void import_skip_layer_normalization(Node& node) {
  node.check_same_dtypes();
  const double epsilon = runtime_epsilon(node);
  const Value sum = sum_of(sum_of(node.operand(0), node.operand(1)), node.optional_operand(4));
  const ir::Attributes attributes{{"axis", std::int64_t{-1}}, {"epsilon", epsilon}};
  node.output(
      0, node.emit(Op::layer_norm, {sum, node.operand(2), node.optional_operand(3)}, attributes));
  if (node.wants_output(1) || node.wants_output(2)) output_moments(node, sum, -1, epsilon);
  node.output(3, sum);
}

void import_skip_rms_normalization(Node& node) {
  node.check_same_dtypes();
  if (node.wants_output(1))
    node.unsupported("gives a mean, which root mean square normalisation does not have");
  const Value sum = sum_of(sum_of(node.operand(0), node.operand(1)), node.optional_operand(3));
  const RootNormalised result =
      root_normalised(node, sum, node.operand(2), -1, runtime_epsilon(node));
  node.output(0, result.y);
  node.output(2, cast(result.inverse, DType::F32));
  node.output(3, sum);
}

void import_embed_layer_normalization(Node& node) {
  const Value position = node.has_operand(8) ? node.index_operand(8) : no_value;
  embed_layer_normalization(node, position, [](std::size_t, Value value) { return value; });
}

// The tables and weights, inputs 2 to 6, are of 8-bit integers; their scales and then their zero
// points are inputs 8 to 17.
void import_quantised_embed_layer_normalization(Node& node) {
  embed_layer_normalization(node, no_value, [&](std::size_t operand, Value value) {
    check_8_bits(node, operand);
    const Value distance = centred(value, rank_0(node.operand(operand + 11)));
    return cast(distance, DType::F32) * rank_0(node.operand(operand + 6));
  });
}

}  // namespace anydim::frontends
