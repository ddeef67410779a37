// Support vector machines of ai.onnx.ml.
#include <numeric>
#include <utility>

#include "frontends/onnx/importers.h"
#include "frontends/onnx/ml_scores.h"
#include "frontends/sizes.h"

namespace anydim::frontends {

namespace {

// Ops on f32.
class Real {
 public:
  explicit Real(Node& node) : node(node) {}
  Value table(Ints dims, const std::vector<double>& values) {
    return node.constant(ir::Tensor::of(DType::F32, std::move(dims), values));
  }
  Value column(Value x, std::int64_t at) { return slice(x, 1, at, at + 1); }

  Node& node;
};

// What rows and `count` vectors have in common: [rows, count].
Value kernel(Real& real, const std::vector<double>& vectors, std::int64_t count) {
  Node& node = real.node;
  const std::string kind = node.string("kernel_type", "LINEAR");
  auto parameters = reals_or_none(node, "kernel_params");
  if (parameters.empty() && kind == "LINEAR") parameters.resize(3);
  if (parameters.size() != 3) {
    node.malformed(
        "has {} numbers as attribute 'kernel_params'; expected gamma, coef0 "
        "and degree",
        parameters.size());
  }
  const auto size = static_cast<std::int64_t>(vectors.size());
  if (count <= 0 || size == 0 || size % count != 0) {
    node.malformed("has {} numbers for {} vectors; expected as many for each", size, count);
  }
  const std::int64_t features = size / count;
  const Value x = feature_rows(node);
  if (const auto given = x.extent(1); given && *given != features) {
    node.malformed("has vectors of {} features, got {} in input 0", features, *given);
  }
  const Value table = real.table({count, features}, vectors);
  const double gamma = parameters[0];
  if (kind == "RBF") {
    const Value apart = with_axes(x, {1}) - table;
    const Value distance = reduce(Op::reduce_sum, apart * apart, {2}, false);
    return exp(-gamma * distance);
  }
  const Value product = matmul(x, transpose(table, {1, 0}));
  if (kind == "LINEAR") return product;
  const Value moved = product * gamma + parameters[1];
  if (kind == "POLY") return pow(moved, parameters[2]);
  if (kind == "SIGMOID") return tanh(moved);
  node.malformed("takes 'LINEAR', 'POLY', 'RBF' or 'SIGMOID' as attribute 'kernel_type', got {}",
                 quoted_name(kind));
}

void check_count(Node& node, std::string_view name, std::size_t given, std::int64_t wanted) {
  if (static_cast<std::int64_t>(given) == wanted) return;
  node.malformed("has {} numbers as attribute '{}'; expected {}", given, name, wanted);
}

// Each class is a step of a round that finds probabilities.
constexpr std::int64_t most_coupled = 100;

// Every two classes have a machine that tells them apart.
class Machines {
 public:
  Machines(Node& node, std::int64_t classes)
      : real_(node), classes_(classes), of_class_(node.integers("vectors_per_class")) {
    check_count(node, "vectors_per_class", of_class_.size(), classes);
    const auto coefficients = node.reals("coefficients"), rho = node.reals("rho"),
               support = node.reals("support_vectors");
    check_count(node, "rho", rho.size(), classes * (classes - 1) / 2);
    const auto most = static_cast<std::int64_t>(support.size());
    std::int64_t vectors = 0;
    for (const std::int64_t count : of_class_) {
      if (count < 0 || count > most - vectors) {
        node.malformed(
            "has {} vectors of a class behind {} others; expected one or "
            "more numbers for each, got {}",
            count, vectors, most);
      }
      vectors += count;
    }
    check_count(node, "coefficients", coefficients.size(), (classes - 1) * vectors);
    for (std::int64_t i = 0; i < classes; ++i)
      for (std::int64_t j = i + 1; j < classes; ++j) pairs_.emplace_back(i, j);
    check_table(node, pairs(), vectors);
    // [pairs, vectors]: coefficients of a class against the j-th stand in row j - 1, against an
    // earlier one in that one's row.
    std::vector<double> weights(static_cast<std::size_t>(pairs() * vectors));
    Ints first(of_class_.size() + 1);
    std::partial_sum(of_class_.begin(), of_class_.end(), first.begin() + 1);
    for (std::size_t pair = 0; pair < pairs_.size(); ++pair) {
      const auto [i, j] = pairs_[pair];
      const auto copy = [&](std::int64_t row, std::int64_t of) {
        const auto from = first[static_cast<std::size_t>(of)],
                   to = first[static_cast<std::size_t>(of) + 1];
        for (std::int64_t v = from; v < to; ++v) {
          weights[pair * static_cast<std::size_t>(vectors) + static_cast<std::size_t>(v)] =
              coefficients[static_cast<std::size_t>(row * vectors + v)];
        }
      };
      copy(j - 1, i);
      copy(i, j);
    }
    const Value near = kernel(real_, support, vectors);
    const Value sums = matmul(near, transpose(real_.table({pairs(), vectors}, weights), {1, 0}));
    scores_ = sums + real_.table({pairs()}, rho);
  }

