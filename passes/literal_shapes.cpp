// Operands that decide shapes become `shape(...)` and `dim(...)` literals over the dims that are
// known of them, else over their own elements, so that what reads them needs no tensor but for a
// size. What only computed them is dropped. Types must be inferred.
#include <optional>
#include <utility>
#include <vector>

#include "ir/shapes/infer.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace anydim::passes {

using namespace ir;

namespace {

void make_literals(Function& function, Block& block, const FunctionInference& facts) {
  std::vector<Binding> result;
  for (Binding& binding : block.bindings) {
    for (Block& nested : binding.blocks) make_literals(function, nested, facts);
    if (info(binding.op).has(traits::dynamic)) {
      for (std::size_t i = first_shape_operand(binding.op); i < binding.operands.size(); ++i) {
        ValueId operand = binding.operands[i];
        if (operand == no_value) continue;
        const TensorType& type = function.tensor_type(operand);
        if (!is_integer(type.dtype) || type.rank() > 1) continue;
        std::vector<Dim> elements;
        if (operand < facts.shape_data.size() && facts.shape_data[operand]) {
          elements = *facts.shape_data[operand];
        } else {
          auto length = type.rank() == 0 ? std::optional<std::int64_t>(1) : type.dims[0].constant();
          if (!length) continue;
          for (std::int64_t e = 0; e < *length; ++e) elements.push_back(Dim::value(operand, e));
        }
        if (binding.op == Op::dyn_arange && type.dtype != DType::I64) continue;
        Binding literal;
        literal.op = type.rank() == 0 ? Op::dim : Op::shape;
        literal.source = binding.source;
        std::vector<Dim> dims;
        if (type.rank() == 1) dims.emplace_back(static_cast<std::int64_t>(elements.size()));
        literal.results = {function.add_value("shape", TensorType{DType::I64, dims})};
        literal.dims = std::move(elements);
        binding.operands[i] = literal.results[0];
        result.push_back(std::move(literal));
      }
    }
    for (std::size_t i = 0; i < binding.operands.size(); ++i) {
      ValueId operand = binding.operands[i];
      if (!info(binding.op).reads_on_host(i) || operand == no_value || !facts.shape_data[operand])
        continue;
      Binding literal{.op = Op::dim, .dims = *facts.shape_data[operand], .source = binding.source};
      literal.results = {function.add_value("position", TensorType{DType::I64, {}})};
      binding.operands[i] = literal.results[0];
      result.push_back(std::move(literal));
    }
    result.push_back(std::move(binding));
  }
  block.bindings = std::move(result);
}

}  // namespace

void literal_shapes(Module& module, PassContext&) {
  const InferenceResult facts = infer_types(module);
  for (std::size_t i = 0; i < module.functions.size(); ++i) {
    Function& function = module.functions[i];
    make_literals(function, function.body, facts.functions[i]);
    drop_dead(function);  // what computed them
  }
}

}  // namespace anydim::passes
