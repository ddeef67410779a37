#include "tests/fuzz/onnx_export.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "ir/error.h"
#include "ir/evaluate.h"
#include "ir/infer.h"
#include "tests/frontends/model_builder.h"

namespace anydim::tests {

using namespace ir;
using frontends::ModelBuilder;
using frontends::NodeBuilder;
using Integers = std::vector<std::int64_t>;

namespace {

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

// Ops that are one node over the same operands without attributes.
const std::map<Op, const char*>& plain_ops() {
  static const std::map<Op, const char*> names{{Op::abs, "Abs"},
                                               {Op::neg, "Neg"},
                                               {Op::sign, "Sign"},
                                               {Op::floor, "Floor"},
                                               {Op::ceil, "Ceil"},
                                               {Op::round, "Round"},
                                               {Op::sqrt, "Sqrt"},
                                               {Op::reciprocal, "Reciprocal"},
                                               {Op::exp, "Exp"},
                                               {Op::log, "Log"},
                                               {Op::sin, "Sin"},
                                               {Op::cos, "Cos"},
                                               {Op::tan, "Tan"},
                                               {Op::asin, "Asin"},
                                               {Op::acos, "Acos"},
                                               {Op::atan, "Atan"},
                                               {Op::sinh, "Sinh"},
                                               {Op::cosh, "Cosh"},
                                               {Op::asinh, "Asinh"},
                                               {Op::acosh, "Acosh"},
                                               {Op::atanh, "Atanh"},
                                               {Op::tanh, "Tanh"},
                                               {Op::sigmoid, "Sigmoid"},
                                               {Op::erf, "Erf"},
                                               {Op::relu, "Relu"},
                                               {Op::is_nan, "IsNaN"},
                                               {Op::is_inf, "IsInf"},
                                               {Op::logical_not, "Not"},
                                               {Op::bit_not, "BitwiseNot"},
                                               {Op::add, "Add"},
                                               {Op::sub, "Sub"},
                                               {Op::mul, "Mul"},
                                               {Op::div, "Div"},
                                               {Op::pow, "Pow"},
                                               {Op::min, "Min"},
                                               {Op::max, "Max"},
                                               {Op::equal, "Equal"},
                                               {Op::less, "Less"},
                                               {Op::less_equal, "LessOrEqual"},
                                               {Op::greater, "Greater"},
                                               {Op::greater_equal, "GreaterOrEqual"},
                                               {Op::logical_and, "And"},
                                               {Op::logical_or, "Or"},
                                               {Op::logical_xor, "Xor"},
                                               {Op::bit_and, "BitwiseAnd"},
                                               {Op::bit_or, "BitwiseOr"},
                                               {Op::bit_xor, "BitwiseXor"},
                                               {Op::where, "Where"},
                                               {Op::matmul, "MatMul"},
                                               {Op::shape_of, "Shape"},
                                               {Op::dyn_expand_dims, "Unsqueeze"},
                                               {Op::dyn_squeeze, "Squeeze"},
                                               {Op::dyn_broadcast_to, "Expand"},
                                               {Op::dyn_strided_slice, "Slice"},
                                               {Op::dyn_tile, "Tile"},
                                               {Op::dyn_arange, "Range"}};
  return names;
}

class Exporter {
 public:
  explicit Exporter(const RandomGraph& graph) : module_(graph.module) {}

  OnnxExport run() {
    try {
      infer_types(module_);
      for (ValueId id : main().body.parameters) {
        const TensorType& type = main().tensor_type(id);
        std::vector<frontends::DimSpec> dims;
        for (std::size_t axis = 0; axis < type.rank(); ++axis) {
          const Dim& dim = type.dims[axis];
          if (auto constant = dim.constant()) dims.emplace_back(*constant);
          else if (dim.kind() == Dim::Kind::Symbol) dims.emplace_back(dim.leaf().symbol);
          else no("a parameter's dim");
          if (dim.kind() == Dim::Kind::Symbol) origins_.try_emplace(dim.leaf().symbol, name(id), axis);
        }
        builder_.input(name(id), onnx_type(type.dtype), dims);
      }
      for (const Binding& binding : main().body.bindings) add(binding);
      for (std::size_t i = 0; i < main().body.results.size(); ++i) {
        const ValueId id = main().body.results[i];
        builder_.output(main().result_names[i], onnx_type(main().tensor_type(id).dtype));
        node("Identity", {name(id)}, main().result_names[i]);
      }
    } catch (const Error& error) {
      return {.reason = error.what()};
    }
    return {.bytes = builder_.bytes()};
  }

