#include <map>

#include "ir/error.h"
#include "tests/fuzz/onnx_exporter.h"

namespace anydim::tests {

using namespace ir;
using frontends::NodeBuilder;

namespace {

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
                                               {Op::drop_ones, "Squeeze"},
                                               {Op::dyn_broadcast_to, "Expand"},
                                               {Op::dyn_strided_slice, "Slice"},
                                               {Op::dyn_tile, "Tile"},
                                               {Op::dyn_full, "Expand"},
                                               {Op::nonzero, "NonZero"},
                                               {Op::check_shape, "Identity"},
                                               {Op::dyn_arange, "Range"}};
  return names;
}

}  // namespace

bool OnnxExporter::add_plain(const Binding& binding, const Names& in, const Names& out) {
  const auto found = plain_ops().find(binding.op);
  if (found == plain_ops().end()) return false;
  if (binding.op == Op::is_inf &&
      (has_attribute(binding, "negative") || has_attribute(binding, "positive")))
    no("is_inf of one sign");
  if (binding.op == Op::dyn_squeeze && type(binding.operands[1]).dims[0].is_constant(0))
    no("dyn.squeeze over no axes, which ONNX Runtime takes for all");
  if (binding.op == Op::nonzero && type(binding.operands[0]).rank() == 0)
    no("nonzero of a scalar, which ONNX Runtime takes for a vector");
  node(found->second, in, {out[0]});
  return true;
}

bool OnnxExporter::add_movement(const Binding& binding, const Names& in, const Names& out) {
  switch (binding.op) {  // NOLINT: what is not here has no export
    case Op::cast: {
      const DType to = dtype_attribute(binding, "to");
      if (is_float(type(binding.operands[0]).dtype) && is_integer(to) && !is_signed(to))
        no("casts of floats, which may be negative, to unsigned integers");
      node("Cast", in, {out[0]}).integer("to", onnx_type(to));
      return true;
    }
    case Op::mod: {
      const bool real = is_float(type(binding.operands[0]).dtype),
                 truncates = integer_attribute(binding, "truncate") != 0;
      if (real != truncates) no("mod of another sign");
      node("Mod", in, {out[0]}).integer("fmod", truncates ? 1 : 0);
      return true;
    }
    case Op::reshape:
      node("Reshape", {in[0], integers(integers_attribute(binding, "shape"))}, {out[0]})
          .integer("allowzero", 1);
      return true;
    case Op::dyn_reshape:
      node("Reshape", in, {out[0]})
          .integer("allowzero", integer_attribute(binding, "zero_copies") != 0 ? 0 : 1);
      return true;
    case Op::flatten:
      node("Flatten", in, {out[0]}).integer("axis", integer_attribute(binding, "axis"));
      return true;
    case Op::full:
    case Op::broadcast_to:
      node("Expand", {in[0], integers(integers_attribute(binding, "shape"))}, {out[0]});
      return true;
    case Op::expand_dims:
      node("Unsqueeze", {in[0], integers(integers_attribute(binding, "axes"))}, {out[0]});
      return true;
    case Op::squeeze:
      if (!has_attribute(binding, "axes")) node("Squeeze", in, {out[0]});
      // No axes are all of them to ONNX.
      else if (integers_attribute(binding, "axes").empty()) node("Identity", in, {out[0]});
      else node("Squeeze", {in[0], integers(integers_attribute(binding, "axes"))}, {out[0]});
      return true;
    case Op::transpose: {
      NodeBuilder made_node = node("Transpose", in, {out[0]});
      if (has_attribute(binding, "perm"))
        made_node.integers("perm", integers_attribute(binding, "perm"));
      return true;
    }
    case Op::concat:
      node("Concat", in, {out[0]}).integer("axis", integer_attribute(binding, "axis"));
      return true;
    case Op::tile:
      node("Tile", {in[0], integers(integers_attribute(binding, "repeats"))}, {out[0]});
      return true;
    case Op::strided_slice: {
      Names operands{in[0]};
      for (const char* part : {"starts", "ends", "axes", "steps"})
        operands.push_back(
            has_attribute(binding, part) ? integers(integers_attribute(binding, part)) : "");
      while (operands.back().empty()) operands.pop_back();
      node("Slice", operands, {out[0]});
      return true;
    }
    case Op::split:
      if (has_attribute(binding, "sizes"))
        node("Split", {in[0], integers(integers_attribute(binding, "sizes"))}, out)
            .integer("axis", integer_attribute(binding, "axis"));
      else
        node("Split", in, out)
            .integer("axis", integer_attribute(binding, "axis"))
            .integer("num_outputs", static_cast<std::int64_t>(out.size()));
      return true;
    case Op::dyn_split:
      node("Split", in, out).integer("axis", integer_attribute(binding, "axis"));
      return true;
    default: return false;
  }
}

