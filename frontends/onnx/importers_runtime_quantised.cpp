// The operators of ONNX Runtime (domain com.microsoft) from integers to integers: made real,
// computed, quantised again.
#include "frontends/onnx/importers.h"
#include "frontends/onnx/quantisation.h"
#include "frontends/onnx/window.h"

namespace anydim::frontends {

using ir::no_value;

namespace {

// A tensor, its scale and its zero point, which may be left out, from operand `first` on.
ValueId made_real(Node& node, std::size_t first) {
  const ValueId scale = node.operand(first + 1);
  return node.emit(Op::mul,
                   {node.cast(centred(node, node.operand(first), node.optional_operand(first + 2)),
                              node.dtype(scale)),
                    scale});
}

// The scale is operand `at`, the zero point, of the dtype of the result, the next one.
void quantise(Node& node, ValueId real, std::size_t at, DType otherwise) {
  const ValueId zero = node.optional_operand(at + 1);
  node.output(0, quantised(node, real, node.operand(at), zero,
                           zero == no_value ? otherwise : node.dtype(zero)));
}

}  // namespace

void import_quantised_binary(Node& node, Op op) {
  quantise(node, node.emit(op, {made_real(node, 0), made_real(node, 3)}), 6, node.dtype());
}

void import_quantised_sigmoid(Node& node) {
  quantise(node, node.emit(Op::sigmoid, {made_real(node, 0)}), 3, node.dtype());
}

void import_quantised_leaky_relu(Node& node) {
  const ValueId x = made_real(node, 0), zero = node.scalar(node.dtype(x), 0);
  const ValueId below =
      node.emit(Op::mul, {x, node.scalar(node.dtype(x), node.real("alpha", 0.01))});
  quantise(node, node.emit(Op::where, {node.emit(Op::less, {x, zero}), below, x}), 3, node.dtype());
}

void import_quantised_softmax(Node& node) {
  const ValueId x = made_real(node, 0);
  const auto axis = static_cast<std::int64_t>(node.axis(node.integer("axis", -1), node.rank(x)));
  // Before opset 13 the axis and all after it were one.
  if (node.integer("opset") < 13 && axis + 1 != static_cast<std::int64_t>(node.rank(x)))
    node.unsupported("has axis = {} of opset {}; Anydim supports the last axis there", axis,
                     node.integer("opset"));
  quantise(node, node.emit(Op::softmax, {x}, {{"axis", axis}}), 3, node.dtype());
}

// Inputs: scale and zero point of the result, then each tensor with its own.
void import_quantised_concat(Node& node) {
  if (node.operand_count() < 5 || node.operand_count() % 3 != 2)
    node.malformed("takes a scale, a zero point and three inputs for each tensor, got {} inputs",
                   node.operand_count());
  std::vector<ValueId> parts;
  for (std::size_t at = 2; at < node.operand_count(); at += 3) parts.push_back(made_real(node, at));
  const auto axis = static_cast<std::int64_t>(node.axis(node.integer("axis"), node.rank(parts[0])));
  quantise(node, node.emit(Op::concat, parts, {{"axis", axis}}), 0, node.dtype(node.operand(2)));
}

void import_quantised_where(Node& node) {
  quantise(node, node.emit(Op::where, {node.operand(0), made_real(node, 1), made_real(node, 4)}), 7,
           node.dtype(node.operand(1)));
}

void import_quantised_average_pool(Node& node) {
  ValueId x = made_real(node, 0);
  const bool last = node.flag("channels_last", false);
  if (last) x = channels_first(node, x);
  Windows windows(node, x, Windows::kernel_attribute(node, x));
  if (node.flag("ceil_mode", false)) windows.round_up();
  ValueId mean = means_of_windows(node, x, windows, node.flag("count_include_pad", false));
  if (last) mean = channels_last(node, mean);
  quantise(node, mean, 3, node.dtype());
}

void import_quantised_global_average_pool(Node& node) {
  const ValueId x = made_real(node, 0);
  const bool last = node.flag("channels_last", false);
  std::vector<std::int64_t> axes;
  for (std::size_t axis = last ? 1 : 2; axis + (last ? 1 : 0) < node.rank(x); ++axis)
    axes.push_back(static_cast<std::int64_t>(axis));
  const ValueId mean =
      node.emit(Op::reduce_mean, {x}, {{"axes", std::move(axes)}, {"keepdims", std::int64_t{1}}});
  quantise(node, mean, 3, node.dtype());
}

// Inputs: a, b, each with scale and zero point; a bias in i32, in units of both scales; scale and
// zero point of the result, without which it is real.
void import_quantised_gemm(Node& node) {
  const auto turned = [&](ValueId value, std::string_view name) {
    return node.flag(name, false)
               ? node.emit(Op::transpose, {value}, {{"perm", std::vector<std::int64_t>{1, 0}}})
               : value;
  };
  const ValueId a = turned(node.operand(0), "transA"), b = turned(node.operand(3), "transB");
  const ValueId scale = node.emit(Op::mul, {node.operand(1), node.operand(4)});
  ValueId sums = integer_product(node, a, node.operand(2), b, node.operand(5));
  if (node.has_operand(6)) sums = node.emit(Op::add, {sums, node.operand(6)});
  ValueId real = node.emit(Op::mul, {node.cast(sums, node.dtype(scale)), scale});
  if (const double alpha = node.real("alpha", 1); alpha != 1) {
    if (node.has_operand(6)) node.unsupported("has alpha = {} beside a bias", alpha);
    real = node.emit(Op::mul, {real, node.scalar(node.dtype(scale), alpha)});
  }
  if (node.has_operand(7)) quantise(node, real, 7, node.dtype());
  else node.output(0, real);
}

}  // namespace anydim::frontends
