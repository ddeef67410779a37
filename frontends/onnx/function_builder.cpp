#include "frontends/onnx/function_builder.h"

#include <fmt/format.h>

#include "ir/error.h"

namespace anydim::frontends {

FunctionBuilder::FunctionBuilder(std::string name, std::unordered_set<std::string> reserved) : names_(std::move(reserved)) {
  function_.name = std::move(name);
}

ir::ValueId FunctionBuilder::add_named(std::string name, ir::Type type, ir::DType dtype) {
  function_.values.push_back({std::move(name), std::move(type)});
  dtypes_.push_back(dtype);
  return static_cast<ir::ValueId>(function_.values.size() - 1);
}

ir::ValueId FunctionBuilder::add_intermediate(const std::string& stem, ir::DType dtype) {
  // The number counts through the function, so a second try is needed only where the model itself uses such a name.
  std::string name;
  do {
    name = fmt::format("{}.{}", stem, next_number_++);
  } while (!names_.insert(name).second);
  return add_named(std::move(name), {}, dtype);
}

void FunctionBuilder::rename(ir::ValueId id, std::string name) { function_.values[id].name = std::move(name); }

void FunctionBuilder::add_binding(ir::Binding binding) {
  if (binding.op == ir::Op::constant) constants_.emplace(binding.results[0], ir::tensor_attribute(binding, "value"));
  function_.body.bindings.push_back(std::move(binding));
}

const ir::Tensor* FunctionBuilder::constant(ir::ValueId id) const {
  const auto found = constants_.find(id);
  return found == constants_.end() ? nullptr : &found->second;
}

ir::DType result_dtype(const ir::Binding& binding, const FunctionBuilder& builder) {
  const ir::OpInfo& op = ir::info(binding.op);
  if (op.has(ir::traits::compares)) return ir::DType::Bool;
  switch (binding.op) {
    case ir::Op::constant: return ir::tensor_attribute(binding, "value").dtype();
    case ir::Op::shape_of: return ir::DType::I64;
    case ir::Op::cast: return ir::dtype_attribute(binding, "to");
    case ir::Op::where: return builder.dtype(binding.operands[1]);
    default: break;  // every other op that the reader emits keeps the type of its first operand
  }
  internal_check(!binding.operands.empty(), "an op that the reader emits has an operand or a known element type");
  return builder.dtype(binding.operands[0]);
}

}  // namespace anydim::frontends
