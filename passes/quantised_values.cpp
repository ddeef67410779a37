#include "passes/quantised_values.h"

#include <algorithm>

#include "passes/views.h"

namespace anydim::passes {

using namespace ir;

bool is_one_number(const Function& function, ValueId value) {
  return std::ranges::all_of(function.tensor_type(value).dims,
                             [](const Dim& dim) { return dim.is_constant(1); });
}

void QuantisedValues::note(const Binding& binding) {
  if (!binding.blocks.empty()) return;
  for (const ValueId made : binding.results) definitions_.emplace(made, binding);
}

const Binding* QuantisedValues::definition(ValueId value) const {
  const auto found = definitions_.find(value);
  return found == definitions_.end() ? nullptr : &found->second;
}

const Binding* QuantisedValues::definition(ValueId value, Op op) const {
  const Binding* found = definition(value);
  return found != nullptr && found->op == op ? found : nullptr;
}

std::optional<double> QuantisedValues::number(ValueId value) const {
  const Binding* found = definition(value);
  if (found == nullptr) return std::nullopt;
  if (info(found->op).has(traits::reshapes)) return number(found->operands[0]);
  if (found->op == Op::cast) {
    const DType from = function_.tensor_type(found->operands[0]).dtype,
                to = function_.tensor_type(value).dtype;
    const bool keeps = from == to || (is_integer(from) && size_of(from) < size_of(to));
    return keeps ? number(found->operands[0]) : std::nullopt;
  }
  if (found->op != Op::constant) return std::nullopt;
  const Tensor& tensor = tensor_attribute(*found, "value");
  if (tensor.elements() == 0) return std::nullopt;
  for (std::int64_t i = 1; i < tensor.elements(); ++i)
    if (tensor.real_at(i) != tensor.real_at(0)) return std::nullopt;
  return tensor.real_at(0);
}

std::optional<ValueId> QuantisedValues::before_moves(
    ValueId value, const std::function<bool(const Binding&)>& is_border,
    std::vector<Binding>& moves) const {
  for (;; value = moves.back().operands[0]) {
    const Binding* move = definition(value);
    if (move == nullptr) return std::nullopt;
    if (!is_border(*move) && (!is_view(move->op) || move->results.size() != 1)) return value;
    moves.push_back(*move);
  }
}

std::optional<QuantisedValues::Centred> QuantisedValues::centred(ValueId value) const {
  if (function_.tensor_type(value).dtype != DType::I32 || function_.tensor_type(value).rank() < 2)
    return std::nullopt;
  Centred result;
  result.wide = value;
  if (const Binding* difference = definition(value, Op::sub)) {
    result.wide = difference->operands[0];
    result.zero = difference->operands[1];
    // The difference may be larger than either side.
    if (function_.tensor_type(result.wide).dims != function_.tensor_type(value).dims)
      return std::nullopt;
  }
  const Binding* widening = definition(result.wide, Op::cast);
  if (widening == nullptr) return std::nullopt;
  result.integers = widening->operands[0];
  result.dtype = function_.tensor_type(result.integers).dtype;
  if (result.dtype != DType::U8 && result.dtype != DType::I8) return std::nullopt;
  return result;
}

std::optional<QuantisedValues::Real> QuantisedValues::made_real(ValueId value) const {
  const Binding* scaled = definition(value, Op::mul);
  if (scaled == nullptr || function_.tensor_type(value).dtype != DType::F32) return std::nullopt;
  for (const std::size_t side : {0U, 1U}) {
    const Binding* real = definition(scaled->operands[side], Op::cast);
    if (real == nullptr ||
        function_.tensor_type(real->results[0]).dims != function_.tensor_type(value).dims)
      continue;
    if (centred(real->operands[0])) return Real{real->operands[0], scaled->operands[1 - side]};
  }
  return std::nullopt;
}

}  // namespace anydim::passes
