// ONNX Runtime's attention operators, with what ONNX Runtime 1.31 gives for them.
#include <cmath>

#include "tests/frontends/value_cases.h"

namespace anydim::frontends {

using ir::DType;

void add_runtime_attention(std::vector<ValueCase>& cases) {
  cases.push_back(
      {"Attention",
       17,
       {{pattern({2, 3, 3}, 1), false, "bs."},
        {pattern({3, 12}, 4), true},
        {pattern({12}, 5), true},
        {integers({2, 3}, {1, 1, 0, 1, 1, 1}, DType::I32), false, "bs"}},
       [](NodeBuilder& node) { node.integer("num_heads", 2); },
       {reals({2, 3, 4}, {-0.6318117, -0.2127389, 0.8184379,  -0.8928137, -0.6344388, -0.2080102,
                          0.8180956,  -0.8917867, -0.6326225, -0.2112794, 0.8172383,  -0.8892149,
                          0.2592993,  -1.194474,  0.8357514,  0.1358812,  0.25654,    -1.192405,
                          0.8313935,  0.1162713,  0.25654,    -1.192405,  0.8313935,  0.1162713})},
       "com.microsoft"});
  cases.push_back(
      {"Attention",
       17,
       {{pattern({2, 3, 3}, 1), false, "bs."},
        {pattern({3, 12}, 4), true},
        {pattern({12}, 5), true},
        {integers({2}, {2, 3}, DType::I32), false, "b"}},
       [](NodeBuilder& node) { node.integer("num_heads", 2).real("scale", 0.5f); },
       {reals({2, 3, 4}, {-0.6209364, -0.2323145, 0.8167051,  -0.8876152, -0.6228557, -0.2288599,
                          0.8164619,  -0.8868859, -0.6215279, -0.2312499, 0.8158538,  -0.8850612,
                          0.281783,   -1.211337,  0.835051,   0.1327295,  0.2798595,  -1.209895,
                          0.8319662,  0.1188476,  0.2798595,  -1.209895,  0.8319662,  0.1188476})},
       "com.microsoft"});
  cases.push_back(
      {"Attention",
       17,
       {{pattern({1, 2, 3}, 1), false, "bs."},
        {pattern({3, 12}, 4), true},
        {pattern({12}, 5), true},
        left_out,
        {pattern({2, 1, 2, 2, 2}, 7), false, ".b.t."}},
       [](NodeBuilder& node) { node.integer("num_heads", 2).integer("unidirectional", 1); },
       {reals({1, 2, 4}, {-0.8194387, 0.2195389, 0.3673707, -0.5395794, -0.7012934, -0.02808732,
                          0.5215515, -0.6180653}),
        reals({2, 1, 2, 4, 2},
              {1.25,    0.25,    -0.75,  1,     1.25,   -0.625, 1.0625, -0.375,  0,    -0.75,  1,
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
       [](NodeBuilder& node) {
         node.integer("num_heads", 2)
             .integers("qkv_hidden_sizes", {2, 2, 4})
             .real("mask_filter_value", -1000.0f);
       },
       {reals({1, 2, 4}, {2.375, 1.1875, -0.8125, 2.3125, 2.257674, 1.1875, -0.7077652, 2.220857})},
       "com.microsoft"});
  cases.push_back(
      {"QAttention",
       17,
       {{integers({1, 2, 3}, {1, 200, 30, 255, 0, 7}, DType::U8), false, "bs."},
        {integers({3, 12}, {-121, -68, -15, 38,  91,  -112, -59, -6,  47,  100, -103, -50,
                            3,    56,  109, -94, -41, 12,   65,  118, -85, -32, 21,   74,
                            127,  -76, -23, 30,  83,  -120, -67, -14, 39,  92,  -111, -58},
                  DType::I8),
         true},
        {pattern({12}, 5), true},
        {reals({}, std::vector<double>{0.0078125})},
        {reals({}, std::vector<double>{0.015625})},
        left_out,
        {integers({}, std::vector<std::int64_t>{128}, DType::U8)},
        {integers({}, std::vector<std::int64_t>{3}, DType::I8)}},
       [](NodeBuilder& node) { node.integer("num_heads", 2).integer("unidirectional", 1); },
       {reals({1, 2, 4}, {-1.63623, -3.626099, 4.415283, 2.425415, -1.618176, -3.606983, 2.783185,
                          0.8894224})},
       "com.microsoft"});
  cases.push_back(
      {"MultiHeadAttention",
       17,
       {{pattern({2, 2, 4}, 1), false, "bs."},
        {pattern({2, 3, 4}, 2), false, "bt."},
        {pattern({2, 3, 6}, 3), false, "bt."},
        {pattern({14}, 4)},
        {integers({2, 3}, {1, 0, 1, 0, 1, 1}, DType::I32), false, "bt"},
        {pattern({1, 2, 2, 3}, 5), false, "..st"}},
       [](NodeBuilder& node) { node.integer("num_heads", 2); },
       {reals({2, 2, 6}, {0.1417896, 0.8917896, 1.111947, 0.1442616,  0.8942616,  0.2016457,
                          0.102645,  0.852645,  1.288097, 0.02316394, 0.7731639,  1.291525,
                          -0.5,      0.333545,  1.333545, -0.6731318, 0.07686819, 1,
                          -0.5,      0.4966052, 1.496605, -0.6232671, 0.1267329,  1})},
       "com.microsoft"});
  cases.push_back(
      {"MultiHeadAttention",
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
       {reals({1, 2, 4}, {1.133274, 0.1332743, -0.8805208, 0.8694794, 0.8605488, -0.08936927,
                          -0.4007468, 0.5499861}),
        reals({1, 2, 3, 2}, {0.5, -0.5, 0.25, -0.75, -1, 1, 1.25, 0.25, 1, 0, 0, -1}),
        reals({1, 2, 3, 2}, {1.25, 0.25, 1, 0, -0.25, -1, -0.75, 1, -1, 0.75, 0.75, -0.25})},
       "com.microsoft"});
  cases.push_back(
      {"MultiHeadAttention",
       17,
       {{pattern({1, 2, 4}, 1), false, "bs."},
        {pattern({1, 3, 4}, 2), false, "bt."},
        {pattern({1, 3, 4}, 3), false, "bt."}},
       [](NodeBuilder& node) { node.integer("num_heads", 2).integer("unidirectional", 1); },
       {reals({1, 2, 4}, {1, 0, -1, 0.75, -0.3480297, 0.06890371, -0.2369613, -0.829347})},
       "com.microsoft"});
  cases.push_back({"MultiHeadAttention",
                   17,
                   {{pattern({1, 2, 4}, 1), false, "bs."},
                    {pattern({1, 2, 3, 2}, 2), false, "b.t."},
                    {pattern({1, 2, 3, 2}, 3), false, "b.t."}},
                   [](NodeBuilder& node) { node.integer("num_heads", 2).real("scale", 1.0f); },
                   {reals({1, 2, 4}, {-0.2534159, -0.7902076, -0.0851465, -0.08876035, -0.4164088,
                                      0.3681063, -0.2643328, -1.033796})},
                   "com.microsoft"});
  cases.push_back({"RotaryEmbedding",
                   17,
                   {{pattern({1, 2, 8}, 1), false, "bs."},
                    {integers({1, 2}, {3, 1}), false, "bs"},
                    {pattern({4, 2}, 2), true},
                    {pattern({4, 2}, 3), true}},
                   [](NodeBuilder& node) { node.integer("interleaved", 1); },
                   {reals({1, 2, 8}, {-0.9375, -0.375, -0.4375, 0.6875, -0.1875, 0.75, 1, -0.8125,
                                      -1, -1, 0, 0.75, -0.25, 1.75, 0.75, -0.1875})},
                   "com.microsoft"});
  cases.push_back(
      {"RotaryEmbedding",
       17,
       {{pattern({1, 1, 2, 6}, 1), false, "b.s."},
        {integers({1}, std::vector<std::int64_t>{1})},
        {pattern({4, 2}, 2), true},
        {pattern({4, 2}, 3), true}},
       [](NodeBuilder& node) { node.integer("num_heads", 1).integer("rotary_embedding_dim", 4); },
       {reals({1, 1, 2, 6}, {-0.25, 0.5625, 0.75, 0.9375, 1, 0.25, 0.75, 0, 0.1875, -2, 1, 0})},
       "com.microsoft"});
  cases.push_back(
      {"GroupQueryAttention",
       17,
       {{pattern({1, 3, 16}, 1), false, "bs."},
        {pattern({1, 3, 8}, 2), false, "bs."},
        {pattern({1, 3, 8}, 3), false, "bs."},
        {pattern({1, 1, 0, 8}, 4), false, "b.p."},
        {pattern({1, 1, 0, 8}, 5), false, "b.p."},
        {integers({1}, std::vector<std::int64_t>{2}, DType::I32), false, "b"},
        {integers({}, std::vector<std::int64_t>{3}, DType::I32)}},
       [](NodeBuilder& node) {
         node.integer("num_heads", 2).integer("kv_num_heads", 1).integer("local_window_size", 2);
       },
       {reals({1, 3, 16},
              {1,           0,          -1,         0.75,       -0.25,      -1,         0.75,
               -0.25,       1,          0,          -1,         0.75,       -0.25,      -1,
               0.75,        -0.25,      -0.9791214, 0.4398048,  -0.3402928, -1.009219,  0.4097071,
               -0.5601952,  1.189805,   0.4097071,  -0.9684137, 0.4374253,  -0.3438622, -0.999701,
               0.4061379,   -0.5625748, 1.187425,   0.4061379,  -0.7332425, 1.016758,   0.094505,
               -0.905495,   1.016758,   0.01675751, -0.12802,   0.8445051,  -0.9836622, 0.7663378,
               -0.07244147, -1.072442,  0.7663378,  -0.2336622, 0.5397659,  0.6775585}),
        reals({1, 1, 3, 8},
              {0.25,  -0.75, 1,   0,     -1,    1,   0,    -1,   0.75, -0.25, -1,   0.75,
               -0.25, -1.25, 0.5, -0.25, -1.25, 0.5, -0.5, 1.25, 0.5,  -0.5,  1.25, 0.25}),
        reals({1, 1, 3, 8},
              {1,   0,    -1,   0.75, -0.25, -1,   0.75, -0.25, -1.25, 0.5,  -0.25, -1.25,
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
       [](NodeBuilder& node) {
         node.integer("num_heads", 1).integer("kv_num_heads", 1).integer("do_rotary", 1);
       },
       {reals({2, 1, 16},
              {0.8453787,   -0.1546213, -0.8144545, 0.5953788,   0.1020687, -0.8144545, 0.5953788,
               -0.06445449, -1.064455,  0.5119019,  -0.06445449, -1.064455, 0.3453787,  -0.3144545,
               -0.569853,   0.3453787,  -0.5,       1.25,        0.25,      -0.6467491, 1.25,
               0.25,        -0.75,      1,          0.1032509,   -0.75,     1,          0,
               -1,          0.8532509,  0,          -1}),
        reals({2, 1, 3, 16},
              {-1,      0.75,  -0.25,   -1.25,   0.5,     -0.25,   -1.25,   0.5,    -0.5,   1.25,
               0.5,     -0.5,  1.25,    0.25,    -0.75,   1.25,    0.25,    -0.75,  1,      0,
               -0.75,   1,     0,       -1,      0.75,    0,       -1,      0.75,   -0.25,  -1.25,
               0.75,    -0.25, -0.0625, -0.875,  0.25,    0.375,   -1.0625, 0.375,  0.25,   -0.1875,
               -0.8125, 0.75,  0.75,    -0.9375, 1.0625,  0.8125,  -0.625,  -1.375, -1.25,  0.5,
               -0.5,    -1.25, 0.5,     -0.5,    1.25,    0.25,    -0.5,    1.25,   0.25,   -0.75,
               1,       0.25,  -0.75,   1,       -2,      -0.9375, 0.375,   0.5,    -0.75,  0.5,
               0,       -0.75, 0.5,     0.375,   -0.1875, -2,      0.375,   0.125,  -2.125, 0.1875,
               0,       0,     0,       0,       0,       0,       0,       0,      0,      0,
               0,       0,     0,       0,       0,       0}),
        reals({2, 1, 3, 16},
              {-0.25, -1.25, 0.5,   -0.5,  1.25,  0.5,  -0.5,  1.25,  0.25, -0.75, 1.25,  0.25,
               -0.75, 1,     0,     -0.75, 1,     0,    -1,    0.75,  0,    -1,    0.75,  -0.25,
               -1.25, 0.75,  -0.25, -1.25, 0.5,   -0.5, -1.25, 0.5,   1,    0,     -1,    0.75,
               -0.25, -1,    0.75,  -0.25, -1.25, 0.5,  -0.25, -1.25, 0.5,  -0.5,  1.25,  0.5,
               -0.5,  1.25,  0.25,  -0.5,  1.25,  0.25, -0.75, 1,     0.25, -0.75, 1,     0,
               -1,    1,     0,     -1,    -0.5,  1.25, 0.25,  -0.75, 1.25, 0.25,  -0.75, 1,
               0,     -0.75, 1,     0,     -1,    0.75, 0,     -1,    0,    0,     0,     0,
               0,     0,     0,     0,     0,     0,    0,     0,     0,    0,     0,     0})},
       "com.microsoft"});
  cases.push_back(
      {"GroupQueryAttention",
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
       [](NodeBuilder& node) {
         node.integer("num_heads", 2).integer("kv_num_heads", 1).real("scale", 0.5f);
       },
       {reals({1, 2, 16},
              {0.1617534,  0.06470137, -0.06470137, 0.1617534,  0.03235069, -0.09705205, 0.1617534,
               0.03235069, 0.5762709,  0.2305084,   -0.2305084, 0.5762709,  0.1152542,   -0.3457626,
               0.5762709,  0.1152542,  0.3414607,   0.1029717,  -0.1701968, 0.3078481,   0.06829213,
               -0.2048764, 0.3078481,  0.03467955,  1.028089,   0.2514089,  -0.5710621,  0.8682621,
               0.2056178,  -0.6168532, 0.8682621,   0.0457911}),
        reals({1, 1, 2, 8}, {0.75, -0.25, -1.25, 0.5, -0.25, -1.25, 0.5, -0.5, 0.5, -0.5, -1.25,
                             0.5, -0.5, 1.25, 0.25, -0.5}),
        reals({1, 1, 2, 8}, {1.25, 0.5, -0.5, 1.25, 0.25, -0.75, 1.25, 0.25, 1.25, 0.25, -0.75, 1,
                             0.25, -0.75, 1, 0})},
       "com.microsoft"});
  // What T5's formula gives of a table whose columns lie one after the other; ONNX Runtime has no
  // kernel of it for the CPU.
  const ir::Tensor table = reals({8, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 13, 14, 15, 16, 17});
  cases.push_back(
      {"RelativePositionBias",
       17,
       {{table, true}, {integers({1}, {3})}, {integers({1}, {7})}},
       [](NodeBuilder& node) { node.integer("max_distance", 6).integer("is_bidirectional", 1); },
       {reals({1, 2, 3, 7},
              {0,  5,  6,  6,  7,  7,  7,  1,  0,  5,  6,  6,  7,  7,  2,  1,  0,  5,  6,  6, 7, 10,
               15, 16, 16, 17, 17, 17, 11, 10, 15, 16, 16, 17, 17, 12, 11, 10, 15, 16, 16, 17})},
       "com.microsoft"});
  cases.push_back(
      {"RelativePositionBias",
       17,
       {{table, true}, {integers({1}, {5})}, {integers({1}, {6})}},
       [](NodeBuilder& node) { node.integer("max_distance", 9); },
       {reals({1, 2, 5, 6},
              {0,  0,  0,  0,  0,  0,  1,  0,  0,  0,  0,  0,  2,  1,  0,  0,  0,  0,  3,  2,
               1,  0,  0,  0,  4,  3,  2,  1,  0,  0,  10, 10, 10, 10, 10, 10, 11, 10, 10, 10,
               10, 10, 12, 11, 10, 10, 10, 10, 13, 12, 11, 10, 10, 10, 14, 13, 12, 11, 10, 10})},
       "com.microsoft"});
  cases.push_back(
      {"MRotaryEmbedding",
       17,
       {{pattern({2, 1, 3, 6}, 1), false, "b.s."},
        {integers({3, 2, 3}, {0, 1, 2, 3, 3, 3, 1, 1, 0, 3, 2, 3, 0, 2, 1, 3, 3, 0}), false, ".bs"},
        {pattern({4, 3}, 2), true},
        {pattern({4, 3}, 3), true}},
       [](NodeBuilder& node) {
         node.integers("mrope_section", {1, 1, 1}).integer("mrope_layout", 0);
       },
       {reals({2, 1, 3, 6},
              {0.625,   -1,     0.5,     -0.6875, -1.3125, 0,       0.75,    -0.75,   0,
               -0.5625, -1.25,  0,       0.75,    -0.5625, -0.5,    -0.75,   -0.5625, 0,
               0.9375,  -0.375, -0.8125, -0.3125, -0.625,  -0.0625, -0.9375, -0.4375, -1.3125,
               0.3125,  -0.375, 0.0625,  -0.8125, -0.25,   -1.5,    0.375,   -0.0625, 0})},
       "com.microsoft"});
  cases.push_back({"MRotaryEmbedding",
                   17,
                   {{pattern({1, 2, 8}, 1), false, "bs."},
                    {integers({3, 1, 2}, {0, 1, 1, 2, 2, 3}), false, ".bs"},
                    {pattern({4, 2}, 2), true},
                    {pattern({4, 2}, 3), true}},
                   [](NodeBuilder& node) {
                     node.integers("mrope_section", {1, 1, 0})
                         .integer("mrope_layout", 1)
                         .integer("num_heads", 2)
                         .integer("rotary_embedding_dim", 4)
                         .integer("interleaved", 1);
                   },
                   {reals({1, 2, 8}, {-1.375, -0.1875, 0.5625, 0.1875, 0, 1.0625, -0.75, -0.5625,
                                      -1, -1, 1, -1, -0.25, 1.75, -1.25, -0.75})},
                   "com.microsoft"});
  cases.push_back(
      {"CausalConvWithState",
       17,
       {{pattern({1, 3, 2}, 1), false, "bs."},
        {pattern({2, 1, 3}, 2), true},
        {pattern({2}, 3), true},
        {pattern({1, 4, 2}, 4), false, "b.."}},
       [](NodeBuilder& node) {
         node.string("activation", "silu").integer("channels_last", 1).integer("dilation", 2);
       },
       {reals({1, 3, 2}, {-0.05859883, 1.226362, 1.898283, -0.2783752, 2.310354, -0.2689414}),
        reals({1, 4, 2}, {-1.25, 0.5, -0.5, 1.25, 0.25, -0.75, 1, 0.25})},
       "com.microsoft"});
  cases.push_back(
      {"CausalConvWithState",
       17,
       {{pattern({1, 2, 3}, 1), false, "b.s"}, {pattern({2, 1, 2}, 2), true}},
       no_attributes,
       {reals({1, 2, 3}, {0.375, -1.0625, 0.125, 0, -0.75, 1}), reals({1, 2, 1}, {0.25, 0.25})},
       "com.microsoft"});
  cases.push_back(
      {"LinearAttention",
       17,
       {{pattern({1, 2, 2}, 1), false, "bs."},
        {pattern({1, 2, 4}, 2), false, "bs."},
        {pattern({1, 2, 4}, 3), false, "bs."},
        left_out,
        {pattern({1, 2, 2}, 4), false, "bs."},
        {pattern({1, 2, 2}, 5), false, "bs."}},
       [](NodeBuilder& node) { node.integer("q_num_heads", 1).integer("kv_num_heads", 2); },
       {reals({1, 2, 4},
              {0.1878252, 0, -0.4419417, 0.3314563, 0.07117911, 0.3535534, -0.1355646, 0.01880935}),
        reals({1, 2, 2, 2},
              {0.173675, 0.5, -0.07632494, -0.5, 0.358131, -0.2685983, 0.375, -0.125})},
       "com.microsoft"});
}

}  // namespace anydim::frontends
