// An If whose branches give values of different ranks, and a Squeeze whose result has a rank that
// only a call tells, through reader, inference and reference evaluator.
#include <gtest/gtest.h>

#include "ir/error.h"
#include "ir/reference/evaluate.h"
#include "ir/shapes/infer.h"
#include "ir/text/print.h"
#include "tests/frontends/model_builder.h"
#include "tests/frontends/tensor_difference.h"
#include "tests/frontends/value_cases.h"

namespace anydim::frontends {
namespace {

void add_graph(NodeBuilder& node, const char* name, const ModelBuilder& body) {
  auto& attribute = *node.proto.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::GRAPH);
  *attribute.mutable_g() = body.model.graph();
}

// As PyTorch scripts x.squeeze(0): `y` has one axis less where x has one row.
ModelBuilder squeezed() {
  ModelBuilder builder;
  builder.input("x", f32, {"m", "n"}).output("z");
  builder.integers("zero", {1}, {0}).integers("one", {1}, {1});
  builder.node("Shape", {"x"}, {"shape"});
  builder.node("Gather", {"shape", "zero"}, {"rows"});
  builder.node("Equal", {"rows", "one"}, {"is_row"});
  auto branch = builder.node("If", {"is_row"}, {"y"}).name("squeezed");
  const auto graph = [](const char* op, const std::vector<std::string>& operands) {
    return ModelBuilder().output("t").with_node(op, operands, {"t"});
  };
  add_graph(branch, "then_branch", graph("Squeeze", {"x", "zero"}));
  add_graph(branch, "else_branch", graph("Identity", {"x"}));
  return builder;
}

ir::Tensor result_of(const ModelBuilder& builder, const ir::Tensor& x) {
  ir::Module module = builder.read();
  ir::infer_types(module);
  return ir::evaluate(module, module.functions[0], {x}).at(0);
}

std::string refusal_of(const ModelBuilder& builder, const ir::Tensor& x) {
  try {
    result_of(builder, x);
    return "computed";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(OnnxBranches, WhatFollowsBranchesOfTwoRanksIsReadBehindEach) {
  ModelBuilder builder = squeezed();
  builder.node("Neg", {"y"}, {"less"});
  builder.node("ReduceSum", {"less"}, {"z"}).integer("keepdims", 0);
  EXPECT_EQ(difference(result_of(builder, reals({1, 3}, {1, 2, 3})), reals({}, {-6})), "");
  EXPECT_EQ(difference(result_of(builder, reals({2, 2}, {1, 2, 3, 4})), reals({}, {-10})), "");
}

// Where it can be computed behind one only, calls that take the other are refused.
TEST(OnnxBranches, BranchesOfARankThatNothingTakesAreRefusedByCalls) {
  ModelBuilder row = squeezed();
  row.node("Unsqueeze", {"y", "one"}, {"column"});
  row.node("Transpose", {"column"}, {"z"}).integers("perm", {1, 0});
  EXPECT_EQ(row.text().find(" if("), std::string::npos) << row.text();
  EXPECT_EQ(difference(result_of(row, reals({1, 3}, {1, 2, 3})), reals({1, 3}, {1, 2, 3})), "");
  EXPECT_THROW(result_of(row, reals({2, 2}, {1, 2, 3, 4})), Error);

  ModelBuilder rows = squeezed();
  rows.node("Transpose", {"y"}, {"z"}).integers("perm", {1, 0});
  EXPECT_EQ(difference(result_of(rows, reals({2, 1}, {1, 2})), reals({1, 2}, {1, 2})), "");
  EXPECT_EQ(refusal_of(rows, reals({1, 2}, {1, 2})),
            "assert 'squeezed': node 'squeezed' (If) takes its then_branch, behind which the "
            "model cannot be computed: transpose 'Transpose #4' (%z.5): the permutation has 2 "
            "axes, but operand 0 (%t.4) has rank 1.");

  ModelBuilder neither = squeezed();
  neither.node("Transpose", {"y"}, {"z"}).integers("perm", {2, 1, 0});
  EXPECT_NE(neither.failure(), "read");
}

// As PyTorch exports x.squeeze(): what has no axes takes every dim of 1 away.
TEST(OnnxBranches, WhatFollowsASqueezeWithoutAxesIsReadForEveryRank) {
  ModelBuilder builder;
  builder.input("x", f32, {"m", "n", 1}).output("z");
  builder.node("Squeeze", {"x"}, {"y"});
  builder.node("Neg", {"y"}, {"less"});
  builder.node("ReduceSum", {"less"}, {"z"}).integer("keepdims", 0);
  EXPECT_EQ(difference(result_of(builder, reals({1, 3, 1}, {1, 2, 3})), reals({}, {-6})), "");
  EXPECT_EQ(difference(result_of(builder, reals({3, 1, 1}, {1, 2, 3})), reals({}, {-6})), "");
  EXPECT_EQ(difference(result_of(builder, reals({1, 1, 1}, {4})), reals({}, {-4})), "");
  EXPECT_EQ(difference(result_of(builder, reals({2, 2, 1}, {1, 2, 3, 4})), reals({}, {-10})), "");

  ModelBuilder last;  // the last axis is another one where a row goes
  last.input("x", f32, {"m", "n"}).output("z");
  last.node("Squeeze", {"x"}, {"y"});
  last.node("Softmax", {"y"}, {"weights"}).integer("axis", 0);
  last.node("ReduceMax", {"weights"}, {"z"}).integer("keepdims", 0);
  EXPECT_EQ(difference(result_of(last, reals({1, 2}, {5, 5})), reals({}, {0.5})), "");
  EXPECT_EQ(difference(result_of(last, reals({2, 2}, {5, 5, 5, 5})), reals({}, {0.5})), "");
  EXPECT_EQ(difference(result_of(last, reals({4, 1}, {5, 5, 5, 5})), reals({}, {0.25})), "");
}

// Also where the model declares one rank, as exporters do that saw one call.
TEST(OnnxBranches, OutputsHaveTheRankThatACallGivesThem) {
  ModelBuilder builder;
  builder.input("x", f32, {"m", "n"}).output("y");
  auto& declared = *builder.model.mutable_graph()->mutable_output(0)->mutable_type();
  declared.mutable_tensor_type()->mutable_shape()->add_dim();
  builder.node("Squeeze", {"x"}, {"y"});
  EXPECT_EQ(builder.text().find(" if("), std::string::npos) << builder.text();
  EXPECT_EQ(difference(result_of(builder, reals({1, 3}, {1, 2, 3})), reals({3}, {1, 2, 3})), "");
  EXPECT_EQ(difference(result_of(builder, reals({3, 1}, {1, 2, 3})), reals({3}, {1, 2, 3})), "");
  EXPECT_EQ(difference(result_of(builder, reals({1, 1}, {4})), reals({}, {4})), "");
  EXPECT_EQ(
      difference(result_of(builder, reals({2, 2}, {1, 2, 3, 4})), reals({2, 2}, {1, 2, 3, 4})), "");

  ModelBuilder read;  // something else reads what is squeezed
  read.input("x", f32, {"m", "n"}).output("z");
  read.node("Squeeze", {"x"}, {"y"});
  read.node("Neg", {"y"}, {"z"});
  EXPECT_EQ(difference(result_of(read, reals({1, 3}, {1, 2, 3})), reals({3}, {-1, -2, -3})), "");
  EXPECT_EQ(difference(result_of(read, reals({3, 1}, {1, 2, 3})), reals({3}, {-1, -2, -3})), "");
  EXPECT_EQ(difference(result_of(read, reals({1, 1}, {4})), reals({}, {-4})), "");

  ModelBuilder inside;  // a Squeeze behind a branch
  inside.input("x", f32, {"m", "n"}).output("y");
  inside.integers("zero", {1}, {0});
  inside.node("Squeeze", {"x"}, {"a"});
  inside.node("Unsqueeze", {"a", "zero"}, {"b"});
  inside.node("Squeeze", {"b"}, {"y"});
  EXPECT_EQ(difference(result_of(inside, reals({1, 3}, {1, 2, 3})), reals({3}, {1, 2, 3})), "");
  EXPECT_EQ(difference(result_of(inside, reals({1, 1}, {4})), reals({}, {4})), "");
  EXPECT_EQ(difference(result_of(inside, reals({2, 2}, {1, 2, 3, 4})), reals({2, 2}, {1, 2, 3, 4})),
            "");

  ModelBuilder branches = squeezed();
  branches.node("Neg", {"y"}, {"z"});
  EXPECT_EQ(difference(result_of(branches, reals({1, 1}, {4})), reals({1}, {-4})), "");
  EXPECT_EQ(difference(result_of(branches, reals({2, 1}, {4, 5})), reals({2, 1}, {-4, -5})), "");
}

// A graph in a node that yields an outer value, and does nothing else, reads it.
TEST(OnnxBranches, WhatABranchYieldsHasTheRankThatACallGivesIt) {
  ModelBuilder builder;
  builder.input("x", f32, {"m", "n"}).output("z").output("y");
  builder.integers("zero", {1}, {0}).integers("one", {1}, {1});
  builder.node("Squeeze", {"x"}, {"y"});
  builder.node("Shape", {"x"}, {"shape"});
  builder.node("Gather", {"shape", "zero"}, {"rows"});
  builder.node("Equal", {"rows", "one"}, {"is_row"});
  auto branch = builder.node("If", {"is_row"}, {"z"});
  add_graph(branch, "then_branch", ModelBuilder().output("y"));
  add_graph(branch, "else_branch", ModelBuilder().output("y"));
  EXPECT_EQ(difference(result_of(builder, reals({1, 3}, {1, 2, 3})), reals({3}, {1, 2, 3})), "");
  EXPECT_EQ(difference(result_of(builder, reals({2, 1}, {4, 5})), reals({2}, {4, 5})), "");
}

TEST(OnnxBranches, SqueezesOfManyDimsNeedAxes) {
  ModelBuilder builder;
  builder.input("x", f32, {"m", "n", "k", "l"}).output("y");
  builder.node("Squeeze", {"x"}, {"a"});
  builder.node("Neg", {"a"}, {"y"});
  EXPECT_THROW(result_of(builder, reals({1, 1, 1, 1}, {1})), Error);
}

}  // namespace
}  // namespace anydim::frontends
