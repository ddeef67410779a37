#include <cmath>
#include <numbers>

#include "passes/pattern.h"

namespace anydim::passes {

using namespace ir;

namespace {

// Hendrycks and Gimpel 2016: x P(X <= x), and its tanh form.
constexpr double inner_scale = 0.7978845608028654;  // sqrt(2 / pi)
constexpr double cubic = 0.044715;

// Factors of a product of `add`-free nested muls: one number and the other values, flattened.
struct Product {
  double number = 1;
  std::vector<ValueId> factors;
};

void flatten(const PatternGraph& graph, ValueId value, Product& product, int depth) {
  if (auto number = graph.number(value)) {
    product.number *= *number;
    return;
  }
  const Binding* found = graph.definition(value);
  if (found != nullptr && depth > 0 && found->op == Op::mul) {
    flatten(graph, found->operands[0], product, depth - 1);
    flatten(graph, found->operands[1], product, depth - 1);
  } else if (found != nullptr && depth > 0 && found->op == Op::div && graph.number(found->operands[1])) {
    product.number /= *graph.number(found->operands[1]);
    flatten(graph, found->operands[0], product, depth - 1);
  } else {
    product.factors.push_back(value);
  }
}

bool near(double a, double b) { return std::abs(a - b) <= 1e-5 * std::max(1.0, std::abs(b)); }

// The operand of 1 + f(...), either order.
const Binding* one_plus(const PatternGraph& graph, ValueId value, Op function) {
  const Binding* sum = graph.applied(value, Op::add);
  if (sum == nullptr) return nullptr;
  auto parts = graph.scaled(*sum);
  return parts && near(parts->first, 1) ? graph.applied(parts->second, function) : nullptr;
}

bool is_cube(const PatternGraph& graph, ValueId value, ValueId x) {
  if (const Binding* power = graph.applied(value, Op::pow)) return power->operands[0] == x && graph.is_number(power->operands[1], 3);
  return false;
}

// sqrt(2 / pi) * (x + 0.044715 x^3), also written x * (1 + 0.044715 x^2) and in any order of factors.
bool is_tanh_argument(const PatternGraph& graph, ValueId value, ValueId x) {
  Product product;
  flatten(graph, value, product, 3);
  if (!near(product.number, inner_scale)) return false;
  const Binding* sum = nullptr;
  bool times_x = product.factors.size() == 2;
  for (ValueId factor : product.factors) {
    if (const Binding* found = graph.applied(factor, Op::add)) sum = found;
    else if (factor != x) return false;
  }
  if (sum == nullptr || product.factors.size() > 2) return false;
  for (std::size_t i : {0u, 1u}) {
    bool first = times_x ? graph.is_number(sum->operands[i], 1) : sum->operands[i] == x;
    if (!first) continue;
    Product power;
    flatten(graph, sum->operands[1 - i], power, 4);
    if (!near(power.number, cubic)) continue;
    std::size_t degree = times_x ? 2 : 3;
    bool all_x = power.factors.size() == degree;
    for (ValueId factor : power.factors) all_x = all_x && factor == x;
    if (all_x) return true;
    if (power.factors.size() == 1) {
      if (degree == 3 && is_cube(graph, power.factors[0], x)) return true;
      const Binding* square = graph.applied(power.factors[0], Op::pow);
      if (degree == 2 && square != nullptr && square->operands[0] == x && graph.is_number(square->operands[1], 2)) return true;
    }
  }
  return false;
}

}  // namespace

// 0.5 * x * (1 + erf(x / sqrt(2))) and 0.5 * x * (1 + tanh(...)), factors in any order.
std::optional<std::vector<Binding>> match_gelu(Function&, const PatternGraph& graph, const Binding& binding) {
  if (binding.op != Op::mul || !is_float(graph.type(binding.results[0]).dtype)) return std::nullopt;
  Product product;
  flatten(graph, binding.results[0], product, 3);
  if (!near(product.number, 0.5) || product.factors.size() != 2) return std::nullopt;
  for (std::size_t i : {0u, 1u}) {
    ValueId x = product.factors[1 - i];
    Op op{};
    if (const Binding* erf = one_plus(graph, product.factors[i], Op::erf)) {
      Product argument;
      flatten(graph, erf->operands[0], argument, 1);
      if (!near(argument.number, std::numbers::sqrt2 / 2) || argument.factors != std::vector{x}) continue;
      op = Op::gelu;
    } else if (const Binding* tanh = one_plus(graph, product.factors[i], Op::tanh)) {
      if (!is_tanh_argument(graph, tanh->operands[0], x)) continue;
      op = Op::gelu_tanh;
    } else {
      continue;
    }
    if (!(graph.type(x) == graph.type(binding.results[0]))) continue;
    return std::vector{Binding{.op = op, .operands = {x}, .results = binding.results, .source = binding.source}};
  }
  return std::nullopt;
}

}  // namespace anydim::passes
