
#include "ir/expand.h"
#include "passes/pattern.h"

namespace anydim::passes {

using namespace ir;

namespace {

// The mean over the trailing axes from `axis` on, keeping dims; the first axis, or nullopt.
std::optional<std::size_t> trailing_mean(const PatternGraph& graph, ValueId value,
                                         ValueId operand) {
  const Binding* mean = graph.applied(value, Op::reduce_mean);
  if (mean == nullptr || mean->operands[0] != operand || integer_attribute(*mean, "keepdims") == 0)
    return std::nullopt;
  std::size_t rank = graph.type(operand).rank();
  std::vector<std::size_t> axes = normalised_axes(*mean, rank);
  if (axes.empty() || axes.back() != rank - 1 || axes.size() != rank - axes.front())
    return std::nullopt;
  return axes.front();
}

bool is_square(const PatternGraph& graph, ValueId value, ValueId of) {
  if (const Binding* product = graph.applied(value, Op::mul))
    return product->operands[0] == of && product->operands[1] == of;
  const Binding* power = graph.applied(value, Op::pow);
  return power != nullptr && power->operands[0] == of && graph.is_number(power->operands[1], 2);
}

// The inverse of a value: reciprocal, 1 / value, or value to the power of -1 or -1/2 (`root`: of
// the value's square root).
struct Inverse {
  ValueId value = no_value;
  bool root = false;
};

std::optional<Inverse> inverse_of(const PatternGraph& graph, ValueId value) {
  const Binding* found = graph.definition(value);
  if (found == nullptr) return std::nullopt;
  if (found->op == Op::reciprocal) return Inverse{found->operands[0]};
  if (found->op == Op::div && graph.is_number(found->operands[0], 1))
    return Inverse{found->operands[1]};
  if (found->op == Op::pow && graph.is_number(found->operands[1], -1))
    return Inverse{found->operands[0]};
  if (found->op == Op::pow && graph.is_number(found->operands[1], -0.5))
    return Inverse{found->operands[0], true};
  return std::nullopt;
}

// Factors above and below the line of nested muls and divisions.
struct Fraction {
  std::vector<ValueId> above;
  std::vector<Inverse> below;
};

void flatten(const PatternGraph& graph, ValueId value, int depth, Fraction& fraction) {
  const Binding* found = graph.definition(value);
  if (auto inverse = inverse_of(graph, value)) {
    fraction.below.push_back(*inverse);
  } else if (found != nullptr && depth > 0 && found->op == Op::mul) {
    flatten(graph, found->operands[0], depth - 1, fraction);
    flatten(graph, found->operands[1], depth - 1, fraction);
  } else if (found != nullptr && depth > 0 && found->op == Op::div) {
    flatten(graph, found->operands[0], depth - 1, fraction);
    fraction.below.push_back({found->operands[1]});
  } else {
    fraction.above.push_back(value);
  }
}

struct Normalised {
  ValueId x;
  ValueId scale;
  std::size_t axis;
  double epsilon;
};

// The variance plus epsilon, of which a deviation is the root.
std::optional<ValueId> under_root(const PatternGraph& graph, const Inverse& deviation) {
  if (deviation.root) return deviation.value;
  const Binding* root = graph.definition(deviation.value);
  if (root == nullptr) return std::nullopt;
  bool is_root =
      root->op == Op::sqrt || (root->op == Op::pow && graph.is_number(root->operands[1], 0.5));
  return is_root ? std::optional(root->operands[0]) : std::nullopt;
}

// A scale or bias over exactly the normalised dims.
bool covers(const PatternGraph& graph, ValueId parameter, ValueId x, std::size_t axis) {
  const std::vector<Dim>& dims = graph.type(x).dims;
  std::vector<Dim> trailing(dims.begin() + static_cast<std::ptrdiff_t>(axis), dims.end());
  return graph.type(parameter).dims == trailing;
}

// d / sqrt(mean(d * d) + epsilon) * scale with d = x - mean(x), factors in any order.
std::optional<Normalised> normalised(const PatternGraph& graph, ValueId value) {
  Fraction fraction;
  flatten(graph, value, 3, fraction);
  if (fraction.above.size() != 2 || fraction.below.size() != 1) return std::nullopt;
  auto inside = under_root(graph, fraction.below[0]);
  const Binding* sum = inside ? graph.applied(*inside, Op::add) : nullptr;
  auto parts = sum != nullptr ? graph.scaled(*sum) : std::nullopt;
  const Binding* variance = parts ? graph.applied(parts->second, Op::reduce_mean) : nullptr;
  if (variance == nullptr) return std::nullopt;
  for (std::size_t i : {0u, 1u}) {
    ValueId centred = fraction.above[i], scale = fraction.above[1 - i];
    const Binding* difference = graph.applied(centred, Op::sub);
    if (difference == nullptr || !is_square(graph, variance->operands[0], centred)) continue;
    ValueId x = difference->operands[0];
    auto axis = trailing_mean(graph, difference->operands[1], x);
    if (!axis || trailing_mean(graph, parts->second, variance->operands[0]) != axis ||
        !covers(graph, scale, x, *axis))
      continue;
    if (!(graph.type(x) == graph.type(value))) continue;
    return Normalised{x, scale, *axis, parts->first};
  }
  return std::nullopt;
}

Binding made_of(const Normalised& found, const Binding& binding) {
  Binding made{.op = Op::layer_norm,
               .operands = {found.x, found.scale},
               .results = binding.results,
               .source = binding.source};
  made.attributes.emplace("axis", static_cast<std::int64_t>(found.axis));
  made.attributes.emplace("epsilon", found.epsilon);
  return made;
}

}  // namespace

// Where a bias follows, the product below the addition is matched too, and dropped as dead.
std::optional<std::vector<Binding>> match_layer_norm(Function&, const PatternGraph& graph,
                                                     const Binding& binding) {
  if (!is_float(graph.type(binding.results[0]).dtype)) return std::nullopt;
  if (binding.op == Op::mul || binding.op == Op::div) {
    if (auto found = normalised(graph, binding.results[0]))
      return std::vector{made_of(*found, binding)};
  }
  if (binding.op != Op::add) return std::nullopt;
  for (std::size_t i : {0u, 1u}) {
    ValueId bias = binding.operands[1 - i];
    auto found = normalised(graph, binding.operands[i]);
    if (!found || !covers(graph, bias, found->x, found->axis)) continue;
    Binding made = made_of(*found, binding);
    made.operands.push_back(bias);
    return std::vector{made};
  }
  return std::nullopt;
}

}  // namespace anydim::passes
