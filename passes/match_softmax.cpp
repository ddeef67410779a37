#include "ir/expand.h"
#include "passes/pattern.h"

namespace anydim::passes {

using namespace ir;

// exp(x - max(x)) / sum(exp(x - max(x))) over one axis.
std::optional<std::vector<Binding>> match_softmax(Function&, const PatternGraph& graph, const Binding& binding) {
  if (binding.op != Op::div) return std::nullopt;
  const Binding* exponential = graph.applied(binding.operands[0], Op::exp);
  const Binding* sum = graph.applied(binding.operands[1], Op::reduce_sum);
  if (exponential == nullptr || sum == nullptr || sum->operands[0] != binding.operands[0]) return std::nullopt;
  const Binding* difference = graph.applied(exponential->operands[0], Op::sub);
  if (difference == nullptr) return std::nullopt;
  const Binding* maximum = graph.applied(difference->operands[1], Op::reduce_max);
  if (maximum == nullptr || maximum->operands[0] != difference->operands[0]) return std::nullopt;
  std::size_t rank = graph.type(difference->operands[0]).rank();
  std::vector<std::size_t> axes = normalised_axes(*sum, rank);
  bool kept = integer_attribute(*sum, "keepdims") != 0 && integer_attribute(*maximum, "keepdims") != 0;
  if (axes.size() != 1 || !kept || normalised_axes(*maximum, rank) != axes) return std::nullopt;
  Binding made{.op = Op::softmax, .operands = {difference->operands[0]}, .results = binding.results, .source = binding.source};
  made.attributes.emplace("axis", static_cast<std::int64_t>(axes[0]));
  return std::vector{made};
}

}  // namespace anydim::passes
