// To a fixpoint: dynamic ops over constants become their static twins, over known dims they read a
// shape literal; integer results with known elements become literals, and what mentions their
// elements, or a symbol that was bound to one, mentions what is known; small results of constants
// are computed; ops that change nothing go away. What stays dynamic is listed in
// PassContext::unresolved with its reason.
#include <algorithm>
#include <deque>
#include <map>
#include <string>

#include "passes/pass.h"
#include "passes/rewrite.h"
#include "passes/static_form.h"

namespace anydim::passes {

using namespace ir;

namespace {

// Every round of a chain of shape arithmetic resolves at least one link that inference could not:
// most models need two or three, one that pads by what it computes of each layer's sizes a few a
// layer.
constexpr int round_budget = 256;

class Round {
 public:
  Round(Function& function, const FunctionInference& inference)
      : function_(function), inference_(inference), replacements_(function),
        constants_(function.values.size(), nullptr), literals_(function.values.size(), false) {
    for (const Requirement& requirement : inference.requirements)
      if (requirement.argument < 0) demanded_.emplace(requirement.value, &requirement);
  }

  bool run() {
    walk(function_.body);
    replacements_.apply(function_);
    if (!known_.empty()) substitute_symbols(function_, known_);
    if (!elements_.empty()) substitute_elements(function_.body);
    return changed_;
  }

 private:
  void walk(Block& block) {
    std::vector<Binding> result;
    result.reserve(block.bindings.size());
    for (Binding& binding : block.bindings) {
      replacements_.apply(binding);
      for (Block& nested : binding.blocks) walk(nested);
      if (binding.op == Op::branch) {
        if (take_block(binding, result)) continue;
        find_agreed(binding);
      }
      RuleFacts facts{function_, inference_, constants_, literals_};
      if (binding.op == Op::bind && know_bound(facts, binding)) continue;
      if (auto value = unchanged(facts, binding)) {
        state_demands(binding, result);
        replacements_.replace(binding.results[0], *value);
        changed_ = true;
        continue;
      }
      std::vector<Binding> inserted = as_progression(facts, binding);
      if (!inserted.empty()) {
        state_demands(binding, result);
        for (Binding& counted : inserted) push(result, std::move(counted));
        changed_ = true;
        continue;
      }
      std::optional<Binding> better = as_literal(facts, binding);
      if (!better) better = folded(facts, binding);
      if (!better) better = resolved(facts, binding, inserted);
      for (Binding& literal : inserted) push(result, std::move(literal));
      if (better) {
        state_demands(binding, result);
        know_elements(*better);
      }
      changed_ = changed_ || better.has_value();
      push(result, better ? std::move(*better) : std::move(binding));
    }
    block.bindings = std::move(result);
  }

  // What must hold at run time for a binding that goes: what takes its place relies on it and may
  // not demand it itself.
  void state_demands(const Binding& binding, std::vector<Binding>& result) {
    if (binding.results.empty()) return;
    const auto [first, last] = demanded_.equal_range(binding.results[0]);
    for (auto each = first; each != last; ++each)
      push(result, check_of(each->second->precondition, each->second->source));
  }

  // An `if` whose condition is known is the block that runs.
  bool take_block(Binding& binding, std::vector<Binding>& result) {
    if (binding.operands[0] >= inference_.shape_data.size()) return false;  // written in this round
    const ShapeData& condition = inference_.shape_data[binding.operands[0]];
    if (!condition || !condition->front().is_constant()) return false;
    Block taken = std::move(binding.blocks[condition->front().is_constant(0) ? 1 : 0]);
    for (Binding& inner : taken.bindings) push(result, std::move(inner));
    for (std::size_t i = 0; i < taken.results.size(); ++i) {
      const std::vector<Dim>&joined = dims(binding.results[i]), &one = dims(taken.results[i]);
      for (std::size_t axis = 0; axis < std::min(joined.size(), one.size()); ++axis)
        know(joined[axis], one[axis].substitute(known_));
      replacements_.replace(binding.results[i], taken.results[i]);
      function_.values[binding.results[i]].type = function_.values[taken.results[i]].type;
    }
    changed_ = true;
    return true;
  }

