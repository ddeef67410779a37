// One test for each thing that can be wrong with a convolution or a pooling node, with the whole
// message.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>

#include "ir/shapes/infer.h"
#include "tests/frontends/model_builder.h"

namespace anydim::frontends {
namespace {

// x: f32 (n, 4, 8, 8), a weight of 6 outputs and 2 channels a group, one of 4 channels.
std::string conv_failure(const std::string& op, const std::vector<std::string>& inputs,
                         const std::function<void(NodeBuilder&)>& attributes) {
  ModelBuilder builder(17);
  builder.input("x", f32, {"n", 4, 8, 8})
      .input("flat", f32, {"n", 4})
      .input("i", i64, {"n", 4, 4, 4})
      .output("y");
  builder.initialiser("w", f32, {6, 2, 3, 3}).set_raw_data(std::string(6 * 2 * 9 * 4, '\0'));
  builder.initialiser("w4", f32, {4, 4, 3, 3}).set_raw_data(std::string(4 * 4 * 9 * 4, '\0'));
  builder.initialiser("line", f32, {4, 4, 3}).set_raw_data(std::string(4 * 4 * 3 * 4, '\0'));
  builder.initialiser("none", f32, {4, 4, 0, 3});
  builder.initialiser("b", f32, {5}).set_raw_data(std::string(20, '\0'));
  NodeBuilder node = builder.node(op, inputs, {"y"});
  node.name("one");
  attributes(node);
  return builder.failure();
}

std::function<void(NodeBuilder&)> list(const std::string& name,
                                       const std::vector<std::int64_t>& values) {
  return [=](NodeBuilder& node) { node.integers(name, values); };
}
std::function<void(NodeBuilder&)> group(std::int64_t groups) {
  return [=](NodeBuilder& node) { node.integer("group", groups); };
}
void nothing(NodeBuilder&) {}

TEST(WindowErrors, Steps) {
  EXPECT_EQ(conv_failure("Conv", {"x", "w4"}, list("strides", {1, 0})),
            "malformed: node 'one' (Conv) has strides = [1, 0]; expected 2 integers of at least 1");
  EXPECT_EQ(
      conv_failure("Conv", {"x", "w4"}, list("dilations", {0, 1})),
      "malformed: node 'one' (Conv) has dilations = [0, 1]; expected 2 integers of at least 1");
  EXPECT_EQ(conv_failure("Conv", {"x", "w4"}, list("strides", {1})),
            "malformed: node 'one' (Conv) has strides = [1]; expected 2 integers of at least 1");
  EXPECT_EQ(conv_failure("MaxPool", {"x"}, list("kernel_shape", {0, 1})),
            "malformed: node 'one' (MaxPool) has kernel_shape = [0, 1]; expected 2 integers of at "
            "least 1");
}

TEST(WindowErrors, Groups) {
  EXPECT_EQ(conv_failure("Conv", {"x", "w"}, group(3)),
            "malformed: node 'one' (Conv) has group = 3, which does not divide the 4 channels of "
            "input 0");
  EXPECT_EQ(conv_failure("Conv", {"x", "w"}, group(4)),
            "malformed: node 'one' (Conv) has group = 4, which does not divide the 6 outputs of "
            "input 1 (the weight)");
  EXPECT_EQ(conv_failure("Conv", {"x", "w"}, group(0)),
            "malformed: node 'one' (Conv) has group = 0; expected at least 1");
  EXPECT_EQ(conv_failure("Conv", {"x", "w"}, nothing),
            "malformed: node 'one' (Conv) has an input 1 (the weight) for 2 channels in 1 groups; "
            "input 0 has 4");
  EXPECT_EQ(conv_failure("ConvTranspose", {"x", "w"}, nothing),
            "malformed: node 'one' (ConvTranspose) has an input 1 (the weight) for 6 channels; "
            "input 0 has 4");
  EXPECT_EQ(conv_failure("ConvTranspose", {"x", "w4"}, group(3)),
            "malformed: node 'one' (ConvTranspose) has group = 3, which does not divide the 4 "
            "channels of input 0");
}

// A weight, or what scales channels, says how many channels there are, where the model does not.
TEST(WindowErrors, ChannelsThatTheModelLeavesOpen) {
  const auto dims = [](const std::string& op, const std::vector<std::string>& inputs,
                       std::int64_t groups) {
    ModelBuilder builder(17);
    builder.input("x", f32, {"n", "c", 8, 8}).output("y");
    builder.initialiser("w", f32, {4, 1, 3, 3}).set_raw_data(std::string(4 * 9 * 4, '\0'));
    builder.initialiser("s", f32, {4}).set_raw_data(std::string(16, '\0'));
    NodeBuilder node = builder.node(op, inputs, {"y"}).name("one");
    if (groups > 0) node.integer("group", groups);
    ir::Module module = builder.read();
    ir::infer_types(module);
    const ir::SymbolInfo& channels = *module.functions[0].symbols.find("c");
    return fmt::format("{} to {} because {}", channels.low, channels.high, channels.reason);
  };
  const std::string four = "4 to 4 because check 'one'";
  EXPECT_EQ(dims("Conv", {"x", "w"}, 4), four);
  EXPECT_EQ(dims("BatchNormalization", {"x", "s", "s", "s", "s"}, 0), four);
  EXPECT_EQ(dims("InstanceNormalization", {"x", "s", "s"}, 0), four);
  EXPECT_EQ(dims("ConvTranspose", {"x", "w"}, 1), four);
}

TEST(WindowErrors, Ranks) {
  EXPECT_EQ(conv_failure("Conv", {"flat", "w4"}, nothing),
            "malformed: node 'one' (Conv) takes an input 0 of rank 3 or more, got rank 2");
  EXPECT_EQ(conv_failure("Conv", {"x", "line"}, nothing),
            "malformed: node 'one' (Conv) takes an input 1 (the weight) of rank 4 like input 0, "
            "got rank 3");
  EXPECT_EQ(conv_failure("Conv", {"x", "none"}, nothing),
            "malformed: node 'one' (Conv) takes a weight with a window of at least 1, got [0, 3]");
  EXPECT_EQ(conv_failure("Conv", {"x", "w4", "b"}, nothing),
            "malformed: node 'one' (Conv) takes a bias of 4 elements, one for each output, got 5");
  EXPECT_EQ(conv_failure("Conv", {"x", "w4", "line"}, nothing),
            "malformed: node 'one' (Conv) takes a bias of rank 1, got rank 3");
  EXPECT_EQ(conv_failure("Conv", {"x", "w4"}, list("kernel_shape", {3, 4})),
            "malformed: node 'one' (Conv) has kernel_shape = [3, 4]; its weight has [3, 3]");
}

TEST(WindowErrors, Pads) {
  EXPECT_EQ(conv_failure("Conv", {"x", "w4"}, list("pads", {1, 1})),
            "malformed: node 'one' (Conv) has pads = [1, 1]; expected 4 integers of at least 0");
  EXPECT_EQ(conv_failure("Conv", {"x", "w4"}, list("pads", {-5, 0, -5, 0})),
            "malformed: node 'one' (Conv) has pads = [-5, 0, -5, 0]; expected 4 integers of at "
            "least 0");
  EXPECT_EQ(conv_failure("Conv", {"x", "w4"},
                         [](NodeBuilder& node) {
                           node.integers("pads", {1, 1, 1, 1}).string("auto_pad", "SAME_UPPER");
                         }),
            "malformed: node 'one' (Conv) has pads = [1, 1, 1, 1] beside auto_pad = 'SAME_UPPER'; "
            "expected one of them");
  EXPECT_EQ(
      conv_failure("Conv", {"x", "w4"}, [](NodeBuilder& node) { node.string("auto_pad", "SAME"); }),
      "malformed: node 'one' (Conv) takes 'NOTSET', 'VALID', 'SAME_UPPER' or 'SAME_LOWER' as "
      "attribute 'auto_pad', got 'SAME'");
  EXPECT_EQ(conv_failure("ConvTranspose", {"x", "w4"}, list("output_padding", {-1, 0})),
            "malformed: node 'one' (ConvTranspose) has output_padding = [-1, 0]; expected 2 "
            "integers of at least 0");
  EXPECT_EQ(
      conv_failure("Conv", {"x", "w4"},
                   [](NodeBuilder& node) {
                     node.integers("dilations", {1LL << 62, 1}).string("auto_pad", "SAME_UPPER");
                   }),
      "malformed: node 'one' (Conv) has sizes beyond 64 bits");
}

TEST(WindowErrors, NoWindowFits) {
  EXPECT_EQ(conv_failure("Conv", {"x", "w4"},
                         [](NodeBuilder& node) {
                           node.integers("dilations", {5, 1}).integers("pads", {1, 0, 1, 0});
                         }),
            "malformed: node 'one' (Conv) has kernel_shape = [3, 3] and dilations = [5, 1], so "
            "windows that span 11 elements of dim 2, which has 10 with its pads");
  // Windows that lie side by side.
  EXPECT_EQ(conv_failure("MaxPool", {"x"},
                         [](NodeBuilder& node) {
                           node.integers("kernel_shape", {2, 9}).integers("strides", {2, 9});
                         }),
            "malformed: node 'one' (MaxPool) has kernel_shape = [2, 9] and dilations = [1, 1], so "
            "windows that span 9 elements of dim 3, which has 8 with its pads");
  // More elements are missing than the last window may lack.
  EXPECT_EQ(conv_failure("MaxPool", {"x"},
                         [](NodeBuilder& node) {
                           node.integers("kernel_shape", {2, 12})
                               .integers("strides", {2, 2})
                               .integer("ceil_mode", 1);
                         }),
            "malformed: node 'one' (MaxPool) has kernel_shape = [2, 12] and dilations = [1, 1], so "
            "windows that span 12 elements of dim 3, which has 8 with its pads");
  EXPECT_EQ(conv_failure("ConvTranspose", {"x", "w4"}, list("pads", {9, 0, 9, 0})),
            "malformed: node 'one' (ConvTranspose) leaves -8 elements of dim 2 of its result "
            "(pads, auto_pad or output_shape say so); expected at least 1");
  EXPECT_EQ(conv_failure("ConvTranspose", {"x", "w4"}, list("output_shape", {0, 8})),
            "malformed: node 'one' (ConvTranspose) has output_shape = [0, 8]; expected 2 integers "
            "of at least 1");
}

// One of ONNX Runtime's, over x [n, 4, 8, 8] and a weight with windows of 3 by 3.
std::string fused_failure(const std::vector<DimSpec>& addend, const std::string& activation,
                          const std::vector<float>& parameters) {
  ModelBuilder builder(17);
  auto& import = *builder.model.add_opset_import();
  import.set_domain("com.microsoft");
  import.set_version(1);
  builder.input("x", f32, {"n", 4, 8, 8}).input("z", f32, addend).output("y");
  builder.initialiser("w", f32, {4, 4, 3, 3}).set_raw_data(std::string(4 * 4 * 9 * 4, '\0'));
  NodeBuilder node = builder.node("FusedConv", {"x", "w", "", "z"}, {"y"});
  node.name("one").domain("com.microsoft");
  if (!activation.empty()) node.string("activation", activation);
  if (!parameters.empty()) node.reals("activation_params", parameters);
  return builder.failure();
}

TEST(WindowErrors, FusedActivations) {
  const std::vector<DimSpec> z{"n", 4, 6, 6};
  EXPECT_EQ(fused_failure(z, "LeakyRelu", {}),
            "malformed: node 'one' (FusedConv) has 0 numbers in activation_params; activation = "
            "'LeakyRelu' takes 1");
  EXPECT_EQ(fused_failure(z, "Relu", {1}),
            "malformed: node 'one' (FusedConv) has 1 numbers in activation_params; activation = "
            "'Relu' takes 0");
  EXPECT_EQ(fused_failure(z, "", {1}),
            "malformed: node 'one' (FusedConv) has activation_params, but no activation");
  EXPECT_EQ(fused_failure(z, "relu", {}),
            "unsupported: node 'one' (FusedConv) has activation = 'relu', which Anydim does not "
            "support");
  EXPECT_EQ(fused_failure({"n", 4, 6}, "Relu", {}),
            "malformed: node 'one' (FusedConv) takes an input 3 (Z) of the shape (?, 4, 6, 6) of "
            "the result, got (?, 4, 6)");
  EXPECT_EQ(fused_failure({"n", 1, 6, 6}, "Relu", {}),
            "malformed: node 'one' (FusedConv) takes an input 3 (Z) of the shape (?, 4, 6, 6) of "
            "the result, got (?, 1, 6, 6)");
}

TEST(WindowErrors, MovedPlaces) {
  const auto failure = [](const std::vector<DimSpec>& offsets, std::int64_t groups) {
    ModelBuilder builder(19);
    builder.input("x", f32, {"n", 4, 8, 8}).input("o", f32, offsets).output("y");
    builder.initialiser("w", f32, {4, 4, 3, 3}).set_raw_data(std::string(4 * 4 * 9 * 4, '\0'));
    builder.node("DeformConv", {"x", "w", "o"}, {"y"}).name("one").integer("offset_group", groups);
    return builder.failure();
  };
  EXPECT_EQ(failure({"n", 54, 6, 6}, 3),
            "malformed: node 'one' (DeformConv) has offset_group = 3, which does not divide the 4 "
            "channels of input 0");
  EXPECT_EQ(failure({"n", 18, 6, 6}, 2),
            "malformed: node 'one' (DeformConv) has offset_group = 2 and kernel_shape = [3, 3], so "
            "36 channels of input 2 (offset), got 18");
  EXPECT_EQ(failure({"n", 18, 6}, 1),
            "malformed: node 'one' (DeformConv) takes an input 2 (offset) of rank 4, got rank 3");
}

TEST(WindowErrors, Pooling) {
  EXPECT_EQ(conv_failure("MaxPool", {"x"}, nothing),
            "malformed: node 'one' (MaxPool) lacks the attribute 'kernel_shape'");
  EXPECT_EQ(conv_failure(
                "LpPool", {"x"},
                [](NodeBuilder& node) { node.integers("kernel_shape", {2, 2}).integer("p", 0); }),
            "malformed: node 'one' (LpPool) has p = 0; expected at least 1");
}

}  // namespace
}  // namespace anydim::frontends
