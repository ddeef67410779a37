#include "tests/frontends/model_builder.h"

#include "frontends/onnx.h"
#include "ir/text/print.h"

namespace anydim::frontends {

namespace {

onnx::AttributeProto& add(onnx::NodeProto& node, const std::string& name,
                          onnx::AttributeProto::AttributeType type) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(type);
  return attribute;
}

void set_type(onnx::ValueInfoProto& value, const std::string& name, int type) {
  value.set_name(name);
  if (type != 0) value.mutable_type()->mutable_tensor_type()->set_elem_type(type);
}

}  // namespace

NodeBuilder& NodeBuilder::name(const std::string& name) {
  proto.set_name(name);
  return *this;
}

NodeBuilder& NodeBuilder::domain(const std::string& domain) {
  proto.set_domain(domain);
  return *this;
}

NodeBuilder& NodeBuilder::integer(const std::string& name, std::int64_t value) {
  add(proto, name, onnx::AttributeProto::INT).set_i(value);
  return *this;
}

NodeBuilder& NodeBuilder::integers(const std::string& name,
                                   const std::vector<std::int64_t>& values) {
  auto& attribute = add(proto, name, onnx::AttributeProto::INTS);
  attribute.mutable_ints()->Add(values.begin(), values.end());
  return *this;
}

NodeBuilder& NodeBuilder::real(const std::string& name, float value) {
  add(proto, name, onnx::AttributeProto::FLOAT).set_f(value);
  return *this;
}

NodeBuilder& NodeBuilder::reals(const std::string& name, const std::vector<float>& values) {
  auto& attribute = add(proto, name, onnx::AttributeProto::FLOATS);
  attribute.mutable_floats()->Add(values.begin(), values.end());
  return *this;
}

NodeBuilder& NodeBuilder::string(const std::string& name, const std::string& value) {
  add(proto, name, onnx::AttributeProto::STRING).set_s(value);
  return *this;
}

NodeBuilder& NodeBuilder::strings(const std::string& name, const std::vector<std::string>& values) {
  auto& attribute = add(proto, name, onnx::AttributeProto::STRINGS);
  attribute.mutable_strings()->Assign(values.begin(), values.end());
  return *this;
}

onnx::TensorProto& NodeBuilder::tensor(const std::string& name, int type,
                                       const std::vector<std::int64_t>& dims) {
  onnx::TensorProto& tensor = *add(proto, name, onnx::AttributeProto::TENSOR).mutable_t();
  tensor.set_data_type(type);
  tensor.mutable_dims()->Add(dims.begin(), dims.end());
  return tensor;
}

ModelBuilder::ModelBuilder(int opset) {
  model.set_ir_version(8);
  model.add_opset_import()->set_version(opset);
  model.mutable_graph()->set_name("test");
}

ModelBuilder& ModelBuilder::input(const std::string& name, int type,
                                  const std::vector<DimSpec>& dims) {
  onnx::ValueInfoProto& value = *model.mutable_graph()->add_input();
  set_type(value, name, type);
  auto& shape = *value.mutable_type()->mutable_tensor_type()->mutable_shape();
  for (const DimSpec& spec : dims) {
    auto& dim = *shape.add_dim();
    if (const auto* number = std::get_if<std::int64_t>(&spec)) dim.set_dim_value(*number);
    else if (!std::get<std::string>(spec).empty()) dim.set_dim_param(std::get<std::string>(spec));
  }
  return *this;
}

ModelBuilder& ModelBuilder::output(const std::string& name, int type) {
  set_type(*model.mutable_graph()->add_output(), name, type);
  return *this;
}

onnx::TensorProto& ModelBuilder::initialiser(const std::string& name, int type,
                                             const std::vector<std::int64_t>& dims) {
  onnx::TensorProto& tensor = *model.mutable_graph()->add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(type);
  tensor.mutable_dims()->Add(dims.begin(), dims.end());
  return tensor;
}

ModelBuilder& ModelBuilder::reals(const std::string& name, const std::vector<std::int64_t>& dims,
                                  const std::vector<float>& values) {
  initialiser(name, f32, dims).mutable_float_data()->Add(values.begin(), values.end());
  return *this;
}

ModelBuilder& ModelBuilder::integers(const std::string& name, const std::vector<std::int64_t>& dims,
                                     const std::vector<std::int64_t>& values) {
  initialiser(name, i64, dims).mutable_int64_data()->Add(values.begin(), values.end());
  return *this;
}

NodeBuilder ModelBuilder::node(const std::string& type, const std::vector<std::string>& inputs,
                               const std::vector<std::string>& outputs) {
  onnx::NodeProto& node = *model.mutable_graph()->add_node();
  node.set_op_type(type);
  for (const auto& input : inputs) node.add_input(input);
  for (const auto& output : outputs) node.add_output(output);
  return {node};
}

ir::Module ModelBuilder::read() const {
  const std::string serialised = bytes();
  return read_onnx(std::as_bytes(std::span(serialised)));
}

std::string ModelBuilder::text() const { return ir::print(read()); }

std::string ModelBuilder::failure() const { return failure_of(bytes()); }

std::string failure_of(const std::string& bytes) {
  try {
    read_onnx(std::as_bytes(std::span(bytes)));
  } catch (const Error& error) {
    return describe(error);
  }
  return "read";
}

std::string describe(const Error& error) {
  switch (error.kind()) {
    case ErrorKind::Malformed: return std::string("malformed: ") + error.what();
    case ErrorKind::Unsupported: return std::string("unsupported: ") + error.what();
    default: return "of another kind: " + std::string(error.what());
  }
}

}  // namespace anydim::frontends
