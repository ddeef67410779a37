#include "tests/frontends/sequence_cases.h"

#include <utility>

namespace anydim::frontends {
namespace {

using ir::DType;
using ir::Tensor;
using Dims = std::vector<std::int64_t>;

Tensor reals(Dims dims, const std::vector<double>& values) {
  return Tensor::of(DType::F32, std::move(dims), values);
}
Tensor integer(std::int64_t value) { return Tensor::of<std::int64_t>(DType::I64, {}, {value}); }
Tensor truth(bool value) { return Tensor::of<std::int64_t>(DType::Bool, {}, {value ? 1 : 0}); }

// x: 5 rows of two.
const std::vector<double> ten{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};

ModelBuilder with_rows(int opset = 17) {
  ModelBuilder builder(opset);
  builder.input("x", f32, {"n", 2});
  return builder;
}

void add_splits(std::vector<SequenceCase>& cases) {
  {
    // Parts of two rows; the last is smaller.
    ModelBuilder builder = with_rows();
    builder.integers("two", {}, {2}).integers("last", {}, {-1}).output("part").output("count", i64);
    builder.node("SplitToSequence", {"x", "two"}, {"parts"});
    builder.node("SequenceAt", {"parts", "last"}, {"part"});
    builder.node("SequenceLength", {"parts"}, {"count"});
    cases.push_back(
        {"split by a size", builder, {reals({5, 2}, ten)}, {reals({1, 2}, {8, 9}), integer(3)}});
  }
  {
    ModelBuilder builder = with_rows();
    builder.integers("sizes", {3}, {1, 0, 4}).integers("at", {}, {2}).output("part").output("none");
    builder.integers("one", {}, {1});
    builder.node("SplitToSequence", {"x", "sizes"}, {"parts"}).integer("axis", 0);
    builder.node("SequenceAt", {"parts", "at"}, {"part"});
    builder.node("SequenceAt", {"parts", "one"}, {"none"});
    cases.push_back({"split by sizes",
                     builder,
                     {reals({5, 2}, ten)},
                     {reals({4, 2}, {2, 3, 4, 5, 6, 7, 8, 9}), reals({0, 2}, {})}});
  }
  {
    // One element a column, without its axis.
    ModelBuilder builder = with_rows();
    builder.integers("one", {}, {1}).output("column");
    builder.node("SplitToSequence", {"x"}, {"columns"}).integer("axis", 1).integer("keepdims", 0);
    builder.node("SequenceAt", {"columns", "one"}, {"column"});
    cases.push_back(
        {"split into columns", builder, {reals({5, 2}, ten)}, {reals({5}, {1, 3, 5, 7, 9})}});
  }
  {
    // What follows has to know the rank of the parts, and of what a loop joins of them.
    ModelBuilder builder = with_rows();
    builder.integers("one", {}, {1}).reals("weight", {1, 1, 1}, {3}).output("y");
    builder.node("SplitToSequence", {"x", "one"}, {"rows"}).integer("keepdims", 0);
    builder.node("ConcatFromSequence", {"rows"}, {"again"})
        .integer("axis", 0)
        .integer("new_axis", 1);
    builder.integers("shape", {3}, {-1, 1, 2});
    builder.node("Reshape", {"again", "shape"}, {"images"});
    builder.node("SequenceAt", {"rows", "one"}, {"row"});
    builder.integers("places", {2}, {0, 1});
    builder.node("Unsqueeze", {"row", "places"}, {"image"});
    builder.node("Concat", {"images", "image"}, {"all"}).integer("axis", 0);
    builder.node("Conv", {"all", "weight"}, {"y"});
    cases.push_back({"split and convolved",
                     builder,
                     {reals({2, 2}, {0, 1, 2, 3})},
                     {reals({3, 1, 2}, {0, 3, 6, 9, 6, 9})}});
  }
  {
    // As PyTorch writes a repeat_interleave: parts of one, and a shape that one of them is part of.
    ModelBuilder builder = with_rows();
    builder.integers("one", {1}, {1}).integers("width", {1}, {2}).integers("last", {}, {-1});
    builder.input("repeats", i64, {"n"}).output("y");
    builder.node("Shape", {"repeats"}, {"count"});
    builder.node("ConstantOfShape", {"count"}, {"ones"})
        .tensor("value", i64, {1})
        .add_int64_data(1);
    builder.node("SplitToSequence", {"repeats", "ones"}, {"numbers"});
    builder.node("SplitToSequence", {"x", "ones"}, {"rows"});
    builder.node("SequenceAt", {"numbers", "last"}, {"times"});
    builder.node("SequenceAt", {"rows", "last"}, {"row"});
    builder.node("Concat", {"times", "width"}, {"shape"}).integer("axis", 0);
    builder.node("Expand", {"row", "shape"}, {"y"});
    cases.push_back(
        {"split by a vector of ones",
         builder,
         {reals({2, 2}, {0, 1, 2, 3}), Tensor::of<std::int64_t>(DType::I64, {2}, {5, 3})},
         {reals({3, 2}, {2, 3, 2, 3, 2, 3})}});
  }
  {
    // As PyTorch writes an unbind: parts of one, without their axis.
    ModelBuilder builder = with_rows();
    builder.integers("one", {}, {1}).output("column");
    builder.node("SplitToSequence", {"x", "one"}, {"columns"})
        .integer("axis", 1)
        .integer("keepdims", 0);
    builder.node("SequenceAt", {"columns", "one"}, {"column"});
    cases.push_back(
        {"unbind columns", builder, {reals({5, 2}, ten)}, {reals({5}, {1, 3, 5, 7, 9})}});
  }
  {
    // Of parts of two the axis is kept, whatever 'keepdims' says.
    ModelBuilder builder = with_rows();
    builder.integers("two", {}, {2}).integers("last", {}, {-1}).output("part");
    builder.node("SplitToSequence", {"x", "two"}, {"parts"}).integer("keepdims", 0);
    builder.node("SequenceAt", {"parts", "last"}, {"part"});
    cases.push_back(
        {"split by a size, keepdims 0", builder, {reals({5, 2}, ten)}, {reals({1, 2}, {8, 9})}});
  }
}

void add_edits(std::vector<SequenceCase>& cases) {
  {
    ModelBuilder builder = with_rows();
    builder.input("y", f32, {"m", 2})
        .output("joined")
        .output("count", i64)
        .integers("front", {}, {0});
    builder.node("SequenceEmpty", {}, {"empty"}).integer("dtype", f32);
    builder.node("SequenceInsert", {"empty", "x"}, {"one"});
    builder.node("SequenceInsert", {"one", "y", "front"}, {"two"});
    builder.node("SequenceInsert", {"two", "y"}, {"three"});
    builder.node("ConcatFromSequence", {"three"}, {"joined"}).integer("axis", 0);
    builder.node("SequenceLength", {"three"}, {"count"});
    cases.push_back({"insert",
                     builder,
                     {reals({2, 2}, {1, 2, 3, 4}), reals({1, 2}, {5, 6})},
                     {reals({4, 2}, {5, 6, 1, 2, 3, 4, 5, 6}), integer(3)}});
  }
  {
    ModelBuilder builder = with_rows();
    builder.input("y", f32, {"n", 2})
        .output("stacked")
        .output("left")
        .integers("second", {}, {-2})
        .integers("first", {}, {0});
    builder.node("SequenceConstruct", {"x", "y", "x"}, {"three"});
    builder.node("ConcatFromSequence", {"three"}, {"stacked"})
        .integer("axis", -1)
        .integer("new_axis", 1);
    builder.node("SequenceErase", {"three", "second"}, {"two"});
    builder.node("SequenceErase", {"two"}, {"one"});
    builder.node("SequenceAt", {"one", "first"}, {"left"});
    cases.push_back({"stack and erase",
                     builder,
                     {reals({1, 2}, {1, 2}), reals({1, 2}, {3, 4})},
                     {reals({1, 2, 3}, {1, 3, 1, 2, 4, 2}), reals({1, 2}, {1, 2})}});
  }
}

void add_maps(std::vector<SequenceCase>& cases) {
  // element + row, for each of the sequence's elements; the row is a tensor and the same for all.
  ModelBuilder builder = with_rows();
  builder.input("y", f32, {"m", 2}).input("row", f32, {2}).output("joined");
  builder.node("SequenceConstruct", {"x", "y"}, {"two"});
  NodeBuilder map = builder.node("SequenceMap", {"two", "row"}, {"sums"});
  onnx::AttributeProto& attribute = *map.proto.add_attribute();
  attribute.set_name("body");
  attribute.set_type(onnx::AttributeProto::GRAPH);
  onnx::GraphProto& body = *attribute.mutable_g();
  body.set_name("body");
  for (const char* name : {"element", "same"}) {
    onnx::ValueInfoProto& input = *body.add_input();
    input.set_name(name);
    input.mutable_type()->mutable_tensor_type()->set_elem_type(f32);
  }
  onnx::ValueInfoProto& output = *body.add_output();
  output.set_name("sum");
  output.mutable_type()->mutable_tensor_type()->set_elem_type(f32);
  onnx::NodeProto& add = *body.add_node();
  add.set_op_type("Add");
  add.add_input("element");
  add.add_input("same");
  add.add_output("sum");
  builder.node("ConcatFromSequence", {"sums"}, {"joined"}).integer("axis", 0);
  cases.push_back({"map",
                   builder,
                   {reals({1, 2}, {1, 2}), reals({2, 2}, {3, 4, 5, 6}), reals({2}, {10, 20})},
                   {reals({3, 2}, {11, 22, 13, 24, 15, 26})}});
}

void add_optionals(std::vector<SequenceCase>& cases) {
  {
    ModelBuilder builder = with_rows();
    builder.output("there", boolean).output("element");
    builder.node("Optional", {"x"}, {"some"});
    builder.node("OptionalHasElement", {"some"}, {"there"});
    builder.node("OptionalGetElement", {"some"}, {"element"});
    cases.push_back({"optional tensor",
                     builder,
                     {reals({1, 2}, {1, 2})},
                     {truth(true), reals({1, 2}, {1, 2})}});
  }
  {
    // An optional sequence, and one without an element.
    ModelBuilder builder = with_rows(18);
    builder.output("count", i64).output("there", boolean);
    builder.node("SequenceConstruct", {"x", "x"}, {"two"});
    builder.node("Optional", {"two"}, {"some"});
    builder.node("OptionalGetElement", {"some"}, {"again"});
    builder.node("SequenceLength", {"again"}, {"count"});
    onnx::AttributeProto& type = *builder.node("Optional", {}, {"nothing"}).proto.add_attribute();
    type.set_name("type");
    type.set_type(onnx::AttributeProto::TYPE_PROTO);
    type.mutable_tp()->mutable_tensor_type()->set_elem_type(f32);
    builder.node("OptionalHasElement", {"nothing"}, {"there"});
    cases.push_back(
        {"optional sequence", builder, {reals({1, 2}, {1, 2})}, {integer(2), truth(false)}});
  }
}

}  // namespace

std::vector<SequenceCase> sequence_cases() {
  std::vector<SequenceCase> cases;
  add_splits(cases);
  add_edits(cases);
  add_maps(cases);
  add_optionals(cases);
  return cases;
}

}  // namespace anydim::frontends
