#include "frontends/onnx/quantised.h"

#include <fmt/format.h>

#include "frontends/onnx/importers.h"

namespace anydim::frontends {

using ir::DType;
using ir::Op;
using ir::ValueId;

ValueId along_axis(Node& node, ValueId parameter, ValueId x, std::int64_t axis) {
  if (node.rank(parameter) == 0) return parameter;
  if (node.rank(parameter) != 1) node.unsupported("has scales for blocks of elements; Anydim supports one a tensor or one a channel");
  if (node.length(parameter) == 1) return node.without_axes(parameter, {0});
  const std::size_t rank = node.rank(x);
  const std::size_t here = node.axis(axis, rank);
  std::vector<std::int64_t> after;
  for (std::size_t i = here + 1; i < rank; ++i) after.push_back(static_cast<std::int64_t>(i - here));
  return after.empty() ? parameter : node.with_axes(parameter, std::move(after));
}

ValueId quantised(Node& node, ValueId x, ValueId scale, ValueId zero_point, DType to) {
  ValueId rounded = node.emit(Op::round, {node.emit(Op::div, {x, scale})});
  if (zero_point != ir::no_value) rounded = node.emit(Op::add, {rounded, node.cast(zero_point, node.dtype(x))});
  return node.cast(rounded, to);  // saturates
}

ValueId centred(Node& node, ValueId x, ValueId zero_point) {
  const ValueId wide = node.cast(x, DType::I32);
  return zero_point == ir::no_value ? wide : node.emit(Op::sub, {wide, node.cast(zero_point, DType::I32)});
}

namespace {

ValueId along_rows(Node& node, ValueId parameter) {
  return node.rank(parameter) == 0 || node.length(parameter) == 1 ? parameter : node.with_axes(parameter, {1});
}

void check_integer(const Node& node, std::size_t index) {
  if (node.has_operand(index) && !ir::is_integer(node.dtype(node.operand(index)))) {
    node.unsupported(
        fmt::format("has {} as input {}; Anydim quantises to integers only", ir::name_of(node.dtype(node.operand(index))), index));
  }
}

}  // namespace

void import_quantize_linear(Node& node) {
  check_integer(node, 2);
  if (node.opset() >= 19) node.ignore_attribute("saturate");  // only for floats of 8 bits
  if (node.opset() >= 21 && node.integer("block_size", 0) != 0) node.unsupported("quantises blocks of elements");
  const std::int64_t axis = node.opset() >= 13 ? node.integer("axis", 1) : 1;
  const bool real = ir::is_float(node.dtype());
  const DType computed = real ? node.dtype(node.operand(1)) : DType::F32;
  const ValueId x = node.cast(node.operand(0), computed);
  const ValueId scale = along_axis(node, node.cast(node.operand(1), computed), x, axis);
  const ValueId zero = node.has_operand(2) ? along_axis(node, node.operand(2), x, axis) : ir::no_value;
  node.output(0, quantised(node, x, scale, zero, node.has_operand(2) ? node.dtype(node.operand(2)) : DType::U8));
}

void import_dequantize_linear(Node& node) {
  check_integer(node, 0);
  if (node.opset() >= 21 && node.integer("block_size", 0) != 0) node.unsupported("quantises blocks of elements");
  const std::int64_t axis = node.opset() >= 13 ? node.integer("axis", 1) : 1;
  const ValueId x = node.operand(0);
  const ValueId zero = node.has_operand(2) ? along_axis(node, node.operand(2), x, axis) : ir::no_value;
  const DType dtype = node.dtype(node.operand(1));
  const ValueId distance = node.cast(centred(node, x, zero), dtype);
  node.output(0, node.emit(Op::mul, {distance, along_axis(node, node.operand(1), x, axis)}));
}

// To u8 over the range of x and 0.
void import_dynamic_quantize_linear(Node& node) {
  const ValueId x = node.operand(0);
  const ValueId zero = node.scalar(DType::F32, 0), highest = node.scalar(DType::F32, 255);
  const ValueId top = node.emit(Op::max, {node.emit(Op::reduce_max, {x}), zero});
  const ValueId bottom = node.emit(Op::min, {node.emit(Op::reduce_min, {x}), zero});
  const ValueId scale = node.emit(Op::div, {node.emit(Op::sub, {top, bottom}), highest});
  const ValueId offset = node.emit(Op::div, {node.emit(Op::neg, {bottom}), scale});
  const ValueId zero_point =
      node.cast(node.emit(Op::round, {node.emit(Op::min, {node.emit(Op::max, {offset, zero}), highest})}), DType::U8);
  node.output(0, quantised(node, x, scale, zero_point, DType::U8));
  node.output(1, scale);
  node.output(2, zero_point);
}

void import_matmul_integer(Node& node) {
  const ValueId a_zero = node.has_operand(2) ? along_rows(node, node.operand(2)) : ir::no_value;
  const ValueId a = centred(node, node.operand(0), a_zero);
  node.output(0, node.emit(Op::matmul, {a, centred(node, node.operand(1), node.optional_operand(3))}));
}

// Inputs: a, its scale and zero point; b likewise; scale and zero point of the result.
void import_qlinear_matmul(Node& node) {
  const ValueId a = centred(node, node.operand(0), along_rows(node, node.operand(2)));
  const ValueId b = centred(node, node.operand(3), node.operand(5));
  const ValueId scales = node.emit(Op::mul, {along_rows(node, node.operand(1)), node.operand(4)});
  const ValueId ratio = node.emit(Op::div, {node.operand(6), scales});
  const ValueId product = node.cast(node.emit(Op::matmul, {a, b}), node.dtype(ratio));
  node.output(0, quantised(node, product, ratio, node.operand(7), node.dtype(node.operand(7))));
}

}  // namespace anydim::frontends
