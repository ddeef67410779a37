#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "ir/loops/scalar_program.h"
#include "ir/reference/evaluate.h"
#include "ir/reference/evaluate_ops.h"
#include "ir/shapes/bind.h"

namespace anydim::ir {
namespace {

template <typename Stored, typename Compute>
std::vector<Compute> widened(const Tensor& tensor) {
  std::vector<Compute> elements(static_cast<std::size_t>(tensor.elements()));
  std::ranges::transform(tensor.as<Stored>(), elements.begin(),
                         [](Stored x) { return static_cast<Compute>(x); });
  return elements;
}

template <typename Compute>
std::vector<Compute> load(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::F64: return widened<double, Compute>(tensor);
    case DType::F32: return widened<float, Compute>(tensor);
    case DType::F16:
    case DType::BF16: {
      std::vector<Compute> elements(static_cast<std::size_t>(tensor.elements()));
      for (std::size_t i = 0; i < elements.size(); ++i) {
        elements[i] = static_cast<Compute>(tensor.real_at(static_cast<std::int64_t>(i)));
      }
      return elements;
    }
    case DType::I64: return widened<std::int64_t, Compute>(tensor);
    case DType::I32: return widened<std::int32_t, Compute>(tensor);
    case DType::I16: return widened<std::int16_t, Compute>(tensor);
    case DType::I8: return widened<std::int8_t, Compute>(tensor);
    case DType::U64: return widened<std::uint64_t, Compute>(tensor);
    case DType::U32: return widened<std::uint32_t, Compute>(tensor);
    case DType::U16: return widened<std::uint16_t, Compute>(tensor);
    case DType::U8:
    case DType::Bool: return widened<std::uint8_t, Compute>(tensor);
  }
  internal_error("a dtype is one of the enumerators");
}

template <typename Stored, typename Compute>
void narrow_into(Tensor& result, const std::vector<Compute>& elements) {
  std::ranges::transform(elements, result.mutable_as<Stored>().begin(),
                         [](Compute x) { return static_cast<Stored>(x); });
}

template <typename Compute>
Tensor store(DType dtype, const Extents& dims, const std::vector<Compute>& elements) {
  Tensor result(dtype, dims);
  if (dtype == DType::F64) {
    narrow_into<double>(result, elements);
  } else if (dtype == DType::F32) {
    narrow_into<float>(result, elements);
  } else if (is_float(dtype)) {
    for (std::size_t i = 0; i < elements.size(); ++i) {
      result.set_real(static_cast<std::int64_t>(i), static_cast<double>(elements[i]));
    }
  } else if constexpr (std::is_integral_v<Compute>) {
    const std::size_t size = size_of(dtype);
    if (size == 8) narrow_into<std::uint64_t>(result, elements);
    else if (size == 4) narrow_into<std::uint32_t>(result, elements);
    else if (size == 2) narrow_into<std::uint16_t>(result, elements);
    else narrow_into<std::uint8_t>(result, elements);
  } else {
    internal_error("reals are stored as floats");
  }
  return result;
}

Tensor as_broadcast(const Tensor& tensor, const Extents& dims) {
  if (tensor.dims() == dims) return tensor;
  return strided_copy(tensor, dims, broadcast_strides(tensor.dims(), dims));
}

template <typename Compute>
std::optional<Tensor> apply(const ScalarOp& op, std::span<const Tensor> operands) {
  const std::vector<Compute> a = load<Compute>(operands[0]);
  const std::vector<Compute> b =
      operands.size() > 1 ? load<Compute>(operands[1]) : std::vector<Compute>{};
  const Extents& dims = operands[0].dims();
  const auto second = [&](std::size_t i) { return b.empty() ? Compute(0) : b[i]; };
  if (info(op.op).has(traits::compares)) {
    std::vector<std::int64_t> truth(a.size());
    for (std::size_t i = 0; i < a.size(); ++i)
      truth[i] = apply_comparison(op, a[i], second(i)) ? 1 : 0;
    return store(DType::Bool, dims, truth);
  }
  std::vector<Compute> elements(a.size());
  if constexpr (std::is_floating_point_v<Compute>) {
    for (std::size_t i = 0; i < a.size(); ++i) elements[i] = apply_real(op, a[i], second(i));
  } else {
    const bool divides = op.op == Op::div || op.op == Op::mod;
    if (divides && std::ranges::find(b, Compute(0)) != b.end()) return std::nullopt;
    for (std::size_t i = 0; i < a.size(); ++i) elements[i] = apply_integer(op, a[i], second(i));
  }
  return store(operands[0].dtype(), dims, elements);
}

Tensor choose(std::span<const Tensor> operands) {
  Tensor result(operands[1].dtype(), operands[1].dims());
  const std::size_t size = size_of(result.dtype());
  const std::span<const std::uint8_t> condition = operands[0].as<std::uint8_t>();
  const std::byte* then = operands[1].bytes().data();
  const std::byte* otherwise = operands[2].bytes().data();
  std::byte* to = result.mutable_bytes().data();
  for (std::size_t i = 0; i < condition.size(); ++i) {
    std::memcpy(to + i * size, (condition[i] != 0 ? then : otherwise) + i * size, size);
  }
  return result;
}

}  // namespace

