// Builds small ONNX models in memory for tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <variant>
#include <vector>

#include "ir/error.h"
#include "ir/module.h"
#include "onnx_schema/onnx.pb.h"

namespace anydim::frontends {

inline constexpr int f32 = onnx::TensorProto::FLOAT;
inline constexpr int f16 = onnx::TensorProto::FLOAT16;
inline constexpr int f64 = onnx::TensorProto::DOUBLE;
inline constexpr int i64 = onnx::TensorProto::INT64;
inline constexpr int i32 = onnx::TensorProto::INT32;
inline constexpr int u8 = onnx::TensorProto::UINT8;
inline constexpr int boolean = onnx::TensorProto::BOOL;

// A number, a name, or nothing ("").
using DimSpec = std::variant<std::int64_t, std::string>;

struct NodeBuilder {
  onnx::NodeProto& proto;
  NodeBuilder& name(const std::string& name);
  NodeBuilder& domain(const std::string& domain);
  NodeBuilder& integer(const std::string& name, std::int64_t value);
  NodeBuilder& integers(const std::string& name, const std::vector<std::int64_t>& values);
  NodeBuilder& real(const std::string& name, float value);
  NodeBuilder& reals(const std::string& name, const std::vector<float>& values);
  NodeBuilder& string(const std::string& name, const std::string& value);
  NodeBuilder& strings(const std::string& name, const std::vector<std::string>& values);
  onnx::TensorProto& tensor(const std::string& name, int type,
                            const std::vector<std::int64_t>& dims);
};

struct ModelBuilder {
  onnx::ModelProto model;

  explicit ModelBuilder(int opset = 17);
  ModelBuilder& input(const std::string& name, int type, const std::vector<DimSpec>& dims);
  ModelBuilder& output(const std::string& name, int type = 0);
  onnx::TensorProto& initialiser(const std::string& name, int type,
                                 const std::vector<std::int64_t>& dims);
  ModelBuilder& reals(const std::string& name, const std::vector<std::int64_t>& dims,
                      const std::vector<float>& values);
  ModelBuilder& integers(const std::string& name, const std::vector<std::int64_t>& dims,
                         const std::vector<std::int64_t>& values);
  NodeBuilder node(const std::string& type, const std::vector<std::string>& inputs,
                   const std::vector<std::string>& outputs);
  ModelBuilder& with_node(const std::string& type, const std::vector<std::string>& inputs,
                          const std::vector<std::string>& outputs) {
    node(type, inputs, outputs);
    return *this;
  }

  std::string bytes() const { return model.SerializeAsString(); }
  ir::Module read() const;   // as read_onnx reads the bytes
  std::string text() const;  // the module's text
  std::string failure()
      const;  // "malformed: MESSAGE" or "unsupported: MESSAGE"; "read" where nothing fails
};

// What reading the bytes ends with, as ModelBuilder::failure.
std::string failure_of(const std::string& bytes);
std::string describe(const Error& error);

}  // namespace anydim::frontends
