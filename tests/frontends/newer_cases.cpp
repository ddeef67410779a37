// Operators of newer opsets and of other domains, with what ONNX's reference evaluator ("standard") and ONNX Runtime 1.31 (the others) give for them.
#include <cmath>

#include "tests/frontends/value_cases.h"

namespace anydim::frontends {
namespace {

using ir::DType;
using Dims = std::vector<std::int64_t>;

ir::Tensor reals(Dims dims, const std::vector<double>& values) { return ir::Tensor::of(DType::F32, std::move(dims), values); }
ir::Tensor integers(Dims dims, const std::vector<std::int64_t>& values, DType dtype = DType::I64) {
  return ir::Tensor::of(dtype, std::move(dims), values);
}

// Quarters from -1.25 to 1.25 in no order that a mistake in strides would keep.
ir::Tensor pattern(Dims dims, std::int64_t seed) {
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) count *= dim;
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<double>((i * 7 + seed * 3 + i / 5) % 11 - 5) / 4);
  return reals(std::move(dims), values);
}

void none(NodeBuilder&) {}
const CaseOperand left_out{.tensor = {}, .left_out = true};

void add_runtime_elementwise(std::vector<ValueCase>& cases) {
  cases.push_back({"Gelu",
                   17,
                   {{pattern({3, 4}, 1)}},
                   none,
                   {reals({3, 4}, {-0.1542688, 1.117938, 0.1496766, -0.1699705, 0.8413447, 0.1496766, -0.1699705, 0.8413447, 0, -0.1586553,
                                   0.8413447, 0})},
                   "com.microsoft"});
  cases.push_back({"QuickGelu",
                   17,
                   {{pattern({2, 3}, 1)}},
                   [](NodeBuilder& node) { node.real("alpha", 0.75f); },
                   {reals({2, 3}, {-0.2036667, 0.898243, 0.1366845, -0.2722269, 0.6791787, 0.1366845})},
                   "com.microsoft"});
  cases.push_back({"BiasGelu",
                   17,
                   {{pattern({2, 3}, 1)}, {pattern({3}, 2)}},
                   none,
                   {reals({2, 3}, {-0.1003234, 0.3457312, 1.117938, -0.1542688, 0.1496766, 1.117938})},
                   "com.microsoft"});
  cases.push_back({"FastGelu",
                   17,
                   {{pattern({2, 3}, 1)}, {pattern({3}, 2)}},
                   none,
                   {reals({2, 3}, {-0.1003247, 0.345714, 1.117714, -0.154286, 0.1496754, 1.117714})},
                   "com.microsoft"});
  cases.push_back({"FastGelu",
                   17,
                   {{pattern({2, 3}, 3)}},
                   none,
                   {reals({2, 3}, {0.841192, 0, -0.158808, 0.5799606, -0.1003247, -0.158808})},
                   "com.microsoft"});
  cases.push_back(
      {"SkipLayerNormalization",
       17,
       {{pattern({1, 2, 3}, 1)}, {pattern({1, 2, 3}, 2)}, {pattern({3}, 3), true}, {pattern({3}, 4)}, {pattern({3}, 5)}},
       [](NodeBuilder& node) { node.real("epsilon", 0.001f); },
       {reals({1, 2, 3}, {-1.592765, 0.75, -1.657817, -1.612973, 0.75, -1.659839}), reals({1, 2, 3}, {-0.5, -0.75, 1.75, -1, -1.25, 1.75})},
       "com.microsoft",
       {0, 3}});
  cases.push_back({"SkipLayerNormalization",
                   17,
                   {{pattern({2, 1, 3}, 1), false, "bs."}, {pattern({1, 3}, 2), false, "s."}, {pattern({3}, 3), true}},
                   [](NodeBuilder& node) { node.real("epsilon", 0.001f); },
                   {reals({2, 1, 3}, {-1.223115, 0, -1.223115, -1.161347, -0, -1.277482})},
                   "com.microsoft"});
  cases.push_back(
      {"SkipSimplifiedLayerNormalization",
       17,
       {{pattern({1, 2, 3}, 1)}, {pattern({1, 2, 3}, 2)}, {pattern({3}, 3)}, {pattern({3}, 5)}},
       [](NodeBuilder& node) { node.real("epsilon", 0.001f); },
       {reals({1, 2, 3}, {-0.4397711, -0, -1.539199, -0.7301021, -0, -1.277679}), reals({1, 2, 3}, {-0.5, -0.75, 1.75, -1, -1.25, 1.75})},
       "com.microsoft",
       {0, 3}});
  cases.push_back({"SimplifiedLayerNormalization",
                   17,
                   {{pattern({2, 3}, 1)}, {pattern({3}, 2)}},
                   [](NodeBuilder& node) { node.real("epsilon", 0.001f); },
                   {reals({2, 3}, {-0.1579875, -1.184907, 0.3159751, -0.2545275, -1.01811, 0.33937}), reals({2, 1}, {1.2639, 1.35748})},
                   "com.microsoft"});
  cases.push_back({"SimplifiedLayerNormalization",
                   17,
                   {{pattern({2, 3}, 1)}, {pattern({3}, 2)}},
                   [](NodeBuilder& node) { node.real("epsilon", 0.001f); },
                   {reals({2, 3}, {-0.1579875, -1.184907, 0.3159751, -0.2545275, -1.01811, 0.33937}), reals({2, 1}, {1.2639, 1.35748})}});
  cases.push_back({"EmbedLayerNormalization",
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
                   {reals({2, 3, 2}, {0.9977852, -1.49557, -0.9968153, 2.49363, -0.9993395, 2.498679, 0.9973658, -1.494732, 0.9973658,
                                      -1.494732, -0.9973658, 2.494731}),
                    integers({2}, {2, 3}, DType::I32), reals({2, 3, 2}, {1.5, -1.5, -0.75, 1.75, -2.5, 3, 2.25, -0.5, 3, 0.25, -2, 0.75})},
                   "com.microsoft"});
}

