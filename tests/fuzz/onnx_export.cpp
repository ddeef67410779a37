#include "tests/fuzz/onnx_export.h"

#include <filesystem>
#include <fstream>
#include <set>

#include "ir/error.h"
#include "ir/reference/evaluate.h"
#include "ir/shapes/infer.h"
#include "tests/fuzz/onnx_exporter.h"

namespace anydim::tests {

using namespace ir;
using frontends::NodeBuilder;

int onnx_type(DType dtype) {
  switch (dtype) {
    case DType::F64: return onnx::TensorProto::DOUBLE;
    case DType::F32: return onnx::TensorProto::FLOAT;
    case DType::F16: return onnx::TensorProto::FLOAT16;
    case DType::BF16: return onnx::TensorProto::BFLOAT16;
    case DType::I64: return onnx::TensorProto::INT64;
    case DType::I32: return onnx::TensorProto::INT32;
    case DType::I16: return onnx::TensorProto::INT16;
    case DType::I8: return onnx::TensorProto::INT8;
    case DType::U64: return onnx::TensorProto::UINT64;
    case DType::U32: return onnx::TensorProto::UINT32;
    case DType::U16: return onnx::TensorProto::UINT16;
    case DType::U8: return onnx::TensorProto::UINT8;
    case DType::Bool: return onnx::TensorProto::BOOL;
  }
  return 0;
}

void fill(onnx::TensorProto& proto, const Tensor& tensor) {
  proto.set_data_type(onnx_type(tensor.dtype()));
  proto.clear_dims();
  for (const std::int64_t extent : tensor.dims()) proto.add_dims(extent);
  proto.set_raw_data(tensor.bytes().data(), tensor.bytes().size());
}

OnnxExport OnnxExporter::run() {
  try {
    infer_types(module_);
    graph_ = builder_.model.mutable_graph();
    frame_.function = &module_.functions[0];
    add_parameters();
    for (const Binding& binding : function().body.bindings) add(binding);
    for (std::size_t i = 0; i < function().body.results.size(); ++i) {
      const ValueId id = function().body.results[i];
      builder_.output(function().result_names[i], onnx_type(type(id).dtype));
      node("Identity", {name(id)}, {function().result_names[i]});
    }
  } catch (const Error& error) {
    return {.reason = error.what()};
  }
  return {.bytes = builder_.bytes()};
}

void OnnxExporter::no(std::string_view what) {
  throw Error(ErrorKind::Unsupported, std::string(what));
}

std::string OnnxExporter::name(ValueId id) const {
  if (id == no_value) return "";
  const auto found = frame_.renamed.find(id);
  return found != frame_.renamed.end() ? found->second : frame_.prefix + function().values[id].name;
}

OnnxExporter::Names OnnxExporter::names(const std::vector<ValueId>& ids) const {
  Names list;
  for (ValueId id : ids) list.push_back(name(id));
  return list;
}

NodeBuilder OnnxExporter::node(const std::string& kind, const Names& inputs, const Names& outputs) {
  onnx::NodeProto& node = *graph_->add_node();
  node.set_op_type(kind);
  for (const std::string& input : inputs) node.add_input(input);
  for (const std::string& output : outputs) node.add_output(output);
  return {node};
}

std::string OnnxExporter::value_of(const std::string& kind, const Names& inputs) {
  const std::string result = made();
  node(kind, inputs, {result});
  return result;
}

std::string OnnxExporter::integers(const Integers& list) {
  const std::string constant = made();
  builder_.integers(constant, {static_cast<std::int64_t>(list.size())}, list);
  return constant;
}

std::string OnnxExporter::integer(std::int64_t number) {
  const std::string constant = made();
  builder_.integers(constant, {}, {number});
  return constant;
}

void OnnxExporter::constant(const std::string& name, const Tensor& tensor) {
  fill(builder_.initialiser(name, onnx_type(tensor.dtype()), {}), tensor);
}

void OnnxExporter::add_parameters() {
  for (ValueId id : function().body.parameters) {
    std::vector<frontends::DimSpec> dims;
    for (const Dim& dim : type(id).dims) {
      if (auto constant = dim.constant()) dims.emplace_back(*constant);
      else if (dim.kind() == Dim::Kind::Symbol) dims.emplace_back(dim.leaf().symbol);
      else no("a parameter's dim");
    }
    builder_.input(name(id), onnx_type(type(id).dtype), dims);
    open_symbols(id);
  }
}

void OnnxExporter::open_symbols(ValueId id) {
  if (!function().values[id].type.is_tensor()) return;
  for (std::size_t axis = 0; axis < type(id).rank(); ++axis) {
    const Dim& dim = type(id).dims[axis];
    if (dim.kind() != Dim::Kind::Symbol || frame_.extents.contains(dim.leaf().symbol)) continue;
    const std::string shape = value_of("Shape", {name(id)});
    frame_.extents.emplace(
        dim.leaf().symbol,
        value_of("Gather", {shape, integers({static_cast<std::int64_t>(axis)})}));
  }
}

// A vector with the dim's value.
std::string OnnxExporter::extent(const Dim& dim) {
  switch (dim.kind()) {
    case Dim::Kind::Constant: return integers({*dim.constant()});
    case Dim::Kind::Symbol: {
      const auto found = frame_.extents.find(dim.leaf().symbol);
      if (found == frame_.extents.end()) no("a symbol that nothing outside of a block has");
      return found->second;
    }
    case Dim::Kind::Value: {
      const std::string elements = value_of("Reshape", {name(dim.leaf().value), integers({-1})}),
                        found = made();
      node("Cast", {value_of("Gather", {elements, integers({dim.leaf().element})})}, {found})
          .integer("to", onnx::TensorProto::INT64);
      return found;
    }
    case Dim::Kind::Sum: return sum(dim);
    default: return chosen(dim);
  }
}

std::string OnnxExporter::sum(const Dim& dim) {
  std::string total = integers({dim.constant_part()});
  for (const Dim::Term& term : dim.terms()) {
    std::string product = integers({term.coefficient});
    for (const Dim& factor : term.factors) product = value_of("Mul", {product, extent(factor)});
    total = value_of("Add", {total, product});
  }
  return total;
}

std::string OnnxExporter::chosen(const Dim& dim) {
  Names operands;
  for (const Dim& operand : dim.operands()) operands.push_back(extent(operand));
  switch (dim.kind()) {
    case Dim::Kind::Min: return value_of("Min", operands);
    case Dim::Kind::Max: return value_of("Max", operands);
    case Dim::Kind::Mod: return value_of("Mod", operands);
    // ONNX rounds quotients towards zero.
    case Dim::Kind::FloorDiv:
      return value_of("Div",
                      {value_of("Sub", {operands[0], value_of("Mod", operands)}), operands[1]});
    case Dim::Kind::Broadcast:
      return value_of("Where",
                      {value_of("Equal", {operands[0], integers({1})}), operands[1], operands[0]});
    case Dim::Kind::Select: {
      const bool equality =
          dim.comparison() == Comparison::Equal || dim.comparison() == Comparison::NotEqual;
      const char* comparison = equality                               ? "Equal"
                               : dim.comparison() == Comparison::Less ? "Less"
                                                                      : "LessOrEqual";
      if (dim.comparison() == Comparison::NotEqual) std::swap(operands[2], operands[3]);
      return value_of("Where",
                      {value_of(comparison, {operands[0], operands[1]}), operands[2], operands[3]});
    }
    default: no("a dim of another kind");
  }
}

void OnnxExporter::add(const Binding& binding) {
  const Names in = names(binding.operands), out = names(binding.results);
  const bool known = add_literal(binding, in, out) || add_plain(binding, in, out) ||
                     add_movement(binding, in, out) || add_placement(binding, in, out) ||
                     add_reduction(binding, in, out) || add_count(binding, in, out) ||
                     add_list(binding, in, out) || add_structure(binding, in, out);
  if (!known) no(info(binding.op).text);
  for (ValueId result : binding.results) open_symbols(result);
}

bool OnnxExporter::add_literal(const Binding& binding, const Names& in, const Names& out) {
  switch (binding.op) {  // NOLINT: what is not here is no literal
    case Op::constant: constant(out[0], tensor_attribute(binding, "value")); return true;
    case Op::dim: node("Squeeze", {extent(binding.dims[0]), integers({0})}, out); return true;
    case Op::shape: {
      if (binding.dims.empty()) {
        builder_.integers(out[0], {0}, {});
        return true;
      }
      Names parts;
      for (const Dim& dim : binding.dims) parts.push_back(extent(dim));
      node("Concat", parts, out).integer("axis", 0);
      return true;
    }
    case Op::check: return true;  // holds, or the evaluator would not have accepted the call
    case Op::bind: {
      const std::string whole = made();
      node("Cast", {value_of("Reshape", {in[0], integers({1})})}, {whole})
          .integer("to", onnx::TensorProto::INT64);
      frame_.extents.insert_or_assign(binding.dims[0].leaf().symbol, whole);
      return true;
    }
    default: return false;
  }
}

bool OnnxExporter::add_structure(const Binding& binding, const Names& in, const Names& out) {
  switch (binding.op) {  // NOLINT: what is not here has no export
    case Op::tuple: frame_.tuples.emplace(binding.results[0], in); return true;
    case Op::tuple_get: {
      const auto found = frame_.tuples.find(binding.operands[0]);
      if (found == frame_.tuples.end()) no("a tuple from elsewhere");
      frame_.renamed.emplace(
          binding.results[0],
          found->second.at(static_cast<std::size_t>(integer_attribute(binding, "index"))));
      return true;
    }
    case Op::closure:
      frame_.closures.emplace(binding.results[0], std::pair{binding.callee, in});
      return true;
    case Op::apply: {
      const auto found = frame_.closures.find(binding.operands[0]);
      if (found == frame_.closures.end()) no("a function from elsewhere");
      Names arguments = found->second.second;
      arguments.insert(arguments.end(), in.begin() + 1, in.end());
      add_call(found->second.first, arguments, out);
      return true;
    }
    case Op::call: add_call(binding.callee, in, out); return true;
    case Op::branch: {
      NodeBuilder branch = node("If", in, out);
      add_block(branch.proto, "then_branch", binding.blocks[0]);
      add_block(branch.proto, "else_branch", binding.blocks[1]);
      return true;
    }
    case Op::loop: {
      NodeBuilder loop = node("Loop", in, out);
      add_block(loop.proto, "body", binding.blocks[0]);
      return true;
    }
    default: return false;
  }
}

bool OnnxExporter::add_list(const Binding& binding, const Names& in, const Names& out) {
  switch (binding.op) {  // NOLINT: what is not here is no list
    case Op::list: node("SequenceConstruct", in, out); return true;
    case Op::list_length: node("SequenceLength", in, out); return true;
    case Op::list_at: node("SequenceAt", in, out); return true;
    case Op::list_insert: node("SequenceInsert", in, out); return true;
    case Op::list_erase: node("SequenceErase", in, out); return true;
    case Op::list_concat:
      node("ConcatFromSequence", in, out)
          .integer("axis", integer_attribute(binding, "axis"))
          .integer("new_axis", integer_attribute(binding, "new_axis"));
      return true;
    default: return false;
  }
}

// The function's bindings in place of the call. What it opens ends with it.
void OnnxExporter::add_call(std::uint32_t callee, const Names& arguments, const Names& results) {
  Frame caller = std::move(frame_);
  frame_ = {.function = &module_.functions.at(callee), .prefix = made() + "_"};
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const ValueId parameter = function().body.parameters.at(i);
    frame_.renamed.emplace(parameter, arguments[i]);
    open_symbols(parameter);
  }
  for (const Binding& binding : function().body.bindings) add(binding);
  for (std::size_t i = 0; i < results.size(); ++i)
    node("Identity", {name(function().body.results.at(i))}, {results[i]});
  frame_ = std::move(caller);
}

