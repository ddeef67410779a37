// One test for each thing that can be wrong with a model, with the whole message.
#include <gtest/gtest.h>

#include "tests/frontends/model_builder.h"

namespace anydim::frontends {
namespace {

// x: f32 (2) and k: i64 (2) go in, y comes out of the node that the caller adds.
ModelBuilder one_node(int opset = 17) {
  ModelBuilder builder(opset);
  builder.input("x", f32, {2}).input("k", i64, {2}).input("b", boolean, {2}).output("y");
  return builder;
}

TEST(OnnxErrors, BytesThatAreNoModel) {
  EXPECT_EQ(failure_of(""), "malformed: the model is empty: expected an ONNX model");
  EXPECT_EQ(failure_of("<html>not found</html>"),
            "malformed: the model is not an ONNX model: its 22 bytes are truncated, damaged, "
            "nested too deeply or of another format");
}

TEST(OnnxErrors, TruncatedModel) {
  auto builder = one_node();
  builder.node("Relu", {"x"}, {"y"});
  const std::string bytes = builder.bytes();
  EXPECT_EQ(failure_of(bytes.substr(0, bytes.size() - 3)),
            "malformed: the model is not an ONNX model: its " + std::to_string(bytes.size() - 3) +
                " bytes are truncated, damaged, nested too deeply or of another format");
}

TEST(OnnxErrors, GraphsNestedTooDeeply) {
  ModelBuilder builder;
  onnx::GraphProto* graph = builder.model.mutable_graph();
  for (int i = 0; i < 200; ++i) {
    auto* attribute = graph->add_node()->add_attribute();
    attribute->set_type(onnx::AttributeProto::GRAPH);
    graph = attribute->mutable_g();
  }
  const std::string bytes = builder.bytes();
  EXPECT_EQ(failure_of(bytes),
            "malformed: the model is not an ONNX model: its " + std::to_string(bytes.size()) +
                " bytes are truncated, damaged, nested too deeply or of another format");
}

TEST(OnnxErrors, NoGraph) {
  ModelBuilder builder;
  builder.model.clear_graph();
  EXPECT_EQ(builder.failure(), "malformed: the model has no graph");
}

TEST(OnnxErrors, Opsets) {
  EXPECT_EQ(ModelBuilder(0).failure(),
            "unsupported: the model uses opset 0; Anydim supports 1 to 28");
  EXPECT_EQ(ModelBuilder(29).failure(),
            "unsupported: the model uses opset 29; Anydim supports 1 to 28");
  ModelBuilder none;
  none.model.clear_opset_import();
  EXPECT_EQ(none.failure(), "malformed: the model names no opset of the domain ai.onnx");
  ModelBuilder two;
  auto* second = two.model.add_opset_import();
  second->set_domain("ai.onnx");
  second->set_version(13);
  EXPECT_EQ(two.failure(), "malformed: the model names two opsets, 17 and 13");
}

TEST(OnnxErrors, UnsupportedOperatorsAreListedTogether) {
  auto builder = one_node();
  builder.node("TfIdfVectorizer", {"x", "x"}, {"c1"}).name("tfidf1");
  builder.node("TfIdfVectorizer", {"c1", "x"}, {"c2"}).name("tfidf2");
  builder.node("Relu", {"c2"}, {"r"});
  builder.node("StringNormalizer", {"r"}, {"l"});
  builder.node("BiasSoftmax", {"l", "x"}, {"m"}).name("fused").domain("com.microsoft");
  builder.node("Gelu", {"m"}, {"y"}).name("act");
  EXPECT_EQ(builder.failure(),
            "unsupported: model uses 4 operators that Anydim does not support: TfIdfVectorizer (2 "
            "nodes, first 'tfidf1'), StringNormalizer (1 node, 'StringNormalizer #3'), "
            "com.microsoft.BiasSoftmax (1 node, 'fused'), Gelu in opset 17 (1 node, 'act')");
}

// What ONNX Runtime's optimiser writes for the machine that it runs on.
TEST(OnnxErrors, LayoutsOfOneMachine) {
  auto builder = one_node();
  builder.node("Conv", {"x", "x"}, {"c"}).name("conv_nchwc").domain("com.microsoft.nchwc");
  builder.node("ReorderOutput", {"c"}, {"y"}).domain("com.microsoft.nchwc");
  EXPECT_EQ(
      builder.failure(),
      "unsupported: model uses 2 operators that Anydim does not support: "
      "com.microsoft.nchwc.Conv (1 node, 'conv_nchwc'), com.microsoft.nchwc.ReorderOutput (1 "
      "node, 'ReorderOutput #1'). Those of com.microsoft.nchwc have the layout of the machine "
      "on which ONNX Runtime optimised the model: save it at ORT_ENABLE_EXTENDED instead of "
      "ORT_ENABLE_ALL");
}

TEST(OnnxErrors, OldFormsOfAnOperator) {
  auto builder = one_node(6);
  builder.node("Add", {"x", "x"}, {"y"}).name("sum").integer("broadcast", 1);
  EXPECT_EQ(builder.failure(),
            "unsupported: model uses 1 operator that Anydim does not support: Add in opset 6 (1 "
            "node, 'sum')");
}

TEST(OnnxErrors, ModelsOfOtherDomains) {
  ModelBuilder builder(1);
  builder.model.mutable_opset_import(0)->set_domain("ai.onnx.ml");
  builder.node("ZipMap", {"x"}, {"y"}).domain("ai.onnx.ml");
  EXPECT_EQ(builder.failure(),
            "unsupported: model uses 1 operator that Anydim does not support: ai.onnx.ml.ZipMap (1 "
            "node, 'ZipMap #0'). ZipMap makes maps of a classifier's scores: export the model with "
            "zipmap=False, which leaves them a tensor, or take the node out and name its input an "
            "output");
  ModelBuilder runtime(1);
  runtime.model.mutable_opset_import(0)->set_domain("com.microsoft");
  runtime.input("x", f32, {2}).output("y").node("QuickGelu", {"x"}, {"y"}).domain("com.microsoft");
  EXPECT_EQ(runtime.failure(), "read");
  runtime.node("Identity", {"y"}, {"z"});
  EXPECT_EQ(runtime.failure(), "malformed: the model names no opset of the domain ai.onnx");
}

TEST(OnnxErrors, FunctionsOfTheModel) {
  ModelBuilder builder;
  builder.input("x", f32, {2}).output("y").node("Relu", {"x"}, {"y"});
  auto* function = builder.model.add_functions();
  function->set_name("MyNorm");
  function->set_domain("mine");
  function->add_input("a");
  function->add_output("b");
  auto* inner = function->add_node();
  inner->set_op_type("MyNorm");
  inner->set_domain("mine");
  inner->add_input("a");
  inner->add_output("b");
  EXPECT_EQ(builder.failure(), "read");  // nobody calls it
  builder.node("MyNorm", {"x"}, {"again"}).domain("mine").name("first");
  EXPECT_EQ(builder.failure(),
            "malformed: node '' (MyNorm) calls a function of the model: calls nest more than 64 "
            "deep, or it calls itself");
  inner->set_domain("");
  inner->set_op_type("Relu");
  EXPECT_EQ(builder.failure(), "read");
  builder.node("MyNorm", {"again", "again"}, {"more"}).domain("mine").name("second");
  EXPECT_EQ(builder.failure(),
            "malformed: node 'second' (MyNorm) calls a function of the model: 2 input(s) and 1 "
            "output(s), expected at most 1 and 1");
  function->add_input("c");
  auto* opset = function->add_opset_import();
  opset->set_version(29);
  EXPECT_EQ(builder.failure(),
            "unsupported: the model's function 'MyNorm' uses opset 29; Anydim supports 1 to 28");
  opset->set_version(6);
  inner->set_op_type("Gelu");
  EXPECT_EQ(builder.failure(),
            "unsupported: model uses 1 operator that Anydim does not support: Gelu in opset 6 (2 "
            "nodes, first 'first/Gelu')");
  inner->set_op_type("Relu");
  function->clear_opset_import();
  builder.model.add_functions()->CopyFrom(*function);
  EXPECT_EQ(builder.failure(), "malformed: the model defines its function 'MyNorm' twice");
}

TEST(OnnxErrors, Inputs) {
  ModelBuilder nameless;
  nameless.input("", f32, {2});
  EXPECT_EQ(nameless.failure(), "malformed: the graph has an input without a name");
  ModelBuilder untyped;
  untyped.model.mutable_graph()->add_input()->set_name("x");
  EXPECT_EQ(untyped.failure(), "malformed: input 'x' has no type");
  ModelBuilder sequence;
  auto* input = sequence.model.mutable_graph()->add_input();
  input->set_name("x");
  input->mutable_type()->mutable_sequence_type();
  EXPECT_EQ(sequence.failure(),
            "unsupported: input 'x' is no tensor (a sequence, map or optional); Anydim supports "
            "only tensors");
  ModelBuilder rankless;
  rankless.input("x", f32, {});
  rankless.model.mutable_graph()
      ->mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->clear_shape();
  EXPECT_EQ(rankless.failure(),
            "unsupported: input 'x' has no rank; Anydim needs the rank of every input");
  ModelBuilder strings;
  strings.input("x", onnx::TensorProto::STRING, {2});
  EXPECT_EQ(strings.failure(),
            "unsupported: input 'x' has the element type STRING, which Anydim does not support");
  ModelBuilder unknown;
  unknown.input("x", 99, {2});
  EXPECT_EQ(unknown.failure(),
            "malformed: input 'x' has the element type number 99, which ONNX does not define");
}

TEST(OnnxErrors, Names) {
  auto twice = one_node();
  twice.node("Relu", {"x"}, {"y"});
  twice.node("Abs", {"x"}, {"y"}).name("again");
  EXPECT_EQ(
      twice.failure(),
      "malformed: node 'again' (Abs) defines the value 'y', which is defined before it already");
  auto twin = one_node();
  twin.input("x", f32, {3});
  EXPECT_EQ(
      twin.failure(),
      "malformed: the graph's input defines the value 'x', which is defined before it already");
  auto constants = one_node();
  constants.reals("w", {1}, {1}).reals("w", {1}, {2});
  EXPECT_EQ(constants.failure(),
            "malformed: initialiser 'w' defines the value 'w', which is defined before it already");
  auto undefined = one_node();
  undefined.node("Add", {"x", "z"}, {"y"}).name("sum");
  EXPECT_EQ(undefined.failure(),
            "malformed: node 'sum' (Add) reads the value 'z', which no input, initialiser or "
            "earlier node defines");
  auto cycle = one_node();
  cycle.node("Add", {"x", "v"}, {"u"});
  cycle.node("Relu", {"u"}, {"v"});
  EXPECT_EQ(cycle.failure(),
            "malformed: node 'Add #0' (Add) reads the value 'v', which no input, initialiser or "
            "earlier node defines");
  auto nameless = one_node();
  nameless.reals("", {1}, {1});
  EXPECT_EQ(nameless.failure(), "malformed: the graph has an initialiser without a name");
  auto control = one_node();
  control.node("Relu", {"\x1b[2J\n"}, {"y"});
  EXPECT_EQ(control.failure(),
            "malformed: node 'Relu #0' (Relu) reads the value '\\x1b[2J\\x0a', which no input, "
            "initialiser or earlier node defines");
}

TEST(OnnxErrors, Outputs) {
  auto missing = one_node();
  EXPECT_EQ(missing.failure(), "malformed: the graph's output 'y' is a value that nothing defines");
  ModelBuilder none;
  none.input("x", f32, {2});
  EXPECT_EQ(none.failure(), "malformed: the graph has no outputs");
  ModelBuilder typed;
  typed.input("x", f32, {2}).output("x", i64);
  EXPECT_EQ(typed.failure(),
            "malformed: the graph declares its output 'x' as i64, but it is computed as f32");
}

TEST(OnnxErrors, CountsOfInputsAndOutputs) {
  auto few = one_node();
  few.node("Add", {"x"}, {"y"});
  EXPECT_EQ(few.failure(), "malformed: node 'Add #0' (Add) has 1 input(s), expected 2");
  auto many = one_node();
  many.node("Clip", {"x", "x", "x", "x"}, {"y"});
  EXPECT_EQ(many.failure(), "malformed: node 'Clip #0' (Clip) has 4 input(s), expected 1 to 3");
  auto none = one_node();
  none.node("Concat", {}, {"y"});
  EXPECT_EQ(none.failure(),
            "malformed: node 'Concat #0' (Concat) has 0 input(s), expected 1 or more");
  auto outputs = one_node();
  outputs.node("Relu", {"x"}, {"y", "z"});
  EXPECT_EQ(outputs.failure(), "malformed: node 'Relu #0' (Relu) has 2 output(s), expected 1");
  auto left_out = one_node();
  left_out.node("Add", {"x", ""}, {"y"});
  EXPECT_EQ(left_out.failure(),
            "malformed: node 'Add #0' (Add) leaves out input 1, which it needs");
}

TEST(OnnxErrors, ElementTypes) {
  auto mixed = one_node();
  mixed.node("Add", {"x", "k"}, {"y"});
  EXPECT_EQ(mixed.failure(),
            "malformed: node 'Add #0' (Add) takes inputs of one element type, got f32 and i64");
  auto root = one_node();
  root.node("Sqrt", {"k"}, {"y"});
  EXPECT_EQ(root.failure(),
            "malformed: node 'Sqrt #0' (Sqrt) takes real numbers as input 0, got i64");
  auto negation = one_node();
  negation.node("Not", {"x"}, {"y"});
  EXPECT_EQ(negation.failure(),
            "malformed: node 'Not #0' (Not) takes booleans as input 0, got f32");
  auto sum = one_node();
  sum.node("Sum", {"b"}, {"y"});
  EXPECT_EQ(sum.failure(), "malformed: node 'Sum #0' (Sum) takes numbers as input 0, got bool");
  auto shape = one_node();
  shape.node("ConstantOfShape", {"x"}, {"y"});
  EXPECT_EQ(
      shape.failure(),
      "malformed: node 'ConstantOfShape #0' (ConstantOfShape) takes integers as input 0, got f32");
  auto index = one_node();
  index.node("Gather", {"x", "x"}, {"y"});
  EXPECT_EQ(index.failure(),
            "malformed: node 'Gather #0' (Gather) takes integers as input 1, got f32");
  auto reshape = one_node();
  reshape.node("Reshape", {"x", "x"}, {"y"});
  EXPECT_EQ(reshape.failure(),
            "malformed: node 'Reshape #0' (Reshape) takes integers as input 1, got f32");
  auto where = one_node();
  where.node("Where", {"b", "x", "k"}, {"y"});
  EXPECT_EQ(where.failure(),
            "malformed: node 'Where #0' (Where) takes inputs 1 and 2 of one element type, got f32 "
            "and i64");
  auto power = one_node();
  power.node("Pow", {"x", "b"}, {"y"});
  EXPECT_EQ(power.failure(), "malformed: node 'Pow #0' (Pow) takes numbers as input 1, got bool");
  auto any = one_node(18);
  any.node("ReduceMax", {"b"}, {"y"});
  EXPECT_EQ(any.failure(),
            "malformed: node 'ReduceMax #0' (ReduceMax) takes booleans only from opset 20 on");
}

TEST(OnnxErrors, Attributes) {
  auto missing = one_node();
  missing.node("Concat", {"x"}, {"y"});
  EXPECT_EQ(missing.failure(), "malformed: node 'Concat #0' (Concat) lacks the attribute 'axis'");
  auto kind = one_node();
  kind.node("Concat", {"x"}, {"y"}).string("axis", "0");
  EXPECT_EQ(
      kind.failure(),
      "malformed: node 'Concat #0' (Concat) takes an integer as attribute 'axis', got a string");
  auto unknown = one_node();
  unknown.node("Relu", {"x"}, {"y"}).real("slope", 0.1f);
  EXPECT_EQ(unknown.failure(),
            "malformed: node 'Relu #0' (Relu) has the attribute 'slope', which it does not take in "
            "opset 17");
  auto twice = one_node();
  twice.node("Concat", {"x"}, {"y"}).integer("axis", 0).integer("axis", 1);
  EXPECT_EQ(twice.failure(),
            "malformed: node 'Concat #0' (Concat) gives the attribute 'axis' twice");
  auto flag = one_node();
  flag.node("ReduceSum", {"x"}, {"y"}).integer("keepdims", 1LL << 40);
  EXPECT_EQ(flag.failure(),
            "malformed: node 'ReduceSum #0' (ReduceSum) takes 0 or 1 as attribute 'keepdims', got "
            "1099511627776");
  auto axes = one_node(18);
  axes.node("ReduceMean", {"x"}, {"y"}).integers("axes", {0});
  EXPECT_EQ(axes.failure(),
            "malformed: node 'ReduceMean #0' (ReduceMean) has the attribute 'axes', which it does "
            "not take in opset 18");
  auto gelu = one_node(20);
  gelu.node("Gelu", {"x"}, {"y"}).string("approximate", "erf");
  EXPECT_EQ(gelu.failure(),
            "malformed: node 'Gelu #0' (Gelu) takes 'none' or 'tanh' as attribute 'approximate', "
            "got 'erf'");
  auto mod = one_node();
  mod.node("Mod", {"x", "x"}, {"y"});
  EXPECT_EQ(mod.failure(), "malformed: node 'Mod #0' (Mod) needs fmod = 1 for real numbers, got 0");
}

TEST(OnnxErrors, Casts) {
  auto strings = one_node();
  strings.node("Cast", {"x"}, {"y"}).integer("to", onnx::TensorProto::STRING);
  EXPECT_EQ(strings.failure(),
            "unsupported: attribute 'to' of node 'Cast #0' (Cast) has the element type STRING, "
            "which Anydim does not support");
  auto bits = one_node(26);
  bits.node("BitCast", {"x"}, {"y"}).integer("to", onnx::TensorProto::INT64);
  EXPECT_EQ(bits.failure(),
            "malformed: node 'BitCast #0' (BitCast) takes 'to' of the input's size, 4 bytes as f32 "
            "has, got i64 of 8");
}

TEST(OnnxErrors, Matrices) {
  auto vector = one_node();
  vector.node("Det", {"x"}, {"y"});
  EXPECT_EQ(vector.failure(),
            "malformed: node 'Det #0' (Det) takes matrices as input 0, got rank 1");
  ModelBuilder wide;
  wide.input("x", f32, {2, 3, 4}).output("y").node("Det", {"x"}, {"y"});
  EXPECT_EQ(wide.failure(),
            "malformed: node 'Det #0' (Det) takes square matrices as input 0, got 3 by 4");
}

TEST(OnnxErrors, Samples) {
  auto vector = one_node();
  vector.node("GridSample", {"x", "x"}, {"y"});
  EXPECT_EQ(vector.failure(),
            "unsupported: node 'GridSample #0' (GridSample) samples an input 0 of rank 1; expected "
            "images [batch, channel, side...] of 1 to 3 sides");
  ModelBuilder flat;
  flat.input("x", f32, {1, 2, 3, 4, 5}).input("g", f32, {1, 3, 4, 5, 2}).output("y");
  flat.node("GridSample", {"x", "g"}, {"y"});
  EXPECT_EQ(
      flat.failure(),
      "malformed: node 'GridSample #0' (GridSample) takes 3 coordinates a place, one for each "
      "side, as input 1 (grid), got 2");
}

TEST(OnnxErrors, Constants) {
  auto none = one_node();
  none.node("Constant", {}, {"y"});
  EXPECT_EQ(none.failure(), "malformed: node 'Constant #0' (Constant) takes one attribute, got 0");
  auto other = one_node();
  other.node("Constant", {}, {"y"}).integer("number", 1);
  EXPECT_EQ(other.failure(), "malformed: node 'Constant #0' (Constant) has no value");
  auto text = one_node();
  text.node("Constant", {}, {"y"}).string("value_string", "a");
  EXPECT_EQ(text.failure(),
            "unsupported: node 'Constant #0' (Constant) has the attribute 'value_string', which "
            "Anydim does not support");
  auto wide = one_node();
  auto node = wide.node("ConstantOfShape", {"k"}, {"y"});
  node.tensor("value", f32, {2}).mutable_float_data()->Resize(2, 1.0f);
  EXPECT_EQ(wide.failure(),
            "malformed: node 'ConstantOfShape #0' (ConstantOfShape) takes one element as attribute "
            "'value', got 2");
  auto sparse = one_node();
  sparse.model.mutable_graph()->add_sparse_initializer();
  EXPECT_EQ(sparse.failure(),
            "unsupported: the model has 1 sparse initialiser(s); Anydim supports only dense ones");
}

TEST(OnnxErrors, Splits) {
  auto sizes = one_node(11);
  sizes.node("Split", {"x"}, {"y", "z"}).integers("split", {1, 1, 1});
  EXPECT_EQ(
      sizes.failure(),
      "malformed: node 'Split #0' (Split) has 2 outputs, but 3 sizes in the attribute 'split'");
  auto count = one_node(18);
  count.node("Split", {"x"}, {"y", "z"}).integer("num_outputs", 1LL << 50);
  EXPECT_EQ(count.failure(),
            "malformed: node 'Split #0' (Split) has 2 outputs, but num_outputs = 1125899906842624");
  auto both = one_node(18);
  both.node("Split", {"x", "k"}, {"y", "z"}).integer("num_outputs", 2);
  EXPECT_EQ(both.failure(),
            "malformed: node 'Split #0' (Split) has both the input 'split' and the attribute "
            "'num_outputs'; expected one");
  auto neither = one_node(18);
  neither.node("Split", {"x"}, {"y", "z"});
  EXPECT_EQ(neither.failure(),
            "malformed: node 'Split #0' (Split) has neither the input 'split' nor the attribute "
            "'num_outputs'; expected one");
}

TEST(OnnxErrors, Dropout) {
  auto kind = one_node();
  kind.node("Dropout", {"x", "", "k"}, {"y"}).name("drop");
  EXPECT_EQ(kind.failure(),
            "malformed: node 'drop' (Dropout) takes a bool as input 2 (training_mode)");
  auto early = one_node(11);
  early.node("Dropout", {"x", "x"}, {"y"}).name("drop");
  EXPECT_EQ(early.failure(), "malformed: node 'drop' (Dropout) takes 1 input before opset 12");
}

TEST(OnnxErrors, LayerNormalization) {
  auto axis = one_node();
  axis.node("LayerNormalization", {"x", "x"}, {"y"}).integer("axis", -(1LL << 40));
  EXPECT_EQ(axis.failure(),
            "malformed: node 'LayerNormalization #0' (LayerNormalization) has axis = "
            "-1099511627776; no tensor has that many dims");
  auto stash = one_node();
  stash.node("LayerNormalization", {"x", "x"}, {"y"}).integer("stash_type", 16);
  EXPECT_EQ(stash.failure(),
            "unsupported: node 'LayerNormalization #0' (LayerNormalization) has stash_type = 16; "
            "Anydim supports only 1 (f32)");
}

TEST(OnnxErrors, IntegerGemm) {
  auto gemm = one_node();
  gemm.node("Gemm", {"k", "k"}, {"y"}).real("alpha", 0.5f);
  EXPECT_EQ(gemm.failure(),
            "unsupported: node 'Gemm #0' (Gemm) multiplies integers by alpha = 0.5; Anydim "
            "supports only whole numbers there");
}

}  // namespace
}  // namespace anydim::frontends
