// ai.onnx.ml: features, linear models, trees and support vectors, with what ONNX Runtime 1.32 gives
// for them.
#include <limits>

#include "tests/frontends/value_cases.h"

namespace anydim::frontends {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

class Cases {
 public:
  explicit Cases(std::vector<ValueCase>& cases) : cases_(cases) {}
  void add(const std::string& op, const std::vector<CaseOperand>& operands,
           const std::function<void(NodeBuilder&)>& attributes,
           const std::vector<ir::Tensor>& wanted, int version = 3) {
    cases_.push_back({op, 17, operands, attributes, wanted, "ai.onnx.ml", {}, version});
  }

 private:
  std::vector<ValueCase>& cases_;
};

void add_features(Cases& cases) {
  const ir::Tensor table = reals({2, 3}, {1, 2, 3, 4, 5, 6});
  cases.add("ArrayFeatureExtractor", {{table}, {integers({1, 2}, {2, 0})}}, no_attributes,
            {reals({2, 2}, {3, 1, 6, 4})});
  cases.add("ArrayFeatureExtractor", {{integers({3}, {7, 8, 9})}, {integers({1}, {1})}},
            no_attributes, {integers({1, 1}, {8})});
  cases.add("Binarizer", {{reals({4}, {1, 4, -1, 0})}},
            [](NodeBuilder& node) { node.real("threshold", 0.5F); }, {reals({4}, {1, 1, 0, 0})});
  cases.add("FeatureVectorizer",
            {{integers({2, 2}, {1, 4, 4, 3})}, {integers({2, 2}, {9, 8, 8, 7})}},
            [](NodeBuilder& node) { node.integers("inputdimensions", {3, 1}); },
            {reals({2, 4}, {1, 4, 0, 9, 4, 3, 0, 8})});
  cases.add("FeatureVectorizer", {{reals({2}, {1, 4}), false, "."}},
            [](NodeBuilder& node) { node.integers("inputdimensions", {2}); },
            {reals({1, 2}, {1, 4})});
  cases.add("Imputer", {{reals({2, 2}, {1, nan, 2, 3})}},
            [](NodeBuilder& node) {
              node.reals("imputed_value_floats", {7, 8})
                  .real("replaced_value_float", std::numeric_limits<float>::quiet_NaN());
            },
            {reals({2, 2}, {1, 8, 2, 3})});
  cases.add("Imputer", {{integers({2, 2}, {1, 4, 4, 3})}},
            [](NodeBuilder& node) {
              node.integers("imputed_value_int64s", {7}).integer("replaced_value_int64", 4);
            },
            {integers({2, 2}, {1, 7, 7, 3})});
  const auto normalised = [&](const std::string& norm, const std::vector<double>& wanted) {
    cases.add("Normalizer", {{reals({3, 3}, {1, -4, 3, 0, 0, 0, -1, -2, -4})}},
              [=](NodeBuilder& node) { node.string("norm", norm); }, {reals({3, 3}, wanted)});
  };
  normalised("MAX", {0.3333333, -1.333333, 1, 0, 0, 0, 1, 2, 4});
  normalised("L1", {0.125, -0.5, 0.375, 0, 0, 0, -0.1428571, -0.2857143, -0.5714286});
  normalised("L2", {0.1961161, -0.7844645, 0.5883484, 0, 0, 0, -0.2182179, -0.4364358, -0.8728716});
  cases.add("OneHotEncoder", {{integers({2, 2}, {1, 4, 4, 3})}},
            [](NodeBuilder& node) { node.integers("cats_int64s", {4, 1}).integer("zeros", 1); },
            {reals({2, 2, 2}, {0, 1, 1, 0, 1, 0, 0, 0})});
  cases.add("OneHotEncoder", {{reals({2}, {1.5, 4})}},
            [](NodeBuilder& node) { node.integers("cats_int64s", {4, 1}).integer("zeros", 0); },
            {reals({2, 2}, {0, 1, 1, 0})});
  cases.add("Scaler", {{integers({2, 2}, {0, 1, 2, 3})}},
            [](NodeBuilder& node) { node.reals("offset", {1}).reals("scale", {2, 3}); },
            {reals({2, 2}, {-2, 0, 2, 6})});
}

void add_labels(Cases& cases) {
  cases.add(
      "LabelEncoder", {{integers({2, 2}, {1, 4, 9, -2})}},
      [](NodeBuilder& node) {
        node.integers("keys_int64s", {4, 1, 4, -2})
            .reals("values_floats", {0.5, 1.5, 2.5, 3.5})
            .real("default_float", 9);
      },
      {reals({2, 2}, {1.5, 0.5, 9, 3.5})}, 2);
  cases.add(
      "LabelEncoder", {{reals({3}, {4, nan, 1})}},
      [](NodeBuilder& node) {
        auto& keys = node.tensor("keys_tensor", f32, {2});
        keys.add_float_data(4);
        keys.add_float_data(std::numeric_limits<float>::quiet_NaN());
        auto& values = node.tensor("values_tensor", i64, {2});
        values.add_int64_data(5);
        values.add_int64_data(6);
        node.tensor("default_tensor", i64, {1}).add_int64_data(7);
      },
      {integers({3}, {5, 6, 7})}, 4);
}

void add_linear(Cases& cases) {
  const ir::Tensor rows = reals({3, 2}, {1, -2, 0, 0, -3, 4});
  const auto three = [&](const std::string& transform, const std::vector<double>& wanted) {
    cases.add("LinearClassifier", {{rows}},
              [=](NodeBuilder& node) {
                node.reals("coefficients", {0.5, 0.25, -0.5, 0.3F, 0, 0})
                    .reals("intercepts", {0.1F, 0.2F, 0})
                    .integers("classlabels_ints", {3, 7, 9})
                    .string("post_transform", transform);
              },
              {integers({3}, {3, 7, 7}), reals({3, 3}, wanted)});
  };
  three("SOFTMAX", {0.440002, 0.1618677, 0.3981303, 0.332225, 0.3671654, 0.3006096, 0.03377869,
                    0.9158295, 0.05039188});
  three("SOFTMAX_ZERO",
        {0.7310586, 0.2689414, 0, 0.4750208, 0.5249792, 0, 0.03557118, 0.9644288, 0});
  const auto one = [&](const std::string& transform, const std::vector<double>& wanted) {
    cases.add("LinearClassifier", {{rows}},
              [=](NodeBuilder& node) {
                node.reals("coefficients", {0.5, 0.25})
                    .reals("intercepts", {0.1F})
                    .integers("classlabels_ints", {3, 7})
                    .string("post_transform", transform);
              },
              {integers({3}, {7, 7, 3}), reals({3, 2}, wanted)});
  };
  one("NONE", {0.9, 0.1, 0.9, 0.1, 1.4, -0.4});
  one("LOGISTIC", {0.4750208, 0.5249792, 0.4750208, 0.5249792, 0.5986876, 0.4013124});
  cases.add("LinearRegressor", {{reals({2, 2}, {1, 1, 0, 0})}},
            [](NodeBuilder& node) {
              node.reals("coefficients", {0.5, 0.25, -0.25, 0.5})
                  .reals("intercepts", {0.1F, 0.4F})
                  .integer("targets", 2)
                  .string("post_transform", "PROBIT");
            },
            {reals({2, 2}, {1.036614, 0.3853402, -1.281713, -0.2533535})});
  cases.add("LinearRegressor", {{reals({2}, {2, 4})}},
            [](NodeBuilder& node) { node.reals("coefficients", {0.5, 0.25}); },
            {reals({1, 1}, {2})});
}

// A tree of one question, to which NaN answers yes, and one of two of other kinds.
void two_trees(NodeBuilder& node) {
  node.integers("nodes_treeids", {0, 0, 0, 1, 1, 1, 1, 1})
      .integers("nodes_nodeids", {0, 1, 2, 0, 1, 2, 3, 4})
      .integers("nodes_featureids", {0, 0, 0, 1, 0, 1, 0, 0})
      .reals("nodes_values", {0.5, 0, 0, 1, 0, -1, 0, 0})
      .strings("nodes_modes",
               {"BRANCH_LEQ", "LEAF", "LEAF", "BRANCH_GT", "LEAF", "BRANCH_LT", "LEAF", "LEAF"})
      .integers("nodes_truenodeids", {1, 0, 0, 1, 0, 3, 0, 0})
      .integers("nodes_falsenodeids", {2, 0, 0, 2, 0, 4, 0, 0})
      .integers("nodes_missing_value_tracks_true", {1, 0, 0, 0, 0, 0, 0, 0});
}

const ir::Tensor& tree_rows() {
  static const ir::Tensor rows = reals({5, 2}, {0, 2, 1, 0, 0.5, -2, nan, nan, 9, 1});
  return rows;
}

void add_trees(Cases& cases) {
  const auto regressed = [&](const std::string& aggregate, const std::vector<double>& wanted) {
    cases.add("TreeEnsembleRegressor", {{tree_rows()}},
              [=](NodeBuilder& node) {
                two_trees(node);
                node.integers("target_treeids", {0, 0, 1, 1, 1})
                    .integers("target_nodeids", {1, 2, 1, 3, 4})
                    .integers("target_ids", {0, 0, 0, 0, 1})
                    .reals("target_weights", {1, 2, -4, 8, 16})
                    .integer("n_targets", 2)
                    .string("aggregate_function", aggregate);
              },
              {reals({5, 2}, wanted)});
  };
  regressed("SUM", {-3, 0, 2, 16, 9, 0, 1, 16, 2, 16});
  regressed("AVERAGE", {-1.5, 0, 1, 8, 4.5, 0, 0.5, 8, 1, 8});
  regressed("MIN", {-4, 0, 2, 16, 1, 0, 1, 16, 2, 16});
  regressed("MAX", {1, 0, 2, 16, 8, 0, 1, 16, 2, 16});
  const auto classified = [&](const std::vector<std::int64_t>& labels,
                              const std::vector<std::int64_t>& ids,
                              const std::vector<float>& weights, const std::vector<float>& base,
                              const std::string& transform, const std::vector<std::int64_t>& wanted,
                              const std::vector<double>& scores) {
    cases.add(
        "TreeEnsembleClassifier", {{tree_rows()}},
        [=](NodeBuilder& node) {
          two_trees(node);
          node.integers("class_treeids", {0, 0, 1, 1, 1})
              .integers("class_nodeids", {1, 2, 1, 3, 4})
              .integers("class_ids", ids)
              .reals("class_weights", weights)
              .integers("classlabels_int64s", labels)
              .string("post_transform", transform);
          if (!base.empty()) node.reals("base_values", base);
        },
        {integers({5}, wanted), reals({5, static_cast<std::int64_t>(labels.size())}, scores)});
  };
  classified({5, 6, 8}, {0, 1, 2, 1, 0}, {1, 2, -4, 8, 16}, {}, "SOFTMAX", {5, 5, 6, 5, 5},
             {0.7274752, 0.2676232, 0.004901689, 0.999999, 8.315279e-07, 1.125351e-07, 0.000910746,
              0.9987543, 0.0003350447, 1, 4.139938e-08, 4.139938e-08, 0.999999, 8.315279e-07,
              1.125351e-07});
  // Shares of the second class alone, then scores of one sign or the other.
  classified({0, 1}, {0, 0, 0, 0, 0}, {0.25, 0.125, 0.5, 0, 0.125}, {0.125}, "NONE",
             {1, 0, 0, 0, 0}, {0.125, 0.875, 0.625, 0.375, 0.625, 0.375, 0.5, 0.5, 0.625, 0.375});
  const std::vector<float> signs{1, -2, -4, 8, -16};
  classified({0, 1}, {0, 0, 0, 0, 0}, signs, {}, "LOGISTIC", {0, 0, 1, 0, 0},
             {0.9525741, 0.04742587, 1, 0, 0.0001233816, 0.9998766, 0.9999996, 3.576279e-07, 1, 0});
  classified({0, 1}, {1, 1, 1, 1, 1}, signs, {}, "NONE", {0, 0, 1, 0, 0},
             {0, -3, 0, -18, 0, 9, 0, -15, 0, -18});
  classified({0, 1}, {1, 0, 1, 0, 1}, signs, {}, "SOFTMAX", {0, 0, 1, 0, 0},
             {0.9525741, 0.04742587, 0.9999992, 8.31528e-07, 0.999089, 0.0009110512, 0.9999996,
              3.059022e-07, 0.9999992, 8.31528e-07});

  // One tree asks whether a feature is 0 or 1, and is reached by feature 0 beyond a half.
  cases.add(
      "TreeEnsemble", {{tree_rows()}},
      [](NodeBuilder& node) {
        node.integer("n_targets", 2)
            .integers("tree_roots", {0, 2})
            .integers("nodes_featureids", {0, 1, 0})
            .integers("nodes_truenodeids", {0, 1, 3})
            .integers("nodes_falsenodeids", {1, 2, 4})
            .integers("nodes_trueleafs", {1, 1, 1})
            .integers("nodes_falseleafs", {0, 1, 1})
            .integers("leaf_targetids", {0, 1, 0, 1, 0});
        const auto numbers = [&](const std::string& name, const std::vector<float>& values) {
          auto& tensor = node.tensor(name, f32, {static_cast<std::int64_t>(values.size())});
          for (const float value : values) tensor.add_float_data(value);
        };
        numbers("nodes_splits", {0.5, 7, 1});
        numbers("leaf_weights", {1, 2, 4, 8, 16});
        numbers("membership_values", {0, 1, std::numeric_limits<float>::quiet_NaN()});
        auto& modes = node.tensor("nodes_modes", u8, {3});
        for (const int mode : {0, 6, 3}) modes.add_int32_data(mode);
      },
      {reals({5, 2}, {17, 0, 16, 2, 17, 0, 20, 0, 0, 10})}, 5);
  // A feature of f64 that is a threshold, which no f32 is.
  cases.add(
      "TreeEnsemble", {{reals({3, 1}, {1.2, 1.2000000001, -7}, ir::DType::F64)}},
      [](NodeBuilder& node) {
        node.integers("tree_roots", {0})
            .integers("nodes_featureids", {0})
            .integers("nodes_truenodeids", {0})
            .integers("nodes_falsenodeids", {1})
            .integers("nodes_trueleafs", {1})
            .integers("nodes_falseleafs", {1})
            .integers("leaf_targetids", {0, 0});
        node.tensor("nodes_splits", f64, {1}).add_double_data(1.2);
        auto& weights = node.tensor("leaf_weights", f64, {2});
        for (const double weight : {0.1, 3.0}) weights.add_double_data(weight);
        node.tensor("nodes_modes", u8, {1}).add_int32_data(0);
      },
      {reals({3, 1}, {0.1, 3, 0.1}, ir::DType::F64)}, 5);
  // A chain of eleven questions, which a loop walks: how many of 0, 1, .. 10 are below a feature.
  cases.add("TreeEnsembleRegressor", {{reals({3, 1}, {4.5, -1, 99})}},
            [](NodeBuilder& node) {
              std::vector<std::int64_t> ids, features, yes, no, trees;
              std::vector<std::string> modes;
              std::vector<float> thresholds, weights;
              for (std::int64_t i = 0; i < 23; ++i) {
                const bool question = i < 11;
                ids.push_back(i);
                trees.push_back(0);
                features.push_back(0);
                modes.emplace_back(question ? "BRANCH_LEQ" : "LEAF");
                thresholds.push_back(static_cast<float>(i));
                weights.push_back(static_cast<float>(i - 11));
                yes.push_back(question ? i + 11 : 0);
                no.push_back(i == 10 ? 22 : question ? i + 1 : 0);
              }
              const std::vector<std::int64_t> leaves(ids.begin() + 11, ids.end()), zeros(12);
              node.integers("nodes_treeids", trees)
                  .integers("nodes_nodeids", ids)
                  .integers("nodes_featureids", features)
                  .reals("nodes_values", thresholds)
                  .strings("nodes_modes", modes)
                  .integers("nodes_truenodeids", yes)
                  .integers("nodes_falsenodeids", no)
                  .integers("target_treeids", zeros)
                  .integers("target_nodeids", leaves)
                  .integers("target_ids", zeros)
                  .reals("target_weights", {weights.begin() + 11, weights.end()});
            },
            {reals({3, 1}, {5, 0, 11})});
}

void add_vectors(Cases& cases) {
  const ir::Tensor rows = reals({3, 2}, {1, -2, 0.1, 0.2, -3, 4});
  struct Machine {
    std::vector<std::int64_t> per_class, labels;
    std::vector<float> vectors, coefficients, rho;
  };
  const auto classified = [&](const Machine& machine, const std::string& kernel,
                              const std::string& transform, const std::vector<float>& a,
                              const std::vector<float>& b, const std::vector<std::int64_t>& wanted,
                              const std::vector<double>& scores) {
    cases.add(
        "SVMClassifier", {{rows}},
        [=](NodeBuilder& node) {
          node.integers("vectors_per_class", machine.per_class)
              .integers("classlabels_ints", machine.labels)
              .reals("support_vectors", machine.vectors)
              .reals("coefficients", machine.coefficients)
              .reals("rho", machine.rho)
              .string("kernel_type", kernel)
              .reals("kernel_params", {0.5, 1, 2})
              .string("post_transform", transform);
          if (!a.empty()) node.reals("prob_a", a).reals("prob_b", b);
        },
        {integers({3}, wanted), reals({3, static_cast<std::int64_t>(scores.size()) / 3}, scores)});
  };
  const Machine two{{1, 1}, {5, 6}, {1, 0, 0, 1}, {0.5, -0.7F}, {0.1F}};
  classified(two, "LINEAR", "LOGISTIC", {}, {}, {5, 5, 6},
             {0.119203, 0.880797, 0.4975, 0.5025, 0.985226, 0.01477402});
  classified(two, "RBF", "NONE", {}, {}, {5, 6, 5},
             {-0.1629511, 0.1629511, 0.07888424, -0.07888424, -0.09991367, 0.09991367});
  classified(two, "SIGMOID", "SOFTMAX", {}, {}, {5, 6, 6},
             {0.4474259, 0.5525741, 1.069446, -0.06944617, 1.827597, -0.8275968});
  classified(two, "LINEAR", "NONE", {-1.5}, {0.2F}, {5, 5, 6},
             {0.9401632, 0.05983685, 0.4538426, 0.5461574, 6.791265e-06, 0.9999933});
  const Machine three{{1, 2, 1},
                      {5, 6, 7},
                      {1, 0, 0, 1, 1, 1, -1, 0.5},
                      {0.5, -0.7F, 0.2F, 0.6F, 0.3F, 0.6F, -0.4F, 0.25},
                      {0.1F, 0.2F, -0.3F}};
  classified(three, "LINEAR", "NONE", {}, {}, {7, 5, 6},
             {1.8, -0.7, -1.6, 0.07000001, 0.23, -0.3, -4, 2.3, 2.95});
  classified(three, "LINEAR", "NONE", {-1.5, -1, -2}, {0.2F, 0.1F, 0}, {7, 5, 6},
             {0.3015045, 0.02525766, 0.6732378, 0.3426692, 0.2783725, 0.3789584, 0.002194792,
              0.9961908, 0.001614393});
  const auto regressed = [&](std::int64_t supports, std::int64_t one_class,
                             const std::vector<double>& wanted) {
    cases.add("SVMRegressor", {{rows}},
              [=](NodeBuilder& node) {
                node.reals("coefficients", {0.5, -0.7F})
                    .reals("rho", {0.1F})
                    .integer("n_supports", supports)
                    .integer("one_class", one_class);
                if (supports == 0) return;
                node.reals("support_vectors", {1, 0, 0, 1})
                    .string("kernel_type", "POLY")
                    .reals("kernel_params", {0.5, 1, 2});
              },
              {reals({3, 1}, wanted)});
  };
  regressed(2, 0, {1.225, -0.1957501, -6.075});
  regressed(2, 1, {1, -1, -1});
  regressed(0, 0, {2, 0.01000001, -4.2});
}

}  // namespace

void add_classical_cases(std::vector<ValueCase>& cases) {
  Cases all(cases);
  add_features(all);
  add_labels(all);
  add_linear(all);
  add_trees(all);
  add_vectors(all);
}

}  // namespace anydim::frontends
