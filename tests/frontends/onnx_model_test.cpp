// What a model becomes: parameters, symbols, constants, names, sources.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "frontends/onnx.h"
#include "ir/text/print.h"
#include "tests/frontends/model_builder.h"

namespace anydim::frontends {
namespace {

TEST(OnnxModel, NamedDimsBecomeSymbolsAndNodesKeepTheirNames) {
  ModelBuilder builder;
  builder.input("x", f32, {"batch", "seq", 8}).input("y", f32, {"batch", 1, ""}).output("sum", f32);
  builder.node("Add", {"x", "y"}, {"s"}).name("/encoder/Add");
  builder.node("Relu", {"s"}, {"sum"});
  EXPECT_EQ(builder.text(),
            R"(fn @main(%x: Tensor[(batch, seq, 8), f32], %y: Tensor[(batch, 1, y_2), f32])
  where batch in [0, 2147483647], seq in [0, 2147483647], y_2 in [0, 2147483647] unbacked {
  %s = add(%x, %y) from "/encoder/Add"
  %sum = relu(%s) from "Relu #1"
  return %sum
}
)");
}

TEST(OnnxModel, NamesThatAreNoIdentifiersBecomeOnesAndStayApart) {
  ModelBuilder builder;
  builder.input("x", f32, {"2*seq", "past length", "past_length", "past length"}).output("x");
  const ir::Module module = builder.read();
  const auto& dims = module.functions[0].values[0].type.tensor.dims;
  EXPECT_EQ(dims[0].to_string(), "_2_seq");
  EXPECT_EQ(dims[1].to_string(), "past_length");
  EXPECT_EQ(dims[2].to_string(), "past_length_1");
  EXPECT_EQ(dims[3], dims[1]);
}

TEST(OnnxModel, NamelessDimsAreUnbackedAndDiffer) {
  ModelBuilder builder;
  builder.input("x", f32, {"", -1, "?", "?"}).output("x");
  const ir::Module module = builder.read();
  const auto& function = module.functions[0];
  const auto& dims = function.values[0].type.tensor.dims;
  EXPECT_EQ((std::set<std::string>{dims[0].to_string(), dims[1].to_string(), dims[2].to_string(),
                                   dims[3].to_string()})
                .size(),
            4u);
  for (const ir::Dim& dim : dims) {
    const ir::SymbolInfo* info = function.symbols.find(dim.leaf().symbol);
    ASSERT_NE(info, nullptr);
    EXPECT_TRUE(info->unbacked);
  }
}

// As converters to f16 leave graphs: what they insert stands at the end.
TEST(OnnxModel, NodesMayStandBeforeThoseThatTheyRead) {
  ModelBuilder builder;
  builder.input("x", f32, {"n"}).input("c", boolean, {}).output("z");
  NodeBuilder branch = builder.node("If", {"c"}, {"z"}).name("choice");
  for (const auto* name : {"then_branch", "else_branch"}) {
    ModelBuilder body;
    body.output("t");
    body.node("Exp", {"u"}, {"t"});
    body.node("Add", {"y", "x"}, {"u"});
    auto& attribute = *branch.proto.add_attribute();
    attribute.set_name(name);
    attribute.set_type(onnx::AttributeProto::GRAPH);
    *attribute.mutable_g() = body.model.graph();
  }
  builder.node("Abs", {"v"}, {"w"}).name("abs");
  builder.node("Neg", {"w"}, {"y"}).name("neg");
  builder.node("Relu", {"x"}, {"v"}).name("relu");
  EXPECT_EQ(builder.text(),
            R"(fn @main(%x: Tensor[(n), f32], %c: Tensor[(), bool])
  where n in [0, 2147483647] {
  %v = relu(%x) from "relu"
  %w = abs(%v) from "abs"
  %y = neg(%w) from "neg"
  %z.3 = reshape(%c) {shape = ()} from "choice"
  %z = if(%z.3) from "choice" then {
    %u.4 = add(%y, %x) from "Add #0"
    %t.5 = exp(%u.4) from "Exp #1"
    yield %t.5
  } else {
    %u.6 = add(%y, %x) from "Add #0"
    %t.7 = exp(%u.6) from "Exp #1"
    yield %t.7
  }
  return %z
}
)");
}

TEST(OnnxModel, InitialisersBecomeConstantsAlsoWhenListedAsInputs) {
  ModelBuilder builder;
  builder.input("x", f32, {2}).input("w", f32, {2}).reals("w", {2}, {1, -2}).output("y");
  builder.node("Mul", {"x", "w"}, {"y"}).name("scale");
  EXPECT_EQ(builder.text(), R"(fn @main(%x: Tensor[(2), f32]) {
  %w = constant(f32 (2) [1, -2]) from "w"
  %y = mul(%x, %w) from "scale"
  return %y
}
)");
}

TEST(OnnxModel, IdentityAddsNothingAndOutputsKeepTheirNames) {
  ModelBuilder builder;
  builder.input("x", f32, {2}).output("same").output("x").output("twice");
  builder.node("Identity", {"x"}, {"same"});
  builder.node("Add", {"x", "same"}, {"twice"});
  const ir::Module module = builder.read();
  const auto& function = module.functions[0];
  EXPECT_EQ(function.result_names, (std::vector<std::string>{"same", "x", "twice"}));
  EXPECT_EQ(function.body.results, (std::vector<ir::ValueId>{0, 0, 1}));
  EXPECT_EQ(function.body.bindings.size(), 1u);
}

// As exporters of JAX write a cell that returns its state as its result, too.
TEST(OnnxModel, AnOutputListedTwiceIsOne) {
  ModelBuilder builder;
  builder.input("x", f32, {2}).output("y").output("y").node("Relu", {"x"}, {"y"});
  EXPECT_EQ(builder.read().functions[0].result_names, (std::vector<std::string>{"y"}));
}

TEST(OnnxModel, NamesMadeUpKeepClearOfTheModels) {
  ModelBuilder builder(13);
  builder.input("x", f32, {2}).output("y");
  builder.node("Identity", {"x"}, {"y.0"});
  builder.node("HardSigmoid", {"x"}, {"y"});
  const ir::Module module = builder.read();
  std::set<std::string> names;
  for (const auto& value : module.functions[0].values)
    EXPECT_TRUE(names.insert(value.name).second) << value.name;
  EXPECT_FALSE(names.contains("y.0"));
}

TEST(OnnxModel, OpsThatDecideShapesComeOutDynamic) {
  ModelBuilder builder(18);
  builder.input("x", f32, {"n", 4})
      .input("s", i64, {2})
      .input("k", i32, {1})
      .output("y")
      .output("q");
  builder.integers("none", {0}, {});
  builder.node("Reshape", {"x", "s"}, {"r"}).name("reshape");
  builder.node("Reshape", {"r", "s"}, {"z"}).name("zeros").integer("allowzero", 1);
  builder.node("Expand", {"z", "s"}, {"e"}).name("expand");
  builder.node("Slice", {"e", "k", "k", "", "k"}, {"c"}).name("slice");
  builder.node("ReduceSum", {"c", "k"}, {"m"}).name("sum").integer("keepdims", 0);
  builder.node("ReduceMean", {"m", "none"}, {"a"}).name("all");
  builder.node("ReduceMax", {"a", "none"}, {"b"})
      .name("nothing")
      .integer("noop_with_empty_axes", 1);
  builder.node("Unsqueeze", {"b", "s"}, {"u"}).name("unsqueeze");
  builder.node("Split", {"u", "s"}, {"y", "q"}).name("split").integer("axis", -1);
  EXPECT_EQ(builder.text(),
            R"(fn @main(%x: Tensor[(n, 4), f32], %s: Tensor[(2), i64], %k: Tensor[(1), i32])
  where n in [0, 2147483647] {
  %none = constant(i64 (0) []) from "none"
  %r = dyn.reshape(%x, %s) {zero_copies = 1} from "reshape"
  %z = dyn.reshape(%r, %s) {zero_copies = 0} from "zeros"
  %e = dyn.broadcast_to(%z, %s) from "expand"
  %c.3 = cast(%k) {to = i64} from "slice"
  %c.4 = cast(%k) {to = i64} from "slice"
  %c.5 = cast(%k) {to = i64} from "slice"
  %c = dyn.strided_slice(%e, %c.3, %c.4, none, %c.5) from "slice"
  %m.7 = cast(%k) {to = i64} from "sum"
  %m = dyn.reduce_sum(%c, %m.7) {empty_keeps = 0, keepdims = 0} from "sum"
  %a = reduce_mean(%m) {keepdims = 1} from "all"
  %u = dyn.expand_dims(%a, %s) from "unsqueeze"
  %y, %q = dyn.split(%u, %s) {axis = -1} from "split"
  return %y, %q
}
)");
}

// Importers of what stands behind a recurrent op ask for its rank.
TEST(OnnxModel, RecurrentOpsGiveRanks) {
  ModelBuilder builder;
  builder.input("x", f32, {"s", "b", 3}).reals("one", {1}, {1}).output("z").output("n");
  builder.reals("w", {1, 8, 3}, std::vector<float>(24, 1));
  builder.reals("r", {1, 8, 2}, std::vector<float>(16, 1));
  builder.node("LSTM", {"x", "w", "r"}, {"y", "h"}).integer("hidden_size", 2);
  builder.node("InstanceNormalization", {"y", "one", "one"}, {"z"});
  builder.node("GlobalAveragePool", {"h"}, {"n"});
  EXPECT_EQ(builder.failure(), "read");
}

void add_graph(NodeBuilder& node, const char* name, const ModelBuilder& body) {
  auto& attribute = *node.proto.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::GRAPH);
  *attribute.mutable_g() = body.model.graph();
}

