#include "passes/separate_zero_points.h"

#include <map>
#include <optional>
#include <vector>

#include "ir/shapes/infer.h"
#include "passes/binding_writer.h"
#include "passes/rewrite.h"
#include "passes/views.h"

namespace anydim::passes {

using namespace ir;

namespace {

constexpr std::int64_t offset = 128;  // between u8 and i8

// An operand: integers, as i32, less a zero point.
struct Centred {
  ValueId integers = no_value;  // u8 or i8
  ValueId wide = no_value;      // the same as i32
  ValueId zero = no_value;      // i32; no_value: none
  DType dtype{};
};

class FunctionSeparation {
 public:
  explicit FunctionSeparation(Function& function) : function_(function) {}

  bool run() {
    separate(function_.body);
    return changed_;
  }

 private:
  void separate(Block& block) {
    std::vector<Binding> result;
    for (Binding& binding : block.bindings) {
      for (Block& nested : binding.blocks) separate(nested);
      if (binding.op == Op::constant || binding.op == Op::cast || binding.op == Op::sub ||
          binding.op == Op::mul || is_view(binding.op))
        for (const ValueId made : binding.results) definitions_.emplace(made, binding);
      if (!separate(binding, result)) result.push_back(std::move(binding));
    }
    block.bindings = std::move(result);
  }

  const Binding* definition(ValueId value, Op op) const {
    const auto found = definitions_.find(value);
    return found != definitions_.end() && found->second.op == op ? &found->second : nullptr;
  }

  std::optional<Centred> centred(ValueId value) const {
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

  // Whether the zero point is one number along the axis, counted from the end.
  bool is_same_along(ValueId zero, std::size_t from_end) const {
    if (zero == no_value) return true;
    const std::vector<Dim>& dims = function_.tensor_type(zero).dims;
    return dims.size() < from_end || dims[dims.size() - from_end].is_constant(1);
  }

  // Whether all elements are known to be `number`.
  bool is_constant(ValueId value, std::int64_t number) const {
    const auto found = definitions_.find(value);
    if (found == definitions_.end()) return false;
    const Binding& binding = found->second;
    if (binding.op == Op::sub || binding.op == Op::mul) return false;
    if (binding.op != Op::constant) {
      const DType from = function_.tensor_type(binding.operands[0]).dtype,
                  to = function_.tensor_type(value).dtype;
      return is_integer(from) && (from == to || size_of(from) < size_of(to)) &&
             is_constant(binding.operands[0], number);
    }
    const Tensor& tensor = tensor_attribute(binding, "value");
    for (std::int64_t i = 0; i < tensor.elements(); ++i)
      if (tensor.integer_at(i) != number) return false;
    return true;
  }

  // The operand as integers of `to`, the other 8-bit dtype, `by` more than they were.
  void shift(BindingWriter& writer, Centred& operand, DType to, std::int64_t by) const {
    if (operand.dtype == to) {
      if (operand.zero != no_value && is_constant(operand.zero, 0)) operand.zero = no_value;
      return;
    }
    const ValueId number = writer.number(DType::I32, static_cast<double>(by));
    operand.integers = writer.cast(writer.emit(Op::add, {operand.wide, number}), to);
    operand.wide = writer.cast(operand.integers, DType::I32);
    if (operand.zero == no_value) operand.zero = number;
    else if (is_constant(operand.zero, -by)) operand.zero = no_value;
    else operand.zero = writer.emit(Op::add, {operand.zero, number});
  }

  // An operand made real: integers less a zero point, as f32, times a scale.
  struct Real {
    ValueId centred = no_value;
    ValueId scale = no_value;
  };
  std::optional<Real> made_real(ValueId value) const {
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

  // A product of real operands as one of integers, times both scales; sums must fit i32.
  bool make_integer(const Binding& product, std::vector<Binding>& into) {
    constexpr std::int64_t most_terms = (std::int64_t{1} << 31) / (255 * 255) - 1;
    const auto left = made_real(product.operands[0]), right = made_real(product.operands[1]);
    if (!left || !right || !is_same_along(left->scale, 1) || !is_same_along(right->scale, 2))
      return false;
    if (bounds(function_.tensor_type(product.operands[0]).dims.back(), function_.symbols).high >
        most_terms)
      return false;
    BindingWriter writer(function_, into, product.source,
                         function_.values[product.results[0]].name);
    Binding integers{
        .op = Op::matmul, .operands = {left->centred, right->centred}, .source = product.source};
    integers.results = {writer.new_value()};
    const ValueId sums = integers.results[0];
    if (!separate(integers, into)) writer.push(std::move(integers));
    const ValueId scale = writer.emit(Op::mul, {left->scale, right->scale});
    writer.emit(Op::mul, {writer.cast(sums, DType::F32), scale}, {}, product.results[0]);
    changed_ = true;
    return true;
  }

  bool separate(const Binding& product, std::vector<Binding>& into) {
    if (product.op != Op::matmul) return false;
    if (make_integer(product, into)) return true;
    std::optional<Centred> left = centred(product.operands[0]),
                           right = centred(product.operands[1]);
    if (!left || !right || !is_same_along(left->zero, 1) || !is_same_along(right->zero, 2))
      return false;
    const bool plain = left->zero == no_value && right->zero == no_value;
    if (plain && left->dtype == DType::U8 && right->dtype == DType::I8) return false;
    changed_ = true;
    const std::size_t right_rank = function_.tensor_type(product.operands[1]).rank();
    BindingWriter writer(function_, into, product.source,
                         function_.values[product.results[0]].name);
    shift(writer, *left, DType::U8, offset);
    shift(writer, *right, DType::I8, -offset);

    std::vector<ValueId> terms;
    if (left->zero != no_value) {
      const ValueId distances =
          right->zero == no_value ? right->wide : writer.emit(Op::sub, {right->wide, right->zero});
      // a vector of columns says all of one matrix
      const std::int64_t keep = right_rank > 2 ? 1 : 0;
      const ValueId sums =
          writer.emit(Op::reduce_sum, {distances},
                      {{"axes", std::vector<std::int64_t>{-2}}, {"keepdims", keep}});
      terms.push_back(writer.emit(Op::mul, {left->zero, sums}));
    }
    if (right->zero != no_value) {
      const ValueId sums =
          writer.emit(Op::reduce_sum, {left->wide},
                      {{"axes", std::vector<std::int64_t>{-1}}, {"keepdims", std::int64_t{1}}});
      terms.push_back(writer.emit(Op::mul, {sums, right->zero}));
    }
    const ValueId result = product.results[0];
    ValueId value =
        writer.emit(Op::matmul, {left->wide, right->wide}, {}, terms.empty() ? result : no_value);
    for (std::size_t i = 0; i < terms.size(); ++i)
      value =
          writer.emit(Op::sub, {value, terms[i]}, {}, i + 1 == terms.size() ? result : no_value);
    return true;
  }

  Function& function_;
  std::map<ValueId, Binding> definitions_;  // of what operands and zero points are made with
  bool changed_ = false;
};

}  // namespace

void separate_zero_points(Module& module, PassContext&) {
  bool changed = false;
  for (Function& function : module.functions) {
    if (!FunctionSeparation(function).run()) continue;
    drop_dead(function);
    changed = true;
  }
  if (changed) infer_types(module);
}

}  // namespace anydim::passes