  std::int64_t pairs() const { return static_cast<std::int64_t>(pairs_.size()); }
  Value scores() const { return scores_; }

  // The class that wins the most pairs, of equal ones the first.
  Value winners() {
    std::vector<double> won(static_cast<std::size_t>(pairs() * classes_)),
        lost(static_cast<std::size_t>(classes_));
    for (std::size_t pair = 0; pair < pairs_.size(); ++pair) {
      const auto [i, j] = pairs_[pair];
      won[pair * lost.size() + static_cast<std::size_t>(i)] = 1;
      won[pair * lost.size() + static_cast<std::size_t>(j)] = -1;
      ++lost[static_cast<std::size_t>(j)];
    }
    const Value first = cast(scores_ > 0, DType::F32);
    const Value votes =
        matmul(first, real_.table({pairs(), classes_}, won)) + real_.table({classes_}, lost);
    return real_.node.emit(Op::arg_max, {votes}, {{"axis", std::int64_t{1}}});
  }

  // Probabilities of classes [rows, classes] from those of pairs, as libsvm finds them (Wu, Lin and
  // Weng, second method): p minimises p' Q p.
  Value probabilities(const std::vector<double>& a, const std::vector<double>& b) {
    Node& node = real_.node;
    if (classes_ > most_coupled) {
      node.unsupported("has probabilities of {} classes; Anydim finds those of up to {}", classes_,
                       most_coupled);
    }
    check_count(node, "prob_a", a.size(), pairs());
    check_count(node, "prob_b", b.size(), pairs());
    const Value line = scores_ * real_.table({pairs()}, a) + real_.table({pairs()}, b);
    const Value share = sigmoid(-line);
    const Value inside = min(max(share, 1e-7), 1 - 1e-7);
    const Value form = quadratic_form(inside);

    const Value even =
        real_.column(scores_, 0) * 0 +
        real_.table({1, classes_}, std::vector<double>(static_cast<std::size_t>(classes_),
                                                       1.0 / static_cast<double>(classes_)));
    constexpr double most_rounds = 100;
    Node::Loop loop(node, node.scalar(DType::I64, most_rounds), no_value, {even});
    const Value before = loop.carried()[0];
    const auto [after, open] = improved(before, form);
    const Value next = where(open, after, before);
    return loop.close({loop.goes_on(), next})[0];
  }

 private:
  // Q: [rows, classes, classes].
  Value quadratic_form(Value share) {
    // That i wins against j, at (i, j): the share of a pair, what is left of it, or 0 for itself.
    Ints places(static_cast<std::size_t>(classes_ * classes_), 2 * pairs());
    for (std::size_t pair = 0; pair < pairs_.size(); ++pair) {
      const auto [i, j] = pairs_[pair];
      places[static_cast<std::size_t>(i * classes_ + j)] = static_cast<std::int64_t>(pair);
      places[static_cast<std::size_t>(j * classes_ + i)] =
          pairs() + static_cast<std::int64_t>(pair);
    }
    const Value rest = 1 - share;
    const Value none = real_.column(share, 0) * 0;
    const Value at = real_.node.constant(ir::Tensor::of(DType::I64, {classes_, classes_}, places));
    const Value wins = gather(concat({share, rest, none}, 1), at, 1);
    const Value turned = transpose(wins, {0, 2, 1});
    const Value losses = reduce(Op::reduce_sum, wins * wins, {1}, true);  // [rows, 1, classes]
    const Value itself = equal(at, real_.node.scalar(DType::I64, static_cast<double>(2 * pairs())));
    return where(itself, losses, -(wins * turned));
  }