TEST(OnnxModel, BranchesGiveTheRankThatBothHave) {
  ModelBuilder builder;
  builder.input("x", f32, {"b", 1, "w"}).input("which", boolean, {}).reals("one", {1}, {1});
  builder.output("z");
  auto branch = builder.node("If", {"which"}, {"y"});
  add_graph(branch, "then_branch", ModelBuilder().output("t").with_node("Relu", {"x"}, {"t"}));
  add_graph(branch, "else_branch", ModelBuilder().output("t").with_node("Neg", {"x"}, {"t"}));
  builder.node("InstanceNormalization", {"y", "one", "one"}, {"z"});
  EXPECT_EQ(builder.failure(), "read");
}

ModelBuilder body_with(const char* op, std::vector<std::string> operands) {
  ModelBuilder body;
  body.input("i", i64, {}).input("on", boolean, {}).input("c", f32, {}).output("on").output("t");
  return body.with_node(op, std::move(operands), {"t"});
}

// Importers of what stands in a loop and behind it ask for its rank.
TEST(OnnxModel, LoopsKeepTheRankOfWhatTheyCarry) {
  ModelBuilder builder;
  builder.input("x", f32, {"b", 1, "w"}).input("rounds", i64, {}).reals("one", {1}, {1});
  builder.output("z");
  auto loop = builder.node("Loop", {"rounds", "", "x"}, {"y"});
  add_graph(loop, "body", body_with("InstanceNormalization", {"c", "one", "one"}));
  builder.node("InstanceNormalization", {"y", "one", "one"}, {"z"});
  EXPECT_EQ(builder.failure(), "read");
}