// Ops that place elements where operands or attributes say, and tensors made of nothing.
bool OnnxExporter::add_placement(const Binding& binding, const Names& in, const Names& out) {
  switch (binding.op) {  // NOLINT: what is not here has no export
    case Op::gather:
      node("Gather", in, {out[0]}).integer("axis", integer_attribute(binding, "axis"));
      return true;
    case Op::gather_elements:
      node("GatherElements", in, {out[0]}).integer("axis", integer_attribute(binding, "axis"));
      return true;
    case Op::gather_nd:
      node("GatherND", in, {out[0]})
          .integer("batch_dims", integer_attribute(binding, "batch_dims"));
      return true;
    case Op::scatter_elements:
      node("ScatterElements", in, {out[0]})
          .integer("axis", integer_attribute(binding, "axis"))
          .string("reduction", string_attribute(binding, "reduction"));
      return true;
    case Op::scatter_nd:
      node("ScatterND", in, {out[0]}).string("reduction", string_attribute(binding, "reduction"));
      return true;
    case Op::trilu:
      node("Trilu", {in[0], integer(integer_attribute(binding, "k"))}, {out[0]})
          .integer("upper", integer_attribute(binding, "upper"));
      return true;
    case Op::dyn_trilu:
      node("Trilu", in, {out[0]}).integer("upper", integer_attribute(binding, "upper"));
      return true;
    case Op::zeros:
    case Op::ones:
    case Op::dyn_zeros:
    case Op::dyn_ones: {
      Tensor one(dtype_attribute(binding, "dtype"), {});
      one.set_real(0, binding.op == Op::ones || binding.op == Op::dyn_ones ? 1 : 0);
      const std::string filler = made();
      constant(filler, one);
      node("Expand", {filler, in.empty() ? integers(integers_attribute(binding, "shape")) : in[0]},
           {out[0]});
      return true;
    }
    case Op::arange:
      node("Range",
           {integer(integer_attribute(binding, "start")),
            integer(integer_attribute(binding, "stop")),
            integer(integer_attribute(binding, "step"))},
           {out[0]});
      return true;
    case Op::one_hot:
    case Op::dyn_one_hot: {
      const std::string depth =
          binding.op == Op::one_hot ? integer(integer_attribute(binding, "depth")) : in[3];
      const std::string values = made();
      node("Concat",
           {value_of("Reshape", {in[1], integers({1})}),
            value_of("Reshape", {in[2], integers({1})})},
           {values})
          .integer("axis", 0);
      node("OneHot", {in[0], depth, values}, {out[0]}).integer("axis", -1);
      return true;
    }
    case Op::pad:
    case Op::dyn_pad: add_pad(binding, in, out[0]); return true;
    default: return false;
  }
}

void OnnxExporter::add_pad(const Binding& binding, const Names& in, const std::string& out) {
  if (string_attribute(binding, "mode") == "wrap") no("pad by wrapping");
  const std::string pads = made();
  Names operands{in[0], pads};
  if (binding.op == Op::dyn_pad) {
    node("Concat", {in[2], in[3]}, {pads}).integer("axis", 0);
    operands.insert(operands.end(), {in[1], in.size() > 4 ? in[4] : ""});
  } else {
    Integers both = integers_attribute(binding, "before"),
             after = integers_attribute(binding, "after");
    both.insert(both.end(), after.begin(), after.end());
    builder_.integers(pads, {static_cast<std::int64_t>(both.size())}, both);
    operands.insert(
        operands.end(),
        {in.size() > 1 ? in[1] : "",
         has_attribute(binding, "axes") ? integers(integers_attribute(binding, "axes")) : ""});
  }
  while (operands.back().empty()) operands.pop_back();
  node("Pad", operands, {out}).string("mode", string_attribute(binding, "mode"));
}

