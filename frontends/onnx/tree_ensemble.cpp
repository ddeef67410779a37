#include "frontends/onnx/tree_ensemble.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "frontends/onnx/ml_scores.h"
#include "frontends/sizes.h"

namespace anydim::frontends {

namespace {

constexpr std::array mode_names{"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE",    "BRANCH_GT",
                                "BRANCH_EQ",  "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF"};

void check_length(Node& node, std::string_view name, std::size_t given, std::size_t wanted) {
  if (given == wanted) return;
  node.malformed("has {} numbers as attribute '{}'; expected {}, one for each", given, name,
                 wanted);
}

Ints integers_for(Node& node, const std::string& name, std::size_t wanted) {
  auto values = node.integers(name);
  check_length(node, name, values.size(), wanted);
  return values;
}

std::vector<bool> flags_for(Node& node, const std::string& name, std::size_t wanted) {
  const auto given = node.optional_integers(name);
  if (!given || given->empty()) return std::vector<bool>(wanted, false);
  check_length(node, name, given->size(), wanted);
  return {given->begin(), given->end()};
}

std::vector<double> numbers_of_tensor(const ir::Tensor& tensor) {
  const ir::Reals elements(tensor);
  std::vector<double> values(elements.size());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = elements[i];
  return values;
}

std::vector<double> tensor_for(Node& node, const std::string& name, DType& dtype) {
  const ir::Tensor tensor = node.tensor(name);
  dtype = tensor.dtype();
  return numbers_of_tensor(tensor);
}

TreeMode mode_named(Node& node, const std::string& name) {
  const auto* const found = std::ranges::find(mode_names, name);
  if (found == mode_names.end() || name == "BRANCH_MEMBER")
    node.malformed("has a tree node of mode {}, which is none", quoted_name(name));
  return static_cast<TreeMode>(found - mode_names.begin());
}

// Fills in the depth. Every node but a leaf must be reached once, from a root.
void walk(Node& node, TreeEnsemble& trees) {
  if (trees.targets < 1) node.malformed("has {} targets; expected one or more", trees.targets);
  const auto count = static_cast<std::int64_t>(trees.nodes.size());
  std::vector<bool> reached(trees.nodes.size());
  std::vector<std::pair<std::int64_t, std::int64_t>> open;  // nodes and how deep they are
  for (const std::int64_t root : trees.roots) open.emplace_back(root, 0);
  while (!open.empty()) {
    const auto [at, depth] = open.back();
    open.pop_back();
    if (at < 0 || at >= count) node.malformed("names tree node {}; expected one of {}", at, count);
    const TreeNode& here = trees.nodes[static_cast<std::size_t>(at)];
    trees.depth = std::max(trees.depth, depth);
    if (here.mode == TreeMode::Leaf) continue;
    if (reached[static_cast<std::size_t>(at)])
      node.malformed("has a tree node, {}, that is reached twice", at);
    reached[static_cast<std::size_t>(at)] = true;
    open.emplace_back(here.yes, depth + 1);
    open.emplace_back(here.no, depth + 1);
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const auto place = static_cast<std::size_t>(i);
    if (!reached[place] && trees.nodes[place].mode != TreeMode::Leaf)
      node.malformed("has a tree node, {}, that no root leads to", i);
  }
  for (const TreeWeight& weight : trees.weights) {
    if (weight.target < 0 || weight.target >= trees.targets) {
      node.malformed("has a leaf for target {}; expected one of {}", weight.target, trees.targets);
    }
  }
}

}  // namespace

std::vector<double> numbers_of(Node& node, const std::string& name, DType* dtype) {
  if (node.has_attribute(name + "_as_tensor")) {
    DType held{};
    return tensor_for(node, name + "_as_tensor", dtype == nullptr ? held : *dtype);
  }
  return reals_or_none(node, name);
}

TreeEnsemble read_trees_by_ids(Node& node, const std::string& side, std::int64_t targets) {
  TreeEnsemble trees;
  trees.targets = targets;
  node.ignore_attribute("nodes_hitrates");  // how often nodes were met in training
  node.ignore_attribute("nodes_hitrates_as_tensor");
  const auto modes = node.strings("nodes_modes");
  const std::size_t count = modes.size();
  const auto tree_ids = integers_for(node, "nodes_treeids", count),
             node_ids = integers_for(node, "nodes_nodeids", count),
             features = integers_for(node, "nodes_featureids", count),
             yes = integers_for(node, "nodes_truenodeids", count),
             no = integers_for(node, "nodes_falsenodeids", count);
  const auto thresholds = numbers_of(node, "nodes_values", &trees.dtype);
  if (node.dtype() == DType::F64) trees.dtype = DType::F64;  // features are not rounded
  check_length(node, "nodes_values", thresholds.size(), count);
  const auto missing = flags_for(node, "nodes_missing_value_tracks_true", count);

  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> places;
  for (std::size_t i = 0; i < count; ++i)
    places.emplace(std::pair(tree_ids[i], node_ids[i]), static_cast<std::int64_t>(i));
  const auto place = [&](std::int64_t tree, std::int64_t id) {
    const auto found = places.find({tree, id});
    if (found == places.end())
      node.malformed("names node {} of tree {}, which it does not have", id, tree);
    return found->second;
  };
  std::vector<bool> has_parent(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto self = static_cast<std::int64_t>(i);
    TreeNode made{mode_named(node, modes[i]), features[i], thresholds[i], self, self, missing[i]};
    if (made.mode != TreeMode::Leaf) {
      made.yes = place(tree_ids[i], yes[i]);
      made.no = place(tree_ids[i], no[i]);
      has_parent[static_cast<std::size_t>(made.yes)] = true;
      has_parent[static_cast<std::size_t>(made.no)] = true;
    }
    trees.nodes.push_back(made);
  }
  for (std::size_t i = 0; i < count; ++i)
    if (!has_parent[i]) trees.roots.push_back(static_cast<std::int64_t>(i));

  const auto weights = numbers_of(node, side + "_weights");
  const auto weight_trees = integers_for(node, side + "_treeids", weights.size()),
             weight_nodes = integers_for(node, side + "_nodeids", weights.size()),
             weight_targets = integers_for(node, side + "_ids", weights.size());
  for (std::size_t i = 0; i < weights.size(); ++i) {
    trees.weights.push_back(
        {place(weight_trees[i], weight_nodes[i]), weight_targets[i], weights[i]});
  }
  walk(node, trees);
  return trees;
}

TreeEnsemble read_trees(Node& node) {
  TreeEnsemble trees;
  trees.targets = node.integer("n_targets", 1);
  node.ignore_attribute("nodes_hitrates");
  trees.roots = node.integers("tree_roots");
  const auto thresholds = tensor_for(node, "nodes_splits", trees.dtype);
  const std::size_t count = thresholds.size();
  const auto modes = numbers_of_tensor(node.tensor("nodes_modes"));
  check_length(node, "nodes_modes", modes.size(), count);
  const auto features = integers_for(node, "nodes_featureids", count),
             yes = integers_for(node, "nodes_truenodeids", count),
             no = integers_for(node, "nodes_falsenodeids", count);
  const auto yes_leaf = flags_for(node, "nodes_trueleafs", count),
             no_leaf = flags_for(node, "nodes_falseleafs", count),
             missing = flags_for(node, "nodes_missing_value_tracks_true", count);
  // Members of a set are asked for one after the other; sets end with a NaN.
  std::vector<double> members;
  if (node.has_attribute("membership_values"))
    members = numbers_of_tensor(node.tensor("membership_values"));
  auto member = members.begin();

  // Leaves stand behind the nodes, and what members need behind those.
  const auto weights = numbers_of_tensor(node.tensor("leaf_weights"));
  const auto targets = integers_for(node, "leaf_targetids", weights.size());
  const auto first_leaf = static_cast<std::int64_t>(count);
  const auto place = [&](std::int64_t id, bool is_leaf) {
    const auto most = static_cast<std::int64_t>(is_leaf ? weights.size() : count);
    if (id < 0 || id >= most) {
      node.malformed("names {} {}; expected one of {}", is_leaf ? "leaf" : "tree node", id, most);
    }
    return is_leaf ? first_leaf + id : id;
  };
  for (std::size_t i = 0; i < count; ++i) {
    if (!(modes[i] >= 0 && modes[i] <= static_cast<double>(TreeMode::Member)))
      node.malformed("has a tree node of mode {}; expected 0 to 6", modes[i]);
    trees.nodes.push_back({static_cast<TreeMode>(modes[i]), features[i], thresholds[i],
                           place(yes[i], yes_leaf[i]), place(no[i], no_leaf[i]), missing[i]});
  }
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::int64_t leaf = first_leaf + static_cast<std::int64_t>(i);
    trees.nodes.push_back({TreeMode::Leaf, 0, 0, leaf, leaf, false});
    trees.weights.push_back({leaf, targets[i], weights[i]});
  }
  walk(node, trees);
  for (std::size_t i = 0; i < count; ++i) {
    if (trees.nodes[i].mode != TreeMode::Member) continue;
    const TreeNode asked = trees.nodes[i];
    auto at = i;
    trees.nodes[at].mode = TreeMode::Equal;
    for (bool first = true; member != members.end() && !std::isnan(*member); ++member) {
      if (!std::exchange(first, false)) {
        trees.nodes[at].no = static_cast<std::int64_t>(trees.nodes.size());
        at = trees.nodes.size();
        trees.nodes.push_back(asked);
        trees.nodes[at].mode = TreeMode::Equal;
      }
      trees.nodes[at].threshold = *member;
    }
    if (member == members.end())
      node.malformed("has fewer sets in attribute 'membership_values' than nodes that ask for one");
    ++member;
  }
  walk(node, trees);  // questions became more
  return trees;
}

}  // namespace anydim::frontends
