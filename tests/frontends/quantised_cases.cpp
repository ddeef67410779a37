// ONNX Runtime's operators of quantised numbers, with what ONNX Runtime 1.31 (of integers) and 1.32
// on one thread (of real numbers, where threads decide what is quantised together) give for them.
#include <utility>

#include "tests/frontends/value_cases.h"

namespace anydim::frontends {
namespace {

using ir::DType;
using Attributes = std::function<void(NodeBuilder&)>;

ir::Tensor bytes(Dims dims, const std::vector<std::int64_t>& values, DType dtype = DType::U8) {
  return ir::Tensor::of(dtype, std::move(dims), values);
}
CaseOperand scale(double value) {
  return {ir::Tensor::of(DType::F32, {}, std::vector<double>{value})};
}
CaseOperand zero(std::int64_t value, DType dtype = DType::U8) {
  return {bytes({}, {value}, dtype)};
}
// Bytes in no order that a mistake in strides would keep.
CaseOperand spread(Dims dims, std::int64_t first, DType dtype) {
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) count *= dim;
  std::vector<std::int64_t> values;
  values.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back((i * 37 + first) % 256 - (dtype == DType::I8 ? 128 : 0));
  return {bytes(std::move(dims), values, dtype)};
}

void add_lstms(std::vector<ValueCase>& cases) {
  std::vector<double> rising(16);
  for (std::size_t i = 0; i < rising.size(); ++i) rising[i] = static_cast<double>(i % 5 + 1) / 256;
  const CaseOperand of_columns{reals({2, 8}, rising)},
      no_zeros{bytes({2, 8}, std::vector<std::int64_t>(16, 0), DType::I8)};
  cases.push_back(
      {"DynamicQuantizeLSTM",
       17,
       {{pattern({3, 3, 2}, 1)},
        spread({2, 2, 8}, 11, DType::I8),
        spread({2, 2, 8}, 5, DType::I8),
        {pattern({2, 16}, 2)},
        {integers({3}, {3, 1, 2}, DType::I32)},
        {pattern({2, 3, 2}, 3)},
        {pattern({2, 3, 2}, 4)},
        {pattern({2, 6}, 5)},
        of_columns,
        no_zeros,
        of_columns,
        no_zeros},
       [](NodeBuilder& node) {
         node.integer("hidden_size", 2).string("direction", "bidirectional").real("clip", 1.5F);
       },
       {reals({3, 2, 3, 2}, {-0.1635715, 0.249951,    -0.07527149,
                             -0.3401352, 0.3356681,   -0.2245073,
                             0.01489526, 0.5439019,   -0.006878934,
                             0.171623,   0.1171819,   0.4388756,
                             -0.339467,  0.009616585, 0,
                             0,          0.3245996,   -0.227966,
                             0.04926312, 0.4773328,   0,
                             0,          0.1822572,   0.1141378,
                             -0.3859629, -0.02817598, 0,
                             0,          0,           0,
                             -0.1017669, 0.3749734,   0,
                             0,          0,           0}),
        reals({2, 3, 2}, {-0.3859629, -0.02817598, -0.07527149, -0.3401352, 0.3245996, -0.227966,
                          0.01489526, 0.5439019, -0.006878934, 0.171623, 0.1171819, 0.4388756}),
        reals({2, 3, 2}, {-0.842473, -0.03565959, -0.1301509, -0.4903834, 0.9198943, -0.3587632,
                          0.02710656, 0.9376396, -0.0177352, 1.744825, 0.2293643, 0.7036931})},
       "com.microsoft"});
  cases.push_back(
      {"DynamicQuantizeLSTM",
       17,
       {{pattern({3, 2, 2}, 1)},
        spread({1, 2, 8}, 11, DType::U8),
        spread({1, 2, 8}, 5, DType::U8),
        left_out,
        left_out,
        left_out,
        left_out,
        left_out,
        {reals({1}, {1.0 / 64})},
        {bytes({1}, {128})},
        {reals({1}, {1.0 / 32})},
        {bytes({1}, {120})}},
       [](NodeBuilder& node) { node.integer("hidden_size", 2).string("direction", "reverse"); },
       {reals({3, 1, 2, 2},
              {0.1787412, 0.06988097, 0.2130848, 0.2182911, 0.1371227, 0.2174187, -0.2633675,
               0.00344083, 0.3161531, 0.1807032, 0.04340626, -0.09905595}),
        reals({1, 2, 2}, {0.1787412, 0.06988097, 0.2130848, 0.2182911}),
        reals({1, 2, 2}, {0.35535, 0.09749988, 0.4074254, 0.6025901})},
       "com.microsoft"});
}

void add_embeddings(std::vector<ValueCase>& cases) {
  for (const bool segments : {true, false}) {
    const DType dtype = segments ? DType::U8 : DType::I8;
    const auto of_segments = [&](const CaseOperand& operand) {
      return segments ? operand : left_out;
    };
    cases.push_back(
        {"QEmbedLayerNormalization",
         17,
         {{integers({2, 3}, {1, 3, 0, 2, 2, 4}, DType::I32), false, "bs"},
          of_segments({integers({2, 3}, {0, 1, 1, 0, 0, 1}, DType::I32), false, "bs"}),
          spread({5, 3}, 11, dtype),
          spread({4, 3}, 5, dtype),
          of_segments(spread({2, 3}, 3, dtype)),
          spread({3}, 40, dtype),
          spread({3}, 90, dtype),
          {integers({2, 3}, {1, 1, 0, 1, 1, 1}, DType::I32), false, "bs"},
          scale(1.0 / 32),
          {reals({1}, {1.0 / 64})},
          of_segments(scale(1.0 / 16)),
          scale(1.0 / 128),
          scale(1.0 / 256),
          zero(segments ? 128 : 0, dtype),
          zero(segments ? 120 : 3, dtype),
          of_segments(zero(100, dtype)),
          zero(segments ? 7 : -5, dtype),
          zero(segments ? 130 : 9, dtype)},
         [](NodeBuilder& node) { node.real("epsilon", 0.01F); },
         {segments ? reals({2, 3, 3},
                           {-0.4718601, -0.01171875, 1.156154, -0.4718601, -0.01171875, 1.156154,
                            -0.3414396, -0.3912039, 1.313346, 0.01935908, -0.7838728, 0.7437063,
                            0.01935908, -0.7838728, 0.7437063, 0.02251932, 0.3813062, -1.0476})
                   : reals({2, 3, 3},
                           {0.608604, -0.0390625, 0.01956779, 0.608604, -0.0390625, 0.01956779,
                            -0.8051655, 0.4536095, 0.07647573, -1.066432, 0.3234749, 0.130267,
                            -1.066432, 0.3234749, 0.130267, -0.8301184, -0.1718101, 0.2015462}),
          integers({2}, {2, 3}, DType::I32)},
         "com.microsoft"});
  }
}

}  // namespace

