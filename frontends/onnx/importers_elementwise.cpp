#include <fmt/format.h>

#include "frontends/onnx/importers.h"
#include "frontends/onnx/narrowing.h"
#include "frontends/onnx/tensor.h"

namespace anydim::frontends {

void import_elementwise(Node& node, Op op) {
  node.check_same_dtypes();
  node.output(0, node.emit(op, node.operands()));
}

namespace {

Value fold(Node& node, Op op) {
  node.check_same_dtypes();
  Value result = node.operand(0);
  for (std::size_t i = 1; i < node.operand_count(); ++i)
    result = node.emit(op, {result, node.operand(i)});
  return result;
}

// Bounds that are absent leave their side open. NaN stays NaN.
Value clip(Value x, Value low, Value high) {
  if (low != no_value) x = max(x, low);
  if (high != no_value) x = min(x, high);
  return x;
}

const ElementType& target_type(Node& node) {
  return element_type_numbered(node.integer("to"),
                               fmt::format("attribute 'to' of {}", node.description()));
}

// Of floats of 8 bits, whether what is larger than all of them becomes the largest.
bool saturates(Node& node) {
  if (node.opset() >= 24) node.ignore_attribute("round_mode");  // of a type that is never made
  return node.opset() < 19 || node.flag("saturate", true);
}

}  // namespace

void import_fold(Node& node, Op op) { node.output(0, fold(node, op)); }

void import_mean(Node& node) {
  const Value count = node.scalar(node.dtype(), static_cast<double>(node.operand_count()));
  node.output(0, fold(node, Op::add) / count);
}

void import_cast(Node& node) {
  const bool saturate = saturates(node);
  node.output(0, converted(node, node.operand(0), target_type(node), saturate));
}

void import_bitcast(Node& node) {
  const Value x = node.operand(0);
  const ElementType &from = node.element_type_of(x), &to = target_type(node);
  if (from.narrow || to.narrow)
    node.unsupported(
        "reads the bits of {} as {}; Anydim does so for types of whole "
        "bytes that it computes with",
        from.text(), to.text());
  if (ir::size_of(*from.dtype) != ir::size_of(*to.dtype))
    node.malformed("takes 'to' of the input's size, {} bytes as {} has, got {} of {}",
                   ir::size_of(*from.dtype), from.text(), to.text(), ir::size_of(*to.dtype));
  node.output(0, node.emit(Op::bitcast, {x}, {{"to", *to.dtype}}));
}

void import_cast_like(Node& node) {
  const bool saturate = saturates(node);
  node.output(0, converted(node, node.operand(0), node.element_type_of(node.operand(1)), saturate));
}

void import_clip(Node& node) {
  node.check_same_dtypes();
  node.output(0, clip(node.operand(0), node.optional_operand(1), node.optional_operand(2)));
}

void import_clip_attributes(Node& node) {
  const auto bound = [&](std::string_view name) {
    return node.has_attribute(name) ? node.scalar(node.dtype(), node.real(name)) : no_value;
  };
  node.output(0, clip(node.operand(0), bound("min"), bound("max")));
}

void import_is_inf(Node& node) {
  const std::int64_t negative = node.flag("detect_negative", true) ? 1 : 0;
  const std::int64_t positive = node.flag("detect_positive", true) ? 1 : 0;
  node.output(0, node.emit(Op::is_inf, {node.operand(0)},
                           {{"negative", negative}, {"positive", positive}}));
}

void import_mod(Node& node) {
  node.check_same_dtypes();
  const bool truncate = node.flag("fmod", false);
  if (!truncate && ir::is_float(node.dtype()) && node.opset() < 28)
    node.malformed("needs fmod = 1 for real numbers, got 0");
  node.output(0,
              node.emit(Op::mod, node.operands(), {{"truncate", std::int64_t{truncate ? 1 : 0}}}));
}

// The result has the base's element type; a real exponent of an integer base is applied in f64 so
// that it keeps its fraction.
void import_pow(Node& node) {
  const Value base = node.operand(0);
  const Value exponent = node.operand(1);
  const DType dtype = base.dtype();
  if (exponent.dtype() == DType::Bool) node.malformed("takes numbers as input 1, got bool");
  if (ir::is_float(dtype) || !ir::is_float(exponent.dtype())) {
    node.output(0, pow(base, cast(exponent, dtype)));
    return;
  }
  const Value power = pow(cast(base, DType::F64), cast(exponent, DType::F64));
  node.output(0, cast(power, dtype));
}

void import_where(Node& node) {
  const DType then = node.operand(1).dtype();
  const DType otherwise = node.operand(2).dtype();
  if (then != otherwise) {
    node.malformed("takes inputs 1 and 2 of one element type, got {} and {}", ir::name_of(then),
                   ir::name_of(otherwise));
  }
  node.output(0, node.emit(Op::where, node.operands()));
}

}  // namespace anydim::frontends
