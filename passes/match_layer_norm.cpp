#include <algorithm>

#include "ir/expand.h"
#include "passes/pattern.h"

namespace anydim::passes {

using namespace ir;

namespace {

// The mean over the trailing axes from `axis` on, keeping dims; the first axis, or nullopt.
std::optional<std::size_t> trailing_mean(const PatternGraph& graph, ValueId value, ValueId operand) {
  const Binding* mean = graph.applied(value, Op::reduce_mean);
  if (mean == nullptr || mean->operands[0] != operand || integer_attribute(*mean, "keepdims") == 0) return std::nullopt;
  std::size_t rank = graph.type(operand).rank();
  std::vector<std::size_t> axes = normalised_axes(*mean, rank);
  if (axes.empty() || axes.back() != rank - 1 || axes.size() != rank - axes.front()) return std::nullopt;
  return axes.front();
}

bool is_square(const PatternGraph& graph, ValueId value, ValueId of) {
  if (const Binding* product = graph.applied(value, Op::mul)) return product->operands[0] == of && product->operands[1] == of;
  const Binding* power = graph.applied(value, Op::pow);
  return power != nullptr && power->operands[0] == of && graph.is_number(power->operands[1], 2);
}

struct Normalised {
  ValueId x;
  std::size_t axis;
  double epsilon;
};

// sqrt(mean(d * d) + epsilon), d = x - mean(x).
std::optional<Normalised> deviation_of(const PatternGraph& graph, ValueId deviation, ValueId centred) {
  const Binding* root = graph.applied(deviation, Op::sqrt);
  const Binding* difference = graph.applied(centred, Op::sub);
  if (root == nullptr || difference == nullptr) return std::nullopt;
  ValueId x = difference->operands[0];
  const Binding* sum = graph.applied(root->operands[0], Op::add);
  if (sum == nullptr) return std::nullopt;
  auto parts = graph.scaled(*sum);
  if (!parts) return std::nullopt;
  const Binding* variance = graph.applied(parts->second, Op::reduce_mean);
  if (variance == nullptr || !is_square(graph, variance->operands[0], centred)) return std::nullopt;
  auto axis = trailing_mean(graph, difference->operands[1], x);
  if (!axis || trailing_mean(graph, parts->second, variance->operands[0]) != axis) return std::nullopt;
  return Normalised{x, *axis, parts->first};
}

// d / deviation, or d * (1 / deviation).
std::optional<Normalised> normalised(const PatternGraph& graph, ValueId value) {
  if (const Binding* quotient = graph.applied(value, Op::div)) return deviation_of(graph, quotient->operands[1], quotient->operands[0]);
  const Binding* product = graph.applied(value, Op::mul);
  if (product == nullptr) return std::nullopt;
  for (std::size_t i : {0u, 1u}) {
    const Binding* inverse = graph.definition(product->operands[i]);
    if (inverse == nullptr) continue;
    ValueId deviation = no_value;
    if (inverse->op == Op::reciprocal) deviation = inverse->operands[0];
    if (inverse->op == Op::div && graph.is_number(inverse->operands[0], 1)) deviation = inverse->operands[1];
    if (deviation == no_value) continue;
    if (auto found = deviation_of(graph, deviation, product->operands[1 - i])) return found;
  }
  return std::nullopt;
}

// A scale or bias over exactly the normalised dims.
bool covers(const PatternGraph& graph, ValueId parameter, const Normalised& found) {
  const std::vector<Dim>& dims = graph.type(found.x).dims;
  std::vector<Dim> trailing(dims.begin() + static_cast<std::ptrdiff_t>(found.axis), dims.end());
  return graph.type(parameter).dims == trailing;
}

struct Scaled {
  Normalised found;
  ValueId scale;
};

std::optional<Scaled> scaled(const PatternGraph& graph, ValueId value) {
  const Binding* product = graph.applied(value, Op::mul);
  if (product == nullptr) return std::nullopt;
  for (std::size_t i : {0u, 1u}) {
    auto found = normalised(graph, product->operands[i]);
    if (found && covers(graph, product->operands[1 - i], *found)) return Scaled{*found, product->operands[1 - i]};
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::vector<Binding>> match_layer_norm(Function&, const PatternGraph& graph, const Binding& binding) {
  if (binding.op != Op::add) return std::nullopt;
  for (std::size_t i : {0u, 1u}) {
    auto found = scaled(graph, binding.operands[i]);
    ValueId bias = binding.operands[1 - i];
    if (!found || !covers(graph, bias, found->found)) continue;
    Binding made{.op = Op::layer_norm, .operands = {found->found.x, found->scale, bias}, .results = binding.results, .source = binding.source};
    made.attributes.emplace("axis", static_cast<std::int64_t>(found->found.axis));
    made.attributes.emplace("epsilon", found->found.epsilon);
    return std::vector{made};
  }
  return std::nullopt;
}

}  // namespace anydim::passes
