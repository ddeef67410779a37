// Functions that a model defines of its own, in the place of their calls.
#include <gtest/gtest.h>

#include "tests/frontends/model_builder.h"

namespace anydim::frontends {
namespace {

// A field of text or of a message, of a number below 16, which the schema does not have.
template <typename Message>
void add_unknown(Message& message, int number, const std::string& bytes) {
  std::string& fields = *message.mutable_unknown_fields();
  fields += static_cast<char>(number << 3 | 2);
  fields += static_cast<char>(bytes.size());
  fields += bytes;
}

onnx::FunctionProto& add_function(ModelBuilder& builder, const std::string& name,
                                  const std::string& op) {
  auto& function = *builder.model.add_functions();
  function.set_name(name);
  function.set_domain("mine");
  function.add_input("a");
  function.add_output("b");
  auto& node = *function.add_node();
  node.set_op_type(op);
  node.add_input("a");
  node.add_output("b");
  return function;
}

void import_opset(onnx::FunctionProto& function, const std::string& domain, int version) {
  auto& import = *function.add_opset_import();
  import.set_domain(domain);
  import.set_version(version);
}

// Until opset 12 an attribute told the axes of Squeeze.
TEST(OnnxFunctions, AreOfOpsetsOfTheirOwn) {
  ModelBuilder builder;
  builder.input("x", f32, {1, 2, 1}).integers("axes", {1}, {1}).output("z");
  auto& function = add_function(builder, "Flat", "Squeeze");
  auto& axes = *function.mutable_node(0)->add_attribute();
  axes.set_name("axes");
  axes.set_type(onnx::AttributeProto::INTS);
  axes.add_ints(0);
  import_opset(function, "ai.onnx", 11);
  import_opset(function, "mine", 3);  // what a function's own domain is called changes nothing
  builder.node("Flat", {"x"}, {"y"}).domain("mine");
  builder.node("Squeeze", {"y", "axes"}, {"z"});
  EXPECT_EQ(builder.text(), R"(fn @main(%x: Tensor[(1, 2, 1), f32]) {
  %axes = constant(i64 (1) [1]) from "axes"
  %y = squeeze(%x) {axes = (0)} from "Flat/Squeeze"
  %z = dyn.squeeze(%y, %axes) from "Squeeze #1"
  return %z
}
)");
}

TEST(OnnxFunctions, NameTheStandardDomainWhereTheModelDoesNot) {
  ModelBuilder builder;
  builder.model.mutable_opset_import(0)->set_domain("mine");
  builder.input("x", f32, {2}).output("y").node("Positive", {"x"}, {"y"}).domain("mine");
  auto& function = add_function(builder, "Positive", "Relu");
  EXPECT_EQ(builder.failure(), "malformed: the model names no opset of the domain ai.onnx");
  import_opset(function, "", 17);
  EXPECT_EQ(builder.text(), R"(fn @main(%x: Tensor[(2), f32]) {
  %y = relu(%x) from "Positive/Relu"
  return %y
}
)");
}

TEST(OnnxFunctions, HaveDefaultsOfAttributes) {
  ModelBuilder builder;
  builder.input("x", f32, {2, 3}).output("y").output("z");
  auto& function = add_function(builder, "Turned", "Concat");
  auto& axis = *function.mutable_node(0)->add_attribute();
  axis.set_name("axis");
  axis.set_type(onnx::AttributeProto::INT);
  axis.set_ref_attr_name("along");
  function.mutable_node(0)->add_input("a");
  onnx::AttributeProto along;
  along.set_name("along");
  along.set_type(onnx::AttributeProto::INT);
  along.set_i(1);
  add_unknown(function, 11, along.SerializeAsString());
  builder.node("Turned", {"x"}, {"y"}).domain("mine").name("by default");
  builder.node("Turned", {"x"}, {"z"}).domain("mine").name("told").integer("along", 0);
  EXPECT_EQ(builder.text(), R"(fn @main(%x: Tensor[(2, 3), f32]) {
  %y = concat(%x, %x) {axis = 1} from "by default/Concat"
  %z = concat(%x, %x) {axis = 0} from "told/Concat"
  return %y, %z
}
)");
  function.mutable_unknown_fields()->clear();
  add_unknown(function, 11, "\x0a");
  EXPECT_EQ(builder.failure(),
            "malformed: the model's function 'Turned' has an attribute that cannot be read");
}

TEST(OnnxFunctions, OfOneNameDifferByOverload) {
  ModelBuilder builder;
  builder.input("x", f32, {2}).output("z");
  add_function(builder, "Act", "Relu");
  add_unknown(add_function(builder, "Act", "Tanh"), 13, "smooth");
  builder.node("Act", {"x"}, {"y"}).domain("mine");
  auto node = builder.node("Act", {"y"}, {"z"}).domain("mine");
  add_unknown(node.proto, 8, "smooth");
  EXPECT_EQ(builder.text(), R"(fn @main(%x: Tensor[(2), f32]) {
  %y = relu(%x) from "Act/Relu"
  %z = tanh(%y) from "Act/Tanh"
  return %z
}
)");
}

}  // namespace
}  // namespace anydim::frontends
