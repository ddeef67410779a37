// Operands of products in 16-bit floats or in bytes.
//
// Where options.precision is bf16 or f16, every f32 matmul and attention reads its matrices rounded
// to that dtype: a constant is converted here, once; any other operand is cast at its source, above
// the views between, so that what computes it can store it narrow. The products themselves are
// written over operands widened to f32 again, which is exact: sums, softmax and everything else
// stay f32. Where it is i8, matrices of attention and of the products that its queries and keys are
// made of are bf16, and other products with weights are of bytes (passes/quantise_products.h).
// Nothing is done for f32. Types must be inferred.
#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "ir/error.h"
#include "ir/shapes/infer.h"
#include "passes/pass.h"
#include "passes/quantise_products.h"
#include "passes/rewrite.h"
#include "passes/views.h"

namespace anydim::passes {

using namespace ir;

namespace {

// f32 elements as f16 or bf16, when they are read.
class Converted : public TensorSource {
 public:
  Converted(Tensor tensor, DType to) : tensor_(std::move(tensor)), to_(to) {}

  void read(std::span<std::byte> to) const override {
    const Tensor opened = tensor_.opened();
    const auto from = opened.as<float>();
    const std::span into(reinterpret_cast<std::uint16_t*>(to.data()), from.size());
    if (to_ == DType::BF16)
      for (std::size_t i = 0; i < from.size(); ++i) into[i] = float_to_bfloat16(from[i]);
    else
      for (std::size_t i = 0; i < from.size(); ++i) into[i] = float_to_half(from[i]);
  }

 private:
  Tensor tensor_;
  DType to_;
};

Tensor converted(const Tensor& tensor, DType to) {
  return {to, tensor.dims(), std::make_shared<Converted>(tensor, to)};
}

class FunctionLowering {
 public:
  // `only`: the results of matmuls whose operands are lowered, beside those of attention; null:
  // all.
  FunctionLowering(Function& function, DType precision, const std::set<ValueId>* only)
      : function_(function), precision_(precision), only_(only) {}

  bool run() {
    lower(function_.body);
    return changed_;
  }

 private:
  using Scope = std::map<ValueId, ValueId>;

  void lower(Block& block) {
    // What is made in a block is seen by the blocks inside it and by no other.
    const Scope narrow = narrow_, wide = wide_;
    std::vector<Binding> bindings = std::exchange(block.bindings, {});
    for (Binding& binding : bindings) {
      for (Block& nested : binding.blocks) lower(nested);
      for (std::size_t i = 0; i < matrices(binding); ++i)
        binding.operands[i] = widened(block, binding.operands[i], binding.source);
      // Only what is filled of a storage with room is worth a conversion.
      if (is_in_place(binding)) storages_.insert(binding.results[0]);
      const bool view = is_view(binding.op) && !storages_.contains(binding.operands[0]);
      if (view || binding.op == Op::constant || is_widening(function_, binding))
        for (ValueId result : binding.results) definitions_.emplace(result, binding);
      note_bytes(binding);
      block.bindings.push_back(std::move(binding));
    }
    narrow_ = narrow;
    wide_ = wide;
  }

  // Constants of bytes, and what is made of them by conversions, zero points, scales and views.
  void note_bytes(const Binding& binding) {
    const bool holds = binding.op == Op::constant &&
                       is_integer(tensor_attribute(binding, "value").dtype()) &&
                       size_of(tensor_attribute(binding, "value").dtype()) == 1;
    const bool keeps = binding.op == Op::cast || binding.op == Op::sub || binding.op == Op::mul ||
                       is_view(binding.op);
    const auto of_bytes = [&](ValueId operand) {
      return operand != no_value && weights_of_bytes_.contains(operand);
    };
    if (holds || (keeps && std::ranges::any_of(binding.operands, of_bytes)))
      weights_of_bytes_.insert(binding.results.begin(), binding.results.end());
  }