void add_runtime_products(std::vector<ValueCase>& cases) {
  cases.push_back({"FusedMatMul",
                   17,
                   {{pattern({2, 3}, 1)}, {pattern({2, 4}, 2)}},
                   [](NodeBuilder& node) { node.integer("transA", 1).real("alpha", 0.5f); },
                   {reals({3, 4}, {0.3125, -0.1875, -0.25, 0.375, -0.34375, 0.03125, 0.625, -0.5, -0.09375, 0.03125, 0.125, -0.125})},
                   "com.microsoft"});
  cases.push_back({"FusedMatMul",
                   17,
                   {{pattern({2, 2, 3}, 1)}, {pattern({2, 2, 3}, 2)}},
                   [](NodeBuilder& node) { node.integer("transBatchA", 1).integer("transBatchB", 1).integer("transB", 1); },
                   {reals({2, 2, 2}, {-0.8125, -1.0625, -0.9375, -1, -0.75, -0.625, -1, -0.75})},
                   "com.microsoft"});
  cases.push_back({"TransposeMatMul",
                   17,
                   {{pattern({2, 3}, 1)}, {pattern({4, 3}, 2)}},
                   [](NodeBuilder& node) { node.integer("transB", 1); },
                   {reals({2, 4}, {-0.8125, -1, -1.0625, -0.9375, -0.6875, -0.75, -0.8125, -0.625})},
                   "com.microsoft"});
  cases.push_back({"FusedGemm",
                   17,
                   {{pattern({2, 3}, 1)}, {pattern({3, 2}, 2)}, {pattern({2}, 3)}},
                   [](NodeBuilder& node) {
                     node.real("alpha", 0.5f).real("beta", 2.0f).string("activation", "LeakyRelu").real("activation_alpha", 0.25f);
                   },
                   {reals({2, 2}, {2.4375, 0.3125, 2.28125, 0.40625})},
                   "com.microsoft"});
  cases.push_back({"FusedGemm",
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
                   none,
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
                   none,
                   {reals({2, 2}, {4879.25, -1438.625, 798, -2143.25})},
                   "com.microsoft"});
  cases.push_back({"QuantizeLinear",
                   17,
                   {{pattern({2, 3}, 1)}, {reals({2}, {0.5, 0.25})}, {integers({2}, {7, 1}, DType::U8)}},
                   [](NodeBuilder& node) { node.integer("axis", 0); },
                   {integers({2, 3}, {6, 9, 7, 0, 5, 2}, DType::U8)},
                   "com.microsoft"});
  cases.push_back(
      {"DequantizeLinear",
       17,
       {{integers({2, 3}, {1, 200, 30, 255, 0, 7}, DType::U8)}, {reals({3}, {0.5, 0.25, 2})}, {integers({3}, {7, 1, 128}, DType::U8)}},
       [](NodeBuilder& node) { node.integer("axis", 1); },
       {reals({2, 3}, {-3, 49.75, -196, 124, -0.25, -242})},
       "com.microsoft"});
  cases.push_back({"MatMulNBits",
                   17,
                   {{pattern({2, 20}, 1), false, "r."},
                    {integers({2, 2, 8}, {11, 48,  85,  122, 159, 196, 233, 14, 51,  88,  125, 162, 199, 236, 17, 54,
                                          91, 128, 165, 202, 239, 20,  57,  94, 131, 168, 205, 242, 23,  60,  97, 134},
                              DType::U8),
                     true},
                    {pattern({2, 2}, 2), true},
                    {integers({2, 1}, {131, 41}, DType::U8), true},
                    left_out,
                    {pattern({2}, 3)}},
                   [](NodeBuilder& node) { node.integer("K", 20).integer("N", 2).integer("bits", 4).integer("block_size", 16); },
                   {reals({2, 2}, {1.5625, -20.75, 10.4375, -14.25})},
                   "com.microsoft"});
  cases.push_back({"MatMulNBits",
                   17,
                   {{pattern({2, 16}, 1), false, "r."},
                    {integers({1, 1, 16}, {11, 48, 85, 122, 159, 196, 233, 14, 51, 88, 125, 162, 199, 236, 17, 54}, DType::U8), true},
                    {pattern({1, 1}, 2), true}},
                   [](NodeBuilder& node) { node.integer("K", 16).integer("N", 1).integer("bits", 8).integer("block_size", 16); },
                   {reals({2, 1}, {-10.9375, -73.25})},
                   "com.microsoft"});
  cases.push_back(
      {"GatherBlockQuantized",
       17,
       {{integers({3, 8}, {5, 34, 63, 92, 121, 150, 179, 208, 237, 10, 39, 68, 97, 126, 155, 184, 213, 242, 15, 44, 73, 102, 131, 160},
                  DType::U8),
         true},
        {integers({3}, {2, 0, -2})},
        {pattern({3, 1}, 2), true},
        {integers({3, 1}, {9, 3, 200}, DType::U8), true}},
       [](NodeBuilder& node) { node.integer("bits", 4).integer("block_size", 16).integer("gather_axis", 0).integer("quantize_axis", 1); },
       {reals({3, 16}, {-3,   5,     -6,    7,     7,   -8,   4,     -6,    1,   -4,    -2,    -2, -5,   0,    -8,    2,
                        -1,   -2.25, -1.75, -1.75, 1.5, -1.5, 0.75,  -1,    0,   -0.5,  -0.75, 0,  -1.5, 0.5,  -2.25, 1,
                        -7.5, -8.25, -5.25, 2.25,  -3,  0.75, -0.75, -0.75, 1.5, -2.25, -8.25, -3, -6,   -4.5, -3.75, -6})},
       "com.microsoft"});
}

