// ONNX Runtime's operators from integers to integers, with what ONNX Runtime 1.31 gives for them.
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

}  // namespace

void add_quantised_cases(std::vector<ValueCase>& cases) {
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
  const CaseOperand weight{bytes({3, 2}, {3, -7, 100, 5, -128, 127}, DType::I8), true};
  const CaseOperand bias{bytes({2}, {1000, -20}, DType::I32), true};
  add("QGemm",
      {a, scale(0.5), zero(128), weight, scale(0.25), zero(1, DType::I8), bias, scale(16),
       zero(100)},
      bytes({2, 2}, {255, 14, 133, 0}));
  add("QGemm", {a, scale(0.5), zero(128), c, scale(0.25), zero(1, DType::I8), left_out},
      ir::Tensor::of(DType::F32, {2, 2}, std::vector<double>{-658.25, -1384, -668.8125, 110.875}),
      [](NodeBuilder& node) { node.integer("transB", 1).real("alpha", 0.5F); });
}

}  // namespace anydim::frontends
