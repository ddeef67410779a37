// Mixtures of experts of ONNX Runtime, with what ONNX Runtime 1.32 gives for them.
#include <cmath>

#include "tests/frontends/value_cases.h"

namespace anydim::frontends {
namespace {

using ir::DType;

ir::Tensor bytes(Dims dims) {
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) count *= dim;
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back((i * 37 + 11) % 256);
  return integers(std::move(dims), values, DType::U8);
}

ir::Tensor scales(Dims dims, std::int64_t seed) {
  ir::Tensor tensor = pattern(std::move(dims), seed);
  for (std::int64_t i = 0; i < tensor.elements(); ++i)
    tensor.set_real(i, std::abs(tensor.real_at(i)) / 8 + 0.125);
  return tensor;
}

}  // namespace

void add_runtime_experts(std::vector<ValueCase>& cases) {
  cases.push_back(
      {"MoE",
       17,
       {{pattern({4, 3}, 1), false, "n."},
        {pattern({4, 3}, 2), false, "n."},
        {pattern({3, 2, 3}, 3), true},
        {pattern({3, 2}, 4), true},
        {pattern({3, 3, 2}, 5), true},
        {pattern({3, 3}, 6), true}},
       [](NodeBuilder& node) { node.integer("k", 2).string("activation_type", "relu"); },
       {reals({4, 3}, {0.2953474, -0.5990882, 0.9661741, 0.2886745, -0.6212949, 0.9711515,
                       0.2953474, -0.5990882, 0.9661741, 0.2814768, -0.605804, 0.9469374})},
       "com.microsoft"});
  cases.push_back(
      {"MoE",
       17,
       {{pattern({2, 2, 3}, 1), false, "bs."},
        {pattern({4, 3}, 2), false, "n."},
        {pattern({3, 4, 3}, 3), true},
        {pattern({3, 4}, 4), true},
        {pattern({3, 3, 2}, 5), true},
        {pattern({3, 3}, 6), true}},
       [](NodeBuilder& node) {
         node.integer("k", 2)
             .integer("normalize_routing_weights", 1)
             .string("activation_type", "swiglu")
             .integer("swiglu_fusion", 1)
             .real("swiglu_limit", 0.75f)
             .real("activation_alpha", 1.5f)
             .real("activation_beta", 1.0f);
       },
       {reals({2, 2, 3}, {0.4293913, -0.6569927, 0.896966, 0.4564534, -0.6698318, 0.8483887,
                          0.4356717, -0.6599487, 0.8874654, 0.4205813, -0.6647553, 0.8858504})},
       "com.microsoft"});
  cases.push_back(
      {"MoE",
       17,
       {{pattern({0, 3}, 1), false, "n."},
        {pattern({0, 3}, 2), false, "n."},
        {pattern({3, 2, 3}, 3), true},
        left_out,
        {pattern({3, 3, 2}, 5), true}},
       [](NodeBuilder& node) { node.integer("k", 1).string("activation_type", "gelu"); },
       {reals({0, 3}, {})},
       "com.microsoft"});
  cases.push_back({"QMoE",
                   17,
                   {{pattern({4, 2}, 1), false, "n."},
                    {pattern({4, 3}, 2), false, "n."},
                    {bytes({3, 4, 1}), true},
                    {scales({3, 4}, 3), true},
                    {pattern({3, 4}, 4), true},
                    {bytes({3, 2, 1}), true},
                    {scales({3, 2}, 5), true},
                    {pattern({3, 2}, 6), true}},
                   [](NodeBuilder& node) {
                     node.integer("k", 2)
                         .integer("normalize_routing_weights", 1)
                         .string("activation_type", "swiglu")
                         .integer("swiglu_fusion", 1);
                   },
                   {reals({4, 2}, {-0.7355067, 0.5725416, -0.2225183, 0.01854771, -1.124747,
                                   -0.3747518, -0.8094653, 0.733196})},
                   "com.microsoft"});
  cases.push_back(
      {"QMoE",
       17,
       {{pattern({3, 16}, 1), false, "n."},
        {pattern({3, 2}, 2), false, "n."},
        {bytes({2, 16, 8}), true},
        {scales({2, 16, 1}, 3), true},
        left_out,
        {bytes({2, 16, 8}), true},
        {scales({2, 16, 1}, 5), true},
        left_out,
        left_out,
        left_out,
        left_out,
        {bytes({2, 16, 1}), true},
        {bytes({2, 16, 1}), true},
        left_out,
        {scales({3, 2}, 7), false, "n."}},
       [](NodeBuilder& node) {
         node.integer("k", 2)
             .integer("normalize_routing_weights", 1)
             .string("activation_type", "silu")
             .integer("block_size", 16);
       },
       {reals({3, 16}, {-25.63367, 63.24761,  19.80663,  -28.18925, -58.07365, 34.97636,  -9.269022,
                        -63.63663, 36.06414,  -4.602299, -50.17998, 43.5129,   5.850496,  -39.58953,
                        47.10365,  16.90875,  -23.83868, 69.92901,  46.93298,  -38.7054,  -61.55401,
                        30.52562,  1.458438,  -96.52996, 68.216,    -19.70942, -42.84966, 57.18671,
                        25.53169,  -70.17261, 85.05577,  2.933315,  -23.45705, 54.83914,  17.93538,
                        -29.5488,  -60.78333, 43.26374,  -10.31614, -62.88432, 53.03403,  -2.730611,
                        -48.95872, 56.56414,  12.07322,  -44.54472, 62.70263,  14.60067})},
       "com.microsoft"});
  cases.push_back({"QMoE",
                   17,
                   {{pattern({3, 2}, 1), false, "n."},
                    {pattern({3, 2}, 2), false, "n."},
                    {bytes({2, 3, 2}), true},
                    {scales({2, 3}, 3), true},
                    left_out,
                    {bytes({2, 2, 3}), true},
                    {scales({2, 2}, 5), true}},
                   [](NodeBuilder& node) {
                     node.integer("k", 1)
                         .string("activation_type", "identity")
                         .integer("expert_weight_bits", 8);
                   },
                   {reals({3, 2}, {51.05469, 365.0625, -58.125, -226.5732, 600.1729, -109.0957})},
                   "com.microsoft"});
}

}  // namespace anydim::frontends
