#include "passes/binding_writer.h"

#include "ir/shapes/infer.h"
#include "ir/shapes/shape_rules.h"

namespace anydim::passes {

using namespace ir;

ValueId BindingWriter::emit(Op op, std::vector<ValueId> operands, Attributes attributes,
                            ValueId result) {
  if (result == no_value) result = new_value();
  push({.op = op,
        .operands = std::move(operands),
        .results = {result},
        .attributes = std::move(attributes)});
  return result;
}

std::vector<ValueId> BindingWriter::emit_many(Op op, std::vector<ValueId> operands,
                                              std::size_t results) {
  std::vector<ValueId> made;
  for (std::size_t i = 0; i < results; ++i) made.push_back(new_value());
  push({.op = op, .operands = std::move(operands), .results = made});
  return made;
}

void BindingWriter::push(Binding binding) {
  binding.source = source_;
  into_->push_back(std::move(binding));
}

ValueId BindingWriter::again(Binding binding, ValueId value, ValueId result) {
  if (result == no_value) result = new_value();
  binding.operands[0] = value;
  binding.results = {result};
  push(std::move(binding));
  return result;
}

ValueId BindingWriter::dim(const Dim& dim) {
  const ValueId result = new_value();
  push({.op = Op::dim, .results = {result}, .dims = {dim}});
  return result;
}

ValueId BindingWriter::shape(std::vector<Dim> dims) {
  const ValueId result = new_value();
  push({.op = Op::shape, .results = {result}, .dims = std::move(dims)});
  return result;
}

ValueId BindingWriter::constant(Tensor tensor) {
  Attributes attributes;
  attributes.emplace("value", std::move(tensor));
  return emit(Op::constant, {}, std::move(attributes));
}

ValueId BindingWriter::number(DType dtype, double value) {
  Tensor tensor(dtype, {});
  if (is_float(dtype)) tensor.set_real(0, value);
  else tensor.set_integer(0, static_cast<std::int64_t>(value));
  return constant(std::move(tensor));
}

ValueId BindingWriter::cast(ValueId value, DType to) {
  return emit(Op::cast, {value}, {{"to", to}});
}

ValueId BindingWriter::counted(const Dim& extent) {
  std::vector<ValueId> range{dim(0), dim(extent), dim(1)};
  return emit(Op::dyn_arange, std::move(range));
}

ValueId BindingWriter::reshaped(ValueId value, std::vector<Dim> dims) {
  if (all_constant(dims)) return emit(Op::reshape, {value}, {{"shape", constant_extents(dims)}});
  const ValueId target = shape(std::move(dims));
  return emit(Op::dyn_reshape, {value, target}, {{"zero_copies", std::int64_t{0}}});
}

ValueId BindingWriter::transposed(ValueId value, const std::vector<std::size_t>& perm,
                                  ValueId result) {
  const std::vector<std::int64_t> axes(perm.begin(), perm.end());
  return emit(Op::transpose, {value}, {{"perm", axes}}, result);
}

ValueId BindingWriter::first(ValueId vector, const Dim& count) {
  const ValueId begin = shape({0}), end = shape({count});
  return emit(Op::dyn_strided_slice, {vector, begin, end});
}

ValueId BindingWriter::gathered(ValueId data, ValueId indices, std::int64_t axis, ValueId result) {
  return emit(Op::gather, {data, indices}, {{"axis", axis}}, result);
}

ValueId BindingWriter::with_axis(ValueId value, std::int64_t axis) {
  return emit(Op::expand_dims, {value}, {{"axes", std::vector<std::int64_t>{axis}}});
}

}  // namespace anydim::passes
