// Decision trees of ai.onnx.ml as one table of nodes, however the operator writes them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "frontends/onnx/node.h"

namespace anydim::frontends {

// Numbered as the attribute nodes_modes of TreeEnsemble does.
enum class TreeMode { LessEqual, Less, GreaterEqual, Greater, Equal, NotEqual, Member, Leaf };

struct TreeNode {
  TreeMode mode = TreeMode::Leaf;
  std::int64_t feature = 0;
  double threshold = 0;
  std::int64_t yes = 0, no = 0;  // nodes that follow; of a leaf itself
  bool missing_is_yes = false;   // what NaN answers
};

struct TreeWeight {
  std::int64_t leaf = 0, target = 0;
  double weight = 0;
};

struct TreeEnsemble {
  std::vector<TreeNode> nodes;
  Ints roots;
  std::vector<TreeWeight> weights;
  std::int64_t targets = 1;
  ir::DType dtype = ir::DType::F32;  // of thresholds and weights
  std::int64_t depth = 0;            // questions from a root to the deepest leaf
};

// Of TreeEnsembleRegressor and TreeEnsembleClassifier; `side` is how the attributes of weights
// begin, "target" or "class".
TreeEnsemble read_trees_by_ids(Node& node, const std::string& side, std::int64_t targets);
// Of TreeEnsemble.
TreeEnsemble read_trees(Node& node);

// Numbers of an attribute that is a list, or a tensor under the name with "_as_tensor".
std::vector<double> numbers_of(Node& node, const std::string& name, ir::DType* dtype = nullptr);

}  // namespace anydim::frontends
