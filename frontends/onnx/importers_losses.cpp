// Losses over classes: scores [N, C, d...], targets [N, d...].
#include "frontends/onnx/importers.h"

namespace anydim::frontends {

namespace {

Value reduced(Node& node, Op op, Value x) { return node.emit(op, {x}); }

// -weight[target] * scores[target], 0 where the target is `ignore_index`; then mean (over the
// weights that count), sum or none.
Value negative_log_likelihood(Node& node, Value scores, Value target, Value weight) {
  const std::string reduction = node.one_of({"mean", "sum", "none"}, "reduction", "mean");
  const DType dtype = scores.dtype();
  target = cast(target, DType::I64);
  Value ignored = no_value;
  if (node.has_attribute("ignore_index")) {
    ignored = equal(target, node.integer("ignore_index"));
    target = where(ignored, 0, target);  // it need not be a class
  }
  const Value at = with_axes(target, {1});
  const Value chosen =
      without_axes(node.emit(Op::gather_elements, {scores, at}, {{"axis", std::int64_t{1}}}), {1});
  Value loss = -chosen;
  Value share = no_value;
  if (weight != no_value) share = gather(weight, target, 0);
  if (ignored != no_value) {
    share = where(ignored, 0, share == no_value ? node.scalar(dtype, 1) : share);
  }
  if (share != no_value) loss = loss * share;
  if (reduction == "none") return loss;
  if (reduction == "sum") return reduced(node, Op::reduce_sum, loss);
  if (share == no_value) return reduced(node, Op::reduce_mean, loss);
  return reduced(node, Op::reduce_sum, loss) / reduced(node, Op::reduce_sum, share);
}

void check_operands(Node& node) {
  const DType target = node.operand(1).dtype();
  if (!ir::is_integer(target))
    node.malformed("takes integers as input 1, got {}", ir::name_of(target));
  if (!node.has_operand(2) || node.operand(2).dtype() == node.dtype()) return;
  node.malformed("takes {} as input 2, got {}", ir::name_of(node.dtype()),
                 ir::name_of(node.operand(2).dtype()));
}

}  // namespace

void import_negative_log_likelihood(Node& node) {
  check_operands(node);
  node.output(
      0, negative_log_likelihood(node, node.operand(0), node.operand(1), node.optional_operand(2)));
}

void import_softmax_cross_entropy(Node& node) {
  check_operands(node);
  const Value logarithms =
      node.emit(Op::log_softmax, {node.operand(0)}, {{"axis", std::int64_t{1}}});
  node.output(0,
              negative_log_likelihood(node, logarithms, node.operand(1), node.optional_operand(2)));
  node.output(1, logarithms);
}

}  // namespace anydim::frontends
