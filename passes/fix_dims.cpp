// A symbol of inputs that has one value is that number: what follows asks of dims whether they are
// constants. Types must be inferred.
#include <map>
#include <string>

#include "ir/shapes/shape_rule.h"
#include "passes/pass.h"

namespace anydim::passes {

using namespace ir;

void fix_dims(Module& module, PassContext&) {
  for (Function& function : module.functions) {
    std::map<std::string, Dim> values;
    for (const std::string& name : parameter_symbols(function))
      if (const SymbolInfo& known = *function.symbols.find(name); known.low == known.high)
        values.emplace(name, known.low);
    if (values.empty()) continue;
    substitute_symbols(function, values);
    std::erase_if(function.body.bindings, [&](const Binding& binding) {
      return binding.op == Op::check &&
             prove(precondition_of(binding), function.symbols) == Proof::Yes;
    });
  }
}

}  // namespace anydim::passes