  std::size_t matrices(const Binding& binding) const {
    if (binding.op != Op::matmul && binding.op != Op::attention) return 0;
    // They are read as they are.
    if (binding.op == Op::matmul && weights_of_bytes_.contains(binding.operands[1])) return 0;
    if (binding.op == Op::matmul && only_ != nullptr && !only_->contains(binding.results[0]))
      return 0;
    return function_.tensor_type(binding.results[0]).dtype == DType::F32
               ? (binding.op == Op::matmul ? 2 : 3)
               : 0;
  }

  ValueId widened(Block& block, ValueId value, const std::string& source) {
    if (auto found = wide_.find(value); found != wide_.end()) return found->second;
    const ValueId narrow = narrowed(block, value, source);
    const ValueId wide = cast(block, narrow, DType::F32, function_.values[value].name, source);
    wide_.emplace(value, wide);
    changed_ = true;
    return wide;
  }

  ValueId narrowed(Block& block, ValueId value, const std::string& source) {
    if (auto found = narrow_.find(value); found != narrow_.end()) return found->second;
    const auto definition = definitions_.find(value);
    if (definition == definitions_.end())
      return remember(value, cast(block, value, precision_, function_.values[value].name, source));
    const Binding binding = definition->second;
    if (binding.op == Op::cast) {
      const bool same = function_.tensor_type(binding.operands[0]).dtype == precision_;
      return remember(value,
                      same ? binding.operands[0]
                           : cast(block, value, precision_, function_.values[value].name, source));
    }
    Binding copy = binding;
    if (binding.op == Op::constant)
      copy.attributes["value"] = converted(tensor_attribute(binding, "value"), precision_);
    else copy.operands[0] = narrowed(block, binding.operands[0], source);
    for (ValueId& result : copy.results) {
      TensorType type = function_.tensor_type(result);
      type.dtype = precision_;
      result =
          remember(result, function_.add_value(function_.values[result].name + suffix(), type));
    }
    block.bindings.push_back(std::move(copy));
    return narrow_.at(value);
  }

  ValueId remember(ValueId value, ValueId narrow) {
    narrow_[value] = narrow;
    return narrow;
  }

  ValueId cast(Block& block, ValueId value, DType to, const std::string& name,
               const std::string& source) {
    TensorType type = function_.tensor_type(value);
    type.dtype = to;
    const ValueId result =
        function_.add_value(name + (to == precision_ ? suffix() : "_wide"), type);
    block.bindings.push_back({.op = Op::cast,
                              .operands = {value},
                              .results = {result},
                              .attributes = {{"to", to}},
                              .source = source});
    return result;
  }

  std::string suffix() const { return "_" + std::string(name_of(precision_)); }

  Function& function_;
  const DType precision_;
  const std::set<ValueId>* only_;
  std::set<ValueId> storages_;              // results of overwrites in place
  std::map<ValueId, Binding> definitions_;  // constants, views and widening casts of this function
  std::set<ValueId> weights_of_bytes_;
  Scope narrow_, wide_;  // f32 values and what stands for them, visible here
  bool changed_ = false;
};

}  // namespace

void lower_precision(Module& module, PassContext& context) {
  const DType precision = context.options.precision;
  if (precision == DType::F32) return;
  internal_check(precision == DType::BF16 || precision == DType::F16 || precision == DType::I8,
                 "products are computed in f32, bf16, f16 or 8-bit integers");
  const bool bytes = precision == DType::I8;
  bool quantised = false;
  for (Function& function : module.functions) {
    const std::set<ValueId> scores = bytes ? products_of_scores(function) : std::set<ValueId>{};
    const bool narrowed =
        FunctionLowering(function, bytes ? DType::BF16 : precision, bytes ? &scores : nullptr)
            .run();
    const bool here = bytes && quantise_products(function, scores);
    if (narrowed || here) drop_dead(function);
    quantised = quantised || here;
  }
  if (quantised) infer_types(module);
}

}  // namespace anydim::passes