void add_runtime_attention(std::vector<ValueCase>& cases) {
  cases.push_back({"Attention",
                   17,
                   {{pattern({2, 3, 3}, 1), false, "bs."},
                    {pattern({3, 12}, 4), true},
                    {pattern({12}, 5), true},
                    {integers({2, 3}, {1, 1, 0, 1, 1, 1}, DType::I32), false, "bs"}},
                   [](NodeBuilder& node) { node.integer("num_heads", 2); },
                   {reals({2, 3, 4}, {-0.6318117, -0.2127389, 0.8184379, -0.8928137, -0.6344388, -0.2080102, 0.8180956, -0.8917867,
                                      -0.6326225, -0.2112794, 0.8172383, -0.8892149, 0.2592993,  -1.194474,  0.8357514, 0.1358812,
                                      0.25654,    -1.192405,  0.8313935, 0.1162713,  0.25654,    -1.192405,  0.8313935, 0.1162713})},
                   "com.microsoft"});
  cases.push_back({"Attention",
                   17,
                   {{pattern({2, 3, 3}, 1), false, "bs."},
                    {pattern({3, 12}, 4), true},
                    {pattern({12}, 5), true},
                    {integers({2}, {2, 3}, DType::I32), false, "b"}},
                   [](NodeBuilder& node) { node.integer("num_heads", 2).real("scale", 0.5f); },
                   {reals({2, 3, 4}, {-0.6209364, -0.2323145, 0.8167051, -0.8876152, -0.6228557, -0.2288599, 0.8164619, -0.8868859,
                                      -0.6215279, -0.2312499, 0.8158538, -0.8850612, 0.281783,   -1.211337,  0.835051,  0.1327295,
                                      0.2798595,  -1.209895,  0.8319662, 0.1188476,  0.2798595,  -1.209895,  0.8319662, 0.1188476})},
                   "com.microsoft"});
  cases.push_back({"Attention",
                   17,
                   {{pattern({1, 2, 3}, 1), false, "bs."},
                    {pattern({3, 12}, 4), true},
                    {pattern({12}, 5), true},
                    left_out,
                    {pattern({2, 1, 2, 2, 2}, 7), false, ".b.t."}},
                   [](NodeBuilder& node) { node.integer("num_heads", 2).integer("unidirectional", 1); },
                   {reals({1, 2, 4}, {-0.8194387, 0.2195389, 0.3673707, -0.5395794, -0.7012934, -0.02808732, 0.5215515, -0.6180653}),
                    reals({2, 1, 2, 4, 2}, {1.25,    0.25,    -0.75,  1,     1.25,   -0.625, 1.0625, -0.375,  0,    -0.75,  1,
                                            0,       1.5625,  0.9375, 1.625, 0.8125, -1,     0.75,   0,       -1,   -0.75,  0,
                                            -0.4375, -0.5625, 0.75,   -0.25, -1.25,  0.75,   0.875,  -1.0625, 0.75, -0.6875})},
                   "com.microsoft"});
  cases.push_back(
      {"Attention",
       17,
       {{pattern({1, 2, 3}, 1), false, "bs."},
        {pattern({3, 8}, 4), true},
        {pattern({8}, 5), true},
        {integers({1, 2, 2}, {1, 0, 1, 1}, DType::I32), false, "bss"},
        left_out,
        {pattern({1, 2, 2, 2}, 6), false, "b.ss"}},
       [](NodeBuilder& node) { node.integer("num_heads", 2).integers("qkv_hidden_sizes", {2, 2, 4}).real("mask_filter_value", -1000.0f); },
       {reals({1, 2, 4}, {2.375, 1.1875, -0.8125, 2.3125, 2.257674, 1.1875, -0.7077652, 2.220857})},
       "com.microsoft"});
  cases.push_back({"QAttention",
                   17,
                   {{integers({1, 2, 3}, {1, 200, 30, 255, 0, 7}, DType::U8), false, "bs."},
                    {integers({3, 12}, {-121, -68, -15, 38,  91, -112, -59, -6,  47,  100, -103, -50,  3,   56,  109, -94, -41,  12,
                                        65,   118, -85, -32, 21, 74,   127, -76, -23, 30,  83,   -120, -67, -14, 39,  92,  -111, -58},
                              DType::I8),
                     true},
                    {pattern({12}, 5), true},
                    {reals({}, std::vector<double>{0.0078125})},
                    {reals({}, std::vector<double>{0.015625})},
                    left_out,
                    {integers({}, std::vector<std::int64_t>{128}, DType::U8)},
                    {integers({}, std::vector<std::int64_t>{3}, DType::I8)}},
                   [](NodeBuilder& node) { node.integer("num_heads", 2).integer("unidirectional", 1); },
                   {reals({1, 2, 4}, {-1.63623, -3.626099, 4.415283, 2.425415, -1.618176, -3.606983, 2.783185, 0.8894224})},
                   "com.microsoft"});
  cases.push_back({"MultiHeadAttention",
                   17,
                   {{pattern({2, 2, 4}, 1), false, "bs."},
                    {pattern({2, 3, 4}, 2), false, "bt."},
                    {pattern({2, 3, 6}, 3), false, "bt."},
                    {pattern({14}, 4)},
                    {integers({2, 3}, {1, 0, 1, 0, 1, 1}, DType::I32), false, "bt"},
                    {pattern({1, 2, 2, 3}, 5), false, "..st"}},
                   [](NodeBuilder& node) { node.integer("num_heads", 2); },
                   {reals({2, 2, 6}, {0.1417896,  0.8917896,  1.111947,  0.1442616, 0.8942616, 0.2016457,  0.102645,  0.852645,
                                      1.288097,   0.02316394, 0.7731639, 1.291525,  -0.5,      0.333545,   1.333545,  -0.6731318,
                                      0.07686819, 1,          -0.5,      0.4966052, 1.496605,  -0.6232671, 0.1267329, 1})},
                   "com.microsoft"});
  cases.push_back({"MultiHeadAttention",
                   17,
                   {{pattern({1, 2, 4}, 1), false, "bs."},
                    {pattern({1, 2, 4}, 2), false, "bs."},
                    {pattern({1, 2, 4}, 3), false, "bs."},
                    left_out,
                    left_out,
                    left_out,
                    {pattern({1, 2, 1, 2}, 6), false, "b.p."},
                    {pattern({1, 2, 1, 2}, 7), false, "b.p."}},
                   [](NodeBuilder& node) { node.integer("num_heads", 2).integer("unidirectional", 1); },
                   {reals({1, 2, 4}, {1.133274, 0.1332743, -0.8805208, 0.8694794, 0.8605488, -0.08936927, -0.4007468, 0.5499861}),
                    reals({1, 2, 3, 2}, {0.5, -0.5, 0.25, -0.75, -1, 1, 1.25, 0.25, 1, 0, 0, -1}),
                    reals({1, 2, 3, 2}, {1.25, 0.25, 1, 0, -0.25, -1, -0.75, 1, -1, 0.75, 0.75, -0.25})},
                   "com.microsoft"});
  cases.push_back({"MultiHeadAttention",
                   17,
                   {{pattern({1, 2, 4}, 1), false, "bs."}, {pattern({1, 3, 4}, 2), false, "bt."}, {pattern({1, 3, 4}, 3), false, "bt."}},
                   [](NodeBuilder& node) { node.integer("num_heads", 2).integer("unidirectional", 1); },
                   {reals({1, 2, 4}, {1, 0, -1, 0.75, -0.3480297, 0.06890371, -0.2369613, -0.829347})},
                   "com.microsoft"});
  cases.push_back(
      {"MultiHeadAttention",
       17,
       {{pattern({1, 2, 4}, 1), false, "bs."}, {pattern({1, 2, 3, 2}, 2), false, "b.t."}, {pattern({1, 2, 3, 2}, 3), false, "b.t."}},
       [](NodeBuilder& node) { node.integer("num_heads", 2).real("scale", 1.0f); },
       {reals({1, 2, 4}, {-0.2534159, -0.7902076, -0.0851465, -0.08876035, -0.4164088, 0.3681063, -0.2643328, -1.033796})},
       "com.microsoft"});
  cases.push_back(
      {"RotaryEmbedding",
       17,
       {{pattern({1, 2, 8}, 1), false, "bs."},
        {integers({1, 2}, {3, 1}), false, "bs"},
        {pattern({4, 2}, 2), true},
        {pattern({4, 2}, 3), true}},
       [](NodeBuilder& node) { node.integer("interleaved", 1); },
       {reals({1, 2, 8}, {-0.9375, -0.375, -0.4375, 0.6875, -0.1875, 0.75, 1, -0.8125, -1, -1, 0, 0.75, -0.25, 1.75, 0.75, -0.1875})},
       "com.microsoft"});
  cases.push_back({"RotaryEmbedding",
                   17,
                   {{pattern({1, 1, 2, 6}, 1), false, "b.s."},
                    {integers({1}, std::vector<std::int64_t>{1})},
                    {pattern({4, 2}, 2), true},
                    {pattern({4, 2}, 3), true}},
                   [](NodeBuilder& node) { node.integer("num_heads", 1).integer("rotary_embedding_dim", 4); },
                   {reals({1, 1, 2, 6}, {-0.25, 0.5625, 0.75, 0.9375, 1, 0.25, 0.75, 0, 0.1875, -2, 1, 0})},
                   "com.microsoft"});
  cases.push_back({"GroupQueryAttention",
                   17,
                   {{pattern({1, 3, 16}, 1), false, "bs."},
                    {pattern({1, 3, 8}, 2), false, "bs."},
                    {pattern({1, 3, 8}, 3), false, "bs."},
                    {pattern({1, 1, 0, 8}, 4), false, "b.p."},
                    {pattern({1, 1, 0, 8}, 5), false, "b.p."},
                    {integers({1}, std::vector<std::int64_t>{2}, DType::I32), false, "b"},
                    {integers({}, std::vector<std::int64_t>{3}, DType::I32)}},
                   [](NodeBuilder& node) { node.integer("num_heads", 2).integer("kv_num_heads", 1).integer("local_window_size", 2); },
                   {reals({1, 3, 16}, {1,          0,         -1,          0.75,      -0.25,     -1,         0.75,      -0.25,
                                       1,          0,         -1,          0.75,      -0.25,     -1,         0.75,      -0.25,
                                       -0.9791214, 0.4398048, -0.3402928,  -1.009219, 0.4097071, -0.5601952, 1.189805,  0.4097071,
                                       -0.9684137, 0.4374253, -0.3438622,  -0.999701, 0.4061379, -0.5625748, 1.187425,  0.4061379,
                                       -0.7332425, 1.016758,  0.094505,    -0.905495, 1.016758,  0.01675751, -0.12802,  0.8445051,
                                       -0.9836622, 0.7663378, -0.07244147, -1.072442, 0.7663378, -0.2336622, 0.5397659, 0.6775585}),
                    reals({1, 1, 3, 8}, {0.25,  -0.75, 1,   0,     -1,    1,   0,    -1,   0.75, -0.25, -1,   0.75,
                                         -0.25, -1.25, 0.5, -0.25, -1.25, 0.5, -0.5, 1.25, 0.5,  -0.5,  1.25, 0.25}),
                    reals({1, 1, 3, 8}, {1,   0,    -1,   0.75, -0.25, -1,   0.75, -0.25, -1.25, 0.5,  -0.25, -1.25,
                                         0.5, -0.5, 1.25, 0.5,  -0.5,  1.25, 0.25, -0.75, 1.25,  0.25, -0.75, 1})},
                   "com.microsoft"});
  cases.push_back(
      {"GroupQueryAttention",
       17,
       {{pattern({2, 1, 16}, 1), false, "bs."},
        {pattern({2, 1, 16}, 2), false, "bs."},
        {pattern({2, 1, 16}, 3), false, "bs."},
        {pattern({2, 1, 2, 16}, 4), false, "b.p."},
        {pattern({2, 1, 2, 16}, 5), false, "b.p."},
        {integers({2}, {2, 1}, DType::I32), false, "b"},
        {integers({}, std::vector<std::int64_t>{3}, DType::I32)},
        {pattern({4, 8}, 6), true},
        {pattern({4, 8}, 7), true}},
       [](NodeBuilder& node) { node.integer("num_heads", 1).integer("kv_num_heads", 1).integer("do_rotary", 1); },
       {reals({2, 1, 16}, {0.8453787, -0.1546213, -0.8144545,  0.5953788,  0.1020687, -0.8144545, 0.5953788, -0.06445449,
                           -1.064455, 0.5119019,  -0.06445449, -1.064455,  0.3453787, -0.3144545, -0.569853, 0.3453787,
                           -0.5,      1.25,       0.25,        -0.6467491, 1.25,      0.25,       -0.75,     1,
                           0.1032509, -0.75,      1,           0,          -1,        0.8532509,  0,         -1}),
        reals({2, 1, 3, 16},
              {-1,    0.75,    -0.25,  -1.25,  0.5,     -0.25,  -1.25, 0.5,   -0.5,    1.25,    0.5,   -0.5,    1.25,    0.25,
               -0.75, 1.25,    0.25,   -0.75,  1,       0,      -0.75, 1,     0,       -1,      0.75,  0,       -1,      0.75,
               -0.25, -1.25,   0.75,   -0.25,  -0.0625, -0.875, 0.25,  0.375, -1.0625, 0.375,   0.25,  -0.1875, -0.8125, 0.75,
               0.75,  -0.9375, 1.0625, 0.8125, -0.625,  -1.375, -1.25, 0.5,   -0.5,    -1.25,   0.5,   -0.5,    1.25,    0.25,
               -0.5,  1.25,    0.25,   -0.75,  1,       0.25,   -0.75, 1,     -2,      -0.9375, 0.375, 0.5,     -0.75,   0.5,
               0,     -0.75,   0.5,    0.375,  -0.1875, -2,     0.375, 0.125, -2.125,  0.1875,  0,     0,       0,       0,
               0,     0,       0,      0,      0,       0,      0,     0,     0,       0,       0,     0}),
        reals({2, 1, 3, 16}, {-0.25, -1.25, 0.5,  -0.5,  1.25,  0.5,  -0.5,  1.25,  0.25,  -0.75, 1.25,  0.25,  -0.75, 1,    0,     -0.75,
                              1,     0,     -1,   0.75,  0,     -1,   0.75,  -0.25, -1.25, 0.75,  -0.25, -1.25, 0.5,   -0.5, -1.25, 0.5,
                              1,     0,     -1,   0.75,  -0.25, -1,   0.75,  -0.25, -1.25, 0.5,   -0.25, -1.25, 0.5,   -0.5, 1.25,  0.5,
                              -0.5,  1.25,  0.25, -0.5,  1.25,  0.25, -0.75, 1,     0.25,  -0.75, 1,     0,     -1,    1,    0,     -1,
                              -0.5,  1.25,  0.25, -0.75, 1.25,  0.25, -0.75, 1,     0,     -0.75, 1,     0,     -1,    0.75, 0,     -1,
                              0,     0,     0,    0,     0,     0,    0,     0,     0,     0,     0,     0,     0,     0,    0,     0})},
       "com.microsoft"});
  cases.push_back({"GroupQueryAttention",
                   17,
                   {{pattern({1, 2, 32}, 1), false, "bs."},
                    left_out,
                    left_out,
                    left_out,
                    left_out,
                    {integers({1}, std::vector<std::int64_t>{1}, DType::I32), false, "b"},
                    {integers({}, std::vector<std::int64_t>{2}, DType::I32)},
                    left_out,
                    left_out,
                    left_out,
                    left_out,
                    {pattern({2}, 6)}},
                   [](NodeBuilder& node) { node.integer("num_heads", 2).integer("kv_num_heads", 1).real("scale", 0.5f); },
                   {reals({1, 2, 16}, {0.1617534, 0.06470137, -0.06470137, 0.1617534, 0.03235069, -0.09705205, 0.1617534, 0.03235069,
                                       0.5762709, 0.2305084,  -0.2305084,  0.5762709, 0.1152542,  -0.3457626,  0.5762709, 0.1152542,
                                       0.3414607, 0.1029717,  -0.1701968,  0.3078481, 0.06829213, -0.2048764,  0.3078481, 0.03467955,
                                       1.028089,  0.2514089,  -0.5710621,  0.8682621, 0.2056178,  -0.6168532,  0.8682621, 0.0457911}),
                    reals({1, 1, 2, 8}, {0.75, -0.25, -1.25, 0.5, -0.25, -1.25, 0.5, -0.5, 0.5, -0.5, -1.25, 0.5, -0.5, 1.25, 0.25, -0.5}),
                    reals({1, 1, 2, 8}, {1.25, 0.5, -0.5, 1.25, 0.25, -0.75, 1.25, 0.25, 1.25, 0.25, -0.75, 1, 0.25, -0.75, 1, 0})},
                   "com.microsoft"});
}