  // Branches whose results differed by symbols that are known now have the same: inference will
  // open none for them.
  void find_agreed(const Binding& binding) {
    if (known_.empty()) return;
    for (std::size_t i = 0; i < binding.results.size(); ++i) {
      const std::vector<Dim>&joined = dims(binding.results[i]),
            &left = dims(binding.blocks[0].results[i]), &right = dims(binding.blocks[1].results[i]);
      for (std::size_t axis = 0; axis < std::min({joined.size(), left.size(), right.size()});
           ++axis) {
        Dim one = left[axis].substitute(known_);
        if (one == right[axis].substitute(known_)) know(joined[axis], std::move(one));
      }
    }
  }

  const std::vector<Dim>& dims(ValueId value) const {
    return function_.values[value].type.tensor.dims;
  }
  void know(const Dim& symbol, Dim dim) {
    if (symbol.kind() == Dim::Kind::Symbol && symbol != dim)
      known_.emplace(symbol.leaf().symbol, std::move(dim));
  }

  // A symbol that stood for a size too large to carry along, or for an element, needs no name once
  // that is known and small.
  bool know_bound(const RuleFacts& facts, const Binding& bind) {
    const ShapeData& bound = facts.shape_data(bind.operands[0]);
    if (!bound || bound->front().kind() == Dim::Kind::Value ||
        bound->front().size() > largest_carried_size)
      return false;
    const Interval range = bounds(bound->front(), function_.symbols);
    if (range.low < 0 || range.high > *bind.dims[1].constant()) return false;
    know(bind.dims[0], bound->front().substitute(known_));
    return changed_ = true;
  }

  // Literals written before read the elements of what has become a literal itself.
  void know_elements(const Binding& literal) {
    const ValueId result = literal.results[0];
    const auto know_element = [&](std::size_t at, Dim dim) {
      elements_.emplace(element_leaf(result, static_cast<std::int64_t>(at)), std::move(dim));
    };
    if (literal.op == Op::shape || literal.op == Op::dim) {
      for (std::size_t i = 0; i < literal.dims.size(); ++i)
        know_element(i, literal.dims[i].substitute(known_));
      return;
    }
    if (literal.op != Op::constant) return;
    const Tensor& tensor = tensor_attribute(literal, "value");
    if (is_float(tensor.dtype()) || tensor.rank() > 1) return;
    for (std::int64_t i = 0; i < tensor.elements(); ++i)
      know_element(static_cast<std::size_t>(i), Dim(tensor.integer_at(i)));
  }

  void substitute_elements(Block& block) {
    for (Binding& binding : block.bindings) {
      for (Dim& dim : binding.dims) dim = dim.substitute(elements_);
      for (Block& nested : binding.blocks) substitute_elements(nested);
    }
  }

  void push(std::vector<Binding>& list, Binding binding) {
    constants_.resize(function_.values.size(), nullptr);
    literals_.resize(function_.values.size(), false);
    for (ValueId result : binding.results)
      literals_[result] =
          binding.op == Op::constant || binding.op == Op::shape || binding.op == Op::dim;
    list.push_back(std::move(binding));
    if (list.back().op == Op::constant) {
      tensors_.push_back(tensor_attribute(list.back(), "value"));
      constants_[list.back().results[0]] = &tensors_.back();
    }
  }

  Function& function_;
  const FunctionInference& inference_;
  std::multimap<ValueId, const Requirement*> demanded_;  // by the first result of what demands them
  Replacements replacements_;
  std::deque<Tensor> tensors_;
  std::vector<const Tensor*> constants_;
  std::vector<bool> literals_;
  // What symbols stand for whose binding goes, and the elements of what has become a literal.
  std::map<std::string, Dim> known_;
  std::map<DimLeaf, Dim> elements_;
  bool changed_ = false;
};

void report(const Function& function, const Block& block, const RuleFacts& facts,
            std::vector<std::string>& reasons) {
  for (const Binding& binding : block.bindings) {
    for (const Block& nested : binding.blocks) report(function, nested, facts, reasons);
    if (std::string why = why_dynamic(facts, binding); !why.empty())
      reasons.push_back(std::move(why));
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