void add_quantised_cases(std::vector<ValueCase>& cases) {
  add_lstms(cases);
  add_embeddings(cases);
  const auto add = [&](const std::string& op, std::vector<CaseOperand> operands,
                       const ir::Tensor& wanted, const Attributes& attributes = no_attributes) {
    cases.push_back({op, 17, std::move(operands), attributes, {wanted}, "com.microsoft"});
  };
  const CaseOperand a{bytes({2, 3}, {1, 200, 30, 255, 0, 7})},
      b{bytes({2, 3}, {9, 100, 250, 3, 128, 77})};
  const CaseOperand c{bytes({2, 3}, {3, -7, 100, 5, -128, 127}, DType::I8)};
  const ir::Tensor sum = bytes({2, 3}, {18, 181, 118, 186, 57, 45});
  add("QLinearAdd", {a, scale(0.5), zero(120), b, scale(0.25), zero(100), scale(0.75), zero(128)},
      sum);
  add("QLinearMul",
      {c, scale(0.5), zero(-3, DType::I8), c, scale(0.25), zero(5, DType::I8), scale(8)},
      bytes({2, 3}, {0, 1, 127, 0, 127, 127}, DType::I8));
  add("QLinearSigmoid", {a, scale(0.0625), zero(120), scale(1.0 / 256), zero(0)},
      bytes({2, 3}, {0, 254, 1, 255, 0, 0}));
  add("QLinearLeakyRelu", {a, scale(0.5), zero(120), scale(0.25), zero(100)},
      bytes({2, 3}, {40, 255, 55, 255, 40, 44}),
      [](NodeBuilder& node) { node.real("alpha", 0.25F); });
  add("QLinearSoftmax", {a, scale(0.0625), zero(120), scale(1.0 / 256), zero(0)},
      bytes({2, 3}, {0, 255, 0, 255, 0, 0}),
      [](NodeBuilder& node) { node.integer("axis", -1).integer("opset", 13); });
  add("QLinearConcat",
      {scale(0.5),
       zero(128),
       {a.tensor, false, "r."},
       scale(0.5),
       zero(120),
       {bytes({2, 1}, {9, 100}), false, "r."},
       scale(0.25),
       zero(100)},
      bytes({2, 4}, {9, 208, 38, 82, 255, 8, 15, 128}),
      [](NodeBuilder& node) { node.integer("axis", 1); });
  add("QLinearWhere",
      {{bytes({2, 3}, {1, 0, 1, 0, 1, 0}, DType::Bool)},
       a,
       scale(0.5),
       zero(120),
       b,
       scale(0.25),
       zero(100),
       scale(0.5),
       zero(110)},
      bytes({2, 3}, {0, 110, 20, 62, 0, 98}));
  std::vector<std::int64_t> picture;
  for (std::int64_t i = 0; i < 12; ++i) picture.push_back((i * 37 + 11) % 256);
  add("QLinearAveragePool",
      {{bytes({1, 1, 3, 4}, picture)}, scale(0.5), zero(120), scale(0.25), zero(100)},
      bytes({1, 1, 3, 2}, {0, 67, 104, 87, 144, 127}), [](NodeBuilder& node) {
        node.integers("kernel_shape", {2, 3})
            .integers("pads", {1, 0, 0, 1})
            .integers("strides", {1, 2});
      });
  add("QLinearAveragePool",
      {{bytes({1, 1, 3, 4}, picture)}, scale(0.5), zero(120), scale(0.25), zero(100)},
      bytes({1, 1, 2, 3}, {46, 46, 101, 85, 181, 68}), [](NodeBuilder& node) {
        node.integers("kernel_shape", {2, 2}).integers("pads", {1, 1, 1, 1});
        node.integers("strides", {2, 2}).integer("count_include_pad", 1);
      });
  add("QLinearAveragePool",
      {{bytes({1, 3, 2, 2}, picture)}, scale(0.5), zero(120), scale(0.25), zero(100)},
      bytes({1, 2, 2, 2}, {30, 104, 178, 0, 70, 144, 218, 36}),
      [](NodeBuilder& node) { node.integers("kernel_shape", {2, 1}).integer("channels_last", 1); });
  add("QLinearAveragePool",
      {{bytes({1, 1, 3, 4}, picture)}, scale(0.5), zero(120), scale(0.25), zero(100)},
      bytes({1, 1, 2, 2}, {67, 87, 0, 147}), [](NodeBuilder& node) {
        node.integers("kernel_shape", {2, 2}).integers("strides", {2, 2}).integer("ceil_mode", 1);
      });
  add("QLinearGlobalAveragePool",
      {{bytes({1, 2, 2, 3}, picture)}, scale(0.5), zero(120), scale(0.25), zero(100)},
      bytes({1, 2, 1, 1}, {67, 84}));
  add("QLinearGlobalAveragePool",
      {{bytes({1, 2, 3, 2}, picture)}, scale(0.5), zero(120), scale(0.25), zero(100)},
      bytes({1, 1, 1, 2}, {81, 70}), [](NodeBuilder& node) { node.integer("channels_last", 1); });
  for (const bool last : {true, false}) {
    add("QLinearConv",
        {spread(last ? Dims{1, 3, 4, 2} : Dims{1, 2, 3, 4}, 11, DType::U8),
         scale(0.5),
         zero(120),
         spread({2, 2, 2, 2}, 5, DType::I8),
         {reals({2}, {0.25, 0.5})},
         {bytes({2}, {0, 0}, DType::I8)},
         scale(64),
         zero(100),
         {bytes({2}, {1000, -20}, DType::I32)}},
        last ? bytes({1, 3, 2, 2}, {99, 132, 135, 109, 121, 129, 97, 0, 105, 107, 75, 139})
             : bytes({1, 2, 3, 2}, {102, 101, 145, 78, 133, 97, 24, 169, 232, 0, 45, 168}),
        [last](NodeBuilder& node) {
          node.integer("channels_last", last ? 1 : 0)
              .integers("pads", {1, 0, 0, 1})
              .integers("strides", {1, 2});
        });
  }
  add("NhwcMaxPool", {spread({1, 3, 4, 2}, 11, DType::I8)},
      bytes({1, 2, 2, 2}, {-3, 34, 105, 108, 37, 74, 111, 74}, DType::I8), [](NodeBuilder& node) {
        node.integers("kernel_shape", {2, 3})
            .integers("strides", {2, 2})
            .integers("pads", {0, 1, 0, 0})
            .integer("ceil_mode", 1);
      });
  const CaseOperand weight{bytes({3, 2}, {3, -7, 100, 5, -128, 127}, DType::I8), true};
  const CaseOperand bias{bytes({2}, {1000, -20}, DType::I32), true};
  add("QGemm",
      {a, scale(0.5), zero(128), weight, scale(0.25), zero(1, DType::I8), bias, scale(16),
       zero(100)},
      bytes({2, 2}, {255, 14, 133, 0}));
  add("QGemm", {a, scale(0.5), zero(128), c, scale(0.25), zero(1, DType::I8), left_out},
      ir::Tensor::of(DType::F32, {2, 2}, std::vector<double>{-658.25, -1384, -668.8125, 110.875}),
      [](NodeBuilder& node) { node.integer("transB", 1).real("alpha", 0.5F); });
  cases.push_back(
      {"MatMulBnb4",
       17,
       {{pattern({2, 1, 16}, 1), false, "bs."},
        {integers({16}, {11, 48, 85, 122, 159, 196, 233, 14, 51, 88, 125, 162, 199, 236, 17, 54},
                  DType::U8),
         true},
        {reals({2}, {0.5, 2}), true}},
       [](NodeBuilder& node) {
         node.integer("K", 16).integer("N", 2).integer("block_size", 16).integer("quant_type", 0);
       },
       {reals({2, 1, 2}, {-0.4915365, 2.664063, -0.4596354, 0.8697916})},
       "com.microsoft"});
  cases.push_back(
      {"MatMulBnb4",
       17,
       {{pattern({2, 5}, 1), false, "s."},
        {integers({8}, {11, 48, 85, 122, 159, 196, 233, 14}, DType::U8), true},
        {reals({1}, {1.5}), true}},
       [](NodeBuilder& node) {
         node.integer("K", 5).integer("N", 3).integer("block_size", 16).integer("quant_type", 1);
       },
       {reals({2, 3}, {2.083337, 1.549826, -2.273798, -1.070371, -1.200122, 3.069698})},
       "com.microsoft"});
}

}  // namespace anydim::frontends