  // One round over all classes, and which rows [rows, 1] were not close enough before it.
  std::pair<Value, Value> improved(Value p, Value form) {
    Value product = reduce(Op::reduce_sum, form * with_axes(p, {1}), {2}, false);  // Q p
    Value value = reduce(Op::reduce_sum, p * product, {1}, true);
    const Value error = reduce(Op::reduce_max, abs(product - value), {1}, true);
    const Value open = error >= 0.005 / static_cast<double>(classes_);
    for (std::int64_t t = 0; t < classes_; ++t) {
      const Value row = without_axes(slice(form, 1, t, t + 1), {1});
      const Value diagonal = real_.column(row, t), at = real_.column(product, t);
      const Value step = (value - at) / diagonal;
      const Value sum = step + 1;
      const Value gain = step * (step * diagonal + (at + at));
      value = (value + gain) / (sum * sum);
      product = (product + step * row) / sum;
      std::vector<double> unit(static_cast<std::size_t>(classes_));
      unit[static_cast<std::size_t>(t)] = 1;
      const Value moved = p + step * real_.table({1, classes_}, unit);
      p = moved / sum;
    }
    return {p, open};
  }

  Real real_;
  std::int64_t classes_;
  Ints of_class_;
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs_;
  Value scores_ = no_value;
};

}  // namespace

void import_svm_regressor(Node& node) {
  Real real(node);
  const std::int64_t supports = node.integer("n_supports", 0);
  const auto coefficients = node.reals("coefficients"), rho = node.reals("rho");
  check_count(node, "rho", rho.size(), 1);
  node.ignore_attribute("post_transform");  // ONNX Runtime leaves scores as they are
  Value sum = no_value;
  if (supports > 0) {
    check_count(node, "coefficients", coefficients.size(), supports);
    const Value near = kernel(real, node.reals("support_vectors"), supports);
    sum = matmul(near, real.table({supports, 1}, coefficients));
  } else {
    for (const auto* name : {"kernel_type", "kernel_params", "support_vectors"})
      node.ignore_attribute(name);
    sum = matmul(feature_rows(node),
                 real.table({static_cast<std::int64_t>(coefficients.size()), 1}, coefficients));
  }
  const Value score = sum + rho[0];
  if (!node.flag("one_class", false)) {
    node.output(0, score);
    return;
  }
  const Value inside = score > 0;
  node.output(0, where(inside, node.scalar(DType::F32, 1), -1));
}

void import_svm_classifier(Node& node) {
  const auto labels = class_labels(node);
  const auto classes = static_cast<std::int64_t>(labels.size());
  if (classes < 2 || !node.has_attribute("vectors_per_class")) {
    node.unsupported(
        "has no support vectors of two classes or more: LinearClassifier is for models without");
  }
  Real real(node);
  Machines machines(node, classes);
  node.output(0, labels_at(node, labels, machines.winners()));
  const PostTransform transform(node);
  if (const auto a = reals_or_none(node, "prob_a"), b = reals_or_none(node, "prob_b"); !a.empty()) {
    node.output(1, transform.of(machines.probabilities(a, b), classes));
    return;
  }
  const Value scores = machines.scores();
  if (classes > 2) {
    node.output(1, transform.of(scores, machines.pairs()));
    return;
  }
  const bool softmax = transform.kind() != "NONE" && transform.kind() != "LOGISTIC";
  const Value rest = softmax ? 1 - scores : -scores;
  const Value both = concat({rest, scores}, 1);
  node.output(1, transform.kind() == "LOGISTIC" ? sigmoid(both) : both);
}

}  // namespace anydim::frontends
