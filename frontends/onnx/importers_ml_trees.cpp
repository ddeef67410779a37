// Ensembles of decision trees: all trees are walked at once, one question at a time.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <type_traits>

#include "frontends/onnx/importers.h"
#include "frontends/onnx/ml_scores.h"
#include "frontends/onnx/tree_ensemble.h"

namespace anydim::frontends {

namespace {

enum class Aggregate { Average, Sum, Least, Largest };  // numbered as TreeEnsemble does

// Deep trees are walked by a loop: code for every question of theirs takes long to compile.
constexpr std::int64_t most_unrolled = 8, each_round = 4;

class Walk {
 public:
  Walk(Node& node, const TreeEnsemble& trees)
      : node_(node), trees_(trees), x_(feature_rows(node, trees.dtype)) {
    check_features();
    features_ = table(DType::I64, &TreeNode::feature);
    thresholds_ = table(trees.dtype, &TreeNode::threshold);
    yes_ = table(DType::I64, &TreeNode::yes);
    no_ = table(DType::I64, &TreeNode::no);
    for (const TreeNode& each : trees.nodes) {
      if (each.mode == TreeMode::Leaf) continue;
      modes_.insert(each.mode);
      asks_missing_ |= each.missing_is_yes;
    }
    if (modes_.size() > 1) mode_ = table(DType::I64, &TreeNode::mode);
    if (asks_missing_) missing_ = table(DType::Bool, &TreeNode::missing_is_yes);
  }

  // The leaves that rows reach: [rows, trees].
  Value leaves() {
    const Value roots = node_.index_vector(trees_.roots);
    const Value rows = dim_of(x_, 0);
    const Value dims =
        concat({rows, node_.index_vector({static_cast<std::int64_t>(trees_.roots.size())})}, 0);
    Value at = node_.emit(Op::dyn_broadcast_to, {roots, dims});
    // A leaf leads to itself, so questions beyond the last one do no harm.
    if (trees_.depth <= most_unrolled) return asked(at, trees_.depth);
    const std::int64_t rounds = (trees_.depth + each_round - 1) / each_round;
    Node::Loop loop(node_, node_.scalar(DType::I64, static_cast<double>(rounds)), no_value, {at});
    const Value reached = asked(loop.carried()[0], each_round);
    return loop.close({loop.goes_on(), reached})[0];
  }

 private:
  template <typename T>
  Value table(DType dtype, T TreeNode::* field) {
    std::vector<std::conditional_t<std::is_floating_point_v<T>, double, std::int64_t>> values;
    for (const TreeNode& each : trees_.nodes) {
      values.push_back(static_cast<typename decltype(values)::value_type>(each.*field));
    }
    return node_.constant(
        ir::Tensor::of(dtype, {static_cast<std::int64_t>(values.size())}, values));
  }
  Value of(Value table, Value at) { return gather(table, at, 0); }

  void check_features() {
    const auto given = x_.extent(1);
    for (const TreeNode& each : trees_.nodes) {
      if (each.mode == TreeMode::Leaf) continue;
      if (each.feature < 0 || (given && each.feature >= *given)) {
        node_.malformed("asks for feature {}, got {} in input 0", each.feature,
                        given ? fmt::format("{}", *given) : "rows");
      }
    }
  }

  Value answer(TreeMode mode, Value value, Value threshold) {
    switch (mode) {
      case TreeMode::LessEqual: return value <= threshold;
      case TreeMode::Less: return value < threshold;
      case TreeMode::GreaterEqual: return value >= threshold;
      case TreeMode::Greater: return value > threshold;
      case TreeMode::Member:
      case TreeMode::Equal: return equal(value, threshold);
      case TreeMode::NotEqual:
      case TreeMode::Leaf: break;
    }
    return !equal(value, threshold);
  }

  Value asked(Value at, std::int64_t questions) {
    for (std::int64_t i = 0; i < questions; ++i) at = next(at);
    return at;
  }

