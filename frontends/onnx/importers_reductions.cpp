// Reductions. ONNX gives axes as an attribute in older opsets and as an input in newer ones; the
// composites (ReduceL2 and so on) are written once over both forms.
#include "frontends/onnx/importers.h"
#include "ir/error.h"

namespace anydim::frontends {

namespace {

struct Reduction {
  std::optional<Ints> axes;  // from the attribute
  Value axes_input = no_value;
  bool keepdims = true;
  bool empty_keeps = false;  // no axes reduce nothing rather than everything
};

// From this opset on axes are an input.
int axes_input_opset(Op op) { return op == Op::reduce_sum ? 13 : 18; }

Reduction read_reduction(Node& node, int axes_input_since = 18) {
  Reduction reduction;
  reduction.keepdims = node.flag("keepdims", true);
  if (node.opset() >= axes_input_since) {
    reduction.empty_keeps = node.flag("noop_with_empty_axes", false);
    const auto known = node.constant_operand(1);
    const bool none = known && known->elements() == 0;
    if (!none) reduction.axes_input = node.optional_index_operand(1);
  } else {
    reduction.axes = node.optional_integers("axes");
    if (reduction.axes && reduction.axes->empty())
      reduction.axes.reset();  // before inputs, no axes always meant all
  }
  return reduction;
}

Value reduce(Node& node, Op op, Value x, const Reduction& reduction, bool keepdims) {
  const std::int64_t keep = keepdims ? 1 : 0;
  if (reduction.axes_input != no_value) {
    const auto twin = ir::dynamic_twin(op);
    internal_check(twin.has_value(), "every reduction has a dynamic twin");
    const std::int64_t empty_keeps = reduction.empty_keeps ? 1 : 0;
    return node.emit(*twin, {x, reduction.axes_input},
                     {{"keepdims", keep}, {"empty_keeps", empty_keeps}});
  }
  if (reduction.empty_keeps) return x;
  ir::Attributes attributes{{"keepdims", keep}};
  if (reduction.axes) attributes.emplace("axes", *reduction.axes);
  return node.emit(op, {x}, std::move(attributes));
}

Value reduce(Node& node, Op op, Value x, const Reduction& reduction) {
  return reduce(node, op, x, reduction, reduction.keepdims);
}

// Roots and logarithms of integers are taken in f64; the result goes back to the input's element
// type, as ONNX has it.
DType real_dtype(const Node& node) {
  return ir::is_float(node.dtype()) ? node.dtype() : DType::F64;
}

Value square(Value x) { return x * x; }

}  // namespace

void import_reduce(Node& node, Op op) {
  const Reduction reduction = read_reduction(node, axes_input_opset(op));
  const Value x = node.operand(0);
  if (node.dtype() != DType::Bool) {
    node.output(0, reduce(node, op, x, reduction));
    return;
  }
  if (node.opset() < 20) node.malformed("takes booleans only from opset 20 on");
  // Among 0 and 1 the largest is "any" and the smallest is "all".
  node.output(0, cast(reduce(node, op, cast(x, DType::U8), reduction), DType::Bool));
}

void import_reduce_l1(Node& node) {
  const Reduction reduction = read_reduction(node);
  node.output(0, reduce(node, Op::reduce_sum, abs(node.operand(0)), reduction));
}

void import_reduce_l2(Node& node) {
  const Reduction reduction = read_reduction(node);
  const Value x = cast(node.operand(0), real_dtype(node));
  const Value root = sqrt(reduce(node, Op::reduce_sum, square(x), reduction));
  node.output(0, cast(root, node.dtype()));
}

void import_reduce_log_sum(Node& node) {
  const Reduction reduction = read_reduction(node);
  const Value x = cast(node.operand(0), real_dtype(node));
  node.output(0, cast(log(reduce(node, Op::reduce_sum, x, reduction)), node.dtype()));
}

// m + log(sum(exp(x - m))) with m the largest element, so that exp cannot overflow; an infinite m
// is replaced by 0, because x - m would be NaN.
void import_reduce_log_sum_exp(Node& node) {
  const Reduction reduction = read_reduction(node);
  const Value x = cast(node.operand(0), real_dtype(node));
  const auto largest = [&](bool keepdims) {
    const Value maximum = reduce(node, Op::reduce_max, x, reduction, keepdims);
    const Value zero = node.scalar(x.dtype(), 0);
    return where(node.emit(Op::is_inf, {maximum}), zero, maximum);
  };
  const Value shifted = exp(x - largest(true));
  const Value logarithm = log(reduce(node, Op::reduce_sum, shifted, reduction));
  const Value sum = logarithm + largest(reduction.keepdims);
  node.output(0, cast(sum, node.dtype()));
}

void import_reduce_sum_square(Node& node) {
  const Reduction reduction = read_reduction(node);
  node.output(0, reduce(node, Op::reduce_sum, square(node.operand(0)), reduction));
}

}  // namespace anydim::frontends
