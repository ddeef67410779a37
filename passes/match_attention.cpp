#include <cmath>

#include "passes/pattern.h"

namespace anydim::passes {

using namespace ir;

namespace {

// A value without the numbers that it is multiplied and divided by.
ValueId without_scale(const PatternGraph& graph, ValueId value, double& scale) {
  for (;;) {
    const Binding* found = graph.definition(value);
    if (found != nullptr && found->op == Op::mul) {
      auto parts = graph.scaled(*found);
      if (!parts || !(graph.type(parts->second) == graph.type(value))) return value;
      scale *= parts->first;
      value = parts->second;
    } else if (found != nullptr && found->op == Op::div && graph.number(found->operands[1]) &&
               graph.type(found->operands[0]) == graph.type(value)) {
      scale /= *graph.number(found->operands[1]);
      value = found->operands[0];
    } else {
      return value;
    }
  }
}

struct Scores {
  const Binding* product = nullptr;  // q times transposed k
  double scale = 1;
  ValueId bias = no_value;
  const Binding* selection = nullptr;  // where(mask, scores, fill), or with the branches exchanged
};

std::optional<Scores> scores_of(const PatternGraph& graph, ValueId value) {
  Scores scores;
  ValueId product = without_scale(graph, value, scores.scale);
  if ((scores.product = graph.applied(product, Op::matmul)) != nullptr) return scores;
  const Binding* selection = graph.applied(value, Op::where);
  for (std::size_t i : {1u, 2u}) {
    if (selection == nullptr || std::isnan(graph.number(selection->operands[3 - i]).value_or(NAN))) continue;
    Scores inner{.selection = selection};
    ValueId under = without_scale(graph, selection->operands[i], inner.scale);
    inner.product = graph.applied(under, Op::matmul);
    if (inner.product != nullptr && graph.type(under) == graph.type(value)) return inner;
  }
  // scale * (q k + bias) would scale the bias too: only a bias added last is one.
  const Binding* sum = graph.applied(value, Op::add);
  if (sum == nullptr) return std::nullopt;
  for (std::size_t i : {0u, 1u}) {
    Scores inner;
    ValueId under = without_scale(graph, sum->operands[i], inner.scale);
    inner.product = graph.applied(under, Op::matmul);
    if (inner.product == nullptr || !(graph.type(under) == graph.type(value))) continue;
    inner.bias = sum->operands[1 - i];
    return inner;
  }
  return std::nullopt;
}

// Keys scaled before they are transposed: the transpose of the keys without their scale.
std::optional<Binding> scaled_below(Function& function, const PatternGraph& graph, ValueId transposed, double& scale) {
  const Binding* transpose = graph.applied(transposed, Op::transpose);
  if (transpose == nullptr) return std::nullopt;
  ValueId keys = without_scale(graph, transpose->operands[0], scale);
  if (keys == transpose->operands[0]) return std::nullopt;
  Binding moved = *transpose;
  moved.operands = {keys};
  moved.results = {function.add_value(function.values[transposed].name + "_unscaled", function.values[transposed].type)};
  return moved;
}

// The selection as bools that are true where scores stay.
ValueId chosen_bias(Function& function, const PatternGraph& graph, const Binding& selection, std::vector<Binding>& made) {
  const ValueId condition = selection.operands[0];
  if (graph.number(selection.operands[2])) return condition;
  const ValueId bias = function.add_value("mask_bias", graph.type(condition));
  made.push_back({.op = Op::logical_not, .operands = {condition}, .results = {bias}, .source = selection.source});
  return bias;
}

}  // namespace

// softmax(scale * q k^T + bias) v, also with where(mask, scores, fill) for the bias, with the scale on the scores, on q, on k or split between them.
std::optional<std::vector<Binding>> match_attention(Function& function, const PatternGraph& graph, const Binding& binding) {
  if (binding.op != Op::matmul) return std::nullopt;
  const Binding* softmax = graph.applied(binding.operands[0], Op::softmax);
  if (softmax == nullptr) return std::nullopt;
  const TensorType& result = graph.type(binding.results[0]);
  std::size_t rank = graph.type(softmax->operands[0]).rank();
  std::int64_t axis = integer_attribute(*softmax, "axis");
  if (rank < 2 || (axis != -1 && axis != static_cast<std::int64_t>(rank) - 1) || result.rank() != rank) return std::nullopt;
  if (result.dtype != DType::F32 && result.dtype != DType::F64) return std::nullopt;
  auto scores = scores_of(graph, softmax->operands[0]);
  if (!scores) return std::nullopt;
  ValueId q = without_scale(graph, scores->product->operands[0], scores->scale);
  ValueId transposed = without_scale(graph, scores->product->operands[1], scores->scale);
  std::vector<Binding> all;
  if (auto moved = scaled_below(function, graph, transposed, scores->scale)) {
    transposed = moved->results[0];
    all.push_back(std::move(*moved));
  }
  ValueId v = binding.operands[1];
  for (ValueId matrix : {q, transposed, v})
    if (function.tensor_type(matrix).rank() < 2 || function.tensor_type(matrix).rank() > rank) return std::nullopt;

  // attention takes k as [.., j, d]: one more transpose, which is only a view (and cancels one that is there).
  TensorType k_type = function.tensor_type(transposed);
  std::vector<std::int64_t> perm;
  for (std::size_t i = 0; i < k_type.rank(); ++i) perm.push_back(static_cast<std::int64_t>(i));
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  std::swap(k_type.dims[k_type.rank() - 1], k_type.dims[k_type.rank() - 2]);
  ValueId k = function.add_value(function.values[transposed].name + "_rows", k_type);
  Binding transpose{.op = Op::transpose, .operands = {transposed}, .results = {k}, .source = binding.source};
  transpose.attributes.emplace("perm", perm);
  Binding made{.op = Op::attention, .operands = {q, k, v}, .results = binding.results, .source = binding.source};
  all.push_back(std::move(transpose));
  if (const Binding* selection = scores->selection; selection != nullptr) {
    scores->bias = chosen_bias(function, graph, *selection, all);
    made.attributes.emplace("fill", *graph.number(selection->operands[graph.number(selection->operands[2]) ? 2 : 1]));
  }
  if (scores->bias != no_value) made.operands.push_back(scores->bias);
  made.attributes.emplace("scale", scores->scale);
  all.push_back(std::move(made));
  return all;
}

}  // namespace anydim::passes