  Value next(Value at) {
    const Value value =
        node_.emit(Op::gather_elements, {x_, of(features_, at)}, {{"axis", std::int64_t{1}}});
    const Value threshold = of(thresholds_, at);
    Value goes = no_value;
    for (const TreeMode mode : modes_) {
      const Value by_mode = answer(mode, value, threshold);
      if (goes == no_value) {
        goes = by_mode;
        continue;
      }
      const Value is_mode = equal(of(mode_, at), static_cast<int>(mode));
      goes = where(is_mode, by_mode, goes);
    }
    if (asks_missing_) {
      const Value missing = node_.emit(Op::is_nan, {value}) & of(missing_, at);
      goes = goes | missing;
    }
    return where(goes, of(yes_, at), of(no_, at));
  }

  Node& node_;
  const TreeEnsemble& trees_;
  Value x_;
  Value features_ = no_value, thresholds_ = no_value, yes_ = no_value, no_ = no_value,
        mode_ = no_value, missing_ = no_value;
  std::set<TreeMode> modes_;
  bool asks_missing_ = false;
};

// What trees say of each target together: [rows, targets].
Value aggregated(Node& node, const TreeEnsemble& trees, Aggregate aggregate) {
  const bool extreme = aggregate == Aggregate::Least || aggregate == Aggregate::Largest;
  // A leaf that says nothing of a target takes no part in its extreme.
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const double none = !extreme ? 0 : aggregate == Aggregate::Least ? infinity : -infinity;
  const auto count = static_cast<std::int64_t>(trees.nodes.size());
  check_table(node, count, trees.targets);
  ir::Tensor table(trees.dtype, {count, trees.targets});
  for (std::int64_t i = 0; i < table.elements(); ++i) table.set_real(i, none);
  for (const TreeWeight& each : trees.weights) {
    const std::int64_t place = each.leaf * trees.targets + each.target;
    const double held = table.real_at(place);
    table.set_real(place, extreme ? each.weight : held + each.weight);
  }
  const Value said = gather(node.constant(table), Walk(node, trees).leaves(), 0);
  const ir::Attributes over_trees{{"axes", Ints{1}}, {"keepdims", std::int64_t{0}}};
  switch (aggregate) {
    case Aggregate::Sum: return node.emit(Op::reduce_sum, {said}, over_trees);
    case Aggregate::Average: return node.emit(Op::reduce_mean, {said}, over_trees);
    case Aggregate::Least:
    case Aggregate::Largest: break;
  }
  const Value found = node.emit(aggregate == Aggregate::Least ? Op::reduce_min : Op::reduce_max,
                                {said}, over_trees);
  const Value untold = equal(found, none);
  return where(untold, 0, found);
}

Value with_base(Node& node, Value scores, DType dtype, const std::vector<double>& base) {
  if (base.empty()) return scores;
  return scores +
         node.constant(ir::Tensor::of(dtype, {static_cast<std::int64_t>(base.size())}, base));
}

void check_base(Node& node, const std::vector<double>& base, std::int64_t targets) {
  if (base.empty() || static_cast<std::int64_t>(base.size()) == targets) return;
  node.malformed("has {} numbers as attribute 'base_values'; expected {} or none", base.size(),
                 targets);
}

// Two classes of which trees score both, or one against the other. Labels and scores [rows, 2].
class TwoClasses {
 public:
  TwoClasses(Node& node, const TreeEnsemble& trees, const std::vector<double>& base) {
    if (base.size() > 1) {
      node.unsupported(
          "has two base_values for two classes, which ONNX does not say how to add: leave them out "
          "or give one");
    }
    for (const TreeWeight& each : trees.weights) {
      scored_[each.target != 0 ? 1 : 0] = true;
      positive_ &= each.weight >= 0;
    }
    // A single base value is the first class's.
    std::vector<double> both = base;
    if (!both.empty()) both.push_back(0);
    if (!both.empty() && !scored_[0]) both[0] = 0;
    scores_ = cast(with_base(node, aggregated(node, trees, Aggregate::Sum), trees.dtype, both),
                   DType::F32);
  }

