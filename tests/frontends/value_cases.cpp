#include "tests/frontends/value_cases.h"

#include <limits>
#include <utility>

#include "tests/frontends/window_cases.h"

namespace anydim::frontends {
namespace {

using ir::DType;

constexpr double inf = std::numeric_limits<double>::infinity();

ir::Tensor flags(Dims dims, const std::vector<std::int64_t>& values) {
  return integers(std::move(dims), values, DType::Bool);
}
CaseOperand axes(const std::vector<std::int64_t>& values) {
  return {integers({static_cast<std::int64_t>(values.size())}, values), true};
}

std::function<void(NodeBuilder&)> integer(const std::string& name, std::int64_t value) {
  return [=](NodeBuilder& node) { node.integer(name, value); };
}
std::function<void(NodeBuilder&)> list(const std::string& name,
                                       const std::vector<std::int64_t>& values) {
  return [=](NodeBuilder& node) { node.integers(name, values); };
}

// Outputs as ONNX Runtime 1.31 gives them.
void add_signals(std::vector<ValueCase>& cases) {
  const ir::Tensor image = reals({1, 1, 2, 3}, {1, 2, 4, 8, 16, 32});
  const ir::Tensor grid = reals({1, 1, 3, 2}, {-1.5, -1.25, 0.25, 0.5, 2.5, 1.75});
  const auto sampled = [&](int opset, const std::string& mode, const std::string& padding,
                           std::int64_t corners, const std::vector<double>& wanted) {
    const auto attributes = [=](NodeBuilder& node) {
      node.string("mode", mode).string("padding_mode", padding).integer("align_corners", corners);
    };
    cases.push_back(
        {"GridSample", opset, {{image}, {grid}}, attributes, {reals({1, 1, 1, 3}, wanted)}});
  };
  sampled(16, "bicubic", "reflection", 0, {0.018066406, 22.644531250, 7.416259766});
  sampled(20, "cubic", "reflection", 1, {1.585327148, 18.155883789, 7.050659180});
  sampled(16, "nearest", "reflection", 0, {1, 16, 8});
  sampled(20, "linear", "border", 1, {1, 15.625, 32});

  const ir::Tensor signal = reals({1, 5, 1}, {1, 2, 0, -1, 3});
  const ir::Tensor four = integers({}, {4});
  const ir::Tensor spectrum = reals({1, 4, 2}, {2, 0, 1, -3, 0, 0, 1, 3});
  cases.push_back({"DFT",
                   17,
                   {{signal, true}, {four}},
                   integer("onesided", 1),
                   {reals({1, 3, 2}, {2, 0, 1, -3, 0, 0})}});
  cases.push_back(
      {"DFT", 20, {{signal, true}, {four}, {integers({}, {-2}), true}}, no_attributes, {spectrum}});
  // Axes that only the run tells, of a signal and of a spectrum that has an axis behind it.
  cases.push_back(
      {"DFT", 20, {{signal, true}, {four}, {integers({}, {-2})}}, no_attributes, {spectrum}});
  cases.push_back({"DFT",
                   20,
                   {{reals({1, 4, 2, 1}, {1, 0, 2, 1, 0, 2, -1, 3}), false, "nab."},
                    left_out,
                    {integers({}, {1})}},
                   integer("onesided", 1),
                   {reals({1, 3, 2, 2}, {2, 0, 6, 0, 1, -3, -2, 2, 0, 0, -2, 0})}});
  cases.push_back({"DFT",
                   17,
                   {{spectrum, true}},
                   integer("inverse", 1),
                   {reals({1, 4, 2}, {1, 0, 2, 0, 0, 0, -1, 0})}});
  const double third = 0.866025404;
  const auto real_signal = [](NodeBuilder& node) {
    node.integer("inverse", 1);
    node.integer("onesided", 1);
  };
  cases.push_back({"DFT",
                   17,
                   {{reals({1, 3, 2}, {2, 0, 1, -3, 0, 0}), true}},
                   real_signal,
                   {reals({1, 4, 1}, {1, 2, 0, -1})}});
  cases.push_back({"DFT",
                   20,
                   {{reals({1, 2, 2}, {6, 0, -1.5, third}), true}, {integers({}, {3})}},
                   real_signal,
                   {reals({1, 3, 1}, {1, 2, 3})}});
  cases.push_back({"STFT",
                   17,
                   {{signal, true}, {integers({}, {2})}, {reals({3}, {1, 0.5, 1})}},
                   integer("onesided", 0),
                   {reals({1, 2, 3, 2}, {2, 0, 0.5, -third, 0.5, third, 2.5, 0, -1.25, 3.5 * third,
                                         -1.25, -3.5 * third})}});
  cases.push_back(
      {"STFT",
       17,
       {{reals({1, 5}, {1, 2, 0, -1, 3})}, {integers({}, {2})}, {reals({3}, {1, 0.5, 1})}},
       integer("onesided", 1),
       {reals({1, 2, 2, 2}, {2, 0, 0.5, -third, 2.5, 0, -1.25, 3.5 * third})}});
}

void add_activations(std::vector<ValueCase>& cases) {
  const ir::Tensor x = reals({4}, {-60, -1, 0, 2});
  // The second alpha and the first beta are HardSigmoid's: numbers go to the activations that read
  // such.
  cases.push_back({"RNN",
                   14,
                   {{reals({2, 1, 1}, {-1, 2})},
                    {reals({2, 1, 1}, {1, 1}), true},
                    {reals({2, 1, 1}, {1, 1}), true}},
                   [](NodeBuilder& node) {
                     node.integer("hidden_size", 1)
                         .string("direction", "bidirectional")
                         .strings("activations", {"LeakyRelu", "HardSigmoid"})
                         .reals("activation_alpha", {0.5f, 0.25f})
                         .reals("activation_beta", {0.125f});
                   },
                   {reals({2, 2, 1, 1}, {-0.5, 0.03125, 1.5, 0.625})}});
  cases.push_back(
      {"Gelu", 20, {{x}}, no_attributes, {reals({4}, {0, -0.158655254, 0, 1.954499736})}});
  cases.push_back({"Gelu",
                   20,
                   {{x}},
                   [](NodeBuilder& node) { node.string("approximate", "tanh"); },
                   {reals({4}, {0, -0.158808009, 0, 1.954597694})}});
  cases.push_back(
      {"Mish", 18, {{x}}, no_attributes, {reals({4}, {0, -0.303401461, 0, 1.943958898})}});
  cases.push_back({"Softplus",
                   1,
                   {{reals({3}, {-200, 0, 200})}},
                   no_attributes,
                   {reals({3}, {0, 0.693147181, 200})}});
  cases.push_back({"Elu",
                   6,
                   {{x}},
                   [](NodeBuilder& node) { node.real("alpha", 2); },
                   {reals({4}, {-2, -1.264241118, 0, 2})}});
  cases.push_back({"Clip",
                   6,
                   {{x}},
                   [](NodeBuilder& node) { node.real("min", -1.5f); },
                   {reals({4}, {-1.5, -1, 0, 2})}});
}

void add_integers(std::vector<ValueCase>& cases) {
  const ir::Tensor a = integers({2, 2}, {12, -7, 5, 0}, DType::I32);
  const ir::Tensor b = integers({2}, {10, 3}, DType::I32);
  cases.push_back(
      {"BitwiseAnd", 18, {{a}, {b}}, no_attributes, {integers({2, 2}, {8, 1, 0, 0}, DType::I32)}});
  cases.push_back({"BitwiseOr",
                   18,
                   {{a}, {b}},
                   no_attributes,
                   {integers({2, 2}, {14, -5, 15, 3}, DType::I32)}});
  cases.push_back({"BitwiseXor",
                   18,
                   {{a}, {b}},
                   no_attributes,
                   {integers({2, 2}, {6, -6, 15, 3}, DType::I32)}});
  cases.push_back({"BitwiseNot", 18, {{b}}, no_attributes, {integers({2}, {-11, -4}, DType::I32)}});
  cases.push_back(
      {"Div", 14, {{a}, {b}}, no_attributes, {integers({2, 2}, {1, -2, 0, 0}, DType::I32)}});
  // The exponent keeps its fraction although the base is an integer.
  cases.push_back({"Pow",
                   13,
                   {{integers({3}, {4, 9, 16}, DType::I32)}, {reals({3}, {0.5, 0.5, 1.5})}},
                   no_attributes,
                   {integers({3}, {2, 3, 64}, DType::I32)}});
  cases.push_back({"Pow",
                   13,
                   {{reals({2}, {1.5, -2})}, {integers({2}, {2, 3})}},
                   no_attributes,
                   {reals({2}, {2.25, -8})}});
  cases.push_back({"ReduceL2",
                   18,
                   {{integers({2, 2}, {3, 4, 6, 8})}, axes({1})},
                   integer("keepdims", 0),
                   {integers({2}, {5, 10})}});
}

void add_indexing(std::vector<ValueCase>& cases) {
  const ir::Tensor x = reals({2, 2}, {1, 2, 3, 4});
  const auto pads = [](NodeBuilder& node) { node.integers("pads", {0, 1, 0, 0}).real("value", 9); };
  cases.push_back({"Compress",
                   11,
                   {{x}, {integers({2, 2}, {1, 0, 1, 1}, DType::Bool), false, "ab"}},
                   no_attributes,
                   {reals({3}, {1, 3, 4})}});
  cases.push_back({"Trilu",
                   17,
                   {{pattern({2, 3}, 1), false, "ab"}, {integers({}, {1}), true}},
                   [](NodeBuilder& node) { node.integer("upper", 0); },
                   {reals({2, 3}, {-0.5, 1.25, 0, -0.75, 1, 0.25})},
                   "com.microsoft"});
  cases.push_back({"Pad", 10, {{x}}, pads, {reals({2, 3}, {9, 1, 2, 9, 3, 4})}});
  cases.push_back({"Pad",
                   18,
                   {{x}, axes({0, 1}), {reals({}, {7})}, axes({-1})},
                   no_attributes,
                   {reals({2, 3}, {1, 2, 7, 3, 4, 7})}});
  cases.push_back({"Pad",
                   18,
                   {{x}, axes({0, 1}), {reals({}, {7})}, {integers({1}, {-2}), false, "."}},
                   no_attributes,
                   {reals({3, 2}, {1, 2, 3, 4, 7, 7})}});
  cases.push_back({"Pad",
                   19,
                   {{x}, axes({1, 0, 0, 1})},
                   [](NodeBuilder& node) { node.string("mode", "wrap"); },
                   {reals({3, 3}, {3, 4, 3, 1, 2, 1, 3, 4, 3})}});
  cases.push_back({"TopK",
                   9,
                   {{x}},
                   [](NodeBuilder& node) { node.integer("k", 1); },
                   {reals({2, 1}, {2, 4}), integers({2, 1}, {1, 1})}});
  cases.push_back({"TopK",
                   10,
                   {{x}, axes({1})},
                   integer("axis", 0),
                   {reals({1, 2}, {3, 4}), integers({1, 2}, {1, 1})}});
  const ir::Tensor at = integers({1, 2}, {1, 1});
  const ir::Tensor updates = reals({1, 2}, {5, 7});
  for (const auto& [reduction, last] : std::vector<std::pair<std::string, double>>{
           {"add", 14}, {"mul", 70}, {"max", 7}, {"min", 2}}) {
    cases.push_back({"ScatterElements",
                     18,
                     {{x}, {at}, {updates}},
                     [reduction = reduction](NodeBuilder& node) {
                       node.integer("axis", 1).string("reduction", reduction);
                     },
                     {reals({2, 2}, {1, last, 3, 4})}});
  }
  cases.push_back({"Upsample",
                   9,
                   {{x}, {reals({2}, {1, 1.5}), true}},
                   no_attributes,
                   {reals({2, 3}, {1, 1, 2, 3, 3, 4})}});
  cases.push_back({"Resize",
                   10,
                   {{x}, {reals({2}, {2, 1})}},
                   no_attributes,
                   {reals({4, 2}, {1, 2, 1, 2, 3, 4, 3, 4})}});
  cases.push_back({"OneHot",
                   11,
                   {{reals({2}, {1, 0})}, {reals({}, {2})}, {reals({2}, {-1, 1})}},
                   no_attributes,
                   {reals({2, 2}, {-1, 1, 1, -1})}});
  cases.push_back({"Range",
                   11,
                   {{reals({}, {1})}, {reals({}, {2})}, {reals({}, {0.25})}},
                   no_attributes,
                   {reals({4}, {1, 1.25, 1.5, 1.75})}});
  cases.push_back({"Range",
                   11,
                   {{reals({}, {1})}, {reals({}, {1})}, {reals({}, {-2})}},
                   no_attributes,
                   {reals({0}, {})}});
  cases.push_back({"Einsum",
                   12,
                   {{x}, {x}, {x}},
                   [](NodeBuilder& node) { node.string("equation", "ij,jk,ki"); },
                   {reals({}, {155})}});  // the trace of x^3
  cases.push_back({"Einsum",
                   12,
                   {{x}, {x}},
                   [](NodeBuilder& node) { node.string("equation", "...i,...i->..."); },
                   {reals({2}, {5, 25})}});
  cases.push_back({"Einsum",
                   12,
                   {{x}, {x}},
                   [](NodeBuilder& node) { node.string("equation", "ij,kl->jl"); },
                   {reals({2, 2}, {16, 24, 24, 36})}});
  cases.push_back({"Einsum",
                   12,
                   {{x}},
                   [](NodeBuilder& node) { node.string("equation", "ii"); },
                   {reals({}, {5})}});
}

void add_quantisation(std::vector<ValueCase>& cases) {
  const ir::Tensor x = reals({2, 2}, {-300, -0.5, 0.5, 2.5});
  cases.push_back({"QuantizeLinear",
                   13,
                   {{x}, {reals({}, {1})}},
                   no_attributes,
                   {integers({2, 2}, {0, 0, 0, 2}, DType::U8)}});
  cases.push_back({"QuantizeLinear",
                   13,
                   {{x}, {reals({2}, {1, 0.5})}, {integers({2}, {0, 10}, DType::I8)}},
                   integer("axis", -1),
                   {integers({2, 2}, {-128, 9, 0, 15}, DType::I8)}});
  cases.push_back({"DequantizeLinear",
                   13,
                   {{integers({2}, {-5, 7}, DType::I32)}, {reals({}, {0.5})}},
                   no_attributes,
                   {reals({2}, {-2.5, 3.5})}});
  cases.push_back({"MatMulInteger",
                   10,
                   {{integers({2, 2}, {1, 200, 3, 4}, DType::U8)},
                    {integers({2, 1}, {-1, 2}, DType::I8)},
                    {integers({2}, {1, 2}, DType::U8)},
                    {integers({1}, {1}, DType::I8)}},
                   no_attributes,
                   {integers({2, 1}, {199, 0}, DType::I32)}});
}

void add_reductions(std::vector<ValueCase>& cases) {
  const ir::Tensor x = reals({2, 3}, {1, 2, 3, 4, 5, 7});
  cases.push_back(
      {"ReduceMean", 18, {{x}, axes({-1})}, no_attributes, {reals({2, 1}, {2, 16.0 / 3})}});
  cases.push_back({"ReduceMax", 18, {{x}}, integer("keepdims", 0), {reals({}, {7})}});
  cases.push_back(
      {"ReduceMin", 18, {{x}, axes({0})}, integer("keepdims", 0), {reals({3}, {1, 2, 3})}});
  cases.push_back({"ReduceProd", 18, {{x}, axes({0, 1})}, no_attributes, {reals({1, 1}, {840})}});
  cases.push_back({"ReduceSum", 13, {{x}, axes({})}, integer("noop_with_empty_axes", 1), {x}});
  // Without axes nothing is reduced, but squares are squares.
  cases.push_back({"ReduceSumSquare",
                   18,
                   {{x}},
                   integer("noop_with_empty_axes", 1),
                   {reals({2, 3}, {1, 4, 9, 16, 25, 49})}});
  cases.push_back(
      {"ReduceL1", 18, {{reals({3}, {-1, 2, -3})}, axes({0})}, no_attributes, {reals({1}, {6})}});
  cases.push_back({"ReduceLogSum",
                   18,
                   {{reals({2}, {1, 1})}, axes({0})},
                   no_attributes,
                   {reals({1}, {0.693147181})}});
  cases.push_back({"ReduceLogSumExp",
                   18,
                   {{reals({4, 2}, {1000, 1000, -1000, -1000, inf, 1, -inf, -inf})}, axes({1})},
                   integer("keepdims", 0),
                   {reals({4}, {1000.693147181, -999.306852819, inf, -inf})}});
  cases.push_back({"ReduceMax",
                   20,
                   {{flags({2, 2}, {1, 0, 0, 0})}, axes({1})},
                   integer("keepdims", 0),
                   {flags({2}, {1, 0})}});
  cases.push_back({"ReduceMin",
                   20,
                   {{flags({2, 2}, {1, 0, 1, 1})}, axes({1})},
                   integer("keepdims", 0),
                   {flags({2}, {0, 1})}});
}

void add_movement(std::vector<ValueCase>& cases) {
  const ir::Tensor x = reals({5}, {1, 2, 3, 4, 5});
  cases.push_back({"Split",
                   18,
                   {{x}},
                   integer("num_outputs", 3),
                   {reals({2}, {1, 2}), reals({2}, {3, 4}), reals({1}, {5})}});
  cases.push_back(
      {"Split", 11, {{x}}, list("split", {1, 4}), {reals({1}, {1}), reals({4}, {2, 3, 4, 5})}});
  cases.push_back({"Split",
                   18,
                   {{x}, axes({4, 1})},
                   no_attributes,
                   {reals({4}, {1, 2, 3, 4}), reals({1}, {5})}});
  cases.push_back({"Slice",
                   9,
                   {{x}},
                   [](NodeBuilder& node) {
                     node.integers("starts", {-3}).integers("ends", {100}).integers("axes", {0});
                   },
                   {reals({3}, {3, 4, 5})}});
  cases.push_back(
      {"Squeeze", 11, {{reals({1, 2, 1}, {1, 2})}}, list("axes", {-1}), {reals({1, 2}, {1, 2})}});
  cases.push_back(
      {"Unsqueeze", 11, {{reals({2}, {1, 2})}}, list("axes", {0, -1}), {reals({1, 2, 1}, {1, 2})}});
  cases.push_back({"Reshape",
                   14,
                   {{reals({0, 3}, {})}, axes({3, 0})},
                   integer("allowzero", 1),
                   {reals({3, 0}, {})}});
  cases.push_back({"Reshape",
                   13,
                   {{reals({2, 3}, {1, 2, 3, 4, 5, 6})}, axes({0, -1, 1})},
                   no_attributes,
                   {reals({2, 3, 1}, {1, 2, 3, 4, 5, 6})}});
  cases.push_back({"Shape",
                   15,
                   {{reals({2, 3, 4}, std::vector<double>(24))}},
                   [](NodeBuilder& node) { node.integer("start", -2).integer("end", 100); },
                   {integers({2}, {3, 4})}});
}

void add_products(std::vector<ValueCase>& cases) {
  const ir::Tensor a = reals({2, 2}, {1, 2, 3, 4});
  const ir::Tensor b = reals({2, 2}, {1, 0, 2, 1});
  cases.push_back(
      {"Gemm",
       13,
       {{a}, {b}, {reals({2}, {10, 20})}},
       [](NodeBuilder& node) {
         node.real("alpha", 0.5f).real("beta", 2).integer("transA", 1).integer("transB", 1);
       },
       {reals({2, 2}, {20.5, 42.5, 21, 44})}});
  cases.push_back({"Gemm", 11, {{a}, {b}}, no_attributes, {reals({2, 2}, {5, 2, 11, 4})}});
  cases.push_back(
      {"MatMul",
       13,
       {{integers({2, 2}, {1, 2, 3, 4}, DType::I32)}, {integers({2}, {1, -1}, DType::I32)}},
       no_attributes,
       {integers({2}, {-1, -1}, DType::I32)}});
  // Before opset 13 all dims from axis on are one: the four elements share one sum.
  const double quarter = 0.25;
  cases.push_back({"Softmax",
                   11,
                   {{reals({1, 2, 2}, {1, 1, 1, 1})}},
                   no_attributes,
                   {reals({1, 2, 2}, {quarter, quarter, quarter, quarter})}});
  cases.push_back({"Softmax",
                   13,
                   {{reals({1, 2, 2}, {1, 1, 1, 1})}},
                   no_attributes,
                   {reals({1, 2, 2}, {0.5, 0.5, 0.5, 0.5})}});
  cases.push_back({"LogSoftmax",
                   12,
                   {{reals({1, 2, 2}, {1, 1, 1, 1})}},
                   integer("axis", -3),
                   {reals({1, 2, 2}, {-1.386294361, -1.386294361, -1.386294361, -1.386294361})}});
  // Two groups of two channels: each normalised by itself; scale and bias are one a channel from
  // opset 21 on, one a group before.
  const ir::Tensor channels = reals({1, 4, 1}, {1, 3, 10, 30});
  cases.push_back({"GroupNormalization",
                   21,
                   {{channels}, {reals({4}, {1, 2, 1, 2})}, {reals({4}, {0, 0, 5, 5})}},
                   integer("num_groups", 2),
                   {reals({1, 4, 1}, {-0.999995, 1.99999, 4.00000005, 6.9999999})}});
  cases.push_back({"GroupNormalization",
                   18,
                   {{channels}, {reals({2}, {1, 2})}, {reals({2}, {0, 5})}},
                   integer("num_groups", 2),
                   {reals({1, 4, 1}, {-0.999995, 0.999995, 3.0000001, 6.9999999})}});
  const ir::Tensor triangle = reals({2, 2}, {3, -4, 0, 2});
  cases.push_back(
      {"LpNormalization", 13, {{triangle}}, no_attributes, {reals({2, 2}, {0.6, -0.8, 0, 1})}});
  cases.push_back({"LpNormalization",
                   13,
                   {{triangle}},
                   [](NodeBuilder& node) { node.integer("p", 1).integer("axis", 0); },
                   {reals({2, 2}, {1, -2.0 / 3, 0, 1.0 / 3})}});
  cases.push_back({"Hardmax",
                   11,
                   {{reals({1, 2, 2}, {1, 3, 3, 0})}},
                   no_attributes,
                   {reals({1, 2, 2}, {0, 1, 0, 0})}});
  cases.push_back({"LayerNormalization",
                   17,
                   {{reals({2, 2}, {1, 3, 2, 10}, DType::F64)}, {reals({2}, {2, 2}, DType::F64)}},
                   [](NodeBuilder& node) { node.integer("axis", 1).real("epsilon", 0); },
                   {reals({2, 2}, {-2, 2, -2, 2}, DType::F64), reals({2, 1}, {2, 6}),
                    reals({2, 1}, {1, 0.25})}});
}

void add_others(std::vector<ValueCase>& cases) {
  const ir::Tensor x = reals({2}, {1.75, -2.5});
  cases.push_back({"BitCast",
                   26,
                   {{x}},
                   integer("to", 6),
                   {integers({2}, {0x3fe00000, 0x40200000 - 0x80000000LL}, DType::I32)}});
  cases.push_back({"CastLike",
                   19,
                   {{x}, {integers({1}, {0})}},
                   integer("saturate", 1),
                   {integers({2}, {1, -2})}});
  cases.push_back({"Dropout", 13, {{x}}, no_attributes, {x, flags({2}, {1, 1})}});
  cases.push_back(
      {"Mean", 8, {{x}, {reals({1}, {0.25})}}, no_attributes, {reals({2}, {1, -1.125})}});
  cases.push_back(
      {"Range",
       11,
       {{integers({}, {10}), true}, {integers({}, {-1}), true}, {integers({}, {-4}), true}},
       no_attributes,
       {integers({3}, {10, 6, 2})}});
}

}  // namespace

ir::Tensor pattern(Dims dims, std::int64_t seed) {
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) count *= dim;
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(static_cast<double>((i * 7 + seed * 3 + i / 5) % 11 - 5) / 4);
  return reals(std::move(dims), values);
}

std::vector<ValueCase> value_cases() {
  std::vector<ValueCase> cases;
  add_activations(cases);
  add_signals(cases);
  add_integers(cases);
  add_indexing(cases);
  add_quantisation(cases);
  add_reductions(cases);
  add_movement(cases);
  add_products(cases);
  add_others(cases);
  for (ValueCase& one : window_cases()) cases.push_back(std::move(one));
  add_newer_cases(cases);
  add_runtime_experts(cases);
  add_runtime_states(cases);
  add_quantised_cases(cases);
  add_sampling_cases(cases);
  add_classical_cases(cases);
  return cases;
}

}  // namespace anydim::frontends
