#include "tests/fuzz/reduction.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ir/error.h"
#include "ir/reference/evaluate.h"
#include "ir/shapes/infer.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"

namespace anydim::tests {

using namespace ir;

namespace {

void replace_uses(Block& block, ValueId from, ValueId to) {
  std::replace(block.results.begin(), block.results.end(), from, to);
  for (Binding& binding : block.bindings) {
    std::replace(binding.operands.begin(), binding.operands.end(), from, to);
    for (Block& inner : binding.blocks) replace_uses(inner, from, to);
  }
}

class Reducer {
 public:
  Reducer(RandomGraph graph, const std::function<bool(const RandomGraph&)>& fails)
      : graph_(std::move(graph)), fails_(fails) {}

  RandomGraph run() {
    std::size_t before;
    do {
      before = size();
      drop_calls();
      drop_results();
      drop_bindings();
      drop_parameters();
      drop_symbols();
      drop_functions();
      cut();
      bypass();
    } while (size() < before);
    return std::move(graph_);
  }

 private:
  Function& main(RandomGraph& graph) const { return graph.module.functions[0]; }
  const Function& main() const { return graph_.module.functions[0]; }

  // Falls with every step that is kept.
  std::size_t size() const {
    return print(graph_.module).size() + 1000 * graph_.calls.size() +
           100 * main().body.results.size();
  }

  // Keeps the candidate where it is a graph of its own and still fails.
  bool keep(RandomGraph candidate) {
    try {
      // Through the text, which knows no values that nothing binds and no symbols that nothing
      // opens.
      Function& function = main(candidate);
      const std::vector<ValueId> parameters = function.body.parameters;
      for (Value& value : function.values) {
        const auto id = static_cast<ValueId>(&value - function.values.data());
        if (std::find(parameters.begin(), parameters.end(), id) == parameters.end())
          value.type = {};
      }
      candidate.module = parse(print(candidate.module));
      const Module typed = typed_where_possible(candidate.module);
      for (const auto& inputs : candidate.calls)
        static_cast<void>(evaluate(typed, typed.functions[0], inputs));
    } catch (const Error&) {
      return false;
    }
    if (!fails_(candidate)) return false;
    graph_ = std::move(candidate);
    return true;
  }

  // What fails may be inference itself.
  static Module typed_where_possible(const Module& module) {
    Module typed = module;
    try {
      infer_types(typed);
      return typed;
    } catch (const Error&) {
      return module;
    }
  }

  void drop_calls() {
    for (std::size_t call = 0; call < graph_.calls.size() && graph_.calls.size() > 1;) {
      RandomGraph candidate = graph_;
      candidate.calls.erase(candidate.calls.begin() + static_cast<std::ptrdiff_t>(call));
      if (!keep(std::move(candidate))) ++call;
    }
  }

  void drop_results() {
    for (std::size_t i = 0; i < main().body.results.size() && main().body.results.size() > 1;) {
      RandomGraph candidate = graph_;
      main(candidate).body.results.erase(main(candidate).body.results.begin() +
                                         static_cast<std::ptrdiff_t>(i));
      main(candidate).result_names.erase(main(candidate).result_names.begin() +
                                         static_cast<std::ptrdiff_t>(i));
      if (!keep(std::move(candidate))) ++i;
    }
  }

  // From the last on, so that what only they read follows.
  void drop_bindings() {
    for (std::size_t i = main().body.bindings.size(); i-- > 0;) {
      if (i >= main().body.bindings.size()) continue;
      RandomGraph candidate = graph_;
      main(candidate).body.bindings.erase(main(candidate).body.bindings.begin() +
                                          static_cast<std::ptrdiff_t>(i));
      keep(std::move(candidate));  // text with a use of what nothing binds does not parse
    }
  }

  void drop_parameters() {
    for (std::size_t i = main().body.parameters.size(); i-- > 0;) {
      RandomGraph candidate = graph_;
      main(candidate).body.parameters.erase(main(candidate).body.parameters.begin() +
                                            static_cast<std::ptrdiff_t>(i));
      for (auto& inputs : candidate.calls)
        inputs.erase(inputs.begin() + static_cast<std::ptrdiff_t>(i));
      keep(std::move(candidate));
    }
  }

