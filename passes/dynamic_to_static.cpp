#include "passes/dynamic_to_static.h"

#include <deque>

#include "passes/rewrite.h"
#include "passes/static_form.h"

namespace anydim::passes {

using namespace ir;

namespace {

// Every round of a chain of shape arithmetic resolves at least one link that inference could not; models need two or three.
constexpr int round_budget = 16;

class Round {
 public:
  Round(Function& function, const FunctionInference& inference)
      : function_(function), inference_(inference), replacements_(function), constants_(function.values.size(), nullptr),
        literals_(function.values.size(), false) {}

  bool run() {
    walk(function_.body);
    replacements_.apply(function_);
    return changed_;
  }

 private:
  void walk(Block& block) {
    std::vector<Binding> result;
    result.reserve(block.bindings.size());
    for (Binding& binding : block.bindings) {
      replacements_.apply(binding);
      for (Block& nested : binding.blocks) walk(nested);
      RuleFacts facts{function_, inference_, constants_, literals_};
      if (auto value = unchanged(facts, binding)) {
        replacements_.replace(binding.results[0], *value);
        changed_ = true;
        continue;
      }
      std::vector<Binding> inserted = as_progression(facts, binding);
      if (!inserted.empty()) {
        for (Binding& counted : inserted) push(result, std::move(counted));
        changed_ = true;
        continue;
      }
      std::optional<Binding> better = as_literal(facts, binding);
      if (!better) better = folded(facts, binding);
      if (!better) better = resolved(facts, binding, inserted);
      for (Binding& literal : inserted) push(result, std::move(literal));
      changed_ = changed_ || better.has_value();
      push(result, better ? std::move(*better) : std::move(binding));
    }
    block.bindings = std::move(result);
  }

  void push(std::vector<Binding>& list, Binding binding) {
    constants_.resize(function_.values.size(), nullptr);
    literals_.resize(function_.values.size(), false);
    for (ValueId result : binding.results)
      literals_[result] = binding.op == Op::constant || binding.op == Op::shape || binding.op == Op::dim;
    list.push_back(std::move(binding));
    if (list.back().op == Op::constant) {
      tensors_.push_back(tensor_attribute(list.back(), "value"));
      constants_[list.back().results[0]] = &tensors_.back();
    }
  }

  Function& function_;
  const FunctionInference& inference_;
  Replacements replacements_;
  std::deque<Tensor> tensors_;
  std::vector<const Tensor*> constants_;
  std::vector<bool> literals_;
  bool changed_ = false;
};

void report(const Function& function, const Block& block, const RuleFacts& facts, std::vector<std::string>& reasons) {
  for (const Binding& binding : block.bindings) {
    for (const Block& nested : binding.blocks) report(function, nested, facts, reasons);
    if (std::string why = why_dynamic(facts, binding); !why.empty()) reasons.push_back(std::move(why));
  }
}

}  // namespace

void dynamic_to_static(Module& module, PassContext& context) {
  context.unresolved.clear();
  for (int round = 0; round < round_budget; ++round) {
    InferenceResult inference = ir::infer_types(module);
    bool changed = false;
    for (std::size_t i = 0; i < module.functions.size(); ++i) {
      Function& function = module.functions[i];
      if (Round(function, inference.functions[i]).run()) {
        drop_dead(function);
        changed = true;
      }
    }
    if (!changed) {
      for (std::size_t i = 0; i < module.functions.size(); ++i) {
        std::vector<const Tensor*> constants(module.functions[i].values.size(), nullptr);
        std::vector<bool> literals(module.functions[i].values.size(), false);
        RuleFacts facts{module.functions[i], inference.functions[i], constants, literals};
        report(module.functions[i], module.functions[i].body, facts, context.unresolved);
      }
      return;
    }
  }
}

}  // namespace anydim::passes
