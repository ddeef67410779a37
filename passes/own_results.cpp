// A result of the module that is a parameter, a stored constant, a checked view or another result
// is copied, so that each is computed by an op of its own, or is what a drop_ones leaves of such
// an op's. Types must be inferred.
#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "passes/fusible.h"
#include "passes/pass.h"

namespace anydim::passes {

using namespace ir;

namespace {

// A copy of the value, computed at the block's end.
ValueId copy_of(Function& function, ValueId value) {
  TensorType type = function.tensor_type(value);
  Binding literal{.op = Op::shape, .dims = type.dims};
  literal.results = {function.add_value(
      "shape", TensorType{DType::I64, {Dim(static_cast<std::int64_t>(type.dims.size()))}})};
  Binding copy{.op = Op::dyn_reshape, .operands = {value, literal.results[0]}};
  copy.attributes.emplace("zero_copies", std::int64_t{0});
  copy.results = {function.add_value(function.values[value].name + "_copy", std::move(type))};
  const ValueId made = copy.results[0];
  function.body.bindings.push_back(std::move(literal));
  function.body.bindings.push_back(std::move(copy));
  return made;
}

}  // namespace

void own_results(Module& module, PassContext&) {
  Function& function = module.functions[0];
  std::vector<Binding>& bindings = function.body.bindings;
  std::set<ValueId> own, dropped;
  for (const Binding& binding : bindings)
    if (!stays_outside(binding)) own.insert(binding.results.begin(), binding.results.end());
  for (ValueId& result : function.body.results) {
    const auto drop = std::ranges::find_if(bindings, [&](const Binding& binding) {
      return binding.op == Op::drop_ones && binding.results[0] == result;
    });
    if (drop == bindings.end()) {
      if (own.erase(result) == 0 && function.values[result].type.is_tensor())
        result = copy_of(function, result);
      continue;
    }
    const bool again = !dropped.insert(result).second;
    if (!again && own.erase(drop->operands[0]) != 0) continue;
    Binding other = *drop;
    if (again) {
      const Value& value = function.values[result];
      result = other.results[0] = function.add_value(value.name + "_copy", value.type);
    } else {
      bindings.erase(drop);
    }
    other.operands[0] = copy_of(function, other.operands[0]);
    bindings.push_back(std::move(other));
  }
}

}  // namespace anydim::passes
