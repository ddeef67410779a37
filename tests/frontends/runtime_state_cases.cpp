// ONNX Runtime's operators around recurrent states and what its exporters put beside them, with
// what ONNX Runtime 1.32 gives for them.
#include <utility>

#include "tests/frontends/value_cases.h"

namespace anydim::frontends {
namespace {

using ir::DType;

void add_delta_nets(std::vector<ValueCase>& cases) {
  cases.push_back({"GatedDeltaNet",
                   17,
                   {{pattern({1, 2, 1, 2}, 1), false, "bt.."},
                    {pattern({1, 2, 1, 2}, 2), false, "bt.."},
                    {pattern({1, 2, 2, 3}, 3), false, "bt.."},
                    left_out,
                    {pattern({1, 2, 2}, 4), false, "bt."},
                    {pattern({1, 2, 2}, 5), false, "bt."},
                    {pattern({1, 2, 3, 2}, 6), false, "b..."},
                    {pattern({2}, 7), true},
                    {pattern({2}, 8), true}},
                   [](NodeBuilder& node) {
                     node.string("gate_activation", "softplus")
                         .string("beta_activation", "sigmoid")
                         .integer("qk_l2_norm", 1);
                   },
                   {reals({1, 2, 2, 3},
                          {-0.4600307, -0.06589198, 0.6393694, -0.1552289, 0.02097916, 0.2146057,
                           0.2388301, -0.05549929, -0.3648725, 0.1136335, -0.03543871, -0.2023188}),
                    reals({1, 2, 3, 2},
                          {0.5141853, -0.1846317, -0.06680249, 0.06046596, -0.8355786, 0.2653937,
                           0.2094326, -0.09958389, -0.07461679, 0.02795665, -0.5098921, 0.131635})},
                   "com.microsoft"});
  // Queries, keys and values in one tensor, texts in a line, a decay for each element of a key.
  cases.push_back(
      {"GatedDeltaNet",
       17,
       {{pattern({4, 10}, 1), false, "t."},
        left_out,
        left_out,
        left_out,
        {pattern({4, 2, 2}, 4), false, "t.."},
        left_out,
        {pattern({2, 2, 3, 2}, 6), false, "b..."},
        {pattern({2}, 7), true},
        {pattern({4}, 8), true}},
       [](NodeBuilder& node) {
         node.string("gate_activation", "kda").string("update_rule", "gated").real("scale", 0.5F);
       },
       {reals({4, 2, 3},
              {-0.6569993,  -0.4407986, 0.5891907,   -0.8990598, -0.03054828, 1.034392,
               0.2102815,   0.6487685,  -0.4814438,  0.1857764,  0.6514712,   -0.324012,
               0.3167194,   0.03696557, -0.01078531, 0.7273,     0.1416823,   -0.3470451,
               0.004968049, 0.2660388,  -0.3540507,  0.08778582, 0.3660527,   -0.3197009}),
        reals({2, 2, 3, 2},
              {0.420563,    -0.1946322,   1.297537,  -0.7517589, -0.9628876, 0.5679056,
               0.3715527,   -0.424053,    1.302942,  -0.9375,    -0.648024,  0.6458143,
               0.008855492, -0.004533067, 0.5760209, -0.7517939, -0.7668472, 1.00183,
               0.1546485,   -0.07095595,  0.7885225, -1.014191,  -0.6685765, 0.7852751})},
       "com.microsoft"});
  cases.push_back({"LinearAttentionGate",
                   17,
                   {{pattern({1, 2, 2}, 1), false, "bt."},
                    {pattern({2}, 2), true},
                    {pattern({2}, 3), true},
                    {pattern({1, 2, 2}, 4), false, "bt."}},
                   no_attributes,
                   {reals({1, 2, 2}, {0.5759394, 0, 0.974077, 0}),
                    reals({1, 2, 2}, {0.2689414, 0.6791787, 0.4378235, 0.2227001})},
                   "com.microsoft"});
}

void add_gates(std::vector<ValueCase>& cases) {
  // Groups of a row, then whole rows.
  cases.push_back({"GatedRMSNorm",
                   17,
                   {{pattern({2, 4}, 1), false, "b."},
                    {pattern({2}, 2), true},
                    {pattern({2, 4}, 3), false, "b."}},
                   no_attributes,
                   {reals({2, 4}, {-0.09599217, 0, -0.03006808, 0.5125495, -0.0375427, 0.06918395,
                                   -0.108056, 0.0928758})},
                   "com.microsoft"});
  cases.push_back({"GatedRMSNorm",
                   17,
                   {{pattern({2, 4}, 1), false, "b."},
                    {pattern({4}, 2), true},
                    {pattern({2, 4}, 3), false, "b."}},
                   [](NodeBuilder& node) { node.string("activation", "sigmoid"); },
                   {reals({2, 4}, {-0.1170621, -0.6004756, 0.08612948, 0, 0.1351142, -0.06224737,
                                   -0.6287925, 0})},
                   "com.microsoft"});
  cases.push_back(
      {"ScaledSiLU",
       17,
       {{pattern({2, 3}, 1)}},
       [](NodeBuilder& node) { node.real("alpha", 0.75F); },
       {reals({2, 3}, {-0.15275, 0.6736822, 0.1025134, -0.2041702, 0.509384, 0.1025134})},
       "com.microsoft"});
}

// What ONNX has of its own by now.
void add_early_forms(std::vector<ValueCase>& cases) {
  for (const Dims& dims : {Dims{}, Dims{1}}) {
    cases.push_back({"ExpandDims",
                     17,
                     {{pattern({2, 3}, 1)}, {integers(dims, {-2}, DType::I32), true}},
                     no_attributes,
                     {pattern({2, 1, 3}, 1)},
                     "com.microsoft"});
  }
  cases.push_back(
      {"GatherND",
       17,
       {{reals({2, 3}, {1, 2, 3, 4, 5, 6})}, {integers({2, 2}, {1, 0, 0, 2}), false, "n."}},
       no_attributes,
       {reals({2}, {4, 3})},
       "com.microsoft"});
  for (const Dims& dims : {Dims{4}, Dims{1, 4}}) {
    cases.push_back(
        {"Pad",
         17,
         {{reals({1, 2}, {1, 2})}, {integers(dims, {0, 1, 1, -1}), true}, {reals({1}, {5}), true}},
         no_attributes,
         {reals({2, 2}, {5, 1, 5, 5})},
         "com.microsoft"});
  }
}

}  // namespace

void add_runtime_states(std::vector<ValueCase>& cases) {
  add_delta_nets(cases);
  add_gates(cases);
  add_early_forms(cases);
}

}  // namespace anydim::frontends
