#include <algorithm>
#include <cmath>
#include <numbers>

#include "passes/pattern.h"

namespace anydim::passes {

using namespace ir;

namespace {

// Hendrycks and Gimpel 2016: x P(X <= x), and its tanh form.
constexpr double inner_scale = 0.7978845608028654;  // sqrt(2 / pi)
constexpr double cubic = 0.044715;

// Factors of nested muls and divisions by numbers: one number and the other values, flattened. A
// whole is never taken apart, so that a GELU's operand may itself be a product.
struct Product {
  double number = 1;
  std::vector<ValueId> factors;
};

void flatten(const PatternGraph& graph, ValueId value, ValueId whole, int depth, Product& product) {
  const Binding* found = graph.definition(value);
  if (auto number = graph.number(value)) {
    product.number *= *number;
  } else if (found != nullptr && value != whole && depth > 0 && found->op == Op::mul) {
    flatten(graph, found->operands[0], whole, depth - 1, product);
    flatten(graph, found->operands[1], whole, depth - 1, product);
  } else if (found != nullptr && value != whole && depth > 0 && found->op == Op::div &&
             graph.number(found->operands[1])) {
    product.number /= *graph.number(found->operands[1]);
    flatten(graph, found->operands[0], whole, depth - 1, product);
  } else {
    product.factors.push_back(value);
  }
}

Product factors_of(const PatternGraph& graph, ValueId value, ValueId whole, int depth) {
  Product product;
  flatten(graph, value, whole, depth, product);
  return product;
}

// What flatten() meets on its way down: any of them may be the operand.
void collect_parts(const PatternGraph& graph, ValueId value, int depth,
                   std::vector<ValueId>& parts) {
  const Binding* found = graph.definition(value);
  if (depth == 0 || found == nullptr || (found->op != Op::mul && found->op != Op::div)) return;
  for (ValueId operand : found->operands) {
    parts.push_back(operand);
    collect_parts(graph, operand, depth - 1, parts);
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

// The power of x that a factor is: x itself, or pow(x, 2) and pow(x, 3).
std::size_t degree_of(const PatternGraph& graph, ValueId factor, ValueId x) {
  if (factor == x) return 1;
  const Binding* power = graph.applied(factor, Op::pow);
  if (power == nullptr || power->operands[0] != x) return 0;
  for (std::size_t degree : {2u, 3u})
    if (graph.is_number(power->operands[1], static_cast<double>(degree))) return degree;
  return 0;
}

// sqrt(2 / pi) * (x + 0.044715 x^3), also written x * (1 + 0.044715 x^2) and in any order of
// factors.
bool is_tanh_argument(const PatternGraph& graph, ValueId value, ValueId x) {
  Product product = factors_of(graph, value, x, 3);
  if (!near(product.number, inner_scale) || product.factors.empty() || product.factors.size() > 2)
    return false;
  bool times_x = product.factors.size() == 2;
  if (times_x && product.factors[0] != x) std::swap(product.factors[0], product.factors[1]);
  if (times_x && product.factors[0] != x) return false;
  const Binding* sum = graph.applied(product.factors.back(), Op::add);
  if (sum == nullptr) return false;
  for (std::size_t i : {0u, 1u}) {
    bool first = times_x ? graph.is_number(sum->operands[i], 1) : sum->operands[i] == x;
    if (!first) continue;
    Product power = factors_of(graph, sum->operands[1 - i], x, 4);
    if (!near(power.number, cubic)) continue;
    std::size_t degree = times_x ? 2 : 3, found = 0;
    for (ValueId factor : power.factors) found += degree_of(graph, factor, x);
    bool only_x = std::all_of(power.factors.begin(), power.factors.end(),
                              [&](ValueId factor) { return degree_of(graph, factor, x) > 0; });
    if (only_x && found == degree) return true;
  }
  return false;
}

std::optional<Op> gelu_of(const PatternGraph& graph, ValueId value, ValueId x) {
  Product product = factors_of(graph, value, x, 3);
  if (!near(product.number, 0.5) || product.factors.size() != 2) return std::nullopt;
  for (std::size_t i : {0u, 1u}) {
    if (product.factors[i] != x) continue;
    ValueId other = product.factors[1 - i];
    if (const Binding* erf = one_plus(graph, other, Op::erf)) {
      Product argument = factors_of(graph, erf->operands[0], x, 2);
      if (near(argument.number, std::numbers::sqrt2 / 2) && argument.factors == std::vector{x})
        return Op::gelu;
    }
    if (const Binding* tanh = one_plus(graph, other, Op::tanh))
      if (is_tanh_argument(graph, tanh->operands[0], x)) return Op::gelu_tanh;
  }
  return std::nullopt;
}

}  // namespace

// 0.5 * x * (1 + erf(x / sqrt(2))) and 0.5 * x * (1 + tanh(...)), factors in any order.
std::optional<std::vector<Binding>> match_gelu(Function&, const PatternGraph& graph,
                                               const Binding& binding) {
  const bool divides = binding.op == Op::div && graph.number(binding.operands[1]);
  if ((binding.op != Op::mul && !divides) || !is_float(graph.type(binding.results[0]).dtype))
    return std::nullopt;
  std::vector<ValueId> parts;
  collect_parts(graph, binding.results[0], 3, parts);
  for (ValueId x : parts) {
    if (!(graph.type(x) == graph.type(binding.results[0]))) continue;
    if (auto op = gelu_of(graph, binding.results[0], x))
      return std::vector{Binding{
          .op = *op, .operands = {x}, .results = binding.results, .source = binding.source}};
  }
  return std::nullopt;
}

}  // namespace anydim::passes
