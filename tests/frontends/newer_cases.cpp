// Operators of newer opsets and of other domains, with what ONNX's reference evaluator ("standard")
// and ONNX Runtime 1.31 (the others) give for them.
#include <cmath>

#include "tests/frontends/value_cases.h"

namespace anydim::frontends {
namespace {

using ir::DType;

// The first matrix has a zero where the first pivot would be, the second one column twice.
void add_matrices(std::vector<ValueCase>& cases) {
  const CaseOperand matrices{
      reals({2, 3, 3}, {0, 2, 1, 4, 1, 0, 2, 2, 3, 1, 1, 3, 2, 2, -1, 5, 5, 4}), false, "bnn"};
  cases.push_back({"Det", 11, {matrices}, no_attributes, {reals({2}, {-18, 0})}});
  cases.push_back({"Det",
                   22,
                   {{reals({2, 2}, {1, 2, 3, 5}, DType::F64)}},
                   no_attributes,
                   {reals({}, {-1}, DType::F64)}});
  cases.push_back(
      {"Det", 22, {{reals({2, 0, 0}, {}), false, "bnn"}}, no_attributes, {reals({2}, {1, 1})}});
  for (const bool squared : {true, false}) {
    std::vector<double> wanted{2, 32, 8, 2, 61, 85};
    if (!squared)
      for (double& number : wanted) number = std::sqrt(number);
    cases.push_back({"CDist",
                     17,
                     {{reals({3, 2}, {-5, 2, -2, 5, 1, -3}), false, "m."},
                      {reals({2, 2}, {-4, 3, -1, 6}), false, "n."}},
                     [squared](NodeBuilder& node) {
                       node.string("metric", squared ? "sqeuclidean" : "euclidean");
                     },
                     {reals({3, 2}, wanted)},
                     "com.microsoft"});
  }
  cases.push_back({"Inverse",
                   17,
                   {{reals({2, 1, 2, 2}, {0, 2, 4, 1, 1, 2, 3, 4}), false, "b.nn"}},
                   no_attributes,
                   {reals({2, 1, 2, 2}, {-0.125, 0.25, 0.5, 0, -2, 1, 1.5, -0.5})},
                   "com.microsoft"});
}

void add_runtime_elementwise(std::vector<ValueCase>& cases) {
  cases.push_back({"Gelu",
                   17,
                   {{pattern({3, 4}, 1)}},
                   no_attributes,
                   {reals({3, 4}, {-0.1542688, 1.117938, 0.1496766, -0.1699705, 0.8413447,
                                   0.1496766, -0.1699705, 0.8413447, 0, -0.1586553, 0.8413447, 0})},
                   "com.microsoft"});
  cases.push_back({"Range",
                   17,
                   {{integers({}, {2}), true}, {integers({}, {5}), true}},
                   no_attributes,
                   {integers({3}, {2, 3, 4})},
                   "com.microsoft"});
  cases.push_back(
      {"QuickGelu",
       17,
       {{pattern({2, 3}, 1)}},
       [](NodeBuilder& node) { node.real("alpha", 0.75f); },
       {reals({2, 3}, {-0.2036667, 0.898243, 0.1366845, -0.2722269, 0.6791787, 0.1366845})},
       "com.microsoft"});
  cases.push_back(
      {"BiasGelu",
       17,
       {{pattern({2, 3}, 1)}, {pattern({3}, 2)}},
       no_attributes,
       {reals({2, 3}, {-0.1003234, 0.3457312, 1.117938, -0.1542688, 0.1496766, 1.117938})},
       "com.microsoft"});
  // What ONNX Runtime's optimiser makes of diffusion models, which its CPU kernels leave out.
  cases.push_back({"BiasSplitGelu",
                   17,
                   {{reals({1, 1, 4}, {1, -2, 0.5, 3})}, {reals({4}, {0.5, 0, 1, -1})}},
                   no_attributes,
                   {reals({1, 1, 2}, {2.099684, -3.909})},
                   "com.microsoft"});
  cases.push_back({"BiasAdd",
                   17,
                   {{reals({1, 2, 2}, {1, 2, 3, 4})},
                    {reals({2}, {0.5, -1})},
                    {reals({1, 2, 2}, {1, 0, 0, 2})}},
                   no_attributes,
                   {reals({1, 2, 2}, {2.5, 1, 3.5, 5})},
                   "com.microsoft"});
  const CaseOperand image{reals({1, 1, 2, 4}, {-5, 2, -2, 5, 1, -3, 4, 0})},
      scale{reals({4}, {1, 2, 0.5, -1})}, moved{reals({4}, {0, 1, -1, 0.5})};
  const auto groups = [](std::int64_t activation) {
    return [=](NodeBuilder& node) { node.integer("groups", 2).integer("activation", activation); };
  };
  cases.push_back({"GroupNorm",
                   17,
                   {image, scale, moved},
                   groups(1),
                   {reals({1, 1, 2, 4}, {-0.278354, 3.152027, -0.2655015, -0.2201147, 0.5402451,
                                         -0.099191, -0.2140798, 0.8363909})},
                   "com.microsoft"});
  cases.push_back(
      {"SkipGroupNorm",
       17,
       {image, scale, moved, {reals({1, 4}, {0.5, -0.5, 1, 0})}, {reals({4}, {1, 0, -1, 2})}},
       groups(0),
       {reals({1, 1, 2, 4}, {-0.991836, 2.623004, -1.726483, -0.8000219, 1.17217, -0.9836719,
                             -0.8088203, 0.7294156}),
        reals({1, 1, 2, 4}, {-3.5, 1.5, -2, 7, 2.5, -3.5, 4, 2})},
       "com.microsoft"});
  cases.push_back(
      {"FastGelu",
       17,
       {{pattern({2, 3}, 1)}, {pattern({3}, 2)}},
       no_attributes,
       {reals({2, 3}, {-0.1003247, 0.345714, 1.117714, -0.154286, 0.1496754, 1.117714})},
       "com.microsoft"});
  cases.push_back({"FastGelu",
                   17,
                   {{pattern({2, 3}, 3)}},
                   no_attributes,
                   {reals({2, 3}, {0.841192, 0, -0.158808, 0.5799606, -0.1003247, -0.158808})},
                   "com.microsoft"});
  cases.push_back({"SkipLayerNormalization",
                   17,
                   {{pattern({1, 2, 3}, 1)},
                    {pattern({1, 2, 3}, 2)},
                    {pattern({3}, 3), true},
                    {pattern({3}, 4)},
                    {pattern({3}, 5)}},
                   [](NodeBuilder& node) { node.real("epsilon", 0.001f); },
                   {reals({1, 2, 3}, {-1.592765, 0.75, -1.657817, -1.612973, 0.75, -1.659839}),
                    reals({1, 2, 3}, {-0.5, -0.75, 1.75, -1, -1.25, 1.75})},
                   "com.microsoft",
                   {0, 3}});
  cases.push_back({"SkipLayerNormalization",
                   17,
                   {{pattern({2, 1, 3}, 1), false, "bs."},
                    {pattern({1, 3}, 2), false, "s."},
                    {pattern({3}, 3), true}},
                   [](NodeBuilder& node) { node.real("epsilon", 0.001f); },
                   {reals({2, 1, 3}, {-1.223115, 0, -1.223115, -1.161347, -0, -1.277482})},
                   "com.microsoft"});
  cases.push_back(
      {"SkipSimplifiedLayerNormalization",
       17,
       {{pattern({1, 2, 3}, 1)}, {pattern({1, 2, 3}, 2)}, {pattern({3}, 3)}, {pattern({3}, 5)}},
       [](NodeBuilder& node) { node.real("epsilon", 0.001f); },
       {reals({1, 2, 3}, {-0.4397711, -0, -1.539199, -0.7301021, -0, -1.277679}),
        reals({1, 2, 3}, {-0.5, -0.75, 1.75, -1, -1.25, 1.75})},
       "com.microsoft",
       {0, 3}});
  cases.push_back(
      {"SimplifiedLayerNormalization",
       17,
       {{pattern({2, 3}, 1)}, {pattern({3}, 2)}},
       [](NodeBuilder& node) { node.real("epsilon", 0.001f); },
       {reals({2, 3}, {-0.1579875, -1.184907, 0.3159751, -0.2545275, -1.01811, 0.33937}),
        reals({2, 1}, {1.2639, 1.35748})},
       "com.microsoft"});
  cases.push_back(
      {"SimplifiedLayerNormalization",
       17,
       {{pattern({2, 3}, 1)}, {pattern({3}, 2)}},
       [](NodeBuilder& node) { node.real("epsilon", 0.001f); },
       {reals({2, 3}, {-0.1579875, -1.184907, 0.3159751, -0.2545275, -1.01811, 0.33937}),
        reals({2, 1}, {1.2639, 1.35748})}});
  cases.push_back(
      {"EmbedLayerNormalization",
       17,
       {{integers({2, 3}, {1, 3, 0, 2, 2, 4}, DType::I32), false, "bs"},
        {integers({2, 3}, {0, 1, 1, 0, 0, 1}, DType::I32), false, "bs"},
        {pattern({5, 2}, 1), true},
        {pattern({4, 2}, 2), true},
        {pattern({2, 2}, 3), true},
        {reals({2}, {1, 2}), true},
        {reals({2}, {0, 0.5}), true},
        {integers({2, 3}, {1, 1, 0, 1, 1, 1}, DType::I32), false, "bs"}},
       [](NodeBuilder& node) { node.real("epsilon", 0.01f); },
       {reals({2, 3, 2}, {0.9977852, -1.49557, -0.9968153, 2.49363, -0.9993395, 2.498679, 0.9973658,
                          -1.494732, 0.9973658, -1.494732, -0.9973658, 2.494731}),
        integers({2}, {2, 3}, DType::I32),
        reals({2, 3, 2}, {1.5, -1.5, -0.75, 1.75, -2.5, 3, 2.25, -0.5, 3, 0.25, -2, 0.75})},
       "com.microsoft"});
}

void add_runtime_products(std::vector<ValueCase>& cases) {
  cases.push_back({"FusedMatMul",
                   17,
                   {{pattern({2, 3}, 1)}, {pattern({2, 4}, 2)}},
                   [](NodeBuilder& node) { node.integer("transA", 1).real("alpha", 0.5f); },
                   {reals({3, 4}, {0.3125, -0.1875, -0.25, 0.375, -0.34375, 0.03125, 0.625, -0.5,
                                   -0.09375, 0.03125, 0.125, -0.125})},
                   "com.microsoft"});
  cases.push_back({"FusedMatMul",
                   17,
                   {{pattern({2, 2, 3}, 1)}, {pattern({2, 2, 3}, 2)}},
                   [](NodeBuilder& node) {
                     node.integer("transBatchA", 1).integer("transBatchB", 1).integer("transB", 1);
                   },
                   {reals({2, 2, 2}, {-0.8125, -1.0625, -0.9375, -1, -0.75, -0.625, -1, -0.75})},
                   "com.microsoft"});
  cases.push_back(
      {"TransposeMatMul",
       17,
       {{pattern({2, 3}, 1)}, {pattern({4, 3}, 2)}},
       [](NodeBuilder& node) { node.integer("transB", 1); },
       {reals({2, 4}, {-0.8125, -1, -1.0625, -0.9375, -0.6875, -0.75, -0.8125, -0.625})},
       "com.microsoft"});
  cases.push_back({"FusedGemm",
                   17,
                   {{pattern({2, 3}, 1)}, {pattern({3, 2}, 2)}, {pattern({2}, 3)}},
                   [](NodeBuilder& node) {
                     node.real("alpha", 0.5f)
                         .real("beta", 2.0f)
                         .string("activation", "LeakyRelu")
                         .real("activation_alpha", 0.25f);
                   },
                   {reals({2, 2}, {2.4375, 0.3125, 2.28125, 0.40625})},
                   "com.microsoft"});
  cases.push_back(
      {"FusedGemm",
       17,
       {{pattern({2, 3}, 1)}, {pattern({2, 3}, 2)}},
       [](NodeBuilder& node) { node.integer("transB", 1).string("activation", "Tanh"); },
       {reals({2, 2}, {-0.6709671, -0.7615942, -0.5963736, -0.635149})},
       "com.microsoft"});
  cases.push_back({"DynamicQuantizeMatMul",
                   17,
                   {{pattern({2, 3}, 1)},
                    {integers({3, 2}, {3, -7, 100, 5, -128, 127}, DType::I8), true},
                    {reals({2}, {0.5, 0.25}), true},
                    {integers({2}, {1, -2}, DType::I8), true},
                    {pattern({2}, 2)}},
                   no_attributes,
                   {reals({2, 2}, {45.28922, 10.15392, 32.61471, 10.02843})},
                   "com.microsoft"});
  cases.push_back({"MatMulIntegerToFloat",
                   17,
                   {{integers({2, 3}, {1, 200, 30, 255, 0, 7}, DType::U8)},
                    {integers({3, 2}, {3, -7, 100, 5, -128, 127}, DType::I8), true},
                    {reals({}, std::vector<double>{0.5})},
                    {reals({2}, {0.5, 0.25})},
                    {integers({}, std::vector<std::int64_t>{128}, DType::U8)},
                    {integers({2}, {1, -2}, DType::I8)},
                    {pattern({2}, 2)}},
                   no_attributes,
                   {reals({2, 2}, {4879.25, -1438.625, 798, -2143.25})},
                   "com.microsoft"});
  cases.push_back(
      {"QuantizeLinear",
       17,
       {{pattern({2, 3}, 1)}, {reals({2}, {0.5, 0.25})}, {integers({2}, {7, 1}, DType::U8)}},
       [](NodeBuilder& node) { node.integer("axis", 0); },
       {integers({2, 3}, {6, 9, 7, 0, 5, 2}, DType::U8)},
       "com.microsoft"});
  cases.push_back({"DequantizeLinear",
                   17,
                   {{integers({2, 3}, {1, 200, 30, 255, 0, 7}, DType::U8)},
                    {reals({3}, {0.5, 0.25, 2})},
                    {integers({3}, {7, 1, 128}, DType::U8)}},
                   [](NodeBuilder& node) { node.integer("axis", 1); },
                   {reals({2, 3}, {-3, 49.75, -196, 124, -0.25, -242})},
                   "com.microsoft"});
  cases.push_back(
      {"MatMulNBits",
       17,
       {{pattern({2, 20}, 1), false, "r."},
        {integers({2, 2, 8},
                  {11, 48,  85,  122, 159, 196, 233, 14, 51,  88,  125, 162, 199, 236, 17, 54,
                   91, 128, 165, 202, 239, 20,  57,  94, 131, 168, 205, 242, 23,  60,  97, 134},
                  DType::U8),
         true},
        {pattern({2, 2}, 2), true},
        {integers({2, 1}, {131, 41}, DType::U8), true},
        left_out,
        {pattern({2}, 3)}},
       [](NodeBuilder& node) {
         node.integer("K", 20).integer("N", 2).integer("bits", 4).integer("block_size", 16);
       },
       {reals({2, 2}, {1.5625, -20.75, 10.4375, -14.25})},
       "com.microsoft"});
  cases.push_back(
      {"MatMulNBits",
       17,
       {{pattern({2, 16}, 1), false, "r."},
        {integers({1, 1, 16},
                  {11, 48, 85, 122, 159, 196, 233, 14, 51, 88, 125, 162, 199, 236, 17, 54},
                  DType::U8),
         true},
        {pattern({1, 1}, 2), true}},
       [](NodeBuilder& node) {
         node.integer("K", 16).integer("N", 1).integer("bits", 8).integer("block_size", 16);
       },
       {reals({2, 1}, {-10.9375, -73.25})},
       "com.microsoft"});
  // Blocks that rounding to bytes leaves as they are.
  cases.push_back(
      {"MatMulNBits",
       17,
       {{reals({2, 32},
               {127, -3, 40,   0,   5,   -77, 12,  1, -127, 2,  9,   -60, 33,  8,    -1,  100,
                0.5, 1,  -1.5, 2,   2.5, -3,  3.5, 4, -4.5, 5,  5.5, -6,  6.5, 63.5, -7,  7.5,
                0,   0,  0,    0,   0,   0,   0,   0, 0,    0,  0,   0,   0,   0,    0,   0,
                -20, -9, 2,    127, 24,  -15, -4,  7, 18,   29, -10, 1,   12,  23,   -16, -5}),
         false, "r."},
        {integers({2, 2, 8},
                  {11, 48,  85,  122, 159, 196, 233, 14, 51,  88,  125, 162, 199, 236, 17, 54,
                   91, 128, 165, 202, 239, 20,  57,  94, 131, 168, 205, 242, 23,  60,  97, 134},
                  DType::U8),
         true},
        {reals({2, 2}, {0.5, 0.25, 2, -0.125}), true}},
       [](NodeBuilder& node) {
         node.integer("K", 32)
             .integer("N", 2)
             .integer("bits", 4)
             .integer("block_size", 16)
             .integer("accuracy_level", 4);
       },
       {reals({2, 2}, {-910.5, -1738, -46.75, -15.375})},
       "com.microsoft"});
  cases.push_back(
      {"GatherBlockQuantized",
       17,
       {{integers({3, 8}, {5,  34,  63,  92,  121, 150, 179, 208, 237, 10,  39,  68,
                           97, 126, 155, 184, 213, 242, 15,  44,  73,  102, 131, 160},
                  DType::U8),
         true},
        {integers({3}, {2, 0, -2})},
        {pattern({3, 1}, 2), true},
        {integers({3, 1}, {9, 3, 200}, DType::U8), true}},
       [](NodeBuilder& node) {
         node.integer("bits", 4)
             .integer("block_size", 16)
             .integer("gather_axis", 0)
             .integer("quantize_axis", 1);
       },
       {reals({3, 16},
              {-3, 5,    -6,    7,     7,    -8,    4,     -6,    1,    -4,    -2,    -2,
               -5, 0,    -8,    2,     -1,   -2.25, -1.75, -1.75, 1.5,  -1.5,  0.75,  -1,
               0,  -0.5, -0.75, 0,     -1.5, 0.5,   -2.25, 1,     -7.5, -8.25, -5.25, 2.25,
               -3, 0.75, -0.75, -0.75, 1.5,  -2.25, -8.25, -3,    -6,   -4.5,  -3.75, -6})},
       "com.microsoft"});
}

void add_standard(std::vector<ValueCase>& cases) {
  cases.push_back(
      {"RMSNormalization",
       23,
       {{pattern({2, 3}, 1)}, {pattern({3}, 2)}},
       [](NodeBuilder& node) { node.real("epsilon", 0.01f); },
       {reals({2, 3}, {-0.156864, -1.17648, 0.3137279, -0.2524428, -1.009771, 0.3365903})}});
  cases.push_back({"RMSNormalization",
                   23,
                   {{pattern({2, 2, 2}, 1)}, {pattern({2, 2}, 2)}},
                   [](NodeBuilder& node) { node.integer("axis", 1); },
                   {reals({2, 2, 2}, {-0.1601268, -1.200951, 0.3202537, -0, 0.3086044, -0.2314533,
                                      -0.9258131, 0})}});
  cases.push_back({"RotaryEmbedding",
                   23,
                   {{pattern({1, 2, 2, 4}, 1), false, "b.s."},
                    {pattern({3, 2}, 2), true},
                    {pattern({3, 2}, 3), true},
                    {integers({1, 2}, {2, 0}), false, "bs"}},
                   no_attributes,
                   {reals({1, 2, 2, 4}, {0.5625, 0.5, -0.125, -2, 1, -0.1875, 0.8125, -0.75, 0.25,
                                         -1, -1, 1, 0, -0.5625, -1.0625, 0.75})}});
  cases.push_back(
      {"RotaryEmbedding",
       23,
       {{pattern({1, 2, 8}, 1), false, "bs."},
        {pattern({1, 2, 1}, 2), false, "bs."},
        {pattern({1, 2, 1}, 3), false, "bs."}},
       [](NodeBuilder& node) {
         node.integer("num_heads", 2).integer("rotary_embedding_dim", 2).integer("interleaved", 1);
       },
       {reals({1, 2, 8}, {-1.375, -0.1875, 0.25, -0.75, 0, 1.0625, -0.75, 1, 0, 0.75, 1, 0, 0.75,
                          -0.5625, -0.25, -1})}});
  cases.push_back(
      {"Attention",
       23,
       {{pattern({1, 2, 8}, 1), false, "bs."},
        {pattern({1, 3, 4}, 2), false, "bt."},
        {pattern({1, 3, 4}, 3), false, "bt."}},
       [](NodeBuilder& node) {
         node.integer("q_num_heads", 4).integer("kv_num_heads", 2).integer("is_causal", 1);
       },
       {reals({1, 2, 8}, {1, 0, 1, 0, -1, 0.75, -1, 0.75, 0.718897, -0.2248824, 0.6345329,
                          -0.2923737, -0.04786098, 0.2059205, 0.2383461, 0.04237366})}});
  cases.push_back(
      {"Attention",
       24,
       {{pattern({1, 2, 2, 2}, 1), false, "b.s."},
        {pattern({1, 2, 2, 2}, 2), false, "b.t."},
        {pattern({1, 2, 2, 3}, 3), false, "b.t."},
        left_out,
        {pattern({1, 2, 1, 2}, 4), false, "b.p."},
        {pattern({1, 2, 1, 3}, 5), false, "b.p."}},
       [](NodeBuilder& node) {
         node.integer("is_causal", 1).real("softcap", 1.5f).integer("qk_matmul_output_mode", 3);
       },
       {reals({1, 2, 2, 3}, {-0.03635991, -1.03636, 0.2436319, 0.6913512, -0.3086488, -0.7377874,
                             0.08735671, 0.545172, -0.3222994, 0.550651, -0.05183422, -1.018807}),
        reals({1, 2, 3, 2}, {-1, 0.75, 0.25, -0.75, 1, 0, -0.25, -1.25, -1, 1, 0, -1}),
        reals({1, 2, 3, 3}, {-0.25, -1.25, 0.5, 1, 0, -1, 0.75, -0.25, -1, -0.5, 1.25, 0.5, 0.75,
                             -0.25, -1.25, 0.5, -0.25, -1.25}),
        reals({1, 2, 2, 3}, {0.8290879, 0.1709121, 0, 0.1748084, 0.4646385, 0.3605531, 0.5301147,
                             0.4698854, 0, 0.1321105, 0.7310461, 0.1368434})}});
  cases.push_back(
      {"Attention",
       24,
       {{pattern({2, 1, 2, 2}, 1), false, "b.s."},
        {pattern({2, 1, 4, 2}, 2), false, "b.t."},
        {pattern({2, 1, 4, 2}, 3), false, "b.t."},
        left_out,
        left_out,
        left_out,
        {integers({2}, {1, 4}), false, "b"}},
       [](NodeBuilder& node) { node.integer("is_causal", 1); },
       {reals({2, 1, 2, 2}, {0, 0, 1, 0, -0.6422461, -0.07921529, -0.08463491, -0.7103575})}});
  cases.push_back(
      {"Attention",
       25,
       {{pattern({1, 1, 4, 2}, 1), false, "b.s."},
        {pattern({1, 1, 4, 2}, 2), false, "b.s."},
        {pattern({1, 1, 4, 2}, 3), false, "b.s."},
        {pattern({4, 3}, 4)}},
       [](NodeBuilder& node) {
         node.integer("left_window_size", 1).integer("right_window_size", 0);
       },
       {reals({1, 1, 4, 2}, {1, 0, -0.6306036, 0.6114763, -0.9276711, 0.5812324, -0.25, -1})}});
  cases.push_back({"FlexAttention",
                   26,
                   {{pattern({1, 2, 2, 2}, 1), false, "b.s."},
                    {pattern({1, 1, 3, 2}, 2), false, "b.t."},
                    {pattern({1, 1, 3, 2}, 3), false, "b.t."}},
                   [](NodeBuilder& node) { node.real("scale", 0.5f); },
                   {reals({1, 2, 2, 2}, {-0.2099695, -0.4819421, 0.02641441, 0.07832909, -0.2342214,
                                         0.1630914, -0.178134, -0.5073907})},
                   "ai.onnx.preview"});
  cases.push_back(
      {"TensorScatter",
       24,
       {{pattern({2, 4, 2}, 1), false, "bt."},
        {pattern({2, 2, 2}, 2), false, "bu."},
        {integers({2}, {1, 2}), false, "b"}},
       no_attributes,
       {reals({2, 4, 2}, {-0.5, 1.25, 0.25, -0.75, 1, 0, -0.75, 1, 0, -1, 1, 0, -1, 1, 0, -1})}});
  cases.push_back({"TensorScatter",
                   24,
                   {{pattern({2, 3}, 1)}, {pattern({2, 2}, 2)}, {integers({2}, {1, 2})}},
                   [](NodeBuilder& node) { node.string("mode", "circular").integer("axis", 1); },
                   {reals({2, 3}, {-0.5, 0.25, -0.75, 0, 1, 1})}});
  cases.push_back(
      {"CumProd",
       26,
       {{reals({2, 3}, {1, 2, 3, 4, 5, 6})}, {integers({}, std::vector<std::int64_t>{-1})}},
       no_attributes,
       {reals({2, 3}, {1, 2, 6, 4, 20, 120})}});
  cases.push_back({"CumProd",
                   26,
                   {{integers({2, 3}, {1, 2, 3, 4, 5, 6}, DType::I32)},
                    {integers({}, std::vector<std::int64_t>{0}, DType::I32)}},
                   [](NodeBuilder& node) { node.integer("exclusive", 1).integer("reverse", 1); },
                   {integers({2, 3}, {4, 5, 6, 1, 1, 1}, DType::I32)}});
  cases.push_back({"Swish",
                   24,
                   {{pattern({4}, 1)}},
                   [](NodeBuilder& node) { node.real("alpha", 0.5f); },
                   {reals({4}, {-0.2189117, 0.8141936, 0.1328024, -0.3055001})}});
  cases.push_back({"SwiGLU",
                   28,
                   {{pattern({4}, 1)}, {pattern({4}, 2)}},
                   no_attributes,
                   {reals({4}, {-0.04719258, -0.7287186, 0.1405441, -0})}});
  cases.push_back({"CenterCropPad",
                   18,
                   {{reals({2, 3}, {1, 2, 3, 4, 5, 6})}, {integers({2}, {3, 2})}},
                   no_attributes,
                   {reals({3, 2}, {1, 2, 4, 5, 0, 0})}});
  cases.push_back(
      {"CausalConvWithState",
       27,
       {{pattern({1, 2, 3}, 1), false, "b.t"},
        {pattern({2, 1, 3}, 2), true},
        {pattern({2}, 3), true},
        {pattern({1, 2, 2}, 4), false, "b.."}},
       [](NodeBuilder& node) { node.string("activation", "silu"); },
       {reals({1, 2, 3}, {-0.1320327, 2.653165, 0.1025134, 0.3112297, 1.490917, -0.240616}),
        reals({1, 2, 2}, {1.25, 0.25, 1, 0.25})}});
  cases.push_back({"CausalConvWithState",
                   27,
                   {{pattern({1, 2, 1}, 1), false, "b.t"}, {pattern({2, 1, 3}, 2), true}},
                   no_attributes,
                   {reals({1, 2, 1}, {-0.5, 1.25}), reals({1, 2, 2}, {0, -0.5, 0, 1.25})}});
  cases.push_back(
      {"LinearAttention",
       27,
       {{pattern({1, 2, 4}, 1), false, "bt."},
        {pattern({1, 2, 2}, 2), false, "bt."},
        {pattern({1, 2, 3}, 3), false, "bt."},
        {pattern({1, 1, 2, 3}, 4), false, "b..."},
        {pattern({1, 2, 1}, 5), false, "bt."},
        {pattern({1, 2, 1}, 6), false, "bt."}},
       [](NodeBuilder& node) { node.integer("q_num_heads", 2).integer("kv_num_heads", 1); },
       {reals({1, 2, 6}, {-0.7596313, 0.0828194, 0.3089647, 0.4812604, -0.07098804, -0.1736455,
                          -0.542312, 0.2883828, 0.2636843, 0.1306221, -0.1357809, -0.1456051}),
        reals({1, 1, 2, 3},
              {-0.6847384, 0.3838658, 0.3573769, -0.3288262, 0.09587622, 0.06211599})}});
  cases.push_back({"LinearAttention",
                   27,
                   {{pattern({1, 2, 2}, 1), false, "bt."},
                    {pattern({1, 2, 2}, 2), false, "bt."},
                    {pattern({1, 2, 2}, 3), false, "bt."}},
                   [](NodeBuilder& node) {
                     node.integer("q_num_heads", 1)
                         .integer("kv_num_heads", 1)
                         .string("update_rule", "linear")
                         .real("scale", 0.5f);
                   },
                   {reals({1, 2, 2}, {-0.53125, 0, 0.1875, 0.09375}),
                    reals({1, 1, 2, 2}, {-0.75, 0.75, -0.75, 0})}});
  cases.push_back({"Mod",
                   28,
                   {{reals({3}, {5.5, -5.5, 3})}, {reals({3}, {3, 3, -2})}},
                   [](NodeBuilder& node) { node.integer("fmod", 0); },
                   {reals({3}, {2.5, 0.5, -1})}});
  cases.push_back({"SpaceToDepth",
                   28,
                   {{reals({1, 2, 2, 4}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})}},
                   [](NodeBuilder& node) { node.integer("blocksize", 2).string("mode", "CRD"); },
                   {reals({1, 8, 1, 2}, {0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15})}});
  cases.push_back({"LpNormalization",
                   22,
                   {{reals({2, 2}, {3, 0, -4, 0})}},
                   [](NodeBuilder& node) { node.integer("axis", 0); },
                   {reals({2, 2}, {0.6, 0, -0.8, 0})}});
  cases.push_back({"QuantizeLinear",
                   21,
                   {{reals({2, 3}, {1, -2, 3, 4, 5, -6})},
                    {reals({2, 2}, {0.5, 1, 0.25, 2})},
                    {integers({2, 2}, {1, 2, 3, 4}, DType::U8)}},
                   [](NodeBuilder& node) { node.integer("block_size", 2).integer("axis", 1); },
                   {integers({2, 3}, {3, 0, 5, 19, 23, 1}, DType::U8)}});
  cases.push_back(
      {"DequantizeLinear",
       21,
       {{integers({2, 3}, {1, 200, 30, 255, 0, 7}, DType::U8)}, {reals({2, 2}, {0.5, 1, 0.25, 2})}},
       [](NodeBuilder& node) { node.integer("block_size", 2).integer("axis", 1); },
       {reals({2, 3}, {0.5, 100, 30, 63.75, 0, 14})}});
}

}  // namespace

void add_newer_cases(std::vector<ValueCase>& cases) {
  add_matrices(cases);
  add_runtime_elementwise(cases);
  add_runtime_products(cases);
  add_runtime_attention(cases);
  add_standard(cases);
}

}  // namespace anydim::frontends