 private:
  [[noreturn]] static void no(std::string_view what) { throw Error(ErrorKind::Unsupported, std::string(what)); }
  const Function& main() const { return module_.functions[0]; }
  std::string name(ValueId id) const { return id == no_value ? "" : main().values[id].name; }

  NodeBuilder node(const std::string& kind, const std::vector<std::string>& inputs, const std::string& output) {
    return builder_.node(kind, inputs, {output});
  }
  std::string made() { return "made_" + std::to_string(made_++); }
  std::string integers(const Integers& list) {
    const std::string constant = made();
    builder_.integers(constant, {static_cast<std::int64_t>(list.size())}, list);
    return constant;
  }

  // A vector with the dim's value.
  std::string extent(const Dim& dim) {
    if (auto constant = dim.constant()) return integers({*constant});
    if (dim.kind() != Dim::Kind::Symbol || !origins_.contains(dim.leaf().symbol)) no("a literal of an expression");
    const auto& [origin, axis] = origins_.at(dim.leaf().symbol);
    const std::string shape = made(), element = made();
    node("Shape", {origin}, shape);
    node("Gather", {shape, integers({static_cast<std::int64_t>(axis)})}, element);
    return element;
  }

  std::vector<std::string> names(const std::vector<ValueId>& ids) const {
    std::vector<std::string> list;
    for (ValueId id : ids) list.push_back(name(id));
    return list;
  }

  void add(const Binding& binding) {
    const std::vector<std::string> in = names(binding.operands), out = names(binding.results);
    if (const auto found = plain_ops().find(binding.op); found != plain_ops().end()) {
      if (binding.op == Op::is_inf && (has_attribute(binding, "negative") || has_attribute(binding, "positive"))) no("is_inf of one sign");
      node(found->second, in, out[0]);
      return;
    }
    if (binding.op == Op::constant) {
      const Tensor& tensor = tensor_attribute(binding, "value");
      fill(builder_.initialiser(out[0], onnx_type(tensor.dtype()), {}), tensor);
    } else if (binding.op == Op::shape || binding.op == Op::dim) {
      add_literal(binding, out[0]);
    } else if (!add_movement(binding, in, out) && !add_reduction(binding, in, out)) {
      no(info(binding.op).text);
    }
  }

  void add_literal(const Binding& binding, const std::string& out) {
    if (binding.op == Op::dim) {
      node("Squeeze", {extent(binding.dims[0]), integers({0})}, out);
      return;
    }
    if (binding.dims.empty()) {
      builder_.integers(out, {0}, {});
      return;
    }
    std::vector<std::string> parts;
    for (const Dim& dim : binding.dims) parts.push_back(extent(dim));
    node("Concat", parts, out).integer("axis", 0);
  }

