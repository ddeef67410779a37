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
  ValueId number(double value) { return node.scalar(DType::F32, value); }
  ValueId table(std::vector<std::int64_t> dims, const std::vector<double>& values) {
    return node.constant(ir::Tensor::of(DType::F32, std::move(dims), values));
  }
  ValueId op(Op which, ValueId a, ValueId b) { return node.emit(which, {a, b}); }
  ValueId op(Op which, ValueId a) { return node.emit(which, {a}); }
  ValueId over(Op reduction, ValueId x, std::int64_t axis, bool keep) {
    return node.emit(
        reduction, {x},
        {{"axes", std::vector<std::int64_t>{axis}}, {"keepdims", std::int64_t{keep ? 1 : 0}}});
  }
  ValueId transposed(ValueId x) {
    return node.emit(Op::transpose, {x}, {{"perm", std::vector<std::int64_t>{1, 0}}});
  }
  ValueId joined(const std::vector<ValueId>& columns) {
    return node.emit(Op::concat, columns, {{"axis", std::int64_t{1}}});
  }
  ValueId column(ValueId x, std::int64_t at) { return node.slice(x, 1, at, at + 1); }

  Node& node;
};

// What rows and `count` vectors have in common: [rows, count].
ValueId kernel(Real& real, const std::vector<double>& vectors, std::int64_t count) {
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
  const ValueId x = feature_rows(node);
  if (const auto given = node.extent(x, 1); given && *given != features) {
    node.malformed("has vectors of {} features, got {} in input 0", features, *given);
  }
  const ValueId table = real.table({count, features}, vectors);
  const ValueId gamma = real.number(parameters[0]);
  if (kind == "RBF") {
    const ValueId apart = real.op(Op::sub, node.with_axes(x, {1}), table);
    const ValueId distance = real.over(Op::reduce_sum, real.op(Op::mul, apart, apart), 2, false);
    return real.op(Op::exp, real.op(Op::mul, real.op(Op::neg, gamma), distance));
  }
  const ValueId product = real.op(Op::matmul, x, real.transposed(table));
  if (kind == "LINEAR") return product;
  const ValueId moved =
      real.op(Op::add, real.op(Op::mul, product, gamma), real.number(parameters[1]));
  if (kind == "POLY") return real.op(Op::pow, moved, real.number(parameters[2]));
  if (kind == "SIGMOID") return real.op(Op::tanh, moved);
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
    std::vector<std::int64_t> first(of_class_.size() + 1);
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
    const ValueId near = kernel(real_, support, vectors);
    const ValueId sums =
        real_.op(Op::matmul, near, real_.transposed(real_.table({pairs(), vectors}, weights)));
    scores_ = real_.op(Op::add, sums, real_.table({pairs()}, rho));
  }

  std::int64_t pairs() const { return static_cast<std::int64_t>(pairs_.size()); }
  ValueId scores() const { return scores_; }

  // The class that wins the most pairs, of equal ones the first.
  ValueId winners() {
    std::vector<double> won(static_cast<std::size_t>(pairs() * classes_)),
        lost(static_cast<std::size_t>(classes_));
    for (std::size_t pair = 0; pair < pairs_.size(); ++pair) {
      const auto [i, j] = pairs_[pair];
      won[pair * lost.size() + static_cast<std::size_t>(i)] = 1;
      won[pair * lost.size() + static_cast<std::size_t>(j)] = -1;
      ++lost[static_cast<std::size_t>(j)];
    }
    const ValueId first =
        real_.node.cast(real_.op(Op::greater, scores_, real_.number(0)), DType::F32);
    const ValueId votes =
        real_.op(Op::add, real_.op(Op::matmul, first, real_.table({pairs(), classes_}, won)),
                 real_.table({classes_}, lost));
    return real_.node.emit(Op::arg_max, {votes}, {{"axis", std::int64_t{1}}});
  }

  // Probabilities of classes [rows, classes] from those of pairs, as libsvm finds them (Wu, Lin and
  // Weng, second method): p minimises p' Q p.
  ValueId probabilities(const std::vector<double>& a, const std::vector<double>& b) {
    Node& node = real_.node;
    if (classes_ > most_coupled) {
      node.unsupported("has probabilities of {} classes; Anydim finds those of up to {}", classes_,
                       most_coupled);
    }
    check_count(node, "prob_a", a.size(), pairs());
    check_count(node, "prob_b", b.size(), pairs());
    const ValueId line = real_.op(Op::add, real_.op(Op::mul, scores_, real_.table({pairs()}, a)),
                                  real_.table({pairs()}, b));
    const ValueId share = real_.op(Op::sigmoid, real_.op(Op::neg, line));
    const ValueId inside =
        real_.op(Op::min, real_.op(Op::max, share, real_.number(1e-7)), real_.number(1 - 1e-7));
    const ValueId form = quadratic_form(inside);

    const ValueId even = real_.op(
        Op::add, real_.op(Op::mul, real_.column(scores_, 0), real_.number(0)),
        real_.table({1, classes_}, std::vector<double>(static_cast<std::size_t>(classes_),
                                                       1.0 / static_cast<double>(classes_))));
    constexpr double most_rounds = 100;
    Node::Loop loop(node, node.scalar(DType::I64, most_rounds), ir::no_value, {even});
    const ValueId before = loop.carried()[0];
    const auto [after, open] = improved(before, form);
    const ValueId next = node.emit(Op::where, {open, after, before});
    return loop.close({loop.goes_on(), next})[0];
  }

 private:
  // Q: [rows, classes, classes].
  ValueId quadratic_form(ValueId share) {
    // That i wins against j, at (i, j): the share of a pair, what is left of it, or 0 for itself.
    std::vector<std::int64_t> places(static_cast<std::size_t>(classes_ * classes_), 2 * pairs());
    for (std::size_t pair = 0; pair < pairs_.size(); ++pair) {
      const auto [i, j] = pairs_[pair];
      places[static_cast<std::size_t>(i * classes_ + j)] = static_cast<std::int64_t>(pair);
      places[static_cast<std::size_t>(j * classes_ + i)] =
          pairs() + static_cast<std::int64_t>(pair);
    }
    const ValueId rest = real_.op(Op::sub, real_.number(1), share);
    const ValueId none = real_.op(Op::mul, real_.column(share, 0), real_.number(0));
    const ValueId at =
        real_.node.constant(ir::Tensor::of(DType::I64, {classes_, classes_}, places));
    const ValueId wins = real_.node.emit(Op::gather, {real_.joined({share, rest, none}), at},
                                         {{"axis", std::int64_t{1}}});
    const ValueId turned =
        real_.node.emit(Op::transpose, {wins}, {{"perm", std::vector<std::int64_t>{0, 2, 1}}});
    const ValueId losses =
        real_.over(Op::reduce_sum, real_.op(Op::mul, wins, wins), 1, true);  // [rows, 1, classes]
    const ValueId itself =
        real_.op(Op::equal, at, real_.node.scalar(DType::I64, static_cast<double>(2 * pairs())));
    return real_.node.emit(Op::where,
                           {itself, losses, real_.op(Op::neg, real_.op(Op::mul, wins, turned))});
  }

  // One round over all classes, and which rows [rows, 1] were not close enough before it.
  std::pair<ValueId, ValueId> improved(ValueId p, ValueId form) {
    ValueId product = real_.over(
        Op::reduce_sum, real_.op(Op::mul, form, real_.node.with_axes(p, {1})), 2, false);  // Q p
    ValueId value = real_.over(Op::reduce_sum, real_.op(Op::mul, p, product), 1, true);
    const ValueId error =
        real_.over(Op::reduce_max, real_.op(Op::abs, real_.op(Op::sub, product, value)), 1, true);
    const ValueId open =
        real_.op(Op::greater_equal, error, real_.number(0.005 / static_cast<double>(classes_)));
    for (std::int64_t t = 0; t < classes_; ++t) {
      const ValueId row = real_.node.without_axes(real_.node.slice(form, 1, t, t + 1), {1});
      const ValueId diagonal = real_.column(row, t), at = real_.column(product, t);
      const ValueId step = real_.op(Op::div, real_.op(Op::sub, value, at), diagonal);
      const ValueId sum = real_.op(Op::add, step, real_.number(1));
      const ValueId gain =
          real_.op(Op::mul, step,
                   real_.op(Op::add, real_.op(Op::mul, step, diagonal), real_.op(Op::add, at, at)));
      value = real_.op(Op::div, real_.op(Op::add, value, gain), real_.op(Op::mul, sum, sum));
      product = real_.op(Op::div, real_.op(Op::add, product, real_.op(Op::mul, step, row)), sum);
      std::vector<double> unit(static_cast<std::size_t>(classes_));
      unit[static_cast<std::size_t>(t)] = 1;
      const ValueId moved =
          real_.op(Op::add, p, real_.op(Op::mul, step, real_.table({1, classes_}, unit)));
      p = real_.op(Op::div, moved, sum);
    }
    return {p, open};
  }

  Real real_;
  std::int64_t classes_;
  std::vector<std::int64_t> of_class_;
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs_;
  ValueId scores_ = ir::no_value;
};

}  // namespace

