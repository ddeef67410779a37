// Weights of 8-bit integers less their zero points, made real, as integers of one byte that are
// converted at once: what products read, which make a weight real while they multiply.
//
// Weights are constants, so that the differences are: they are written where they lie in i8 for
// certain, unless both are in 4 bits alone. Else weights and zero points of u8 become i8, and those
// of 4 bits as well. Results are the same numbers. Types must be inferred; they are inferred again.
#include <algorithm>
#include <optional>
#include <vector>

#include "passes/binding_writer.h"
#include "passes/pass.h"
#include "passes/quantised_values.h"
#include "passes/rewrite.h"
#include "passes/stored_values.h"
#include "passes/views.h"

namespace anydim::passes {

using namespace ir;

namespace {

// Between u8 and i8, and between integers of 4 bits without and with a sign.
constexpr std::int64_t offset_of_bytes = 128, offset_of_4_bits = 8;

struct Span {
  std::int64_t low = 0, high = 0;
  bool within(std::int64_t least, std::int64_t most) const { return least <= low && high <= most; }
};

Span span_of(const Tensor& tensor) {
  const auto span = [](const auto& elements) {
    const auto [low, high] = std::ranges::minmax(elements);
    return Span{low, high};
  };
  if (tensor.dtype() == DType::I8) return span(tensor.as<std::int8_t>());
  if (tensor.dtype() == DType::U8) return span(tensor.as<std::uint8_t>());
  std::vector<std::int64_t> elements;
  for (std::int64_t i = 0; i < tensor.elements(); ++i) elements.push_back(tensor.integer_at(i));
  return span(elements);
}

class FunctionCentring {
 public:
  explicit FunctionCentring(Function& function) : function_(function), values_(function) {}

  bool run() {
    rewrite_bindings(function_.body, [&](const Binding& binding, std::vector<Binding>& into) {
      values_.note(binding);
      return centre(binding, into);
    });
    return changed_;
  }

 private:
  // The integers that a constant holds, also where they are moved or widened; nullopt where the
  // value is none.
  std::optional<Span> span_of(ValueId value) const {
    const Binding* found = values_.definition(value);
    while (found != nullptr && (is_view(found->op) || found->op == Op::cast)) {
      const ValueId source = found->operands[0];
      if (!is_integer(function_.tensor_type(source).dtype)) return std::nullopt;
      found = values_.definition(source);
    }
    if (found == nullptr || found->op != Op::constant) return std::nullopt;
    const Tensor tensor = tensor_attribute(*found, "value").opened();
    if (tensor.elements() == 0) return std::nullopt;
    return passes::span_of(tensor);
  }

  // Large weights of which both integers and zero points lie in 4 bits, but not the differences:
  // apart they take half the memory.
  bool stay_apart(const QuantisedValues::Centred& weight, Span integers, Span zeros,
                  Span differences) const {
    const auto elements = product(function_.tensor_type(weight.integers).dims).constant();
    if (weight.zero == no_value || !elements || *elements < fewest_in_4_bits ||
        differences.within(-offset_of_4_bits, offset_of_4_bits - 1))
      return false;
    const std::int64_t low = weight.dtype == DType::I8 ? -offset_of_4_bits : 0,
                       high = low + 2 * offset_of_4_bits - 1;
    return integers.within(low, high) && zeros.within(low, high);
  }

  bool centre(const Binding& conversion, std::vector<Binding>& into) {
    if (conversion.op != Op::cast || !is_float(function_.tensor_type(conversion.results[0]).dtype))
      return false;
    const auto weight = values_.centred(conversion.operands[0]);
    if (!weight) return false;
    const auto integers = span_of(weight->integers);
    const auto zeros = weight->zero == no_value ? Span{} : span_of(weight->zero);
    constexpr std::int64_t least = -128, most = 127;
    if (!integers || !zeros) return false;
    const Span differences{integers->low - zeros->high, integers->high - zeros->low};
    if (stay_apart(*weight, *integers, *zeros, differences))
      return shift(conversion, *weight, offset_of_4_bits, into);
    if (!differences.within(least, most)) return shift(conversion, *weight, offset_of_bytes, into);
    const bool as_it_is = weight->dtype == DType::I8 && zeros->low == 0 && zeros->high == 0;
    BindingWriter writer(function_, into, conversion.source,
                         function_.values[conversion.results[0]].name);
    const ValueId bytes =
        as_it_is ? weight->integers : writer.cast(conversion.operands[0], DType::I8);
    writer.emit(Op::cast, {bytes}, conversion.attributes, conversion.results[0]);
    changed_ = true;
    return true;
  }

  // Integers and zero points of u8 as those of i8, both lower by `offset`.
  bool shift(const Binding& conversion, const QuantisedValues::Centred& weight, std::int64_t offset,
             std::vector<Binding>& into) {
    if (weight.dtype != DType::U8 || weight.zero == no_value) return false;
    std::vector<Binding> made;
    BindingWriter writer(function_, made, conversion.source,
                         function_.values[conversion.results[0]].name);
    const auto zero = shifted(weight.zero, offset, writer);
    if (!zero) return false;
    const ValueId number = writer.number(DType::I32, static_cast<double>(offset));
    const ValueId bytes = writer.cast(writer.emit(Op::sub, {weight.wide, number}), DType::I8);
    const ValueId centred = writer.emit(Op::sub, {writer.cast(bytes, DType::I32), *zero});
    writer.emit(Op::cast, {centred}, conversion.attributes, conversion.results[0]);
    for (Binding& binding : made) into.push_back(std::move(binding));
    changed_ = true;
    return true;
  }

  // Zero points that were u8, in i32 and lower by `offset`, as they were moved; nullopt where they
  // are none.
  std::optional<ValueId> shifted(ValueId zero, std::int64_t offset, BindingWriter& writer) const {
    if (const auto number = values_.number(zero); number && is_one_number(function_, zero))
      return writer.number(DType::I32, *number - static_cast<double>(offset));
    const Binding* widening = values_.definition(zero, Op::cast);
    if (widening == nullptr) return std::nullopt;
    std::vector<Binding> moves;
    const auto stored =
        values_.before_moves(widening->operands[0], [](const Binding&) { return false; }, moves);
    const Binding* found = stored ? values_.definition(*stored, Op::constant) : nullptr;
    if (found == nullptr || function_.tensor_type(*stored).dtype != DType::U8) return std::nullopt;
    const Tensor tensor = tensor_attribute(*found, "value").opened();
    Tensor lower(DType::I8, tensor.dims());
    for (std::int64_t i = 0; i < tensor.elements(); ++i)
      lower.set_integer(i, tensor.integer_at(i) - offset);
    ValueId value = writer.constant(std::move(lower));
    for (auto move = moves.rbegin(); move != moves.rend(); ++move)
      value = writer.again(std::move(*move), value);
    return writer.cast(value, DType::I32);
  }

  Function& function_;
  QuantisedValues values_;
  bool changed_ = false;
};

}  // namespace

void centre_weights(Module& module, PassContext&) {
  rewrite_functions(module, [](Function& function) { return FunctionCentring(function).run(); });
}

}  // namespace anydim::passes