  bool add_movement(const Binding& binding, const std::vector<std::string>& in, const std::vector<std::string>& out) {
    switch (binding.op) {  // NOLINT: what is not here has no export
      case Op::cast: node("Cast", in, out[0]).integer("to", onnx_type(dtype_attribute(binding, "to"))); return true;
      case Op::mod: {
        const bool real = is_float(main().tensor_type(binding.operands[0]).dtype), truncates = integer_attribute(binding, "truncate") != 0;
        if (real != truncates) no("mod of another sign");
        node("Mod", in, out[0]).integer("fmod", truncates ? 1 : 0);
        return true;
      }
      case Op::reshape:
        node("Reshape", {in[0], integers(integers_attribute(binding, "shape"))}, out[0]).integer("allowzero", 1);
        return true;
      case Op::dyn_reshape:
        node("Reshape", in, out[0]).integer("allowzero", integer_attribute(binding, "zero_copies") != 0 ? 0 : 1);
        return true;
      case Op::flatten: node("Flatten", in, out[0]).integer("axis", integer_attribute(binding, "axis")); return true;
      case Op::full:
      case Op::broadcast_to: node("Expand", {in[0], integers(integers_attribute(binding, "shape"))}, out[0]); return true;
      case Op::dyn_full: node("Expand", in, out[0]); return true;
      case Op::expand_dims: node("Unsqueeze", {in[0], integers(integers_attribute(binding, "axes"))}, out[0]); return true;
      case Op::squeeze:
        if (!has_attribute(binding, "axes")) no("squeeze of all");
        node("Squeeze", {in[0], integers(integers_attribute(binding, "axes"))}, out[0]);
        return true;
      case Op::transpose: {
        NodeBuilder made_node = node("Transpose", in, out[0]);
        if (has_attribute(binding, "perm")) made_node.integers("perm", integers_attribute(binding, "perm"));
        return true;
      }
      case Op::concat: node("Concat", in, out[0]).integer("axis", integer_attribute(binding, "axis")); return true;
      case Op::tile: node("Tile", {in[0], integers(integers_attribute(binding, "repeats"))}, out[0]); return true;
      case Op::strided_slice: {
        std::vector<std::string> operands{in[0]};
        for (const char* part : {"starts", "ends", "axes", "steps"})
          operands.push_back(has_attribute(binding, part) ? integers(integers_attribute(binding, part)) : "");
        while (operands.back().empty()) operands.pop_back();
        node("Slice", operands, out[0]);
        return true;
      }
      case Op::split:
        if (!has_attribute(binding, "sizes")) no("split into equal parts");
        builder_.node("Split", {in[0], integers(integers_attribute(binding, "sizes"))}, out)
            .integer("axis", integer_attribute(binding, "axis"));
        return true;
      case Op::dyn_split: builder_.node("Split", in, out).integer("axis", integer_attribute(binding, "axis")); return true;
      case Op::gather: node("Gather", in, out[0]).integer("axis", integer_attribute(binding, "axis")); return true;
      case Op::gather_elements: node("GatherElements", in, out[0]).integer("axis", integer_attribute(binding, "axis")); return true;
      case Op::gather_nd: node("GatherND", in, out[0]).integer("batch_dims", integer_attribute(binding, "batch_dims")); return true;
      case Op::scatter_elements:
        node("ScatterElements", in, out[0])
            .integer("axis", integer_attribute(binding, "axis"))
            .string("reduction", string_attribute(binding, "reduction"));
        return true;
      case Op::scatter_nd: node("ScatterND", in, out[0]).string("reduction", string_attribute(binding, "reduction")); return true;
      case Op::trilu: {
        const std::string k = made();
        builder_.integers(k, {}, {integer_attribute(binding, "k")});
        node("Trilu", {in[0], k}, out[0]).integer("upper", integer_attribute(binding, "upper"));
        return true;
      }
      case Op::dyn_trilu: node("Trilu", in, out[0]).integer("upper", integer_attribute(binding, "upper")); return true;
      default: return false;
    }
  }