bool OnnxExporter::add_reduction(const Binding& binding, const Names& in, const Names& out) {
  static const std::map<Op, const char*> reductions{
      {Op::reduce_sum, "ReduceSum"},       {Op::reduce_mean, "ReduceMean"},
      {Op::reduce_max, "ReduceMax"},       {Op::reduce_min, "ReduceMin"},
      {Op::reduce_prod, "ReduceProd"},     {Op::dyn_reduce_sum, "ReduceSum"},
      {Op::dyn_reduce_mean, "ReduceMean"}, {Op::dyn_reduce_max, "ReduceMax"},
      {Op::dyn_reduce_min, "ReduceMin"},   {Op::dyn_reduce_prod, "ReduceProd"}};
  if (const auto found = reductions.find(binding.op); found != reductions.end()) {
    Names operands = in;
    const bool dynamic = info(binding.op).has(traits::dynamic);
    if (!dynamic && has_attribute(binding, "axes"))
      operands.push_back(integers(integers_attribute(binding, "axes")));
    NodeBuilder made_node = node(found->second, operands, {out[0]});
    made_node.integer("keepdims", integer_attribute(binding, "keepdims"));
    if (dynamic)
      made_node.integer("noop_with_empty_axes", integer_attribute(binding, "empty_keeps"));
    return true;
  }
  switch (binding.op) {  // NOLINT: what is not here has no export
    case Op::softmax:
      node("Softmax", in, {out[0]}).integer("axis", integer_attribute(binding, "axis"));
      return true;
    case Op::log_softmax:
      node("LogSoftmax", in, {out[0]}).integer("axis", integer_attribute(binding, "axis"));
      return true;
    case Op::layer_norm:
      node("LayerNormalization", in, {out[0]})
          .integer("axis", integer_attribute(binding, "axis"))
          .real("epsilon", static_cast<float>(real_attribute(binding, "epsilon")));
      return true;
    case Op::arg_max:
    case Op::arg_min:
      node(binding.op == Op::arg_max ? "ArgMax" : "ArgMin", in, {out[0]})
          .integer("axis", integer_attribute(binding, "axis"))
          .integer("keepdims", integer_attribute(binding, "keepdims"))
          .integer("select_last_index", integer_attribute(binding, "last"));
      return true;
    case Op::cumulative_sum:
      node("CumSum", {in[0], integer(integer_attribute(binding, "axis"))}, {out[0]})
          .integer("exclusive", integer_attribute(binding, "exclusive"))
          .integer("reverse", integer_attribute(binding, "reverse"));
      return true;
    case Op::dyn_cumulative_sum:
      node("CumSum", in, {out[0]})
          .integer("exclusive", integer_attribute(binding, "exclusive"))
          .integer("reverse", integer_attribute(binding, "reverse"));
      return true;
    case Op::dyn_top_k:
      node("TopK", {in[0], value_of("Reshape", {in[1], integers({1})})}, out)
          .integer("axis", integer_attribute(binding, "axis"))
          .integer("largest", integer_attribute(binding, "largest"));
      return true;
    case Op::top_k:
      node("TopK", {in[0], integers({integer_attribute(binding, "k")})}, out)
          .integer("axis", integer_attribute(binding, "axis"))
          .integer("largest", integer_attribute(binding, "largest"));
      return true;
    default: return false;
  }
}

// Ops whose size only the data tells, and sorting.
bool OnnxExporter::add_count(const Binding& binding, const Names& in, const Names& out) {
  switch (binding.op) {  // NOLINT: what is not here has no export
    case Op::compress:
      if (has_attribute(binding, "axis"))
        node("Compress", in, {out[0]}).integer("axis", integer_attribute(binding, "axis"));
      else node("Compress", {value_of("Reshape", {in[0], integers({-1})}), in[1]}, {out[0]});
      return true;
    case Op::unique: {
      NodeBuilder unique =
          node("Unique", in, out).integer("sorted", integer_attribute(binding, "sorted"));
      if (has_attribute(binding, "axis"))
        unique.integer("axis", integer_attribute(binding, "axis"));
      return true;
    }
    case Op::non_max_suppression:
      if (type(binding.operands[0]).dtype != DType::F32) no("boxes that are not f32");
      node("NonMaxSuppression", in, {out[0]})
          .integer("center_point_box", integer_attribute(binding, "center_point_box"));
      return true;
    case Op::argsort: {
      if (integer_attribute(binding, "slices") != 0) no("argsort of slices");
      const TensorType& positions = type(binding.results[0]);
      const std::int64_t axis = integer_attribute(binding, "axis");
      const std::string count = extent(positions.dims[static_cast<std::size_t>(
          axis < 0 ? axis + static_cast<std::int64_t>(positions.rank()) : axis)]);
      node("TopK", {in[0], count}, {made(), out[0]})
          .integer("axis", axis)
          .integer("largest", integer_attribute(binding, "descending"));
      return true;
    }
    default: return false;
  }
}

}  // namespace anydim::tests