Tensor evaluate_cast(const Tensor& source, DType to) {
  if (source.dtype() == to) return source;
  if (!is_float(source.dtype())) {
    const auto from_integers = [&](auto elements) {
      if (to == DType::Bool)
        std::ranges::transform(elements, elements.begin(), [](auto x) { return x != 0 ? 1 : 0; });
      return store(to, source.dims(), elements);
    };
    return source.dtype() == DType::U64 ? from_integers(load<std::uint64_t>(source))
                                        : from_integers(load<std::int64_t>(source));
  }
  const std::vector<double> reals = load<double>(source);
  if (is_float(to)) return store(to, source.dims(), reals);
  std::vector<std::int64_t> integers(reals.size());
  std::ranges::transform(reals, integers.begin(), [&](double x) {
    return to == DType::Bool ? std::int64_t{x != 0} : truncate_to_integer(x, to);
  });
  return store(to, source.dims(), integers);
}

namespace {

// A bool's byte is 0 or 1.
Tensor evaluate_bitcast(const Tensor& source, DType to) {
  Tensor result(to, source.dims());
  std::ranges::copy(source.bytes(), result.mutable_bytes().begin());
  if (to == DType::Bool)
    for (std::byte& truth : result.mutable_bytes())
      truth = std::byte{truth != std::byte{0} ? std::uint8_t{1} : std::uint8_t{0}};
  return result;
}

}  // namespace

std::optional<Tensor> apply_elementwise(const ScalarOp& op, DType to,
                                        std::span<const Tensor> operands) {
  if (op.op == Op::cast) return evaluate_cast(operands[0], to);
  if (op.op == Op::bitcast) return evaluate_bitcast(operands[0], to);
  if (op.op == Op::where) return choose(operands);
  const DType dtype = operands[0].dtype();
  if (dtype == DType::F64) return apply<double>(op, operands);
  if (is_float(dtype)) return apply<float>(op, operands);
  return dtype == DType::U64 ? apply<std::uint64_t>(op, operands)
                             : apply<std::int64_t>(op, operands);
}

Tensor apply_program(const ScalarProgram& program, const Tensor& buffer) {
  std::vector<Tensor> values;
  for (const ScalarStep& step : program.steps) {
    if (step.is<step::Load>()) {
      values.push_back(buffer);
    } else if (step.is<step::Constant>()) {
      values.push_back(as_broadcast(constant_tensor(step), buffer.dims()));
    } else {
      internal_check(step.is<step::Apply>(), "a program of one element has no index");
      std::vector<Tensor> operands;
      for (const std::int32_t operand : step.operands)
        operands.push_back(values[static_cast<std::size_t>(operand)]);
      auto value = apply_elementwise(scalar_op(step), step.dtype, operands);
      internal_check(value.has_value(),
                     "a program of one element divides by what is known not to be 0");
      values.push_back(*std::move(value));
    }
  }
  return values.back();
}

Results evaluate_elementwise(const OpCall& call) {
  if (call.binding.op == Op::cast)
    return evaluate_cast(call.operand(0), dtype_attribute(call.binding, "to"));
  if (call.binding.op == Op::bitcast)
    return evaluate_bitcast(call.operand(0), dtype_attribute(call.binding, "to"));
  Extents dims = call.operand(0).dims();
  for (std::size_t i = 1; i < call.operands.size(); ++i)
    dims = broadcast_extents(call, dims, call.operand(i).dims());
  std::vector<Tensor> operands;
  for (std::size_t i = 0; i < call.operands.size(); ++i)
    operands.push_back(as_broadcast(call.operand(i), dims));
  const DType dtype = operands.back().dtype();
  for (std::size_t i = call.binding.op == Op::where ? 1 : 0; i < operands.size(); ++i) {
    if (operands[i].dtype() == dtype) continue;
    call.fail(std::string("operands of different dtypes: ") +
              std::string(name_of(operands[i].dtype())) + " and " + std::string(name_of(dtype)));
  }
  if (call.binding.op == Op::where && operands[0].dtype() != DType::Bool)
    call.fail("operand 0 must be a bool tensor");
  if (auto result = apply_elementwise(scalar_op(call.binding), dtype, operands))
    return *std::move(result);
  throw Error(ErrorKind::Inputs, division_by_zero(std::string(info(call.binding.op).text),
                                                  node_name(call.function, call.binding)));
}

}  // namespace anydim::ir
