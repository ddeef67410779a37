// Broadcasting, dtypes and, for small integer tensors, values of elementwise ops.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ir/shapes/shape_rules.h"

namespace anydim::ir {
namespace {

Dim as_bool(Comparison comparison, const Dim& a, const Dim& b) {
  return select(comparison, a, b, 1, 0);
}

// `then` where the condition, a dim that is 0 or 1, holds. A condition that is itself a comparison
// becomes the select's own.
Dim choose(const Dim& condition, const Dim& then, const Dim& otherwise) {
  if (condition.kind() == Dim::Kind::Select) {
    const std::vector<Dim>& parts = condition.operands();
    const auto pick = [&](const Dim& truth) { return truth.is_constant(0) ? otherwise : then; };
    if (parts[2].is_constant() && parts[3].is_constant()) {
      return select(condition.comparison(), parts[0], parts[1], pick(parts[2]), pick(parts[3]));
    }
  }
  return select(Comparison::NotEqual, condition, 0, then, otherwise);
}

enum class Accepts { Anything, Numbers, Floats, Integers, Bools };

std::string_view text_of(Accepts accepts) {
  switch (accepts) {
    case Accepts::Anything: return "a tensor";
    case Accepts::Numbers: return "a tensor of numbers";
    case Accepts::Floats: return "a float tensor";
    case Accepts::Integers: return "an integer tensor";
    case Accepts::Bools: return "a bool tensor";
  }
  internal_error("every kind of dtype has a text");
}

bool accepted(Accepts accepts, DType dtype) {
  switch (accepts) {
    case Accepts::Anything: return true;
    case Accepts::Numbers: return dtype != DType::Bool;
    case Accepts::Floats: return is_float(dtype);
    case Accepts::Integers: return is_integer(dtype);
    case Accepts::Bools: return dtype == DType::Bool;
  }
  internal_error("every kind of dtype is decided");
}

bool converts(Op op) { return op == Op::cast || op == Op::bitcast; }

// Most one-operand ops are functions of reals and most two-operand ops take any numbers; these are
// the exceptions.
Accepts accepts_of(const Binding& binding) {
  const Op op = binding.op;
  const OpInfo& row = info(op);
  if (row.has(traits::logical)) return Accepts::Bools;
  if (converts(op) || op == Op::equal) return Accepts::Anything;
  if (op == Op::bit_not || op == Op::bit_and || op == Op::bit_or || op == Op::bit_xor ||
      op == Op::shift_left || op == Op::shift_right)
    return Accepts::Integers;
  if (op == Op::abs || op == Op::neg || op == Op::sign || op == Op::relu) return Accepts::Numbers;
  return row.minimum_operands == 1 ? Accepts::Floats : Accepts::Numbers;
}

// Integers that two dtypes of one size both hold have the same bits in both.
std::optional<Dim> unary_value(const RuleContext& context, const Dim& a) {
  const Binding& binding = context.binding;
  if (converts(binding.op)) {
    return dtype_attribute(binding, "to") == DType::Bool && context.dtype(0) != DType::Bool
               ? as_bool(Comparison::NotEqual, a, 0)
               : a;
  }
  if (binding.op == Op::neg) return Dim(0) - a;
  if (binding.op == Op::abs) return max(a, Dim(0) - a);
  if (binding.op == Op::relu) return max(a, 0);
  if (binding.op == Op::sign) return max(min(a, 1), -1);
  if (binding.op == Op::logical_not) return choose(a, 0, 1);
  return std::nullopt;
}

// a - b * (a / b), with the sign of the dividend.
Dim truncating_mod(const Dim& a, const Dim& b, const SymbolTable& symbols) {
  return a - b * truncating_div(a, b, symbols);
}

std::optional<Dim> binary_value(const RuleContext& context, const Dim& a, const Dim& b) {
  const Binding& binding = context.binding;
  const Op op = binding.op;
  if ((op == Op::div || op == Op::mod) && b.is_constant(0)) return std::nullopt;
  if (op == Op::add) return a + b;
  if (op == Op::sub) return a - b;
  if (op == Op::mul) return a * b;
  if (op == Op::div) return truncating_div(a, b, context.symbols);
  if (op == Op::mod)
    return integer_attribute(binding, "truncate") != 0 ? truncating_mod(a, b, context.symbols)
                                                       : mod(a, b);
  if (op == Op::min || op == Op::logical_and) return min(a, b);
  if (op == Op::max || op == Op::logical_or) return max(a, b);
  if (op == Op::equal) return as_bool(Comparison::Equal, a, b);
  if (op == Op::less) return as_bool(Comparison::Less, a, b);
  if (op == Op::less_equal) return as_bool(Comparison::LessEqual, a, b);
  if (op == Op::greater) return as_bool(Comparison::Less, b, a);
  if (op == Op::greater_equal) return as_bool(Comparison::LessEqual, b, a);
  if (op == Op::logical_xor) return as_bool(Comparison::NotEqual, a, b);
  return std::nullopt;
}

// Elements of an operand whose neighbour has symbolic shape data: unknown ones stand as leaves.
// Between tensors that hold only constants and unknown values nothing would be gained, so those
// stay unknown.
ShapeData contents_beside(const RuleContext& context, std::size_t operand) {
  if (const ShapeData& known = context.shape_data(operand)) return known;
  const TensorType& type = context.tensor(operand);
  if (!is_integer(type.dtype) || !tracks_contents(type)) return std::nullopt;
  const bool beside_symbols = std::ranges::any_of(context.operands, [](const OperandFacts& facts) {
    return facts.shape_data != nullptr && *facts.shape_data &&
           std::ranges::any_of(**facts.shape_data,
                               [](const Dim& dim) { return !dim.is_constant(); });
  });
  if (!beside_symbols) return std::nullopt;
  return context.elements(operand);
}

const Dim& element_at(const std::vector<Dim>& elements, std::size_t index) {
  return elements.size() == 1 ? elements[0] : elements[index];
}

// Applies `value` over all elements; nothing where one of them has no exact value.
template <typename Value>
ShapeData map_contents(RuleContext& context, const TensorType& result, Value&& value) {
  if (!tracks_contents(result)) return std::nullopt;
  const std::int64_t length = result.rank() == 0 ? 1 : *result.dims[0].constant();
  std::vector<ShapeData> inputs;
  for (std::size_t i = 0; i < context.operands.size(); ++i) {
    inputs.push_back(contents_beside(context, i));
    if (!inputs.back()) return std::nullopt;
    const std::size_t size = inputs.back()->size();
    if (size != 1 && size != static_cast<std::size_t>(length)) return std::nullopt;
  }
  std::vector<Dim> elements;
  try {
    for (std::size_t i = 0; i < static_cast<std::size_t>(length); ++i) {
      std::optional<Dim> element = value(inputs, i);
      if (!element) return std::nullopt;
      elements.push_back(*std::move(element));
    }
  } catch (const Error& error) {
    // The tensor's arithmetic wraps where a dim's would overflow; the value is then left to the
    // run.
    if (error.kind() != ErrorKind::Inputs) throw;
    return std::nullopt;
  }
  return fitting(result.dtype, std::move(elements), context.symbols);
}

}  // namespace

Dim truncating_div(const Dim& a, const Dim& b, const SymbolTable& symbols) {
  const Dim quotient = floor_div(a, b);
  const bool same_sign = prove_less_equal(0, a, symbols) == Proof::Yes &&
                         prove_less_equal(0, b, symbols) == Proof::Yes;
  if (same_sign || a.is_constant(0)) return quotient;
  // Below zero the ceiling is the one nearer to zero.
  return select(Comparison::Less, quotient, 0, Dim(0) - floor_div(Dim(0) - a, b), quotient);
}

void unary_rule(RuleContext& context) {
  const Binding& binding = context.binding;
  const Accepts accepts = accepts_of(binding);
  const TensorType& operand = context.tensor(0);
  context.expect(accepted(accepts, operand.dtype), 0, text_of(accepts));
  TensorType result = operand;
  if (converts(binding.op)) result.dtype = dtype_attribute(binding, "to");
  if (binding.op == Op::bitcast)
    context.expect(size_of(operand.dtype) == size_of(result.dtype), 0,
                   fmt::format("a tensor of {} bytes an element, as {} has", size_of(result.dtype),
                               name_of(result.dtype)));
  if (info(binding.op).has(traits::compares)) result.dtype = DType::Bool;
  ShapeData shape_data;
  if (!is_float(operand.dtype)) {
    shape_data =
        map_contents(context, result, [&](const std::vector<ShapeData>& inputs, std::size_t i) {
          return unary_value(context, (*inputs[0])[i]);
        });
  }
  context.add_result(result.dtype, std::move(result.dims), std::move(shape_data));
}

void binary_rule(RuleContext& context) {
  const Binding& binding = context.binding;
  const Accepts accepts = accepts_of(binding);
  context.expect(accepted(accepts, context.dtype(0)), 0, text_of(accepts));
  context.expect_same_dtype(0, 1);
  TensorType result{context.dtype(0), context.broadcast_dims(context.dims(0), 0, context.dims(1))};
  if (info(binding.op).has(traits::compares)) result.dtype = DType::Bool;
  ShapeData shape_data;
  if (!is_float(context.dtype(0))) {
    shape_data =
        map_contents(context, result, [&](const std::vector<ShapeData>& inputs, std::size_t i) {
          return binary_value(context, element_at(*inputs[0], i), element_at(*inputs[1], i));
        });
  }
  context.add_result(result.dtype, std::move(result.dims), std::move(shape_data));
}

void where_rule(RuleContext& context) {
  context.expect(context.dtype(0) == DType::Bool, 0, text_of(Accepts::Bools));
  context.expect_same_dtype(1, 2);
  const std::vector<Dim> values = context.broadcast_dims(context.dims(1), 1, context.dims(2));
  TensorType result{context.dtype(1), context.broadcast_dims(context.dims(0), 0, values)};
  ShapeData shape_data;
  if (!is_float(result.dtype)) {
    shape_data = map_contents(
        context, result,
        [&](const std::vector<ShapeData>& inputs, std::size_t i) -> std::optional<Dim> {
          return choose(element_at(*inputs[0], i), element_at(*inputs[1], i),
                        element_at(*inputs[2], i));
        });
  }
  context.add_result(result.dtype, std::move(result.dims), std::move(shape_data));
}

}  // namespace anydim::ir
