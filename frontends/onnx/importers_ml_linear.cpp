// Linear models of ai.onnx.ml, and what becomes of their scores.
#include <algorithm>
#include <array>

#include "frontends/onnx/importers.h"
#include "frontends/onnx/ml_scores.h"
#include "frontends/sizes.h"

namespace anydim::frontends {

namespace {

constexpr std::array transforms{"NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"};

const ir::Attributes along_rows{{"axes", std::vector<std::int64_t>{1}},
                                {"keepdims", std::int64_t{1}}};

// x * coefficients + intercepts for `columns` sets of coefficients.
ValueId linear_scores(Node& node, std::int64_t columns, const std::vector<double>& intercepts) {
  const ValueId x = feature_rows(node);
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
  if (const auto given = node.extent(x, 1); given && *given != features) {
    node.malformed("has coefficients for {} features, got {} in input 0", features, *given);
  }
  const ValueId weights = node.emit(
      Op::transpose, {node.constant(ir::Tensor::of(DType::F32, {columns, features}, coefficients))},
      {{"perm", std::vector<std::int64_t>{1, 0}}});
  const ValueId product = node.emit(Op::matmul, {x, weights});
  if (intercepts.empty()) return product;
  return node.emit(Op::add,
                   {product, node.constant(ir::Tensor::of(DType::F32, {columns}, intercepts))});
}

}  // namespace

ValueId feature_rows(Node& node, DType dtype) {
  const ValueId x = node.cast(node.operand(0), dtype);
  if (node.rank(x) == 1) return node.with_axes(x, {0});
  if (node.rank(x) != 2)
    node.malformed("takes rows of features as input 0, got rank {}", node.rank(x));
  return x;
}

std::vector<double> reals_or_none(Node& node, std::string_view name) {
  return node.has_attribute(name) ? node.reals(name) : std::vector<double>();
}

std::vector<std::int64_t> class_labels(Node& node) {
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

ValueId labels_at(Node& node, const std::vector<std::int64_t>& labels, ValueId places) {
  const ValueId table =
      node.constant(ir::Tensor::of(DType::I64, {static_cast<std::int64_t>(labels.size())}, labels));
  return node.emit(Op::gather, {table, places}, {{"axis", std::int64_t{0}}});
}

PostTransform::PostTransform(Node& node)
    : node_(node), kind_(node.string("post_transform", "NONE")) {
  if (std::ranges::find(transforms, kind_) == transforms.end()) {
    node.malformed(
        "takes 'NONE', 'LOGISTIC', 'SOFTMAX', 'SOFTMAX_ZERO' or 'PROBIT' as attribute "
        "'post_transform', got {}",
        quoted_name(kind_));
  }
}

PostTransform::PostTransform(Node& node, std::int64_t number) : node_(node) {
  const auto count = static_cast<std::int64_t>(transforms.size());
  if (number < 0 || number >= count) {
    node.malformed("takes 0 to {} as attribute 'post_transform', got {}", count - 1, number);
  }
  kind_ = transforms[static_cast<std::size_t>(number)];
}

ValueId PostTransform::of(ValueId scores, std::int64_t columns) const {
  if (kind_ == "PROBIT") return probit(scores);
  if (columns < 2 || kind_ == "NONE") return scores;
  if (kind_ == "LOGISTIC") return node_.emit(Op::sigmoid, {scores});
  if (kind_ == "SOFTMAX") return node_.emit(Op::softmax, {scores}, {{"axis", std::int64_t{1}}});
  return softmax_of_non_zero(scores);
}

// Softmax over the scores that are not zero; those stay zero.
ValueId PostTransform::softmax_of_non_zero(ValueId x) const {
  const auto number = [&](double value) { return node_.scalar(DType::F32, value); };
  const ValueId largest = node_.emit(Op::reduce_max, {x}, along_rows);
  const ValueId counts =
      node_.emit(Op::greater, {node_.emit(Op::abs, {x}), number(1e-7)});  // ONNX Runtime's bound
  const ValueId power = node_.emit(Op::exp, {node_.emit(Op::sub, {x, largest})});
  const ValueId kept = node_.emit(Op::where, {counts, power, number(0)});
  return node_.emit(Op::div, {kept, node_.emit(Op::reduce_sum, {kept}, along_rows)});
}

// sqrt 2 times the inverse of erf at 2 x - 1, by Winitzki's approximation as in ONNX Runtime.
ValueId PostTransform::probit(ValueId x) const {
  const auto number = [&](double value) { return node_.scalar(DType::F32, value); };
  const auto op = [&](Op which, ValueId a, ValueId b) { return node_.emit(which, {a, b}); };
  constexpr double a = 0.147, pi = 3.14159265358979323846;
  const ValueId y = op(Op::sub, op(Op::mul, x, number(2)), number(1));
  const ValueId logarithm =
      node_.emit(Op::log, {op(Op::mul, op(Op::sub, number(1), y), op(Op::add, number(1), y))});
  const ValueId half = op(Op::add, op(Op::mul, logarithm, number(0.5)), number(2 / (pi * a)));
  const ValueId squares =
      op(Op::sub, op(Op::mul, half, half), op(Op::mul, logarithm, number(1 / a)));
  const ValueId size = node_.emit(Op::sqrt, {op(Op::sub, node_.emit(Op::sqrt, {squares}), half)});
  const ValueId negative = op(Op::less, y, number(0));
  const ValueId inverse = node_.emit(Op::where, {negative, node_.emit(Op::neg, {size}), size});
  return op(Op::mul, inverse, number(1.41421356237309504880));
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
  const ValueId scores = linear_scores(node, columns, intercepts);
  if (columns > 1) {
    node.output(
        0, labels_at(node, labels, node.emit(Op::arg_max, {scores}, {{"axis", std::int64_t{1}}})));
    node.output(1, transform.of(scores, columns));
    return;
  }
  // One score for the second class against the first.
  const ValueId second = node.emit(Op::greater, {scores, node.scalar(DType::F32, 0)});
  node.output(0, labels_at(node, labels, node.without_axes(node.cast(second, DType::I64), {1})));
  const ValueId share =
      transform.kind() == "LOGISTIC" ? node.emit(Op::sigmoid, {scores}) : transform.of(scores, 1);
  const ValueId rest = node.emit(Op::sub, {node.scalar(DType::F32, 1), share});
  node.output(1, node.emit(Op::concat, {rest, share}, {{"axis", std::int64_t{1}}}));
}

}  // namespace anydim::frontends