void OnnxExporter::add_block(onnx::NodeProto& node, const std::string& attribute,
                             const Block& block) {
  onnx::AttributeProto& proto = *node.add_attribute();
  proto.set_name(attribute);
  proto.set_type(onnx::AttributeProto::GRAPH);
  onnx::GraphProto& inner = *proto.mutable_g();
  inner.set_name(made());
  onnx::GraphProto* const around = std::exchange(graph_, &inner);
  const Frame before = frame_;
  for (ValueId parameter : block.parameters) {
    onnx::ValueInfoProto& input = *inner.add_input();
    input.set_name(name(parameter));
    onnx::TypeProto::Tensor& tensor = *input.mutable_type()->mutable_tensor_type();
    tensor.set_elem_type(onnx_type(type(parameter).dtype));
    tensor.mutable_shape();
    for (std::size_t axis = 0; axis < type(parameter).rank(); ++axis)
      tensor.mutable_shape()->add_dim();
    open_symbols(parameter);
  }
  for (const Binding& binding : block.bindings) add(binding);
  for (ValueId result : block.results) {
    if (!function().values[result].type.is_tensor()) no("a block that gives no tensor");
    onnx::ValueInfoProto& output = *inner.add_output();
    output.set_name(value_of("Identity", {name(result)}));
    output.mutable_type()->mutable_tensor_type()->set_elem_type(onnx_type(type(result).dtype));
  }
  frame_ = before;
  graph_ = around;
}

namespace {

void write(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

void write_tensors(const std::filesystem::path& folder, const std::string& stem,
                   const std::vector<Tensor>& tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    onnx::TensorProto proto;
    fill(proto, tensors[i]);
    write(folder / (stem + "_" + std::to_string(i) + ".pb"), proto.SerializeAsString());
  }
}

}  // namespace

OnnxExport to_onnx(const RandomGraph& graph) { return OnnxExporter(graph.module).run(); }

std::string write_onnx_test(const RandomGraph& graph, const std::filesystem::path& folder) {
  const OnnxExport model = to_onnx(graph);
  if (model.bytes.empty()) return model.reason;
  std::filesystem::create_directories(folder);
  write(folder / "model.onnx", model.bytes);
  Module typed = graph.module;
  infer_types(typed);
  for (std::size_t call = 0; call < graph.calls.size(); ++call) {
    const std::filesystem::path data = folder / ("test_data_set_" + std::to_string(call));
    std::filesystem::create_directories(data);
    write_tensors(data, "input", graph.calls[call]);
    write_tensors(data, "output", evaluate(typed, typed.functions[0], graph.calls[call]));
  }
  return {};
}

}  // namespace anydim::tests