  bool add_reduction(const Binding& binding, const std::vector<std::string>& in, const std::vector<std::string>& out) {
    static const std::map<Op, const char*> reductions{{Op::reduce_sum, "ReduceSum"},       {Op::reduce_mean, "ReduceMean"},
                                                      {Op::reduce_max, "ReduceMax"},       {Op::reduce_min, "ReduceMin"},
                                                      {Op::reduce_prod, "ReduceProd"},     {Op::dyn_reduce_sum, "ReduceSum"},
                                                      {Op::dyn_reduce_mean, "ReduceMean"}, {Op::dyn_reduce_max, "ReduceMax"},
                                                      {Op::dyn_reduce_min, "ReduceMin"},   {Op::dyn_reduce_prod, "ReduceProd"}};
    if (const auto found = reductions.find(binding.op); found != reductions.end()) {
      std::vector<std::string> operands = in;
      const bool dynamic = info(binding.op).has(traits::dynamic);
      if (!dynamic && has_attribute(binding, "axes")) operands.push_back(integers(integers_attribute(binding, "axes")));
      NodeBuilder made_node = node(found->second, operands, out[0]);
      made_node.integer("keepdims", integer_attribute(binding, "keepdims"));
      if (dynamic) made_node.integer("noop_with_empty_axes", integer_attribute(binding, "empty_keeps"));
      return true;
    }
    switch (binding.op) {  // NOLINT: what is not here has no export
      case Op::softmax: node("Softmax", in, out[0]).integer("axis", integer_attribute(binding, "axis")); return true;
      case Op::log_softmax: node("LogSoftmax", in, out[0]).integer("axis", integer_attribute(binding, "axis")); return true;
      case Op::layer_norm:
        node("LayerNormalization", in, out[0])
            .integer("axis", integer_attribute(binding, "axis"))
            .real("epsilon", static_cast<float>(real_attribute(binding, "epsilon")));
        return true;
      case Op::arg_max:
      case Op::arg_min:
        node(binding.op == Op::arg_max ? "ArgMax" : "ArgMin", in, out[0])
            .integer("axis", integer_attribute(binding, "axis"))
            .integer("keepdims", integer_attribute(binding, "keepdims"))
            .integer("select_last_index", integer_attribute(binding, "last"));
        return true;
      case Op::cumulative_sum: {
        const std::string axis = made();
        builder_.integers(axis, {}, {integer_attribute(binding, "axis")});
        node("CumSum", {in[0], axis}, out[0])
            .integer("exclusive", integer_attribute(binding, "exclusive"))
            .integer("reverse", integer_attribute(binding, "reverse"));
        return true;
      }
      case Op::dyn_cumulative_sum:
        node("CumSum", in, out[0])
            .integer("exclusive", integer_attribute(binding, "exclusive"))
            .integer("reverse", integer_attribute(binding, "reverse"));
        return true;
      case Op::top_k:
        builder_.node("TopK", {in[0], integers({integer_attribute(binding, "k")})}, out)
            .integer("axis", integer_attribute(binding, "axis"))
            .integer("largest", integer_attribute(binding, "largest"));
        return true;
      default: return false;
    }
  }

  Module module_;
  ModelBuilder builder_{18};
  std::map<std::string, std::pair<std::string, std::size_t>, std::less<>> origins_;  // where a symbol can be read: parameter, axis
  int made_ = 0;
};

void write(const std::filesystem::path& file, const std::string& bytes) { std::ofstream(file, std::ios::binary) << bytes; }

void write_tensors(const std::filesystem::path& folder, const std::string& stem, const std::vector<Tensor>& tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    onnx::TensorProto proto;
    fill(proto, tensors[i]);
    write(folder / (stem + "_" + std::to_string(i) + ".pb"), proto.SerializeAsString());
  }
}

}  // namespace

OnnxExport to_onnx(const RandomGraph& graph) { return Exporter(graph).run(); }

std::string write_onnx_test(const RandomGraph& graph, const std::filesystem::path& folder) {
  const OnnxExport model = to_onnx(graph);
  if (model.bytes.empty()) return model.reason;
  std::filesystem::create_directories(folder);
  write(folder / "model.onnx", model.bytes);
  for (std::size_t call = 0; call < graph.calls.size(); ++call) {
    const std::filesystem::path data = folder / ("test_data_set_" + std::to_string(call));
    std::filesystem::create_directories(data);
    write_tensors(data, "input", graph.calls[call]);
    write_tensors(data, "output", evaluate(graph.module, graph.module.functions[0], graph.calls[call]));
  }
  return {};
}

}  // namespace anydim::tests
