#include "frontends/onnx/value.h"

#include <utility>

#include "frontends/onnx/node.h"

namespace anydim::frontends {

namespace {

Value emit(Op op, const Operand& a, const Operand& b) {
  const Value first = a.of(b), second = b.of(a);
  return first.node().emit(op, {first, second});
}

Value emit(Op op, Value x) { return x.node().emit(op, {x}); }

}  // namespace

std::vector<ir::ValueId> ids_of(const Values& values) {
  std::vector<ir::ValueId> ids;
  for (const Value& value : values) ids.push_back(value.id());
  return ids;
}

Value Operand::of(const Operand& other) const {
  if (!is_number()) return value_;
  return other.value_.node().scalar(other.value_.dtype(), number_);
}

Value operator+(const Operand& a, const Operand& b) { return emit(Op::add, a, b); }
Value operator-(const Operand& a, const Operand& b) { return emit(Op::sub, a, b); }
Value operator*(const Operand& a, const Operand& b) { return emit(Op::mul, a, b); }
Value operator/(const Operand& a, const Operand& b) { return emit(Op::div, a, b); }
Value operator%(const Operand& a, const Operand& b) { return emit(Op::mod, a, b); }
Value operator-(Value x) { return emit(Op::neg, x); }
Value operator<(const Operand& a, const Operand& b) { return emit(Op::less, a, b); }
Value operator<=(const Operand& a, const Operand& b) { return emit(Op::less_equal, a, b); }
Value operator>(const Operand& a, const Operand& b) { return emit(Op::greater, a, b); }
Value operator>=(const Operand& a, const Operand& b) { return emit(Op::greater_equal, a, b); }
Value equal(const Operand& a, const Operand& b) { return emit(Op::equal, a, b); }
Value min(const Operand& a, const Operand& b) { return emit(Op::min, a, b); }
Value max(const Operand& a, const Operand& b) { return emit(Op::max, a, b); }
Value pow(const Operand& a, const Operand& b) { return emit(Op::pow, a, b); }
Value matmul(Value a, Value b) { return emit(Op::matmul, a, b); }
Value where(Value condition, const Operand& then, const Operand& otherwise) {
  const Value first = then.of(otherwise), second = otherwise.of(then);
  return condition.node().emit(Op::where, {condition, first, second});
}
Value operator&(Value a, Value b) { return emit(Op::logical_and, a, b); }
Value operator|(Value a, Value b) { return emit(Op::logical_or, a, b); }
Value operator!(Value x) { return emit(Op::logical_not, x); }

Value abs(Value x) { return emit(Op::abs, x); }
Value ceil(Value x) { return emit(Op::ceil, x); }
Value exp(Value x) { return emit(Op::exp, x); }
Value floor(Value x) { return emit(Op::floor, x); }
Value log(Value x) { return emit(Op::log, x); }
Value round(Value x) { return emit(Op::round, x); }
Value sigmoid(Value x) { return emit(Op::sigmoid, x); }
Value sqrt(Value x) { return emit(Op::sqrt, x); }
Value tanh(Value x) { return emit(Op::tanh, x); }

Value shape_of(Value x) { return emit(Op::shape_of, x); }
Value gather(Value x, Value indices, std::int64_t axis) {
  return x.node().emit(Op::gather, {x, indices}, {{"axis", axis}});
}
Value gather(Value x, std::int64_t index, std::int64_t axis) {
  return gather(x, x.node().scalar(DType::I64, static_cast<double>(index)), axis);
}
Value concat(Values parts, std::int64_t axis) {
  Node& node = parts.front().node();
  return node.emit(Op::concat, std::move(parts), {{"axis", axis}});
}
Value transpose(Value x, Ints perm) {
  return x.node().emit(Op::transpose, {x}, {{"perm", std::move(perm)}});
}
Value reduce(ir::Op op, Value x, Ints axes, bool keepdims) {
  return x.node().emit(op, {x}, {{"axes", std::move(axes)}, {"keepdims", std::int64_t{keepdims}}});
}

Value cast(Value x, ir::DType dtype) {
  return x.dtype() == dtype ? x : x.node().emit(Op::cast, {x}, {{"to", dtype}});
}
Value dim_of(Value x, std::int64_t axis) {
  const Value index = x.node().index_vector({axis});
  return gather(shape_of(x), index, 0);
}
Value reshaped(Value x, Values dims) {
  const Value shape = dims.size() == 1 ? dims[0] : concat(std::move(dims), 0);
  return x.node().emit(Op::dyn_reshape, {x, shape});
}
Value rank_0(Value x) { return x.node().emit(Op::reshape, {x}, {{"shape", Ints{}}}); }
Value with_axes(Value x, Ints axes) {
  return x.node().emit(Op::expand_dims, {x}, {{"axes", std::move(axes)}});
}
Value without_axes(Value x, Ints axes) {
  return x.node().emit(Op::squeeze, {x}, {{"axes", std::move(axes)}});
}
Value slice(Value x, std::int64_t axis, std::int64_t first, std::int64_t last, std::int64_t step) {
  ir::Attributes attributes{{"starts", Ints{first}}, {"ends", Ints{last}}, {"axes", Ints{axis}}};
  if (step != 1) attributes.emplace("steps", Ints{step});
  return x.node().emit(Op::strided_slice, {x}, std::move(attributes));
}
Value positions(Value extent) {
  Node& node = extent.node();
  const Value stop = without_axes(extent, {0});
  return node.emit(Op::dyn_arange, {node.scalar(DType::I64, 0), stop, node.scalar(DType::I64, 1)});
}

}  // namespace anydim::frontends