  // Which rows are of the second class, as 0 and 1.
  Value second() {
    const bool share = positive_ && scored_[0] != scored_[1];  // a probability, as it stands
    const Value score = scored_[1] ? column(1) : column(0);
    const Value is_second = score > (share ? 0.5 : 0);
    return without_axes(cast(is_second, DType::I64), {1});
  }

  Value transformed(const PostTransform& transform) {
    if (scored_[1] || transform.kind() == "PROBIT") return transform.of(scores_, 2);
    const bool logistic = transform.kind() == "LOGISTIC";
    const Value score = logistic ? sigmoid(column(0)) : column(0);
    const Value rest = logistic || positive_ ? 1 - score : -score;
    return concat({rest, score}, 1);
  }

 private:
  Value column(std::int64_t place) { return slice(scores_, 1, place, place + 1); }

  std::array<bool, 2> scored_{};
  bool positive_ = true;  // no weight is negative
  Value scores_ = no_value;
};

Aggregate aggregate_named(Node& node) {
  constexpr std::array<std::string_view, 4> names{"AVERAGE", "SUM", "MIN", "MAX"};
  const std::string name = node.one_of(names, "aggregate_function", "SUM");
  return static_cast<Aggregate>(std::ranges::find(names, name) - names.begin());
}

}  // namespace

void import_tree_ensemble_regressor(Node& node) {
  const TreeEnsemble trees = read_trees_by_ids(node, "target", node.integer("n_targets", 1));
  const auto base = numbers_of(node, "base_values");
  check_base(node, base, trees.targets);
  const Value said = aggregated(node, trees, aggregate_named(node));
  const Value scores = cast(with_base(node, said, trees.dtype, base), DType::F32);
  node.output(0, PostTransform(node).of(scores, trees.targets));
}

void import_tree_ensemble_classifier(Node& node) {
  const auto labels = class_labels(node);
  const auto classes = static_cast<std::int64_t>(labels.size());
  if (classes < 2)
    node.unsupported("has {} label; expected one for each of two classes or more", classes);
  const TreeEnsemble trees = read_trees_by_ids(node, "class", classes);
  const auto base = numbers_of(node, "base_values");
  const PostTransform transform(node);
  if (classes == 2) {
    TwoClasses two(node, trees, base);
    node.output(0, labels_at(node, labels, two.second()));
    node.output(1, two.transformed(transform));
    return;
  }
  check_base(node, base, classes);
  const Value scores =
      cast(with_base(node, aggregated(node, trees, Aggregate::Sum), trees.dtype, base), DType::F32);
  // A class that no leaf speaks of is nobody's.
  std::vector<double> bound(labels.size(), -std::numeric_limits<double>::infinity());
  for (const TreeWeight& each : trees.weights) bound[static_cast<std::size_t>(each.target)] = 0;
  const bool all =
      base.empty() && std::ranges::find_if(bound, [](double b) { return b < 0; }) != bound.end();
  const Value ranked = all ? with_base(node, scores, DType::F32, bound) : scores;
  node.output(
      0, labels_at(node, labels, node.emit(Op::arg_max, {ranked}, {{"axis", std::int64_t{1}}})));
  node.output(1, transform.of(scores, classes));
}

void import_tree_ensemble(Node& node) {
  const TreeEnsemble trees = read_trees(node);
  const std::int64_t aggregate = node.integer("aggregate_function", 1);
  if (aggregate < 0 || aggregate > 3) {
    node.malformed("takes 0 to 3 as attribute 'aggregate_function', got {}", aggregate);
  }
  const DType dtype = node.dtype();
  const Value said = aggregated(node, trees, static_cast<Aggregate>(aggregate));
  const std::int64_t transform = node.integer("post_transform", 0);
  if (transform == 0) return node.output(0, cast(said, dtype));
  const Value scores = cast(said, DType::F32);
  node.output(0, cast(PostTransform(node, transform).of(scores, trees.targets), dtype));
}

}  // namespace anydim::frontends