void import_svm_regressor(Node& node) {
  Real real(node);
  const std::int64_t supports = node.integer("n_supports", 0);
  const auto coefficients = node.reals("coefficients"), rho = node.reals("rho");
  check_count(node, "rho", rho.size(), 1);
  node.ignore_attribute("post_transform");  // ONNX Runtime leaves scores as they are
  ValueId sum = ir::no_value;
  if (supports > 0) {
    check_count(node, "coefficients", coefficients.size(), supports);
    const ValueId near = kernel(real, node.reals("support_vectors"), supports);
    sum = real.op(Op::matmul, near, real.table({supports, 1}, coefficients));
  } else {
    for (const auto* name : {"kernel_type", "kernel_params", "support_vectors"})
      node.ignore_attribute(name);
    sum = real.op(Op::matmul, feature_rows(node),
                  real.table({static_cast<std::int64_t>(coefficients.size()), 1}, coefficients));
  }
  const ValueId score = real.op(Op::add, sum, real.number(rho[0]));
  if (!node.flag("one_class", false)) {
    node.output(0, score);
    return;
  }
  const ValueId inside = real.op(Op::greater, score, real.number(0));
  node.output(0, node.emit(Op::where, {inside, real.number(1), real.number(-1)}));
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
  const ValueId scores = machines.scores();
  if (classes > 2) {
    node.output(1, transform.of(scores, machines.pairs()));
    return;
  }
  const bool softmax = transform.kind() != "NONE" && transform.kind() != "LOGISTIC";
  const ValueId rest =
      softmax ? real.op(Op::sub, real.number(1), scores) : real.op(Op::neg, scores);
  const ValueId both = real.joined({rest, scores});
  node.output(1, transform.kind() == "LOGISTIC" ? real.op(Op::sigmoid, both) : both);
}

}  // namespace anydim::frontends
