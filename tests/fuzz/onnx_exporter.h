// Inside to_onnx(): names of values, nodes by op, and how blocks and calls become subgraphs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/module.h"
#include "tests/frontends/model_builder.h"
#include "tests/fuzz/onnx_export.h"

namespace anydim::tests {

int onnx_type(ir::DType dtype);
void fill(onnx::TensorProto& proto, const ir::Tensor& tensor);

// Writes one module, whose types it infers. Steps throw Error{Unsupported} where something has no
// ONNX form here.
class OnnxExporter {
 public:
  explicit OnnxExporter(const ir::Module& module) : module_(module) {}
  OnnxExport run();

 private:
  using Names = std::vector<std::string>;
  using Integers = std::vector<std::int64_t>;

  // A function while its bindings become nodes of the graph: each call has one of its own.
  struct Frame {
    const ir::Function* function = nullptr;
    std::string prefix{};                          // of its values' names
    std::map<ir::ValueId, std::string> renamed{};  // parameters of calls and parts of tuples
    std::map<ir::ValueId, Names> tuples{};
    std::map<ir::ValueId, std::pair<std::uint32_t, Names>> closures{};  // callee, first arguments
    // vectors of one element that hold a symbol's value
    std::map<std::string, std::string, std::less<>> extents{};
  };

  [[noreturn]] static void no(std::string_view what);
  const ir::Function& function() const { return *frame_.function; }
  const ir::TensorType& type(ir::ValueId id) const { return function().tensor_type(id); }
  std::string name(ir::ValueId id) const;
  Names names(const std::vector<ir::ValueId>& ids) const;
  std::string made() { return "made_" + std::to_string(made_++); }

  frontends::NodeBuilder node(const std::string& kind, const Names& inputs, const Names& outputs);
  std::string value_of(const std::string& kind,
                       const Names& inputs);  // of a node without attributes
  std::string integers(const Integers& list);
  std::string integer(std::int64_t number);  // of rank 0
  void constant(const std::string& name, const ir::Tensor& tensor);

  // ---- onnx_export.cpp ----
  void add_parameters();
  void open_symbols(ir::ValueId id);  // of the value's dims that no earlier one has
  std::string extent(const ir::Dim& dim);
  std::string sum(const ir::Dim& dim);
  std::string chosen(const ir::Dim& dim);
  void add(const ir::Binding& binding);
  bool add_literal(const ir::Binding& binding, const Names& in, const Names& out);
  bool add_structure(const ir::Binding& binding, const Names& in, const Names& out);
  bool add_list(const ir::Binding& binding, const Names& in, const Names& out);
  void add_call(std::uint32_t callee, const Names& arguments, const Names& results);
  void add_block(onnx::NodeProto& node, const std::string& attribute, const ir::Block& block);

  // ---- onnx_export_ops.cpp ----
  bool add_plain(const ir::Binding& binding, const Names& in, const Names& out);
  bool add_movement(const ir::Binding& binding, const Names& in, const Names& out);
  bool add_placement(const ir::Binding& binding, const Names& in, const Names& out);
  void add_pad(const ir::Binding& binding, const Names& in, const std::string& out);
  bool add_reduction(const ir::Binding& binding, const Names& in, const Names& out);
  bool add_count(const ir::Binding& binding, const Names& in, const Names& out);

  ir::Module module_;
  frontends::ModelBuilder builder_{18};
  onnx::GraphProto* graph_ = nullptr;  // that nodes go to
  Frame frame_{};
  int made_ = 0;
};

}  // namespace anydim::tests
