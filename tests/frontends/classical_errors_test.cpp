// What is wrong with nodes of ai.onnx.ml, with the whole message.
#include <gtest/gtest.h>

#include "ir/reference/evaluate.h"
#include "ir/shapes/infer.h"
#include "tests/frontends/model_builder.h"

namespace anydim::frontends {
namespace {

struct OneNode {
  ModelBuilder builder;
  NodeBuilder node;
  std::string failure() const { return builder.failure(); }
};

// A node named 'n' over rows of `columns`.
OneNode one_node(const std::string& op, int version = 3, int type = f32, std::int64_t columns = 2) {
  ModelBuilder builder(17);
  auto& import = *builder.model.add_opset_import();
  import.set_domain("ai.onnx.ml");
  import.set_version(version);
  builder.input("x", type, {"rows", columns}).output("y");
  NodeBuilder node = builder.node(op, {"x"}, {"y"}).name("n").domain("ai.onnx.ml");
  return {std::move(builder), node};
}

TEST(ClassicalErrors, Features) {
  auto scaler = one_node("Scaler");
  scaler.node.reals("offset", {1, 2, 3}).reals("scale", {1});
  EXPECT_EQ(scaler.failure(),
            "malformed: node 'n' (Scaler) takes one number or one for each of 2 columns as "
            "attribute 'offset', got 3");
  auto norm = one_node("Normalizer");
  norm.node.string("norm", "L3");
  EXPECT_EQ(norm.failure(),
            "malformed: node 'n' (Normalizer) takes 'MAX', 'L1' or 'L2' as attribute 'norm', got "
            "'L3'");
  auto widths = one_node("FeatureVectorizer");
  widths.node.integers("inputdimensions", {2, 1});
  EXPECT_EQ(widths.failure(),
            "malformed: node 'n' (FeatureVectorizer) has 1 inputs; expected a number of columns "
            "for each as attribute 'inputdimensions', got 2");
  auto words = one_node("OneHotEncoder", 3, i64);
  words.node.strings("cats_strings", {"a"});
  EXPECT_EQ(words.failure(),
            "unsupported: node 'n' (OneHotEncoder) has categories that are strings; Anydim has "
            "numbers only");
}

TEST(ClassicalErrors, UnknownCategoryEndsTheCall) {
  auto one = one_node("OneHotEncoder", 3, i64);
  one.node.integers("cats_int64s", {1, 4}).integer("zeros", 0);
  ir::Module module = one.builder.read();
  ir::infer_types(module);
  try {
    const auto given = ir::Tensor::of(ir::DType::I64, {1, 2}, std::vector<std::int64_t>{4, 3});
    ir::evaluate(module, module.functions[0], {given});
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(describe(error),
              "of another kind: assert 'n': node 'n' (OneHotEncoder) is given a category that it "
              "does not know; expected one of cats_int64s, got\n  %y.0: i64 (1, 2, 1) = 4 3");
  }
}

TEST(ClassicalErrors, Labels) {
  auto words = one_node("LabelEncoder");
  words.node.strings("keys_strings", {"a"}).integers("values_int64s", {1});
  EXPECT_EQ(words.failure(),
            "unsupported: node 'n' (LabelEncoder) has strings as keys; Anydim has numbers only");
  auto count = one_node("LabelEncoder");
  count.node.reals("keys_floats", {1, 2}).integers("values_int64s", {1});
  EXPECT_EQ(count.failure(),
            "malformed: node 'n' (LabelEncoder) has 2 keys and 1 values; expected a value for each "
            "key");
  auto type = one_node("LabelEncoder");
  type.node.integers("keys_int64s", {1}).integers("values_int64s", {1});
  EXPECT_EQ(type.failure(),
            "malformed: node 'n' (LabelEncoder) has keys of i64 for an input of f32, and a default "
            "of i64 for values of i64; expected one of each");
}

TEST(ClassicalErrors, LinearModels) {
  auto words = one_node("LinearClassifier");
  words.node.strings("classlabels_strings", {"a", "b"}).reals("intercepts", {0, 0});
  EXPECT_EQ(words.failure(),
            "unsupported: node 'n' (LinearClassifier) gives labels that are strings; Anydim has "
            "numbers only: export the model with integer labels");
  auto labels = one_node("LinearClassifier");
  labels.node.integers("classlabels_ints", {1, 2, 3}).reals("intercepts", {0});
  EXPECT_EQ(labels.failure(),
            "malformed: node 'n' (LinearClassifier) has 1 intercepts and 3 labels; expected a "
            "score for each label, or one for two labels");
  auto few = one_node("LinearRegressor");
  few.node.reals("coefficients", {1, 2, 3}).integer("targets", 2);
  EXPECT_EQ(few.failure(),
            "malformed: node 'n' (LinearRegressor) has 3 coefficients and 0 intercepts for 2 "
            "scores; expected as many coefficients for each score, and one intercept or none");
  auto wide = one_node("LinearRegressor");
  wide.node.reals("coefficients", {1, 2, 3});
  EXPECT_EQ(wide.failure(),
            "malformed: node 'n' (LinearRegressor) has coefficients for 3 features, got 2 in input "
            "0");
  auto transform = one_node("LinearRegressor");
  transform.node.reals("coefficients", {1, 2}).string("post_transform", "TANH");
  EXPECT_EQ(transform.failure(),
            "malformed: node 'n' (LinearRegressor) takes 'NONE', 'LOGISTIC', 'SOFTMAX', "
            "'SOFTMAX_ZERO' or 'PROBIT' as attribute 'post_transform', got 'TANH'");
}

struct Tree {
  std::vector<std::string> modes{"BRANCH_LEQ", "LEAF", "LEAF"};
  std::vector<std::int64_t> features{0, 0, 0}, yes{1, 0, 0}, no{2, 0, 0}, targets{0, 0};
};

std::string tree_failure(const Tree& tree) {
  auto one = one_node("TreeEnsembleRegressor");
  one.node.strings("nodes_modes", tree.modes)
      .integers("nodes_treeids", {0, 0, 0})
      .integers("nodes_nodeids", {0, 1, 2})
      .integers("nodes_featureids", tree.features)
      .integers("nodes_truenodeids", tree.yes)
      .integers("nodes_falsenodeids", tree.no)
      .reals("nodes_values", {0.5, 0, 0})
      .integers("target_treeids", {0, 0})
      .integers("target_nodeids", {1, 2})
      .integers("target_ids", tree.targets)
      .reals("target_weights", {1, 2});
  return one.failure();
}

// A tree that is a leaf, which says 1.
NodeBuilder& one_leaf(NodeBuilder& node, const std::string& side) {
  return node.strings("nodes_modes", {"LEAF"})
      .integers("nodes_treeids", {0})
      .integers("nodes_nodeids", {0})
      .integers("nodes_featureids", {0})
      .integers("nodes_truenodeids", {0})
      .integers("nodes_falsenodeids", {0})
      .reals("nodes_values", {0})
      .integers(side + "_treeids", {0})
      .integers(side + "_nodeids", {0})
      .integers(side + "_ids", {0})
      .reals(side + "_weights", {1});
}

TEST(ClassicalErrors, Trees) {
  EXPECT_EQ(tree_failure({}), "read");
  const std::string node = "malformed: node 'n' (TreeEnsembleRegressor) ";
  EXPECT_EQ(tree_failure({.modes = {"BRANCH", "LEAF", "LEAF"}}),
            node + "has a tree node of mode 'BRANCH', which is none");
  EXPECT_EQ(tree_failure({.modes = {"LEAF", "LEAF"}}),
            node + "has 3 numbers as attribute 'nodes_treeids'; expected 2, one for each");
  EXPECT_EQ(tree_failure({.no = {7, 0, 0}}),
            node + "names node 7 of tree 0, which it does not have");
  EXPECT_EQ(tree_failure({.modes = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_LT"}, .yes = {1, 2, 1}}),
            node + "has a tree node, 0, that no root leads to");
  EXPECT_EQ(tree_failure(
                {.modes = {"BRANCH_LEQ", "BRANCH_LT", "LEAF"}, .yes = {1, 2, 0}, .no = {1, 2, 0}}),
            node + "has a tree node, 1, that is reached twice");
  EXPECT_EQ(tree_failure({.features = {2, 0, 0}}), node + "asks for feature 2, got 2 in input 0");
  auto wide = one_node("TreeEnsembleRegressor");
  one_leaf(wide.node, "target").integer("n_targets", 1LL << 60);
  EXPECT_EQ(wide.failure(),
            "unsupported: node 'n' (TreeEnsembleRegressor) needs a table of 1 times "
            "1152921504606846976 weights; Anydim makes up to 268435456 numbers");
  EXPECT_EQ(tree_failure({.targets = {0, 1}}), node + "has a leaf for target 1; expected one of 1");
}

TEST(ClassicalErrors, TreesOfTwoClasses) {
  auto one = one_node("TreeEnsembleClassifier");
  one_leaf(one.node, "class").integers("classlabels_int64s", {0, 1}).reals("base_values", {1, 2});
  EXPECT_EQ(one.failure(),
            "unsupported: node 'n' (TreeEnsembleClassifier) has two base_values for two classes, "
            "which ONNX does not say how to add: leave them out or give one");
}

std::string ensemble_failure(std::int64_t yes, int mode, std::int64_t targets = 1) {
  auto one = one_node("TreeEnsemble", 5);
  one.node.integer("n_targets", targets)
      .integers("tree_roots", {0})
      .integers("nodes_featureids", {0})
      .integers("nodes_truenodeids", {yes})
      .integers("nodes_falsenodeids", {0})
      .integers("nodes_trueleafs", {1})
      .integers("nodes_falseleafs", {1})
      .integers("leaf_targetids", {0});
  one.node.tensor("nodes_splits", f32, {1}).add_float_data(0.5);
  one.node.tensor("leaf_weights", f32, {1}).add_float_data(1);
  one.node.tensor("nodes_modes", u8, {1}).add_int32_data(mode);
  return one.failure();
}

TEST(ClassicalErrors, TreesOfLeavesApart) {
  EXPECT_EQ(ensemble_failure(0, 0), "read");
  const std::string node = "malformed: node 'n' (TreeEnsemble) ";
  EXPECT_EQ(ensemble_failure(1, 0), node + "names leaf 1; expected one of 1");
  EXPECT_EQ(ensemble_failure(0, 7), node + "has a tree node of mode 7; expected 0 to 6");
  EXPECT_EQ(ensemble_failure(0, 6),
            node + "has fewer sets in attribute 'membership_values' than nodes that ask for one");
  EXPECT_EQ(ensemble_failure(0, 0, -1), node + "has -1 targets; expected one or more");
}

std::string vector_failure(const std::vector<std::int64_t>& per_class, const std::string& kernel,
                           const std::vector<float>& parameters,
                           const std::vector<float>& vectors = {1, 0, 0, 1}) {
  auto one = one_node("SVMClassifier");
  one.node.integers("classlabels_ints", {0, 1})
      .integers("vectors_per_class", per_class)
      .reals("support_vectors", vectors)
      .reals("coefficients", {1, -1})
      .reals("rho", {0})
      .string("kernel_type", kernel)
      .reals("kernel_params", parameters);
  return one.failure();
}

TEST(ClassicalErrors, SupportVectors) {
  EXPECT_EQ(vector_failure({1, 1}, "RBF", {1, 0, 0}), "read");
  const std::string node = "malformed: node 'n' (SVMClassifier) ";
  EXPECT_EQ(vector_failure({2}, "RBF", {1, 0, 0}),
            node + "has 1 numbers as attribute 'vectors_per_class'; expected 2");
  EXPECT_EQ(vector_failure({1, 2}, "RBF", {1, 0, 0}),
            node + "has 2 numbers as attribute 'coefficients'; expected 3");
  EXPECT_EQ(vector_failure({1, 4}, "RBF", {1, 0, 0}),
            node +
                "has 4 vectors of a class behind 1 others; expected one or more numbers for "
                "each, got 4");
  EXPECT_EQ(vector_failure({1, 1}, "COSINE", {1, 0, 0}),
            node +
                "takes 'LINEAR', 'POLY', 'RBF' or 'SIGMOID' as attribute 'kernel_type', got "
                "'COSINE'");
  EXPECT_EQ(vector_failure({1, 1}, "RBF", {1}),
            node + "has 1 numbers as attribute 'kernel_params'; expected gamma, coef0 and degree");
  EXPECT_EQ(vector_failure({1, 1}, "RBF", {1, 0, 0}, {1, 0, 1}),
            node + "has 3 numbers for 2 vectors; expected as many for each");
  EXPECT_EQ(vector_failure({1, 1}, "RBF", {1, 0, 0}, {1, 0, 1, 1, 0, 0}),
            node + "has vectors of 3 features, got 2 in input 0");
  auto none = one_node("SVMClassifier");
  none.node.integers("classlabels_ints", {0, 1}).reals("coefficients", {1, -1, 1, 1});
  EXPECT_EQ(none.failure(),
            "unsupported: node 'n' (SVMClassifier) has no support vectors of two classes or more: "
            "LinearClassifier is for models without");
}

}  // namespace
}  // namespace anydim::frontends
