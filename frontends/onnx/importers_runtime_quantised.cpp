// The operators of ONNX Runtime (domain com.microsoft) from integers to integers: made real,
// computed, quantised again.
#include "frontends/onnx/importers.h"
#include "frontends/onnx/quantisation.h"
#include "frontends/onnx/window.h"

namespace anydim::frontends {

namespace {

// A tensor, its scale and its zero point, which may be left out, from operand `first` on.
Value made_real(Node& node, std::size_t first) {
  const Value scale = node.operand(first + 1);
  return cast(centred(node.operand(first), node.optional_operand(first + 2)), scale.dtype()) *
         scale;
}

// The scale is operand `at`, the zero point, of the dtype of the result, the next one.
void quantise(Node& node, Value real, std::size_t at, DType otherwise) {
  const Value zero = node.optional_operand(at + 1);
  node.output(0, quantised(node, real, node.operand(at), zero,
                           zero == no_value ? otherwise : zero.dtype()));
}

}  // namespace

void import_quantised_binary(Node& node, Op op) {
  quantise(node, node.emit(op, {made_real(node, 0), made_real(node, 3)}), 6, node.dtype());
}

void import_quantised_sigmoid(Node& node) {
  quantise(node, sigmoid(made_real(node, 0)), 3, node.dtype());
}

void import_quantised_leaky_relu(Node& node) {
  const Value x = made_real(node, 0), zero = node.scalar(x.dtype(), 0);
  const Value below = x * node.real("alpha", 0.01);
  quantise(node, where(x < zero, below, x), 3, node.dtype());
}

void import_quantised_softmax(Node& node) {
  const Value x = made_real(node, 0);
  const auto axis = static_cast<std::int64_t>(node.axis(node.integer("axis", -1), x.rank()));
  // Before opset 13 the axis and all after it were one.
  if (node.integer("opset") < 13 && axis + 1 != static_cast<std::int64_t>(x.rank()))
    node.unsupported("has axis = {} of opset {}; Anydim supports the last axis there", axis,
                     node.integer("opset"));
  quantise(node, node.emit(Op::softmax, {x}, {{"axis", axis}}), 3, node.dtype());
}

// Inputs: scale and zero point of the result, then each tensor with its own.
void import_quantised_concat(Node& node) {
  if (node.operand_count() < 5 || node.operand_count() % 3 != 2)
    node.malformed("takes a scale, a zero point and three inputs for each tensor, got {} inputs",
                   node.operand_count());
  Values parts;
  for (std::size_t at = 2; at < node.operand_count(); at += 3) parts.push_back(made_real(node, at));
  const auto axis = static_cast<std::int64_t>(node.axis(node.integer("axis"), parts[0].rank()));
  quantise(node, concat(parts, axis), 0, node.operand(2).dtype());
}

void import_quantised_where(Node& node) {
  quantise(node, where(node.operand(0), made_real(node, 1), made_real(node, 4)), 7,
           node.operand(1).dtype());
}

void import_quantised_average_pool(Node& node) {
  Value x = made_real(node, 0);
  const bool last = node.flag("channels_last", false);
  if (last) x = channels_first(node, x);
  Windows windows(node, x, Windows::kernel_attribute(node, x));
  if (node.flag("ceil_mode", false)) windows.round_up();
  Value mean = means_of_windows(node, x, windows, node.flag("count_include_pad", false));
  if (last) mean = channels_last(node, mean);
  quantise(node, mean, 3, node.dtype());
}

void import_quantised_global_average_pool(Node& node) {
  const Value x = made_real(node, 0);
  const bool last = node.flag("channels_last", false);
  Ints axes;
  for (std::size_t axis = last ? 1 : 2; axis + (last ? 1 : 0) < x.rank(); ++axis)
    axes.push_back(static_cast<std::int64_t>(axis));
  const Value mean = reduce(Op::reduce_mean, x, std::move(axes), true);
  quantise(node, mean, 3, node.dtype());
}

// Inputs: a, b, each with scale and zero point; a bias in i32, in units of both scales; scale and
// zero point of the result, without which it is real.
void import_quantised_gemm(Node& node) {
  const auto turned = [&](Value value, std::string_view name) {
    return node.flag(name, false) ? transpose(value, {1, 0}) : value;
  };
  const Value a = turned(node.operand(0), "transA"), b = turned(node.operand(3), "transB");
  const Value scale = node.operand(1) * node.operand(4);
  Value sums = integer_product(a, node.operand(2), b, node.operand(5));
  if (node.has_operand(6)) sums = sums + node.operand(6);
  Value real = cast(sums, scale.dtype()) * scale;
  if (const double alpha = node.real("alpha", 1); alpha != 1) {
    if (node.has_operand(6)) node.unsupported("has alpha = {} beside a bias", alpha);
    real = real * alpha;
  }
  if (node.has_operand(7)) quantise(node, real, 7, node.dtype());
  else node.output(0, real);
}

}  // namespace anydim::frontends
