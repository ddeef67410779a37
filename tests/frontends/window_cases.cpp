#include "tests/frontends/window_cases.h"

namespace anydim::frontends {
namespace {

// Small numbers in no simple order: sums of their products are exact.
ir::Tensor counted(const Dims& dims) {
  ir::Tensor tensor(ir::DType::F32, dims);
  for (std::int64_t i = 0; i < tensor.elements(); ++i)
    tensor.set_real(i, static_cast<double>(i * 7 % 11 - 5));
  return tensor;
}

void none(NodeBuilder&) {}

}  // namespace

// Outputs as ONNX Runtime 1.31 gives them.
std::vector<ValueCase> window_cases() {
  std::vector<ValueCase> cases;
  // One dim, another border at each end, every size known to the run alone.
  cases.push_back(
      {"Conv",
       11,
       {{counted({2, 2, 5})}, {counted({3, 2, 3})}, {counted({3})}},
       [](NodeBuilder& node) { node.integers("pads", {1, 2}).integers("strides", {2}); },
       {reals({2, 3, 3},
              {-34, 3, -45, -23, 22, 7, 43, 19, -7, 13, 17, 11, 36, -23, -2, -40, -41, -4})}});
  // The odd element in front, of dims that the run tells.
  cases.push_back(
      {"Conv",
       11,
       {{counted({1, 1, 4, 5})}, {counted({2, 1, 2, 3}), true}},
       [](NodeBuilder& node) { node.string("auto_pad", "SAME_LOWER").integers("strides", {2, 2}); },
       {reals({1, 2, 2, 3}, {-29, 8, -40, 18, 22, 16, -25, 20, 5, 34, -25, -4})}});
  // Places that lie beside the image in every window: rows of all but the middle; the last two.
  cases.push_back(
      {"Conv",
       11,
       {{counted({1, 2, 2, 3}), false, "b..."}, {counted({2, 2, 3, 3}), true}},
       [](NodeBuilder& node) { node.integers("dilations", {3, 2}).integers("pads", {3, 2, 3, 2}); },
       {reals({1, 2, 2, 3}, {-27, 2, -11, -17, 3, 38, 37, -10, -13, -17, -8, -17})}});
  cases.push_back(
      {"Conv",
       11,
       {{counted({1, 1, 5}), false, "b.."}, {counted({1, 1, 4}), true}},
       [](NodeBuilder& node) {
         node.integers("dilations", {4}).integers("pads", {7, 5}).integers("strides", {2});
       },
       {reals({1, 1, 3}, {-4, -10, 4})}});
  // Groups of two channels.
  cases.push_back(
      {"Conv",
       11,
       {{counted({1, 4, 3, 3})}, {counted({6, 2, 2, 2}), true}, {counted({6}), true}},
       [](NodeBuilder& node) { node.integer("group", 2).integers("dilations", {2, 1}); },
       {reals({1, 6, 1, 2}, {26, -37, 34, 5, 20, 25, -18, 32, 19, 4, 45, -35})}});
  // A channel a group: as many outputs, then two outputs each.
  cases.push_back(
      {"Conv",
       11,
       {{counted({2, 3, 3, 4})}, {counted({3, 1, 2, 2}), true}, {counted({3})}},
       [](NodeBuilder& node) { node.integer("group", 3).integers("pads", {0, 1, 1, 0}); },
       {reals({2, 3, 3, 4},
              {-10, 7,   7,  7,   -23, 7,   7,   -48, -13, 21,  -22, -10, -4,  -2,  1,
               4,   11,  -1, 2,   -6,  -7,  8,   16,  -9,  -28, 17,  1,   -26, 15,  8,
               -19, 31,  -5, -13, 24,  -16, 5,   -48, 7,   7,   -30, 7,   7,   7,   -15,
               24,  -19, 15, -1,  -4,  -1,  2,   14,  -3,  0,   36,  -4,  10,  -15, 4,
               -26, 24,  8,  -19, 17,  -40, -23, 38,  -8,  21,  -19, -15})}});
  cases.push_back(
      {"Conv",
       11,
       {{counted({1, 2, 3, 3})}, {counted({4, 1, 2, 2}), true}},
       [](NodeBuilder& node) { node.integer("group", 2).string("auto_pad", "VALID"); },
       {reals({1, 4, 2, 2}, {24, -31, -31, -31, 9, 12, 18, 10, -7, -34, 0, 6, 16, 3, 10, -25})}});
  // Three dims.
  cases.push_back({"Conv",
                   11,
                   {{counted({1, 2, 2, 3, 3})}, {counted({2, 2, 2, 2, 2})}},
                   none,
                   {reals({1, 2, 1, 2, 2}, {21, 17, -90, -28, 22, 33, -44, 33})}});
  // One element: a plain product.
  cases.push_back({"Conv",
                   11,
                   {{counted({2, 3, 2, 2})}, {counted({2, 3, 1, 1}), true}},
                   none,
                   {reals({2, 2, 2, 2}, {35, -22, 20, -15, -12, -2, -3, 40, -22, 20, -15, -17, -2,
                                         -3, 40, -5})}});
  // Patches, the last rows in none of them.
  cases.push_back({"Conv",
                   11,
                   {{counted({1, 2, 5, 4})}, {counted({3, 2, 2, 2}), true}},
                   [](NodeBuilder& node) { node.integers("strides", {2, 2}); },
                   {reals({1, 3, 2, 2}, {10, 5, 12, -15, 43, 7, 31, -27, 65, -2, 39, -50})}});
  cases.push_back(
      {"ConvTranspose",
       11,
       {{counted({1, 2, 3})}, {counted({2, 3, 4})}, {counted({3})}},
       [](NodeBuilder& node) {
         node.integers("strides", {2}).integers("pads", {1, 0}).integers("output_padding", {1});
       },
       {reals({1, 3, 8}, {-25, 22, -23, 0, 8,   -16, -18, -5,  37,  -19, -20, 17,
                          -8,  -6, 14,  2, -22, -27, 38,  -10, -13, 15,  2,   -2})}});
  cases.push_back(
      {"ConvTranspose",
       11,
       {{counted({1, 4, 2, 3})}, {counted({4, 1, 2, 3}), true}},
       [](NodeBuilder& node) {
         node.integer("group", 2)
             .integers("strides", {2, 1})
             .integers("dilations", {1, 2})
             .integers("pads", {0, 1, 0, 1});
       },
       {reals({1, 2, 4, 5}, {-10, -16, 4,   -10, -4,  10,  -31, 2, -3, -6,  -9,  5,  2,  -28,
                             2,   2,   -28, 2,   -28, 2,   -4,  6, 20, -12, -22, 2,  -4, 26,
                             -22, -16, -6,  10,  26,  -14, -30, 2, 4,  34,  -20, -22})}});
  // Weights whose windows are known: phases of unlike lengths, some of no element, and phases that
  // lie side by side; a dilation beside a stride.
  cases.push_back(
      {"ConvTranspose",
       11,
       {{counted({1, 2, 3})}, {counted({2, 3, 5}), true}, {counted({3}), true}},
       [](NodeBuilder& node) {
         node.integers("strides", {3}).integers("pads", {1, 2}).integers("output_padding", {2});
       },
       {reals({1, 3, 10},
              {-30, 25, -39, -29, -5, 12, -2,  -13, -15, 5,  -23, -23, 29, -16, -3,
               -7,  1,  17,  4,   2,  28, -27, 31,  -36, -1, -15, 15,  3,  -10, -12})}});
  cases.push_back(
      {"ConvTranspose",
       11,
       {{counted({1, 4, 2, 2})}, {counted({4, 1, 3, 2}), true}},
       [](NodeBuilder& node) {
         node.integer("group", 2).integers("strides", {2, 3}).integers("pads", {0, 1, 1, 0});
       },
       {reals({1, 2, 4, 4}, {-10, 0, -22, 4, -22, 0, 8, 1, 6,   0, -20, 19, 2,  0, -10, 25,
                             0,   0, 6,   2, -6,  0, 9, 5, -30, 0, -9,  14, -6, 0, -22, -6})}});
  cases.push_back(
      {"ConvTranspose",
       11,
       {{counted({1, 2, 2, 2})}, {counted({2, 2, 2, 2}), true}},
       [](NodeBuilder& node) { node.integers("strides", {2, 2}); },
       {reals({1, 2, 4, 4}, {21, -7, 2, -5,  9, -30, -1, 25, -6, 8, -25, 10, 0, -30, -10, 25, -3,
                             13, -4, 0, -15, 1, -7,  -3, 6,  -2, 5, -15, 12, 4, 20,  0})}});
  cases.push_back(
      {"ConvTranspose",
       11,
       {{counted({1, 1, 3})}, {counted({1, 1, 2}), true}},
       [](NodeBuilder& node) { node.integers("strides", {2}).integers("dilations", {2}); },
       {reals({1, 1, 7}, {25, 0, -20, 0, 14, 0, -4})}});
  cases.push_back(
      {"ConvTranspose",
       11,
       {{counted({1, 1, 3})}, {counted({1, 1, 3}), true}},
       [](NodeBuilder& node) { node.integers("strides", {2}).integers("output_shape", {5}); },
       {reals({1, 1, 5}, {-10, 0, 4, 6, -4})}});
  // Half of what is taken away goes behind; of an odd number, less.
  cases.push_back(
      {"ConvTranspose",
       11,
       {{counted({1, 1, 3})}, {counted({1, 1, 5})}},
       [](NodeBuilder& node) { node.integers("strides", {2}).integers("output_shape", {6}); },
       {reals({1, 1, 6}, {0, -21, 1, 6, 6, -10})}});
  cases.push_back(
      {"ConvTranspose",
       11,
       {{counted({1, 1, 3})}, {counted({1, 1, 3})}},
       [](NodeBuilder& node) { node.integers("strides", {2}).string("auto_pad", "SAME_UPPER"); },
       {reals({1, 1, 6}, {25, -10, 0, 4, 6, -4})}});
  // Positions among all elements, of windows that reach over the border.
  cases.push_back({"MaxPool",
                   12,
                   {{counted({1, 2, 4, 5})}},
                   [](NodeBuilder& node) {
                     node.integers("kernel_shape", {2, 3})
                         .integers("strides", {2, 2})
                         .integers("pads", {1, 0, 0, 1});
                   },
                   {reals({1, 2, 2, 2}, {2, 5, 4, 5, 3, 2, 5, 4}),
                    integers({1, 2, 2, 2}, {1, 3, 6, 14, 20, 23, 25, 28})}});
  cases.push_back({"MaxPool",
                   12,
                   {{counted({1, 2, 3, 4})}},
                   [](NodeBuilder& node) {
                     node.integers("kernel_shape", {2, 2})
                         .integer("storage_order", 1)
                         .integers("dilations", {1, 2});
                   },
                   {reals({1, 2, 2, 2}, {4, 5, 4, 3, 5, 4, 3, 4}),
                    integers({1, 2, 2, 2}, {7, 9, 7, 5, 18, 16, 14, 16})}});
  // The last window is cut off, or left out where it would begin behind.
  cases.push_back({"MaxPool",
                   12,
                   {{counted({1, 1, 5, 4})}},
                   [](NodeBuilder& node) {
                     node.integers("kernel_shape", {2, 3})
                         .integers("strides", {3, 2})
                         .integer("ceil_mode", 1)
                         .integers("pads", {0, 1, 0, 1});
                   },
                   {reals({1, 1, 2, 3}, {2, 5, 5, 4, 5, 1})}});
  cases.push_back({"MaxPool",
                   12,
                   {{counted({1, 1, 6})}},
                   [](NodeBuilder& node) {
                     node.integers("kernel_shape", {3})
                         .string("auto_pad", "SAME_LOWER")
                         .integers("strides", {2});
                   },
                   {reals({1, 1, 3}, {2, 5, 5})}});
  // What a window has of x alone counts, or padding too, but never what a window is cut off for.
  cases.push_back({"AveragePool",
                   19,
                   {{counted({1, 1, 5, 4})}},
                   [](NodeBuilder& node) {
                     node.integers("kernel_shape", {3, 2})
                         .integers("strides", {2, 3})
                         .integers("pads", {1, 1, 1, 0})
                         .integer("ceil_mode", 1);
                   },
                   {reals({1, 1, 3, 2}, {-2, 1.75, -0.3333333, 0.6666667, -0.5, 0.5})}});
  cases.push_back({"AveragePool",
                   19,
                   {{counted({1, 1, 5, 4})}},
                   [](NodeBuilder& node) {
                     node.integers("kernel_shape", {3, 2})
                         .integers("strides", {2, 3})
                         .integers("pads", {1, 1, 1, 0})
                         .integer("ceil_mode", 1)
                         .integer("count_include_pad", 1);
                   },
                   {reals({1, 1, 3, 2},
                          {-0.6666667, 1.1666666, -0.1666667, 0.6666667, -0.1666667, 0.3333333})}});
  cases.push_back(
      {"AveragePool",
       19,
       {{counted({1, 1, 6})}},
       [](NodeBuilder& node) {
         node.integers("kernel_shape", {2}).integers("dilations", {3}).integers("pads", {1, 1});
       },
       {reals({1, 1, 5}, {-2, 0, 1.5, -2.5, 5})}});
  cases.push_back({"AveragePool",
                   11,
                   {{counted({1, 1, 4})}},
                   [](NodeBuilder& node) {
                     node.integers("kernel_shape", {3})
                         .integers("pads", {1, 1})
                         .integer("count_include_pad", 1);
                   },
                   {reals({1, 1, 4}, {-1, -1.6666666, 1.6666666, 1})}});
  cases.push_back({"AveragePool",
                   11,
                   {{counted({1, 1, 5})}},
                   [](NodeBuilder& node) {
                     node.integers("kernel_shape", {2})
                         .string("auto_pad", "SAME_UPPER")
                         .integers("strides", {2});
                   },
                   {reals({1, 1, 3}, {-1.5, 1.5, 1})}});
  cases.push_back({"LpPool",
                   11,
                   {{counted({1, 1, 5})}},
                   [](NodeBuilder& node) {
                     node.integers("kernel_shape", {2}).integer("p", 1).integers("strides", {2});
                   },
                   {reals({1, 1, 2}, {7, 7})}});
  cases.push_back({"LpPool",
                   18,
                   {{counted({1, 1, 6})}},
                   [](NodeBuilder& node) {
                     node.integers("kernel_shape", {3})
                         .integer("p", 2)
                         .integers("dilations", {2})
                         .integers("pads", {1, 0});
                   },
                   {reals({1, 1, 3}, {5.3851647, 5.4772258, 6.1644139})}});
  cases.push_back({"LpPool",
                   11,
                   {{counted({1, 1, 4})}},
                   [](NodeBuilder& node) { node.integers("kernel_shape", {2}).integer("p", 3); },
                   {reals({1, 1, 3}, {5.1044688, 2.5198421, 5.1044688})}});
  cases.push_back({"GlobalLpPool",
                   2,
                   {{counted({1, 2, 2, 2})}},
                   [](NodeBuilder& node) { node.integer("p", 1); },
                   {reals({1, 2, 1, 1}, {14, 8})}});
  // Windows put back: places that several cover have their sum.
  cases.push_back(
      {"Col2Im",
       18,
       {{counted({2, 8, 4})}, {integers({2}, {3, 3}), true}, {integers({2}, {2, 2}), true}},
       [](NodeBuilder& node) { node.integers("strides", {1, 2}).integers("pads", {0, 1, 0, 1}); },
       {reals({2, 2, 3, 3}, {1,  2, -3, 6,  8, -2, 5,  -5, 1,  3,  4, -1, -1, 1,  2, -4, -3, 3, 5,
                             -5, 1, -8, -6, 6, -2, -1, 5,  -4, -3, 3, -4, -2, -1, 0, 1,  -4})}});
  // ONNX Runtime's convolution with an activation, and with an addend before it.
  const auto fused = [&](const char* activation, const std::vector<float>& parameters,
                         std::vector<CaseOperand> operands, const std::vector<double>& wanted) {
    cases.push_back({"FusedConv",
                     11,
                     std::move(operands),
                     [=](NodeBuilder& node) {
                       node.string("activation", activation);
                       if (!parameters.empty()) node.reals("activation_params", parameters);
                     },
                     {reals({1, 2, 2, 3}, wanted)},
                     "com.microsoft"});
  };
  const CaseOperand x{counted({1, 1, 3, 4})}, weight{counted({2, 1, 2, 2}), true},
      bias{counted({2}), true}, addend{counted({1, 2, 2, 3})};
  fused("LeakyRelu", {0.25F}, {x, weight, bias, addend},
        {2, 9, 5, 12, 8, -12.75, -0.25, -0.5, -0.75, -0.25, -0.5, -0.75});
  fused("Clip", {-6, 7.5F}, {x, weight}, {7.5, 7.5, 7.5, 7.5, 7.5, -6, -6, -4, -1, -6, -3, 0});
  fused("HardSigmoid", {0.0625F, 0.25F}, {x, weight, left_out, addend},
        {0.6875, 1, 0.875, 1, 1, 0, 0.0625, 0, 0, 0.0625, 0, 0});
  return cases;
}

}  // namespace anydim::frontends
