#include <cmath>

#include "passes/pattern.h"
#include "passes/views.h"

namespace anydim::passes {

using namespace ir;

namespace {

// Attention of 16-bit numbers may be computed in f32 from its operands to its result: what it
// rounds in between is left out, conversions with it.
ValueId without_cast(const PatternGraph& graph, ValueId value) {
  const Binding* found = graph.definition(value);
  if (found == nullptr) return value;
  return is_widening(graph.function(), *found) || is_narrowing(graph.function(), *found)
             ? found->operands[0]
             : value;
}

// A value without the numbers that it is multiplied and divided by; without conversions where
// `half`.
ValueId without_scale(const PatternGraph& graph, ValueId value, double& scale, bool half = false) {
  for (;;) {
    if (half) value = without_cast(graph, value);
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
  std::vector<ValueId> biases{};       // added to the scaled product, one after the other
  const Binding* selection = nullptr;  // where(mask, scores, fill), or with the branches exchanged
};

// scale * (q k + bias) would scale the bias too: only what is added last is one.
constexpr std::size_t most_biases = 4;

std::optional<Scores> scores_of(const PatternGraph& graph, ValueId value, bool half,
                                std::size_t biases = 0) {
  Scores scores;
  if (half) value = without_cast(graph, value);
  const auto same_dims = [&](ValueId other) {
    return graph.type(other).dims == graph.type(value).dims;
  };
  ValueId product = without_scale(graph, value, scores.scale, half);
  if ((scores.product = graph.applied(product, Op::matmul)) != nullptr) return scores;
  const Binding* selection = biases == 0 ? graph.applied(value, Op::where) : nullptr;
  for (std::size_t i : {1u, 2u}) {
    if (selection == nullptr || std::isnan(graph.number(selection->operands[3 - i]).value_or(NAN)))
      continue;
    Scores inner{.selection = selection};
    ValueId under = without_scale(graph, selection->operands[i], inner.scale, half);
    inner.product = graph.applied(under, Op::matmul);
    if (inner.product != nullptr && same_dims(under)) return inner;
  }
  const Binding* sum = graph.applied(value, Op::add);
  if (sum == nullptr || biases == most_biases) return std::nullopt;
  for (std::size_t i : {0u, 1u}) {
    if (!same_dims(sum->operands[i])) continue;
    auto inner = scores_of(graph, sum->operands[i], half, biases + 1);
    if (!inner) continue;
    inner->biases.push_back(sum->operands[1 - i]);
    return inner;
  }
  return std::nullopt;
}

// The dims of a sum of both; nullopt where only the run tells.
std::optional<std::vector<Dim>> broadcast(std::vector<Dim> a, std::vector<Dim> b) {
  if (a.size() < b.size()) std::swap(a, b);
  for (std::size_t at = 0, missing = a.size() - b.size(); at < b.size(); ++at) {
    Dim& dim = a[missing + at];
    if (dim.is_constant(1)) dim = b[at];
    else if (!b[at].is_constant(1) && !(dim == b[at])) return std::nullopt;
  }
  return a;
}

ValueId converted(Function& function, ValueId value, DType to, const Binding& like,
                  std::vector<Binding>& made) {
  TensorType type = function.tensor_type(value);
  if (type.dtype == to) return value;
  type.dtype = to;
  const ValueId result = function.add_value(
      function.values[value].name + "_" + std::string(name_of(to)), std::move(type));
  made.push_back({.op = Op::cast,
                  .operands = {value},
                  .results = {result},
                  .attributes = {{"to", to}},
                  .source = like.source});
  return result;
}

// One bias for all.
std::optional<ValueId> sum_of(Function& function, std::vector<ValueId> biases, DType dtype,
                              const Binding& like, std::vector<Binding>& made) {
  for (ValueId& bias : biases)
    if (function.tensor_type(bias).dtype != DType::Bool)
      bias = converted(function, bias, dtype, like, made);
  ValueId sum = biases[0];
  for (std::size_t i = 1; i < biases.size(); ++i) {
    const TensorType& type = function.tensor_type(sum);
    auto dims = broadcast(type.dims, function.tensor_type(biases[i]).dims);
    if (!dims) return std::nullopt;
    const TensorType both{type.dtype, std::move(*dims)};
    const ValueId next = function.add_value("scores_bias", both);
    made.push_back(
        {.op = Op::add, .operands = {sum, biases[i]}, .results = {next}, .source = like.source});
    sum = next;
  }
  return sum;
}

struct Weights {
  const Binding* softmax = nullptr;
  // where(is_nan(softmax), 0, softmax), which torch writes for rows that see no key
  bool zero_nan = false;
};

Weights weights_of(const PatternGraph& graph, ValueId value, bool half) {
  if (half) value = without_cast(graph, value);
  if (const Binding* softmax = graph.applied(value, Op::softmax)) return {softmax, false};
  const Binding* guarded = graph.applied(value, Op::where);
  if (guarded == nullptr || graph.number(guarded->operands[1]) != 0.0) return {};
  const Binding* asked = graph.applied(guarded->operands[0], Op::is_nan);
  if (asked == nullptr || asked->operands[0] != guarded->operands[2]) return {};
  return {graph.applied(guarded->operands[2], Op::softmax), true};
}

// Keys scaled before they are transposed: the transpose of the keys without their scale.
std::optional<Binding> scaled_below(Function& function, const PatternGraph& graph,
                                    ValueId transposed, double& scale) {
  const Binding* transpose = graph.applied(transposed, Op::transpose);
  if (transpose == nullptr) return std::nullopt;
  ValueId keys = without_scale(graph, transpose->operands[0], scale);
  if (keys == transpose->operands[0]) return std::nullopt;
  Binding moved = *transpose;
  moved.operands = {keys};
  moved.results = {function.add_value(function.values[transposed].name + "_unscaled",
                                      function.values[transposed].type)};
  return moved;
}

// The selection as bools that are true where scores stay.
ValueId chosen_bias(Function& function, const PatternGraph& graph, const Binding& selection,
                    std::vector<Binding>& made) {
  const ValueId condition = selection.operands[0];
  if (graph.number(selection.operands[2])) return condition;
  const ValueId bias = function.add_value("mask_bias", graph.type(condition));
  made.push_back({.op = Op::logical_not,
                  .operands = {condition},
                  .results = {bias},
                  .source = selection.source});
  return bias;
}

}  // namespace

// softmax(scale * q k^T + bias) v, also with where(mask, scores, fill) for the bias, with several
// biases, with the scale on the scores, on q, on k or split between them, with weights of NaN
// replaced by 0, and of 16-bit numbers, whose conversions to and from f32 may stand anywhere.
std::optional<std::vector<Binding>> match_attention(Function& function, const PatternGraph& graph,
                                                    const Binding& binding) {
  if (binding.op != Op::matmul) return std::nullopt;
  const TensorType result = graph.type(binding.results[0]);
  const bool half = is_half(result.dtype);
  if (!half && result.dtype != DType::F32 && result.dtype != DType::F64) return std::nullopt;
  const auto [softmax, zero_nan] = weights_of(graph, binding.operands[0], half);
  if (softmax == nullptr) return std::nullopt;
  std::size_t rank = graph.type(softmax->operands[0]).rank();
  std::int64_t axis = integer_attribute(*softmax, "axis");
  if (rank < 2 || (axis != -1 && axis != static_cast<std::int64_t>(rank) - 1) ||
      result.rank() != rank)
    return std::nullopt;
  auto scores = scores_of(graph, softmax->operands[0], half);
  if (!scores) return std::nullopt;
  ValueId q = without_scale(graph, scores->product->operands[0], scores->scale, half);
  ValueId transposed = without_scale(graph, scores->product->operands[1], scores->scale, half);
  std::vector<Binding> all;
  if (auto moved = scaled_below(function, graph, transposed, scores->scale)) {
    transposed = moved->results[0];
    all.push_back(std::move(*moved));
  }
  ValueId v = binding.operands[1];
  const DType computed = half ? DType::F32 : result.dtype;
  for (ValueId* matrix : {&q, &transposed, &v})
    *matrix = converted(function, *matrix, computed, binding, all);
  for (ValueId matrix : {q, transposed, v})
    if (function.tensor_type(matrix).rank() < 2 || function.tensor_type(matrix).rank() > rank)
      return std::nullopt;

  // attention takes k as [.., j, d]: one more transpose, which is only a view (and cancels one that
  // is there).
  TensorType k_type = function.tensor_type(transposed);
  std::vector<std::int64_t> perm;
  for (std::size_t i = 0; i < k_type.rank(); ++i) perm.push_back(static_cast<std::int64_t>(i));
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  std::swap(k_type.dims[k_type.rank() - 1], k_type.dims[k_type.rank() - 2]);
  ValueId k = function.add_value(function.values[transposed].name + "_rows", k_type);
  Binding transpose{
      .op = Op::transpose, .operands = {transposed}, .results = {k}, .source = binding.source};
  transpose.attributes.emplace("perm", perm);
  Binding made{.op = Op::attention,
               .operands = {q, k, v},
               .results = binding.results,
               .source = binding.source};
  if (half)
    made.results = {function.add_value(function.values[binding.results[0]].name + "_f32",
                                       TensorType{computed, result.dims})};
  all.push_back(std::move(transpose));
  if (const Binding* selection = scores->selection; selection != nullptr) {
    scores->biases = {chosen_bias(function, graph, *selection, all)};
    made.attributes.emplace(
        "fill", *graph.number(selection->operands[graph.number(selection->operands[2]) ? 2 : 1]));
  }
  if (!scores->biases.empty()) {
    const auto bias = sum_of(function, scores->biases, computed, binding, all);
    if (!bias) return std::nullopt;
    made.operands.push_back(*bias);
  }
  made.attributes.emplace("scale", scores->scale);
  if (zero_nan) made.attributes.emplace("zero_nan", std::int64_t{1});
  const ValueId weighted = made.results[0];
  all.push_back(std::move(made));
  if (half)
    all.push_back({.op = Op::cast,
                   .operands = {weighted},
                   .results = binding.results,
                   .attributes = {{"to", result.dtype}},
                   .source = binding.source});
  return all;
}

}  // namespace anydim::passes
