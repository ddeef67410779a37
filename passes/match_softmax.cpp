#include "ir/expand.h"
#include "passes/pattern.h"

namespace anydim::passes {

using namespace ir;

namespace {

// a and b, where the binding is a / b, or a * (1 / b) either way round.
std::optional<std::pair<ValueId, ValueId>> quotient(const PatternGraph& graph,
                                                    const Binding& binding) {
  if (binding.op == Op::div) return std::pair{binding.operands[0], binding.operands[1]};
  if (binding.op != Op::mul) return std::nullopt;
  for (std::size_t i : {0u, 1u})
    if (const Binding* inverse = graph.applied(binding.operands[i], Op::reciprocal))
      return std::pair{binding.operands[1 - i], inverse->operands[0]};
  return std::nullopt;
}

}  // namespace

// exp(x - max(x)) / sum(exp(x - max(x))) over one axis.
std::optional<std::vector<Binding>> match_softmax(Function&, const PatternGraph& graph,
                                                  const Binding& binding) {
  auto parts = quotient(graph, binding);
  if (!parts || !is_float(graph.type(binding.results[0]).dtype)) return std::nullopt;
  const Binding* exponential = graph.applied(parts->first, Op::exp);
  const Binding* sum = graph.applied(parts->second, Op::reduce_sum);
  if (exponential == nullptr || sum == nullptr || sum->operands[0] != parts->first)
    return std::nullopt;
  const Binding* difference = graph.applied(exponential->operands[0], Op::sub);
  if (difference == nullptr) return std::nullopt;
  const Binding* maximum = graph.applied(difference->operands[1], Op::reduce_max);
  if (maximum == nullptr || maximum->operands[0] != difference->operands[0]) return std::nullopt;
  std::size_t rank = graph.type(difference->operands[0]).rank();
  std::vector<std::size_t> axes = normalised_axes(*sum, rank);
  bool kept =
      integer_attribute(*sum, "keepdims") != 0 && integer_attribute(*maximum, "keepdims") != 0;
  if (axes.size() != 1 || !kept || normalised_axes(*maximum, rank) != axes) return std::nullopt;
  Binding made{.op = Op::softmax,
               .operands = {difference->operands[0]},
               .results = binding.results,
               .source = binding.source};
  made.attributes.emplace("axis", static_cast<std::int64_t>(axes[0]));
  return std::vector{made};
}

}  // namespace anydim::passes
