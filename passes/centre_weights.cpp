#include "passes/centre_weights.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "passes/binding_writer.h"
#include "passes/quantised_values.h"
#include "passes/rewrite.h"
#include "passes/views.h"

namespace anydim::passes {

using namespace ir;

namespace {

constexpr std::int64_t offset = 128;  // between u8 and i8

struct Span {
  std::int64_t low = 0, high = 0;
};

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
    Span span{tensor.integer_at(0), tensor.integer_at(0)};
    for (std::int64_t i = 1; i < tensor.elements(); ++i) {
      span.low = std::min(span.low, tensor.integer_at(i));
      span.high = std::max(span.high, tensor.integer_at(i));
    }
    return span;
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
    if (integers->low - zeros->high < least || integers->high - zeros->low > most)
      return shift(conversion, *weight, into);
    const bool as_it_is = weight->dtype == DType::I8 && zeros->low == 0 && zeros->high == 0;
    BindingWriter writer(function_, into, conversion.source,
                         function_.values[conversion.results[0]].name);
    const ValueId bytes =
        as_it_is ? weight->integers : writer.cast(conversion.operands[0], DType::I8);
    writer.emit(Op::cast, {bytes}, conversion.attributes, conversion.results[0]);
    changed_ = true;
    return true;
  }

  // Integers and zero points of u8 as those of i8, both lower by as much.
  bool shift(const Binding& conversion, const QuantisedValues::Centred& weight,
             std::vector<Binding>& into) {
    if (weight.dtype != DType::U8 || weight.zero == no_value) return false;
    std::vector<Binding> made;
    BindingWriter writer(function_, made, conversion.source,
                         function_.values[conversion.results[0]].name);
    const auto zero = shifted(weight.zero, writer);
    if (!zero) return false;
    const ValueId number = writer.number(DType::I32, static_cast<double>(offset));
    const ValueId bytes = writer.cast(writer.emit(Op::sub, {weight.wide, number}), DType::I8);
    const ValueId centred = writer.emit(Op::sub, {writer.cast(bytes, DType::I32), *zero});
    writer.emit(Op::cast, {centred}, conversion.attributes, conversion.results[0]);
    for (Binding& binding : made) into.push_back(std::move(binding));
    changed_ = true;
    return true;
  }

  // Zero points that were u8, in i32, as they were moved; nullopt where they are none.
  std::optional<ValueId> shifted(ValueId zero, BindingWriter& writer) const {
    if (const auto number = values_.number(zero); number && is_one_number(function_, zero))
      return writer.number(DType::I32, *number - offset);
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
