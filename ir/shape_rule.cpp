#include "ir/shape_rule.h"

#include <fmt/format.h>

#include <utility>

#include "ir/shape_rules.h"

namespace anydim::ir {
namespace {

void apply(RuleContext& context) {
  switch (context.binding.op) {
    case Op::constant: return constant_rule(context);
    case Op::shape:
    case Op::dim: return shape_literal_rule(context);
    case Op::shape_of: return shape_of_rule(context);
    case Op::full:
    case Op::dyn_full: return full_rule(context);
    case Op::zeros:
    case Op::dyn_zeros:
    case Op::ones:
    case Op::dyn_ones: return filled_rule(context);
    case Op::arange:
    case Op::dyn_arange: return arange_rule(context);

    case Op::abs:
    case Op::neg:
    case Op::sign:
    case Op::floor:
    case Op::ceil:
    case Op::round:
    case Op::sqrt:
    case Op::reciprocal:
    case Op::exp:
    case Op::log:
    case Op::sin:
    case Op::cos:
    case Op::tan:
    case Op::asin:
    case Op::acos:
    case Op::atan:
    case Op::sinh:
    case Op::cosh:
    case Op::asinh:
    case Op::acosh:
    case Op::atanh:
    case Op::tanh:
    case Op::sigmoid:
    case Op::erf:
    case Op::relu:
    case Op::gelu:
    case Op::gelu_tanh:
    case Op::is_nan:
    case Op::is_inf:
    case Op::logical_not:
    case Op::bit_not:
    case Op::cast: return unary_rule(context);

    case Op::add:
    case Op::sub:
    case Op::mul:
    case Op::div:
    case Op::mod:
    case Op::pow:
    case Op::min:
    case Op::max:
    case Op::equal:
    case Op::less:
    case Op::less_equal:
    case Op::greater:
    case Op::greater_equal:
    case Op::logical_and:
    case Op::logical_or:
    case Op::logical_xor:
    case Op::bit_and:
    case Op::bit_or:
    case Op::bit_xor:
    case Op::shift_left:
    case Op::shift_right: return binary_rule(context);
    case Op::where: return where_rule(context);

    case Op::reshape:
    case Op::dyn_reshape: return reshape_rule(context);
    case Op::flatten: return flatten_rule(context);
    case Op::broadcast_to:
    case Op::dyn_broadcast_to: return broadcast_to_rule(context);
    case Op::expand_dims:
    case Op::dyn_expand_dims: return expand_dims_rule(context);
    case Op::squeeze:
    case Op::dyn_squeeze: return squeeze_rule(context);
    case Op::transpose: return transpose_rule(context);
    case Op::concat: return concat_rule(context);
    case Op::strided_slice:
    case Op::dyn_strided_slice: return strided_slice_rule(context);
    case Op::split:
    case Op::dyn_split: return split_rule(context);
    case Op::tile:
    case Op::dyn_tile: return tile_rule(context);
    case Op::repeat:
    case Op::dyn_repeat: return repeat_rule(context);
    case Op::pad:
    case Op::dyn_pad: return pad_rule(context);
    case Op::trilu:
    case Op::dyn_trilu: return trilu_rule(context);
    case Op::gather: return gather_rule(context);
    case Op::gather_elements: return gather_elements_rule(context);
    case Op::gather_nd: return gather_nd_rule(context);
    case Op::scatter_elements: return scatter_elements_rule(context);
    case Op::scatter_nd: return scatter_nd_rule(context);
    case Op::one_hot:
    case Op::dyn_one_hot: return one_hot_rule(context);
    case Op::resize:
    case Op::dyn_resize: return resize_rule(context);

    case Op::reduce_sum:
    case Op::reduce_mean:
    case Op::reduce_max:
    case Op::reduce_min:
    case Op::reduce_prod:
    case Op::dyn_reduce_sum:
    case Op::dyn_reduce_mean:
    case Op::dyn_reduce_max:
    case Op::dyn_reduce_min:
    case Op::dyn_reduce_prod: return reduce_rule(context);
    case Op::arg_max:
    case Op::arg_min: return arg_rule(context);
    case Op::cumulative_sum:
    case Op::dyn_cumulative_sum: return cumulative_sum_rule(context);
    case Op::top_k:
    case Op::dyn_top_k: return top_k_rule(context);

    case Op::argsort: return argsort_rule(context);
    case Op::nonzero: return nonzero_rule(context);
    case Op::compress: return compress_rule(context);
    case Op::unique: return unique_rule(context);
    case Op::non_max_suppression: return non_max_suppression_rule(context);
    case Op::compact: return compact_rule(context);

    case Op::matmul: return matmul_rule(context);
    case Op::softmax:
    case Op::log_softmax: return softmax_rule(context);
    case Op::layer_norm: return layer_norm_rule(context);
    case Op::segment_sum:
    case Op::segment_max:
    case Op::segment_min: return segment_reduce_rule(context);
    case Op::attention: return attention_rule(context);

    case Op::check_shape: return check_shape_rule(context);
    case Op::bind: return bind_rule(context);
    case Op::check: return check_rule(context);
    case Op::assertion: return context.expect(context.dtype(0) == DType::Bool, 0, "a bool tensor");

    case Op::call:
    case Op::branch:
    case Op::loop:
    case Op::closure:
    case Op::apply:
    case Op::tuple:
    case Op::tuple_get:
    case Op::list:
    case Op::list_length:
    case Op::list_at:
    case Op::list_insert:
    case Op::list_erase:
    case Op::list_concat:
    case Op::region: internal_error("control flow is inferred by ir/infer");
  }
  internal_error("every op has a shape rule");
}

// A few passes suffice: simplification may open new chances, but dims are small.
void simplify_results(RuleContext& context) {
  auto simplify_dim = [&](Dim& dim) {
    if (dim.kind() != Dim::Kind::Constant && dim.kind() != Dim::Kind::Symbol) dim = simplify(dim, context.symbols);
  };
  for (Type& type : context.result.types)
    for (Dim& dim : type.tensor.dims) simplify_dim(dim);
  for (Count& count : context.result.counts) simplify_dim(count.bound);
  for (Contents& contents : context.result.contents)
    if (contents)
      for (Dim& dim : *contents) simplify_dim(dim);
}

// Dims that overflow or grow too large while a rule computes with them know neither node nor model; what a model makes overflow is malformed.
[[noreturn]] void name_place(const Function& function, const Binding& binding, const Error& error) {
  const std::string place = describe(function, binding);
  if (std::string_view(error.what()).starts_with(place) || error.kind() == ErrorKind::Internal) throw error;
  throw Error(error.kind() == ErrorKind::Inputs ? ErrorKind::Malformed : error.kind(), fmt::format("{}: {}", place, error.what()));
}

}  // namespace

RuleResult apply_shape_rule(const Function& function, const Binding& binding, std::span<const OperandFacts> operands,
                            SymbolTable& symbols) {
  RuleContext context(function, binding, operands, symbols);
  const OpInfo& op = info(binding.op);
  const auto given = static_cast<int>(operands.size());
  if (given < op.minimum_operands || (op.maximum_operands >= 0 && given > op.maximum_operands)) {
    const std::string expected = op.maximum_operands < 0 ? fmt::format("at least {}", op.minimum_operands)
                                 : op.minimum_operands == op.maximum_operands
                                     ? fmt::format("{}", op.minimum_operands)
                                     : fmt::format("{} to {}", op.minimum_operands, op.maximum_operands);
    context.malformed(fmt::format("expected {} operands, got {}", expected, given));
  }
  try {
    apply(context);
    simplify_results(context);
  } catch (const Error& error) {
    name_place(function, binding, error);
  }
  return std::move(context.result);
}

}  // namespace anydim::ir
