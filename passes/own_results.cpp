// A result of the module that is a parameter, a stored constant, a checked view or another result
// is copied, so that each is computed by an op of its own. Types must be inferred.
#include <cstdint>
#include <set>
#include <utility>

#include "passes/fusible.h"
#include "passes/pass.h"

namespace anydim::passes {

using namespace ir;

void own_results(Module& module, PassContext&) {
  Function& function = module.functions[0];
  std::set<ValueId> own;
  for (const Binding& binding : function.body.bindings)
    if (!stays_outside(binding)) own.insert(binding.results.begin(), binding.results.end());
  for (ValueId& result : function.body.results) {
    if (own.erase(result) != 0 || !function.values[result].type.is_tensor()) continue;
    TensorType type = function.tensor_type(result);
    Binding literal{.op = Op::shape, .dims = type.dims};
    literal.results = {function.add_value(
        "shape", TensorType{DType::I64, {Dim(static_cast<std::int64_t>(type.dims.size()))}})};
    Binding copy{.op = Op::dyn_reshape, .operands = {result, literal.results[0]}};
    copy.attributes.emplace("zero_copies", std::int64_t{0});
    copy.results = {function.add_value(function.values[result].name + "_copy", type)};
    result = copy.results[0];
    function.body.bindings.push_back(std::move(literal));
    function.body.bindings.push_back(std::move(copy));
  }
}

}  // namespace anydim::passes
