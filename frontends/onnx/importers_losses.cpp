// Losses over classes: scores [N, C, d...], targets [N, d...].
#include "frontends/onnx/importers.h"
#include "frontends/sizes.h"

namespace anydim::frontends {

namespace {

ValueId reduced(Node& node, Op op, ValueId x) { return node.emit(op, {x}); }

// -weight[target] * scores[target], 0 where the target is `ignore_index`; then mean (over the
// weights that count), sum or none.
ValueId negative_log_likelihood(Node& node, ValueId scores, ValueId target, ValueId weight) {
  const std::string reduction = node.string("reduction", "mean");
  if (reduction != "mean" && reduction != "sum" && reduction != "none") {
    node.malformed("takes 'mean', 'sum' or 'none' as attribute 'reduction', got {}",
                   quoted_name(reduction));
  }
  const DType dtype = node.dtype(scores);
  target = node.cast(target, DType::I64);
  ValueId ignored = ir::no_value;
  if (node.has_attribute("ignore_index")) {
    ignored = node.emit(
        Op::equal,
        {target, node.scalar(DType::I64, static_cast<double>(node.integer("ignore_index")))});
    target = node.emit(Op::where,
                       {ignored, node.scalar(DType::I64, 0), target});  // it need not be a class
  }
  const ValueId at = node.with_axes(target, {1});
  const ValueId chosen = node.without_axes(
      node.emit(Op::gather_elements, {scores, at}, {{"axis", std::int64_t{1}}}), {1});
  ValueId loss = node.emit(Op::neg, {chosen});
  ValueId share = ir::no_value;
  if (weight != ir::no_value)
    share = node.emit(Op::gather, {weight, target}, {{"axis", std::int64_t{0}}});
  if (ignored != ir::no_value) {
    share = node.emit(Op::where, {ignored, node.scalar(dtype, 0),
                                  share == ir::no_value ? node.scalar(dtype, 1) : share});
  }
  if (share != ir::no_value) loss = node.emit(Op::mul, {loss, share});
  if (reduction == "none") return loss;
  if (reduction == "sum") return reduced(node, Op::reduce_sum, loss);
  if (share == ir::no_value) return reduced(node, Op::reduce_mean, loss);
  return node.emit(Op::div,
                   {reduced(node, Op::reduce_sum, loss), reduced(node, Op::reduce_sum, share)});
}

void check_operands(Node& node) {
  const DType target = node.dtype(node.operand(1));
  if (!ir::is_integer(target))
    node.malformed("takes integers as input 1, got {}", ir::name_of(target));
  if (!node.has_operand(2) || node.dtype(node.operand(2)) == node.dtype()) return;
  node.malformed("takes {} as input 2, got {}", ir::name_of(node.dtype()),
                 ir::name_of(node.dtype(node.operand(2))));
}

}  // namespace

void import_negative_log_likelihood(Node& node) {
  check_operands(node);
  node.output(
      0, negative_log_likelihood(node, node.operand(0), node.operand(1), node.optional_operand(2)));
}

void import_softmax_cross_entropy(Node& node) {
  check_operands(node);
  const ValueId logarithms =
      node.emit(Op::log_softmax, {node.operand(0)}, {{"axis", std::int64_t{1}}});
  node.output(0,
              negative_log_likelihood(node, logarithms, node.operand(1), node.optional_operand(2)));
  node.output(1, logarithms);
}

}  // namespace anydim::frontends
