#include <algorithm>
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
  const bool widens = is_widening(graph.function(), *found) &&
                      is_float(graph.function().tensor_type(found->operands[0]).dtype);
  return widens || is_narrowing(graph.function(), *found) ? found->operands[0] : value;
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

// What is done to scaled products before the softmax.
struct ScoreTerm {
  enum class Kind : std::uint8_t {
    Added,     // x + number * value
    Selected,  // where(value, x, number), or with the branches exchanged
    AtLeast,   // max(x, number)
  };
  Kind kind = Kind::Added;
  ValueId value = no_value;
  double number = 0;
  bool exchanged = false;
};

struct Scores {
  const Binding* product = nullptr;  // q times transposed k
  double scale = 1;
  double softcap = 0;
  std::vector<ScoreTerm> terms{};  // in this order
};

// Whether the value is a product, scaled and capped: `scores` are then told of it.
bool are_plain_scores(const PatternGraph& graph, ValueId value, bool half, Scores& scores) {
  ValueId product = without_scale(graph, value, scores.scale, half);
  if (const Binding* tanh = graph.applied(product, Op::tanh); tanh != nullptr && scores.scale > 0) {
    scores.softcap = scores.scale;
    product = without_scale(graph, tanh->operands[0], scores.scale, half);
  }
  scores.product = graph.applied(product, Op::matmul);
  return scores.product != nullptr && graph.type(product).dims == graph.type(value).dims;
}

constexpr std::size_t most_terms = 6;

std::optional<Scores> scores_of(const PatternGraph& graph, ValueId value, bool half,
                                std::size_t depth = 0) {
  if (half) value = without_cast(graph, value);
  if (Scores scores; are_plain_scores(graph, value, half, scores)) return scores;
  if (depth == most_terms) return std::nullopt;
  double scale = 1;
  value = without_scale(graph, value, scale, half);
  const Binding* last = graph.definition(value);
  if (last == nullptr || !(scale > 0)) return std::nullopt;
  const auto with_term = [&](std::size_t i, ScoreTerm term) -> std::optional<Scores> {
    const ValueId operand = last->operands[i];
    if (graph.type(operand).dims != graph.type(value).dims) return std::nullopt;
    auto found = scores_of(graph, operand, half, depth + 1);
    if (!found) return std::nullopt;
    found->terms.push_back(term);
    found->scale *= scale;
    found->softcap *= scale;
    for (ScoreTerm& each : found->terms) each.number *= scale;
    return found;
  };
  if (last->op == Op::add) {
    for (const std::size_t i : {0u, 1u})
      if (auto found = with_term(i, {.value = last->operands[1 - i], .number = 1})) return found;
  } else if (last->op == Op::where || last->op == Op::max) {
    const bool selects = last->op == Op::where;
    const std::size_t first = selects ? 1 : 0;
    for (const std::size_t i : {first, first + 1}) {
      const double number = graph.number(last->operands[2 * first + 1 - i]).value_or(NAN);
      if (std::isnan(number)) continue;
      if (auto found =
              with_term(i, {.kind = selects ? ScoreTerm::Kind::Selected : ScoreTerm::Kind::AtLeast,
                            .value = selects ? last->operands[0] : no_value,
                            .number = number,
                            .exchanged = i != first}))
        return found;
    }
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

// What `terms` come to as one bias that is added; nullopt where only the run tells its dims.
class AddedTerms {
 public:
  AddedTerms(Function& function, DType dtype, const Binding& like, std::vector<Binding>& made)
      : function_(function), dtype_(dtype), like_(like), made_(made) {}

  std::optional<ValueId> bias(const std::vector<ScoreTerm>& terms) {
    std::optional<ValueId> bias;
    for (const ScoreTerm& term : terms) {
      bias = with(bias, term);
      if (!bias) return std::nullopt;
    }
    return bias;
  }

 private:
  std::optional<ValueId> with(std::optional<ValueId> bias, const ScoreTerm& term) {
    if (term.kind == ScoreTerm::Kind::Added) {
      ValueId added = converted(function_, term.value, dtype_, like_, made_);
      if (term.number != 1) added = *add(Op::mul, {added, number(term.number)});
      return bias ? add(Op::add, {*bias, added}) : added;
    }
    const ValueId before = bias ? *bias : number(0), other = number(term.number);
    if (term.kind == ScoreTerm::Kind::AtLeast) return add(Op::max, {before, other});
    return term.exchanged ? add(Op::where, {term.value, other, before})
                          : add(Op::where, {term.value, before, other});
  }

  ValueId number(double value) {
    Tensor tensor(dtype_, {});
    tensor.set_real(0, value);
    const ValueId made = function_.add_value("scores_number", TensorType{dtype_, {}});
    made_.push_back({.op = Op::constant,
                     .results = {made},
                     .attributes = {{"value", std::move(tensor)}},
                     .source = like_.source});
    return made;
  }

  std::optional<ValueId> add(Op op, std::vector<ValueId> operands) {
    std::vector<Dim> dims;
    for (const ValueId operand : operands) {
      auto both = broadcast(dims, function_.tensor_type(operand).dims);
      if (!both) return std::nullopt;
      dims = *std::move(both);
    }
    const ValueId made = function_.add_value("scores_bias", TensorType{dtype_, std::move(dims)});
    made_.push_back(
        {.op = op, .operands = std::move(operands), .results = {made}, .source = like_.source});
    return made;
  }

  Function& function_;
  DType dtype_;
  const Binding& like_;
  std::vector<Binding>& made_;
};

// Whether numbers that stand in place of scores are so large that a score added to them is lost in
// f32 and f64 alike: then they may as well be added.
bool absorb_scores(const PatternGraph& graph, const Scores& scores) {
  std::optional<double> least;
  for (const ScoreTerm& term : scores.terms)
    if (term.kind != ScoreTerm::Kind::Added)
      least = std::min(least.value_or(HUGE_VAL), std::abs(term.number));
  if (!least) return true;
  constexpr double lost = 0x1p-54;
  const double bound = graph.magnitude_at_most(scores.product->results[0]) * std::abs(scores.scale);
  return std::isfinite(bound) && bound <= lost * *least;
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
ValueId chosen_bias(Function& function, const ScoreTerm& selection, const Binding& like,
                    std::vector<Binding>& made) {
  if (!selection.exchanged) return selection.value;
  const ValueId bias = function.add_value("mask_bias", function.tensor_type(selection.value));
  made.push_back({.op = Op::logical_not,
                  .operands = {selection.value},
                  .results = {bias},
                  .source = like.source});
  return bias;
}

}  // namespace

// softmax(scale * q k^T + bias) v, also with where(mask, scores, fill) for the bias, with several
// biases and selections one after the other (where what they put in place of scores is so large
// that it may be added), with the scale on the scores, on q, on k or split between them, with
// scores bounded by c * tanh(scores / c), with weights of NaN replaced by 0, and of 16-bit numbers,
// whose conversions to and from f32 may stand anywhere.
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
  if (scores->terms.size() == 1 && scores->terms[0].kind == ScoreTerm::Kind::Selected) {
    made.operands.push_back(chosen_bias(function, scores->terms[0], binding, all));
    made.attributes.emplace("fill", scores->terms[0].number);
  } else if (!scores->terms.empty()) {
    if (!absorb_scores(graph, *scores)) return std::nullopt;
    const auto bias = AddedTerms(function, computed, binding, all).bias(scores->terms);
    if (!bias) return std::nullopt;
    made.operands.push_back(*bias);
  }
  made.attributes.emplace("scale", scores->scale);
  if (scores->softcap != 0) made.attributes.emplace("softcap", scores->softcap);
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