// What the model declares of a loop's result is held to.
TEST(OnnxModel, LoopsGiveTheRanksThatTheModelDeclares) {
  ModelBuilder builder;
  builder.input("x", f32, {"b", 1, "w"}).input("rounds", i64, {}).reals("one", {1}, {1});
  builder.input("extents", i64, {"k"}).output("z");
  builder.node("Reshape", {"x", "extents"}, {"first"});
  auto loop = builder.node("Loop", {"rounds", "", "first"}, {"y"});
  add_graph(loop, "body", body_with("Relu", {"c"}));
  builder.node("InstanceNormalization", {"y", "one", "one"}, {"z"});
  EXPECT_EQ(builder.failure(),
            "unsupported: node 'InstanceNormalization #2' (InstanceNormalization) has an input of "
            "a rank that isn't known before it runs");
  auto& declared = *builder.model.mutable_graph()->add_value_info();
  declared.set_name("y");
  auto& shape = *declared.mutable_type()->mutable_tensor_type()->mutable_shape();
  for (int axis = 0; axis < 3; ++axis) shape.add_dim();
  EXPECT_NE(builder.text().find("= transpose(%y."), std::string::npos) << builder.text();
}

TEST(OnnxModel, TinyBertIsRead) {
  const ir::Module module = read_onnx(std::filesystem::path("../models/tiny_bert.onnx"));
  const auto& function = module.functions[0];
  EXPECT_EQ(function.symbols.names(), (std::vector<std::string>{"batch", "seq"}));
  EXPECT_EQ(function.result_names, (std::vector<std::string>{"hidden"}));
  ASSERT_EQ(function.body.parameters.size(), 2u);
  EXPECT_EQ(ir::print(function, function.values[1].type), "Tensor[(batch, seq), i64]");
}

// Its weights are not in the tree: the message says where they are expected.
TEST(OnnxModel, MiniLmWithoutItsWeightsSaysWhatIsMissing) {
  try {
    read_onnx(std::filesystem::path("../models/minilm.onnx"));
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(describe(error),
              "malformed: tensor 'bert.embeddings.word_embeddings.weight' has its data in the file "
              "'model.safetensors', which is missing: expected it at "
              "'../models/model.safetensors', beside the model");
  }
}

TEST(OnnxModel, EveryOpsetFromTheFirstToTheLastIsRead) {
  for (int opset = 7; opset <= 21; ++opset) {
    ModelBuilder builder(opset);
    builder.input("x", f32, {2}).output("y");
    builder.node("Relu", {"x"}, {"y"});
    EXPECT_EQ(builder.failure(), "read") << opset;
  }
}

}  // namespace
}  // namespace anydim::frontends