  void drop_symbols() {
    for (const std::string& name : std::vector<std::string>(main().symbols.names())) {
      RandomGraph candidate = graph_;
      main(candidate).symbols.remove(name);
      keep(std::move(candidate));
    }
  }

  static void renumber_calls(Block& block, std::uint32_t removed, bool& called) {
    for (Binding& binding : block.bindings) {
      if (binding.op == Op::call || binding.op == Op::closure) {
        called = called || binding.callee == removed;
        if (binding.callee > removed) --binding.callee;
      }
      for (Block& inner : binding.blocks) renumber_calls(inner, removed, called);
    }
  }

  void drop_functions() {
    for (std::size_t i = graph_.module.functions.size(); i-- > 1;) {
      RandomGraph candidate = graph_;
      auto& functions = candidate.module.functions;
      functions.erase(functions.begin() + static_cast<std::ptrdiff_t>(i));
      bool called = false;
      for (Function& function : functions)
        renumber_calls(function.body, static_cast<std::uint32_t>(i), called);
      if (!called) keep(std::move(candidate));
    }
  }

  // A parameter in place of what a binding computes.
  void cut() {
    for (std::size_t i = main().body.bindings.size(); i-- > 0;) {
      if (i >= main().body.bindings.size()) continue;
      const Binding binding = main().body.bindings[i];
      if (info(binding.op).has(traits::literal) || binding.results.empty()) continue;
      for (const bool own_symbols : {false, true})
        if (auto candidate = with_parameters(i, own_symbols);
            candidate && keep(std::move(*candidate)))
          break;
    }
  }

  std::optional<RandomGraph> with_parameters(std::size_t at, bool own_symbols) const {
    RandomGraph candidate = graph_;
    Function& function = main(candidate);
    const std::vector<ValueId> results = function.body.bindings[at].results;
    try {
      Module typed = graph_.module;
      infer_types(typed);
      Function probe = typed.functions[0];
      probe.body.results = results;
      probe.result_names.assign(results.size(), "probe");
      for (auto& inputs : candidate.calls) {
        const std::vector<Tensor> tensors = evaluate(typed, probe, inputs);
        inputs.insert(inputs.end(), tensors.begin(), tensors.end());
      }
      for (ValueId result : results) {
        TensorType type = typed.functions[0].tensor_type(result);
        for (std::size_t axis = 0; axis < type.dims.size(); ++axis) {
          const Dim& dim = type.dims[axis];
          const bool known = dim.kind() == Dim::Kind::Symbol &&
                             graph_.module.functions[0].symbols.contains(dim.leaf().symbol);
          if (dim.is_constant() || (known && !own_symbols)) continue;
          const std::string name = "c" + std::to_string(result) + "_" + std::to_string(axis);
          function.symbols.declare(name);
          type.dims[axis] = Dim::symbol(name);
        }
        const ValueId parameter = function.add_value("cut" + std::to_string(result), type);
        function.body.parameters.push_back(parameter);
        replace_uses(function.body, result, parameter);
      }
    } catch (const Error&) {
      return std::nullopt;
    }
    function.body.bindings.erase(function.body.bindings.begin() + static_cast<std::ptrdiff_t>(at));
    return candidate;
  }

  // An operand in place of what a binding computes of it.
  void bypass() {
    for (std::size_t i = main().body.bindings.size(); i-- > 0;) {
      if (i >= main().body.bindings.size()) continue;
      const Binding binding = main().body.bindings[i];
      if (binding.results.size() != 1) continue;
      for (ValueId operand : binding.operands) {
        if (operand == no_value) continue;
        RandomGraph candidate = graph_;
        replace_uses(main(candidate).body, binding.results[0], operand);
        main(candidate).body.bindings.erase(main(candidate).body.bindings.begin() +
                                            static_cast<std::ptrdiff_t>(i));
        if (keep(std::move(candidate))) break;
      }
    }
  }

  RandomGraph graph_;
  const std::function<bool(const RandomGraph&)>& fails_;
};

}  // namespace

RandomGraph reduce(RandomGraph graph, const std::function<bool(const RandomGraph&)>& fails) {
  return Reducer(std::move(graph), fails).run();
}

}  // namespace anydim::tests
