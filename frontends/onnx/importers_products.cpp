// Products and softmax.
#include <cmath>

#include "frontends/onnx/activation_names.h"
#include "frontends/onnx/importers.h"

namespace anydim::frontends {

namespace {

// x times a real attribute; integers take only whole factors.
Value scaled(Node& node, Value x, std::string_view attribute, double factor) {
  if (factor == 1) return x;
  constexpr double exact_integers = 9007199254740992.0;  // 2^53
  if (!ir::is_float(x.dtype()) &&
      (factor != std::floor(factor) || std::fabs(factor) > exact_integers)) {
    node.unsupported("multiplies integers by {} = {}; Anydim supports only whole numbers there",
                     attribute, factor);
  }
  return x * factor;
}

}  // namespace

void import_matmul(Node& node) {
  node.check_same_dtypes();
  node.output(0, node.emit(Op::matmul, node.operands()));
}

// The transposed operands: batch dims of one whose rows come first stand between rows and columns.
void import_fused_matmul(Node& node) {
  node.check_same_dtypes();
  const auto side = [&](std::size_t operand, std::string_view rows_last,
                        std::string_view batch_last) {
    const Value x = node.operand(operand);
    const bool swaps = node.flag(rows_last, false), turns = node.flag(batch_last, false);
    const auto rank = static_cast<std::int64_t>(x.rank());
    if (rank < 2 || (!swaps && !turns)) return x;  // a vector has nothing to transpose
    Ints perm;
    for (std::int64_t i = 0; i < rank; ++i) perm.push_back(i);
    if (turns) {
      perm.erase(perm.begin());
      perm.insert(perm.end() - 1, 0);
    }
    if (swaps) std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    return transpose(x, std::move(perm));
  };
  const Value a = side(0, "transA", "transBatchA"), b = side(1, "transB", "transBatchB");
  node.output(0, scaled(node, matmul(a, b), "alpha", node.real("alpha", 1)));
}

namespace {

Value gemm(Node& node) {
  node.check_same_dtypes();
  const double alpha = node.real("alpha", 1);
  const double beta = node.real("beta", 1);
  const Value a = node.flag("transA", false) ? transpose(node.operand(0), {1, 0}) : node.operand(0);
  const Value b = node.flag("transB", false) ? transpose(node.operand(1), {1, 0}) : node.operand(1);
  const Value product = scaled(node, matmul(a, b), "alpha", alpha);
  if (!node.has_operand(2) || beta == 0) return product;
  return product + scaled(node, node.operand(2), "beta", beta);
}

}  // namespace

void import_gemm(Node& node) { node.output(0, gemm(node)); }

void import_fused_gemm(Node& node) {
  const Value product = gemm(node);
  const auto parameter = [&](std::string_view name) {
    return node.has_attribute(name) ? std::optional(node.real(name)) : std::nullopt;
  };
  const std::string activation = node.string("activation", "");
  node.ignore_attribute("activation_gamma");  // no activation takes three
  const auto alpha = parameter("activation_alpha"), beta = parameter("activation_beta");
  node.output(0, activation.empty() ? product : named_activation(activation, product, alpha, beta));
}

void import_softmax(Node& node, Op op) {
  node.output(0, node.emit(op, {node.operand(0)}, {{"axis", node.integer("axis", -1)}}));
}

void import_flattened_softmax(Node& node, Op op) {
  const Value x = node.operand(0);
  const std::int64_t axis = node.integer("axis", 1);
  if (axis == -1) {  // one dim: nothing to flatten
    node.output(0, node.emit(op, {x}, {{"axis", axis}}));
    return;
  }
  const Value flat = node.emit(Op::flatten, {x}, {{"axis", axis}});
  const Value result = node.emit(op, {flat}, {{"axis", std::int64_t{1}}});
  node.output(0, node.emit(Op::dyn_reshape, {result, shape_of(x)}));
}

}  // namespace anydim::frontends
