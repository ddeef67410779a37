// The cases of value_cases.h, with a symbol for every dim of every input, through reader, inference
// and reference evaluator.
#include <gtest/gtest.h>

#include "ir/reference/evaluate.h"
#include "ir/shapes/infer.h"
#include "tests/frontends/tensor_difference.h"
#include "tests/frontends/value_cases.h"

namespace anydim::frontends {
namespace {

int onnx_number(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::F64: return f64;
    case ir::DType::F32: return f32;
    case ir::DType::I64: return i64;
    case ir::DType::I32: return i32;
    case ir::DType::U8: return u8;
    case ir::DType::I8: return onnx::TensorProto::INT8;
    case ir::DType::Bool: return boolean;
    default: ADD_FAILURE() << "no case uses this element type"; return 0;
  }
}

std::vector<ir::Tensor> run(const ValueCase& test) {
  ModelBuilder builder(test.opset);
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::vector<ir::Tensor> arguments;
  for (const CaseOperand& operand : test.operands) {
    if (operand.left_out) {
      inputs.emplace_back();
      continue;
    }
    inputs.push_back("x" + std::to_string(inputs.size()));
    const int type = onnx_number(operand.tensor.dtype());
    const auto bytes = operand.tensor.bytes();
    if (operand.constant) {
      auto& tensor = builder.initialiser(inputs.back(), type, operand.tensor.dims());
      tensor.set_raw_data(bytes.data(), bytes.size());
      continue;
    }
    std::vector<DimSpec> dims;
    for (std::size_t axis = 0; axis < operand.tensor.rank(); ++axis) {
      if (operand.dims.empty()) dims.emplace_back(inputs.back() + "_" + std::to_string(axis));
      else if (operand.dims[axis] == '.') dims.emplace_back(operand.tensor.dims()[axis]);
      else dims.emplace_back(std::string(1, operand.dims[axis]));
    }
    builder.input(inputs.back(), type, dims);
    arguments.push_back(operand.tensor);
  }
  for (std::size_t i = 0; i < test.wanted.size(); ++i) {
    if (!test.outputs.empty()) outputs.resize(test.outputs[i]);  // those between are left out
    outputs.push_back("y" + std::to_string(i));
    builder.output(outputs.back(), onnx_number(test.wanted[i].dtype()));
  }
  NodeBuilder node = builder.node(test.op, inputs, outputs).domain(test.domain);
  if (!test.domain.empty()) {
    auto& import = *builder.model.add_opset_import();
    import.set_domain(test.domain);
    import.set_version(test.version);
  }
  test.attributes(node);
  ir::Module module = builder.read();
  ir::infer_types(module);
  return ir::evaluate(module, module.functions[0], arguments);
}

TEST(OnnxValues, Cases) {
  for (const ValueCase& test : value_cases()) {
    SCOPED_TRACE((test.domain.empty() ? test.op : test.domain + "." + test.op) + " in opset " +
                 std::to_string(test.opset));
    const auto results = run(test);
    ASSERT_EQ(results.size(), test.wanted.size());
    for (std::size_t i = 0; i < results.size(); ++i)
      EXPECT_EQ(difference(results[i], test.wanted[i]), "");
  }
}

void declare(onnx::ValueInfoProto& value, const std::string& name, int type, int rank) {
  value.set_name(name);
  auto& tensor = *value.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(type);
  tensor.mutable_shape();
  for (int axis = 0; axis < rank; ++axis) tensor.mutable_shape()->add_dim()->set_dim_value(1);
}

// Rows of x in a loop whose body declares its round as a vector, as tf2onnx writes it.
TEST(OnnxValues, LoopsMayDeclareTheirRoundAsAVector) {
  ModelBuilder builder;
  builder.input("x", f32, {"n", 2}).output("y").integers("trips", {}, {2});
  NodeBuilder loop = builder.node("Loop", {"trips", ""}, {"y"});
  auto& attribute = *loop.proto.add_attribute();
  attribute.set_name("body");
  attribute.set_type(onnx::AttributeProto::GRAPH);
  auto& body = *attribute.mutable_g();
  declare(*body.add_input(), "round", i64, 1);
  declare(*body.add_input(), "condition", boolean, 1);
  const auto add = [&](const std::string& op, const std::vector<std::string>& inputs,
                       const std::string& output) {
    auto& node = *body.add_node();
    node.set_op_type(op);
    for (const std::string& input : inputs) node.add_input(input);
    node.add_output(output);
  };
  add("Identity", {"condition"}, "goes_on");
  add("Add", {"round", "one"}, "next");
  add("Slice", {"x", "round", "next"}, "row");
  auto& one = *body.add_initializer();
  one.set_name("one");
  one.set_data_type(i64);
  one.add_dims(1);
  one.add_int64_data(1);
  body.add_output()->set_name("goes_on");
  body.add_output()->set_name("row");
  ir::Module module = builder.read();
  ir::infer_types(module);
  const auto results =
      ir::evaluate(module, module.functions[0], {reals({3, 2}, {1, 2, 3, 4, 5, 6})});
  EXPECT_EQ(difference(results[0], reals({2, 1, 2}, {1, 2, 3, 4})), "");
}

// The starts have as many elements as rows are not zero, which the axes say are one.
TEST(OnnxValues, AxesTellHowManyStartsThereAre) {
  const auto model = [](const std::string& op) {
    ModelBuilder builder(18);
    builder.input("x", f32, {"n", 3}).input("flags", f32, {"m"}).output("y");
    builder.integers("axis", {1}, {1}).integers("end", {1}, {3}).integers("shape", {1}, {-1});
    builder.node("NonZero", {"flags"}, {"places"});
    builder.node("Reshape", {"places", "shape"}, {"starts"});
    if (op == "Slice") {
      builder.node("Slice", {"x", "starts", "end", "axis"}, {"y"});
    } else {
      builder.node("Pad", {"x", "starts", "", "axis"}, {"y"});
    }
    return builder;
  };
  const auto run = [&](const std::string& op, const std::vector<double>& flags) {
    ir::Module module = model(op).read();
    ir::infer_types(module);
    return ir::evaluate(module, module.functions[0],
                        {reals({2, 3}, {1, 2, 3, 4, 5, 6}),
                         reals({static_cast<std::int64_t>(flags.size())}, flags)})[0];
  };
  EXPECT_EQ(difference(run("Slice", {0, 0, 1}), reals({2, 1}, {3, 6})), "");
  EXPECT_EQ(difference(run("Pad", {1, 1}), reals({2, 4}, {1, 2, 3, 0, 4, 5, 6, 0})), "");
  try {
    run("Slice", {1, 1});
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(describe(error),
              "of another kind: dyn.reshape 'Slice #2' (%y.3): 2 elements of shape (2) don't fit "
              "shape (1).");
  }
}

// Both bounds have as many elements as rows are not zero, and nothing says that this is one: torch
// writes so for the bags of an EmbeddingBag.
TEST(OnnxValues, BoundsOfUnknownLengthSliceOneAxis) {
  ModelBuilder builder(18);
  builder.input("x", f32, {"n", 2}).input("flags", f32, {"m"}).output("y");
  builder.integers("one", {1}, {1}).integers("shape", {1}, {-1});
  builder.node("NonZero", {"flags"}, {"places"});
  builder.node("Reshape", {"places", "shape"}, {"starts"});
  builder.node("Add", {"starts", "one"}, {"ends"});
  builder.node("Slice", {"x", "starts", "ends"}, {"y"});
  ir::Module module = builder.read();
  ir::infer_types(module);
  const auto run = [&](const std::vector<double>& flags) {
    return ir::evaluate(module, module.functions[0],
                        {reals({3, 2}, {1, 2, 3, 4, 5, 6}), reals({3}, flags)})[0];
  };
  EXPECT_EQ(difference(run({0, 0, 1}), reals({1, 2}, {5, 6})), "");
  try {
    run({1, 1, 0});
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(describe(error),
              "of another kind: dyn.reshape 'Slice #3' (%y.4): 2 elements of shape (2) don't fit "
              "shape (1).");
  }
}

TEST(OnnxValues, DimsThatOverflowNameTheNode) {
  ModelBuilder builder;
  builder.input("x", f32, {1}).integers("shape", {2}, {1LL << 62, 4}).output("y");
  builder.node("Expand", {"x", "shape"}, {"e"}).name("grow");
  builder.node("Flatten", {"e"}, {"y"}).name("flat").integer("axis", 0);
  ir::Module module = builder.read();
  try {
    ir::infer_types(module);
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(describe(error),
              "malformed: flatten 'flat' (%y): the dim expression (4611686018427387904) * (4) "
              "leaves the range of 64-bit integers");
  }
}

}  // namespace
}  // namespace anydim::frontends
