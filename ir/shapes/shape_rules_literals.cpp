#include <utility>

#include "ir/scalar.h"
#include "ir/shapes/shape_rules.h"

namespace anydim::ir {
namespace {

ShapeData contents_of_tensor(const Tensor& tensor) {
  if (is_float(tensor.dtype()) || tensor.rank() > 1 || tensor.elements() > contents_limit)
    return std::nullopt;
  std::vector<Dim> elements;
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    const std::int64_t element = tensor.integer_at(i);
    // The upper half of u64 has no place in a 64-bit dim.
    if (tensor.dtype() == DType::U64 && element < 0) return std::nullopt;
    elements.emplace_back(element);
  }
  return elements;
}

// Elements of an integer arange of known length.
ShapeData arange_contents(DType dtype, const Dim& length, const Dim& start, const Dim& step,
                          const SymbolTable& symbols) {
  if (is_float(dtype) || !within_shape_data_limit(length)) return std::nullopt;
  std::vector<Dim> elements;
  for (std::int64_t i = 0; i < *length.constant(); ++i) elements.push_back(start + step * i);
  return fitting(dtype, std::move(elements), symbols);
}

// ceil((stop - start) / step), not below 0, for either sign of the step.
Dim arange_extent(const Dim& start, const Dim& stop, const Dim& step, const SymbolTable& symbols) {
  if (prove_less(0, step, symbols) == Proof::Yes) return max(0, ceil_div(stop - start, step));
  if (prove_less(step, 0, symbols) == Proof::Yes)
    return max(0, ceil_div(start - stop, magnitude_of_negative(step, symbols)));
  const Dim up = max(0, ceil_div(stop - start, max(step, 1)));
  const Dim down = max(0, ceil_div(start - stop, max(magnitude_of_negative(step, symbols), 1)));
  return select(Comparison::Less, 0, step, up, down);
}

// Where only the run tells the numbers the length is a count, which is found where the op is
// decomposed.
void float_arange(RuleContext& context) {
  std::vector<double> known;
  for (std::size_t i = 0; i < 3; ++i)
    if (const Tensor* constant = context.operands[i].constant;
        constant != nullptr && constant->elements() == 1)
      known.push_back(constant->real_at(0));
  if (known.size() < 3) {
    context.add_result(context.dtype(0), {Dim(0)});
    context.result.counts.push_back({{{0, 0}}, Dim(default_symbol_maximum)});
    return;
  }
  const std::optional<std::int64_t> length = arange_length(known[0], known[1], known[2]);
  if (!length)
    context.malformed("an arange from {} to {} by {} has no finite length", known[0], known[1],
                      known[2]);
  context.add_result(context.dtype(0), {Dim(*length)});
}

void static_arange(RuleContext& context) {
  const std::int64_t start = integer_attribute(context.binding, "start");
  const std::int64_t stop = integer_attribute(context.binding, "stop");
  const std::int64_t step = integer_attribute(context.binding, "step");
  const DType dtype = dtype_attribute(context.binding, "dtype");
  if (step == 0) context.malformed("the step is 0");
  const Dim length = arange_extent(start, stop, step, context.symbols);
  context.add_result(dtype, {length}, arange_contents(dtype, length, start, step, context.symbols));
}

}  // namespace

void constant_rule(RuleContext& context) {
  const Tensor& tensor = tensor_attribute(context.binding, "value");
  context.add_result(tensor.dtype(), dims_of(tensor.dims()), contents_of_tensor(tensor));
}

void shape_literal_rule(RuleContext& context) {
  const std::vector<Dim>& dims = context.binding.dims;
  if (context.binding.op == Op::dim) {
    if (dims.size() != 1) context.malformed("expected one dim, got {}", dims.size());
    return context.add_result(DType::I64, {}, dims);
  }
  context.add_result(DType::I64, {Dim(static_cast<std::int64_t>(dims.size()))}, dims);
}

void shape_of_rule(RuleContext& context) {
  const TensorType& type = context.tensor(0);
  context.add_result(DType::I64, {Dim(static_cast<std::int64_t>(type.rank()))}, type.dims);
}

void full_rule(RuleContext& context) {
  const bool is_static = context.binding.op == Op::full;
  context.expect(context.tensor(0).rank() == 0, 0, "of rank 0");
  std::vector<Dim> dims =
      is_static ? dims_of(integers_attribute(context.binding, "shape")) : context.elements(1);
  for (std::size_t i = 0; i < dims.size(); ++i) {
    context.require_extent(dims[i], 1, i);
  }
  const TensorType type{context.dtype(0), dims};
  ShapeData shape_data;
  if (const ShapeData& value = context.shape_data(0); value && tracks_contents(type)) {
    shape_data.emplace(static_cast<std::size_t>(dims.empty() ? 1 : *dims[0].constant()),
                       value->front());
  }
  context.add_result(type.dtype, std::move(dims), std::move(shape_data));
}

void filled_rule(RuleContext& context) {
  const bool dynamic = info(context.binding.op).has(traits::dynamic);
  std::vector<Dim> dims =
      dynamic ? context.elements(0) : dims_of(integers_attribute(context.binding, "shape"));
  for (std::size_t i = 0; i < dims.size(); ++i) context.require_extent(dims[i], 0, i);
  TensorType type{dtype_attribute(context.binding, "dtype"), std::move(dims)};
  ShapeData shape_data;
  if (tracks_contents(type)) {
    const bool one = context.binding.op == Op::ones || context.binding.op == Op::dyn_ones;
    shape_data.emplace(static_cast<std::size_t>(type.rank() == 0 ? 1 : *type.dims[0].constant()),
                       Dim(one ? 1 : 0));
  }
  context.add_result(type.dtype, std::move(type.dims), std::move(shape_data));
}

void arange_rule(RuleContext& context) {
  if (context.binding.op == Op::arange) return static_arange(context);
  const DType dtype = context.dtype(0);
  for (std::size_t i = 0; i < 3; ++i) {
    context.expect(dtype != DType::Bool && context.tensor(i).rank() <= 1, i, "one number");
    context.expect_same_dtype(0, i);
  }
  if (is_float(dtype)) return float_arange(context);
  const Dim start = context.scalar(0);
  const Dim stop = context.scalar(1);
  const Dim step = context.scalar(2);
  if (step.is_constant(0)) context.malformed("{}, the step, is 0", context.operand_text(2));
  if (!step.is_constant()) context.require(Relation::NonZero, step, 0, "the step, operand 2");
  const Dim length = arange_extent(start, stop, step, context.symbols);
  context.add_result(dtype, {length}, arange_contents(dtype, length, start, step, context.symbols));
}

}  // namespace anydim::ir
