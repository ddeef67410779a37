// Gives the names gelu, gelu_tanh, layer_norm, softmax and attention to the ways exporters write
// them out. Patterns match on ops and result types, in any order of commuting operands; what they
// leave behind is dropped. One file a pattern: match_<name>.cpp.
#include <limits>
#include <optional>

#include "passes/element_range.h"
#include "passes/pass.h"
#include "passes/pattern.h"
#include "passes/rewrite.h"

namespace anydim::passes {

using namespace ir;

namespace {

// Attention is made of a recognised softmax, so it comes in a round of its own.
constexpr PatternRule first_round[] = {match_gelu, match_layer_norm, match_softmax};
constexpr PatternRule second_round[] = {match_attention};

void run_round(Function& function, Block& block, std::span<const PatternRule> rules) {
  for (Binding& binding : block.bindings)
    for (Block& nested : binding.blocks) run_round(function, nested, rules);
  PatternGraph graph(function, block);
  std::vector<std::vector<Binding>> replacements(block.bindings.size());
  bool any = false;
  for (std::size_t i = 0; i < block.bindings.size(); ++i) {
    const std::vector<ValueId>& results = block.bindings[i].results;
    if (results.size() != 1 || !function.values[results[0]].type.is_tensor())
      continue;  // a composite is one tensor
    for (PatternRule rule : rules) {
      auto made = rule(function, graph, block.bindings[i]);
      if (!made) continue;
      replacements[i] = std::move(*made);
      any = true;
      break;
    }
  }
  if (!any) return;
  std::vector<Binding> result;
  for (std::size_t i = 0; i < block.bindings.size(); ++i) {
    if (replacements[i].empty()) result.push_back(std::move(block.bindings[i]));
    for (Binding& made : replacements[i]) result.push_back(std::move(made));
  }
  block.bindings = std::move(result);
}

// Weights that can be no NaN need no zeros in place of NaN.
void drop_needless_zeros(Function& function) {
  std::optional<ElementRanges> ranges;
  for (Binding& binding : function.body.bindings) {
    if (binding.op != Op::attention || integer_attribute(binding, "zero_nan") == 0) continue;
    constexpr double any = std::numeric_limits<double>::infinity();
    if (!ranges) ranges.emplace(function, function.body, any, ElementRanges::Norms::Numbers);
    if (ranges->weights_are_numbers(binding)) binding.attributes.erase("zero_nan");
  }
}

}  // namespace

void recognise_composites(Module& module, PassContext&) {
  for (Function& function : module.functions) {
    run_round(function, function.body, first_round);
    run_round(function, function.body, second_round);
    drop_dead(function);
    drop_needless_zeros(function);
  }
}

}  // namespace anydim::passes