void add_standard(std::vector<ValueCase>& cases) {
  cases.push_back({"RMSNormalization",
                   23,
                   {{pattern({2, 3}, 1)}, {pattern({3}, 2)}},
                   [](NodeBuilder& node) { node.real("epsilon", 0.01f); },
                   {reals({2, 3}, {-0.156864, -1.17648, 0.3137279, -0.2524428, -1.009771, 0.3365903})}});
  cases.push_back({"RMSNormalization",
                   23,
                   {{pattern({2, 2, 2}, 1)}, {pattern({2, 2}, 2)}},
                   [](NodeBuilder& node) { node.integer("axis", 1); },
                   {reals({2, 2, 2}, {-0.1601268, -1.200951, 0.3202537, -0, 0.3086044, -0.2314533, -0.9258131, 0})}});
  cases.push_back(
      {"RotaryEmbedding",
       23,
       {{pattern({1, 2, 2, 4}, 1), false, "b.s."},
        {pattern({3, 2}, 2), true},
        {pattern({3, 2}, 3), true},
        {integers({1, 2}, {2, 0}), false, "bs"}},
       none,
       {reals({1, 2, 2, 4}, {0.5625, 0.5, -0.125, -2, 1, -0.1875, 0.8125, -0.75, 0.25, -1, -1, 1, 0, -0.5625, -1.0625, 0.75})}});
  cases.push_back({"RotaryEmbedding",
                   23,
                   {{pattern({1, 2, 8}, 1), false, "bs."}, {pattern({1, 2, 1}, 2), false, "bs."}, {pattern({1, 2, 1}, 3), false, "bs."}},
                   [](NodeBuilder& node) { node.integer("num_heads", 2).integer("rotary_embedding_dim", 2).integer("interleaved", 1); },
                   {reals({1, 2, 8}, {-1.375, -0.1875, 0.25, -0.75, 0, 1.0625, -0.75, 1, 0, 0.75, 1, 0, 0.75, -0.5625, -0.25, -1})}});
  cases.push_back({"Attention",
                   23,
                   {{pattern({1, 2, 8}, 1), false, "bs."}, {pattern({1, 3, 4}, 2), false, "bt."}, {pattern({1, 3, 4}, 3), false, "bt."}},
                   [](NodeBuilder& node) { node.integer("q_num_heads", 4).integer("kv_num_heads", 2).integer("is_causal", 1); },
                   {reals({1, 2, 8}, {1, 0, 1, 0, -1, 0.75, -1, 0.75, 0.718897, -0.2248824, 0.6345329, -0.2923737, -0.04786098, 0.2059205,
                                      0.2383461, 0.04237366})}});
  cases.push_back(
      {"Attention",
       24,
       {{pattern({1, 2, 2, 2}, 1), false, "b.s."},
        {pattern({1, 2, 2, 2}, 2), false, "b.t."},
        {pattern({1, 2, 2, 3}, 3), false, "b.t."},
        left_out,
        {pattern({1, 2, 1, 2}, 4), false, "b.p."},
        {pattern({1, 2, 1, 3}, 5), false, "b.p."}},
       [](NodeBuilder& node) { node.integer("is_causal", 1).real("softcap", 1.5f).integer("qk_matmul_output_mode", 3); },
       {reals({1, 2, 2, 3}, {-0.03635991, -1.03636, 0.2436319, 0.6913512, -0.3086488, -0.7377874, 0.08735671, 0.545172, -0.3222994,
                             0.550651, -0.05183422, -1.018807}),
        reals({1, 2, 3, 2}, {-1, 0.75, 0.25, -0.75, 1, 0, -0.25, -1.25, -1, 1, 0, -1}),
        reals({1, 2, 3, 3}, {-0.25, -1.25, 0.5, 1, 0, -1, 0.75, -0.25, -1, -0.5, 1.25, 0.5, 0.75, -0.25, -1.25, 0.5, -0.25, -1.25}),
        reals({1, 2, 2, 3},
              {0.8290879, 0.1709121, 0, 0.1748084, 0.4646385, 0.3605531, 0.5301147, 0.4698854, 0, 0.1321105, 0.7310461, 0.1368434})}});
  cases.push_back({"Attention",
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
  cases.push_back({"Attention",
                   25,
                   {{pattern({1, 1, 4, 2}, 1), false, "b.s."},
                    {pattern({1, 1, 4, 2}, 2), false, "b.s."},
                    {pattern({1, 1, 4, 2}, 3), false, "b.s."},
                    {pattern({4, 3}, 4)}},
                   [](NodeBuilder& node) { node.integer("left_window_size", 1).integer("right_window_size", 0); },
                   {reals({1, 1, 4, 2}, {1, 0, -0.6306036, 0.6114763, -0.9276711, 0.5812324, -0.25, -1})}});
  cases.push_back(
      {"FlexAttention",
       26,
       {{pattern({1, 2, 2, 2}, 1), false, "b.s."}, {pattern({1, 1, 3, 2}, 2), false, "b.t."}, {pattern({1, 1, 3, 2}, 3), false, "b.t."}},
       [](NodeBuilder& node) { node.real("scale", 0.5f); },
       {reals({1, 2, 2, 2}, {-0.2099695, -0.4819421, 0.02641441, 0.07832909, -0.2342214, 0.1630914, -0.178134, -0.5073907})},
       "ai.onnx.preview"});
  cases.push_back({"TensorScatter",
                   24,
                   {{pattern({2, 4, 2}, 1), false, "bt."}, {pattern({2, 2, 2}, 2), false, "bu."}, {integers({2}, {1, 2}), false, "b"}},
                   none,
                   {reals({2, 4, 2}, {-0.5, 1.25, 0.25, -0.75, 1, 0, -0.75, 1, 0, -1, 1, 0, -1, 1, 0, -1})}});
  cases.push_back({"TensorScatter",
                   24,
                   {{pattern({2, 3}, 1)}, {pattern({2, 2}, 2)}, {integers({2}, {1, 2})}},
                   [](NodeBuilder& node) { node.string("mode", "circular").integer("axis", 1); },
                   {reals({2, 3}, {-0.5, 0.25, -0.75, 0, 1, 1})}});
  cases.push_back({"CumProd",
                   26,
                   {{reals({2, 3}, {1, 2, 3, 4, 5, 6})}, {integers({}, std::vector<std::int64_t>{-1})}},
                   none,
                   {reals({2, 3}, {1, 2, 6, 4, 20, 120})}});
  cases.push_back({"CumProd",
                   26,
                   {{integers({2, 3}, {1, 2, 3, 4, 5, 6}, DType::I32)}, {integers({}, std::vector<std::int64_t>{0}, DType::I32)}},
                   [](NodeBuilder& node) { node.integer("exclusive", 1).integer("reverse", 1); },
                   {integers({2, 3}, {4, 5, 6, 1, 1, 1}, DType::I32)}});
  cases.push_back({"Swish",
                   24,
                   {{pattern({4}, 1)}},
                   [](NodeBuilder& node) { node.real("alpha", 0.5f); },
                   {reals({4}, {-0.2189117, 0.8141936, 0.1328024, -0.3055001})}});
  cases.push_back({"SwiGLU", 28, {{pattern({4}, 1)}, {pattern({4}, 2)}}, none, {reals({4}, {-0.04719258, -0.7287186, 0.1405441, -0})}});
  cases.push_back(
      {"CenterCropPad", 18, {{reals({2, 3}, {1, 2, 3, 4, 5, 6})}, {integers({2}, {3, 2})}}, none, {reals({3, 2}, {1, 2, 4, 5, 0, 0})}});
  cases.push_back(
      {"CausalConvWithState",
       27,
       {{pattern({1, 2, 3}, 1), false, "b.t"},
        {pattern({2, 1, 3}, 2), true},
        {pattern({2}, 3), true},
        {pattern({1, 2, 2}, 4), false, "b.."}},
       [](NodeBuilder& node) { node.string("activation", "silu"); },
       {reals({1, 2, 3}, {-0.1320327, 2.653165, 0.1025134, 0.3112297, 1.490917, -0.240616}), reals({1, 2, 2}, {1.25, 0.25, 1, 0.25})}});
  cases.push_back({"CausalConvWithState",
                   27,
                   {{pattern({1, 2, 1}, 1), false, "b.t"}, {pattern({2, 1, 3}, 2), true}},
                   none,
                   {reals({1, 2, 1}, {-0.5, 1.25}), reals({1, 2, 2}, {0, -0.5, 0, 1.25})}});
  cases.push_back({"LinearAttention",
                   27,
                   {{pattern({1, 2, 4}, 1), false, "bt."},
                    {pattern({1, 2, 2}, 2), false, "bt."},
                    {pattern({1, 2, 3}, 3), false, "bt."},
                    {pattern({1, 1, 2, 3}, 4), false, "b..."},
                    {pattern({1, 2, 1}, 5), false, "bt."},
                    {pattern({1, 2, 1}, 6), false, "bt."}},
                   [](NodeBuilder& node) { node.integer("q_num_heads", 2).integer("kv_num_heads", 1); },
                   {reals({1, 2, 6}, {-0.7596313, 0.0828194, 0.3089647, 0.4812604, -0.07098804, -0.1736455, -0.542312, 0.2883828, 0.2636843,
                                      0.1306221, -0.1357809, -0.1456051}),
                    reals({1, 1, 2, 3}, {-0.6847384, 0.3838658, 0.3573769, -0.3288262, 0.09587622, 0.06211599})}});
  cases.push_back({"LinearAttention",
                   27,
                   {{pattern({1, 2, 2}, 1), false, "bt."}, {pattern({1, 2, 2}, 2), false, "bt."}, {pattern({1, 2, 2}, 3), false, "bt."}},
                   [](NodeBuilder& node) {
                     node.integer("q_num_heads", 1).integer("kv_num_heads", 1).string("update_rule", "linear").real("scale", 0.5f);
                   },
                   {reals({1, 2, 2}, {-0.53125, 0, 0.1875, 0.09375}), reals({1, 1, 2, 2}, {-0.75, 0.75, -0.75, 0})}});
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
                   {{reals({2, 3}, {1, -2, 3, 4, 5, -6})}, {reals({2, 2}, {0.5, 1, 0.25, 2})}, {integers({2, 2}, {1, 2, 3, 4}, DType::U8)}},
                   [](NodeBuilder& node) { node.integer("block_size", 2).integer("axis", 1); },
                   {integers({2, 3}, {3, 0, 5, 19, 23, 1}, DType::U8)}});
  cases.push_back({"DequantizeLinear",
                   21,
                   {{integers({2, 3}, {1, 200, 30, 255, 0, 7}, DType::U8)}, {reals({2, 2}, {0.5, 1, 0.25, 2})}},
                   [](NodeBuilder& node) { node.integer("block_size", 2).integer("axis", 1); },
                   {reals({2, 3}, {0.5, 100, 30, 63.75, 0, 14})}});
}

}  // namespace

void add_newer_cases(std::vector<ValueCase>& cases) {
  add_runtime_elementwise(cases);
  add_runtime_products(cases);
  add_runtime_attention(cases);
  add_standard(cases);
}

}  // namespace anydim::frontends
