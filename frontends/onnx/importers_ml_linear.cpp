// Linear models of ai.onnx.ml, and what becomes of their scores.
#include <array>

#include "frontends/onnx/importers.h"
#include "frontends/onnx/ml_scores.h"

namespace anydim::frontends {

namespace {

constexpr std::array<std::string_view, 5> transforms{"NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO",
                                                     "PROBIT"};

const ir::Attributes along_rows{{"axes", Ints{1}}, {"keepdims", std::int64_t{1}}};

// x * coefficients + intercepts for `columns` sets of coefficients.
Value linear_scores(Node& node, std::int64_t columns, const std::vector<double>& intercepts) {
  const Value x = feature_rows(node);
  const auto coefficients = node.reals("coefficients");
  const auto count = static_cast<std::int64_t>(coefficients.size());
  if (columns <= 0 || count == 0 || count % columns != 0 ||
      (!intercepts.empty() && static_cast<std::int64_t>(intercepts.size()) != columns)) {
    node.malformed(
        "has {} coefficients and {} intercepts for {} scores; expected as "
        "many coefficients for each score, and one intercept or none",
        count, intercepts.size(), columns);
  }
  const std::int64_t features = count / columns;
  if (const auto given = x.extent(1); given && *given != features) {
    node.malformed("has coefficients for {} features, got {} in input 0", features, *given);
  }
  const Value weights = transpose(
      node.constant(ir::Tensor::of(DType::F32, {columns, features}, coefficients)), {1, 0});
  const Value product = matmul(x, weights);
  if (intercepts.empty()) return product;
  return product + node.constant(ir::Tensor::of(DType::F32, {columns}, intercepts));
}

}  // namespace

Value feature_rows(Node& node, DType dtype) {
  const Value x = cast(node.operand(0), dtype);
  if (x.rank() == 1) return with_axes(x, {0});
  if (x.rank() != 2) node.malformed("takes rows of features as input 0, got rank {}", x.rank());
  return x;
}

std::vector<double> reals_or_none(Node& node, std::string_view name) {
  return node.has_attribute(name) ? node.reals(name) : std::vector<double>();
}

Ints class_labels(Node& node) {
  if (!node.strings("classlabels_strings").empty()) {
    node.unsupported(
        "gives labels that are strings; Anydim has numbers only: export the model with integer "
        "labels");
  }
  for (const auto* name : {"classlabels_ints", "classlabels_int64s"})
    if (node.has_attribute(name)) return node.integers(name);
  node.malformed("lacks the labels of its classes");
}

void check_table(Node& node, std::int64_t rows, std::int64_t columns) {
  if (rows == 0 || columns <= most_table_numbers / rows) return;
  node.unsupported("needs a table of {} times {} weights; Anydim makes up to {} numbers", rows,
                   columns, most_table_numbers);
}

Value labels_at(Node& node, const Ints& labels, Value places) {
  const Value table =
      node.constant(ir::Tensor::of(DType::I64, {static_cast<std::int64_t>(labels.size())}, labels));
  return gather(table, places, 0);
}

PostTransform::PostTransform(Node& node)
    : node_(node), kind_(node.one_of(transforms, "post_transform", "NONE")) {}

PostTransform::PostTransform(Node& node, std::int64_t number) : node_(node) {
  const auto count = static_cast<std::int64_t>(transforms.size());
  if (number < 0 || number >= count) {
    node.malformed("takes 0 to {} as attribute 'post_transform', got {}", count - 1, number);
  }
  kind_ = transforms[static_cast<std::size_t>(number)];
}

Value PostTransform::of(Value scores, std::int64_t columns) const {
  if (kind_ == "PROBIT") return probit(scores);
  if (columns < 2 || kind_ == "NONE") return scores;
  if (kind_ == "LOGISTIC") return sigmoid(scores);
  if (kind_ == "SOFTMAX") return node_.emit(Op::softmax, {scores}, {{"axis", std::int64_t{1}}});
  return softmax_of_non_zero(scores);
}

// Softmax over the scores that are not zero; those stay zero.
Value PostTransform::softmax_of_non_zero(Value x) const {
  const Value largest = node_.emit(Op::reduce_max, {x}, along_rows);
  const Value counts = abs(x) > 1e-7;  // ONNX Runtime's bound
  const Value power = exp(x - largest);
  const Value kept = where(counts, power, 0);
  return kept / node_.emit(Op::reduce_sum, {kept}, along_rows);
}

// sqrt 2 times the inverse of erf at 2 x - 1, by Winitzki's approximation as in ONNX Runtime.
Value PostTransform::probit(Value x) const {
  constexpr double a = 0.147, pi = 3.14159265358979323846;
  const Value y = x * 2 - 1;
  const Value logarithm = log((1 - y) * (1 + y));
  const Value half = logarithm * 0.5 + 2 / (pi * a);
  const Value squares = half * half - logarithm * (1 / a);
  const Value size = sqrt(sqrt(squares) - half);
  const Value negative = y < 0;
  const Value inverse = where(negative, -size, size);
  return inverse * 1.41421356237309504880;
}

void import_linear_regressor(Node& node) {
  const std::int64_t targets = node.integer("targets", 1);
  const auto intercepts = reals_or_none(node, "intercepts");
  const PostTransform transform(node);
  node.output(0, transform.of(linear_scores(node, targets, intercepts), targets));
}

void import_linear_classifier(Node& node) {
  const auto labels = class_labels(node);
  const auto intercepts = node.reals("intercepts");
  node.ignore_attribute("multi_class");  // the scores are the same either way
  const auto columns = static_cast<std::int64_t>(intercepts.size());
  const auto classes = static_cast<std::int64_t>(labels.size());
  if (classes != columns && (columns != 1 || classes != 2)) {
    node.malformed(
        "has {} intercepts and {} labels; expected a score for each label, or one for two labels",
        columns, classes);
  }
  const PostTransform transform(node);
  const Value scores = linear_scores(node, columns, intercepts);
  if (columns > 1) {
    node.output(
        0, labels_at(node, labels, node.emit(Op::arg_max, {scores}, {{"axis", std::int64_t{1}}})));
    node.output(1, transform.of(scores, columns));
    return;
  }
  // One score for the second class against the first.
  const Value second = scores > 0;
  node.output(0, labels_at(node, labels, without_axes(cast(second, DType::I64), {1})));
  const Value share = transform.kind() == "LOGISTIC" ? sigmoid(scores) : transform.of(scores, 1);
  const Value rest = 1 - share;
  node.output(1, concat({rest, share}, 1));
}

}  // namespace anydim::frontends
