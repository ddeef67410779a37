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
