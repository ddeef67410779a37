#include <limits>
#include <numbers>

#include "frontends/onnx/importers.h"

namespace anydim::frontends {

using ir::Tensor;

namespace {

Tensor constant_value(Node& node) {
  if (node.has_attribute("value")) return node.tensor("value");
  if (node.has_attribute("value_float"))
    return Tensor::of<double>(DType::F32, {}, {node.real("value_float")});
  if (node.has_attribute("value_int"))
    return Tensor::of<std::int64_t>(DType::I64, {}, {node.integer("value_int")});
  if (node.has_attribute("value_floats")) {
    const auto values = node.reals("value_floats");
    return Tensor::of(DType::F32, {static_cast<std::int64_t>(values.size())}, values);
  }
  if (node.has_attribute("value_ints")) {
    const auto values = node.integers("value_ints");
    return Tensor::of(DType::I64, {static_cast<std::int64_t>(values.size())}, values);
  }
  for (const std::string_view other : {"value_string", "value_strings", "sparse_value"}) {
    if (node.has_attribute(other))
      node.unsupported("has the attribute '{}', which Anydim does not support", other);
  }
  node.malformed("has no value");
}

}  // namespace

void import_constant(Node& node) {
  if (node.attribute_count() != 1)
    node.malformed("takes one attribute, got {}", node.attribute_count());
  const ElementType* type = node.has_attribute("value") ? &node.tensor_type("value") : nullptr;
  const Value value = node.constant(constant_value(node));
  if (type != nullptr && type->narrow) node.set_element_type(value, *type);
  node.output(0, value);
}

void import_constant_of_shape(Node& node) {
  Value value = no_value;
  if (node.has_attribute("value")) {
    const Tensor given = node.tensor("value");
    if (given.elements() != 1)
      node.malformed("takes one element as attribute 'value', got {}", given.elements());
    value = node.constant(Tensor(given.dtype(), {}, given.bytes(), given.owner()));
  } else {
    value = node.scalar(DType::F32, 0);
  }
  node.output(0, node.emit(Op::dyn_full, {value, node.index_operand(0)}));
}

void import_identity(Node& node) { node.output(0, node.operand(0)); }

namespace {

Value scalar_operand(Node& node, std::size_t index) {
  const Value value = node.operand(index);
  return value.length() == 1 ? without_axes(value, {0}) : value;
}

}  // namespace

// How many real numbers a range has is a number that the run computes; from there on it is counted
// in integers.
void import_range(Node& node) {
  node.check_same_dtypes();
  const DType dtype = node.dtype();
  const bool steps_by_one = !node.has_operand(2);  // only in ONNX Runtime's domain
  const Value step = steps_by_one ? node.scalar(dtype, 1) : scalar_operand(node, 2);
  const bool known = node.constant_operand(0) && node.constant_operand(1) &&
                     (steps_by_one || node.constant_operand(2));
  if (!ir::is_float(dtype) || known) {
    node.output(0, node.emit(Op::dyn_arange, {node.operand(0), node.operand(1),
                                              steps_by_one ? step : node.operand(2)}));
    return;
  }
  const Value start = scalar_operand(node, 0);
  const auto wide = [&](Value value) { return cast(value, DType::F64); };
  const Value distance = wide(scalar_operand(node, 1)) - wide(start);
  const Value steps = ceil(distance / wide(step));
  const Value zero = node.scalar(DType::I64, 0);
  const Value count = max(cast(steps, DType::I64), zero);
  const Value counted =
      cast(node.emit(Op::dyn_arange, {zero, count, node.scalar(DType::I64, 1)}), dtype);
  node.output(0, start + counted * step);
}

namespace {

// first - second cos(2 pi i / n) + third cos(4 pi i / n) for i below size, where n is size, or size
// - 1 for a symmetric window.
void import_window(Node& node, double first, double second, double third) {
  const DType dtype = node.element_type("output_datatype").value_or(DType::F32);
  const bool periodic = node.flag("periodic", true);
  const DType computed = computed_in(dtype);
  const Value size = cast(scalar_operand(node, 0), DType::I64);
  const Value one = node.scalar(DType::I64, 1);
  const Value positions =
      cast(node.emit(Op::dyn_arange, {node.scalar(DType::I64, 0), size, one}), computed);
  const Value period = cast(periodic ? size : size - one, computed);
  const auto cosine = [&](double turns) {
    const Value angle = positions * (turns * 2 * std::numbers::pi);
    return node.emit(Op::cos, {angle / period});
  };
  Value window = first - cosine(1) * second;
  if (third != 0) window = window + cosine(2) * third;
  node.output(0, cast(window, dtype));
}

}  // namespace

void import_hann_window(Node& node) { import_window(node, 0.5, 0.5, 0); }
void import_hamming_window(Node& node) { import_window(node, 25.0 / 46, 21.0 / 46, 0); }
void import_blackman_window(Node& node) { import_window(node, 0.42, 0.5, 0.08); }

void import_shape(Node& node) {
  const Value shape = shape_of(node.operand(0));
  constexpr std::int64_t open = std::numeric_limits<std::int64_t>::max();
  const std::int64_t start = node.opset() >= 15 ? node.integer("start", 0) : 0;
  const std::int64_t end = node.opset() >= 15 ? node.integer("end", open) : open;
  if (start == 0 && end == open) {
    node.output(0, shape);
    return;
  }
  const auto one = [](std::int64_t value) { return Ints{value}; };
  node.output(0, node.emit(Op::strided_slice, {shape},
                           {{"starts", one(start)}, {"ends", one(end)}, {"axes", one(0)}}));
}

void import_size(Node& node) {
  node.output(0, node.emit(Op::reduce_prod, {shape_of(node.operand(0))}));
}

}  // namespace anydim::frontends
