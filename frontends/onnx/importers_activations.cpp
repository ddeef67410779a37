// Activations without an op of their own, as ONNX defines them.
#include "frontends/onnx/activation_names.h"
#include "frontends/onnx/importers.h"

namespace anydim::frontends {

namespace {

// exp(x) - 1
Value exp_minus_one(Value x) { return exp(x) - 1; }

// `negative` where x < 0, else x
Value negative_side(Value x, Value negative) { return where(x < 0, negative, x); }

// alpha (exp(x) - 1) where x < 0, else x. exp sees min(x, 0), so that no positive x overflows on
// the way.
Value elu(Node& node, double alpha) {
  const Value x = node.operand(0);
  const Value bent = exp_minus_one(min(x, 0));
  return negative_side(x, alpha * bent);
}

Value hard_sigmoid(Node& node, double alpha, double beta) {
  const Value line = node.operand(0) * alpha + beta;
  return max(min(line, 1), 0);
}

}  // namespace

// max(x, 0) + min(0, alpha (exp(x / alpha) - 1))
void import_celu(Node& node) {
  const double alpha = node.real("alpha", 1);
  const Value x = node.operand(0);
  const Value scaled = x / alpha;
  const Value bent = alpha * exp_minus_one(scaled);
  const Value positive = max(x, 0);
  node.output(0, positive + min(bent, 0));
}

void import_elu(Node& node) { node.output(0, elu(node, node.real("alpha", 1))); }

void import_gelu(Node& node) {
  const std::string approximate = node.one_of({"none", "tanh"}, "approximate", "none");
  node.output(0, node.emit(approximate == "none" ? Op::gelu : Op::gelu_tanh, {node.operand(0)}));
}

void import_hard_sigmoid(Node& node) {
  const double alpha = node.real("alpha", 0.2);
  node.output(0, hard_sigmoid(node, alpha, node.real("beta", 0.5)));
}

void import_hard_swish(Node& node) {
  node.output(0, node.operand(0) * hard_sigmoid(node, 1.0 / 6.0, 0.5));
}

void import_leaky_relu(Node& node) {
  const Value x = node.operand(0);
  node.output(0, negative_side(x, x * node.real("alpha", 0.01)));
}

void import_mish(Node& node) { node.output(0, node.operand(0) * tanh(softplus(node.operand(0)))); }

void import_prelu(Node& node) {
  node.check_same_dtypes();
  const Value x = node.operand(0);
  node.output(0, negative_side(x, x * node.operand(1)));
}

void import_selu(Node& node) {
  const double alpha = node.real("alpha", 1.67326319217681884765625);
  const double gamma = node.real("gamma", 1.05070102214813232421875);
  node.output(0, gamma * elu(node, alpha));
}

// x + bias below -lambda, x - bias above lambda, 0 between
void import_shrink(Node& node) {
  const Value x = node.operand(0);
  const double lambda = node.real("lambd", 0.5), bias = node.real("bias", 0);
  const Value above = where(x > lambda, x - bias, 0);
  const Value below = x < -lambda;
  node.output(0, where(below, x + bias, above));
}

void import_softplus(Node& node) { node.output(0, softplus(node.operand(0))); }

void import_softsign(Node& node) {
  const Value x = node.operand(0);
  node.output(0, x / (abs(x) + 1));
}

Value softplus(Value x) { return max(x, 0) + log(exp(-abs(x)) + 1); }

Value swish(Value x, double alpha) {
  const Value inside = alpha == 1 ? x : x * alpha;
  return x * sigmoid(inside);
}

void import_swish(Node& node) { node.output(0, swish(node.operand(0), node.real("alpha", 1))); }

void import_swiglu(Node& node) {
  node.check_same_dtypes();
  node.output(0, swish(node.operand(0), node.real("alpha", 1)) * node.operand(1));
}

// ONNX Runtime's

void import_exact_gelu(Node& node) { node.output(0, node.emit(Op::gelu, {node.operand(0)})); }

void import_bias_gelu(Node& node) {
  node.check_same_dtypes();
  node.output(0, node.emit(Op::gelu, {node.emit(Op::add, node.operands())}));
}

void import_bias_add(Node& node) {
  node.check_same_dtypes();
  const Value sum = node.operand(0) + node.operand(1);
  node.output(0, sum + node.operand(2));
}

// The first half of a row, by GELU of the other one.
void import_bias_split_gelu(Node& node) {
  node.check_same_dtypes();
  const Value sum = node.emit(Op::add, node.operands());
  const auto halves = node.emit_many(Op::split, {sum}, {{"axis", std::int64_t{-1}}}, 2);
  node.output(0, halves[0] * node.emit(Op::gelu, {halves[1]}));
}

void import_fast_gelu(Node& node) {
  node.check_same_dtypes();
  const Value x = node.has_operand(1) ? node.emit(Op::add, node.operands()) : node.operand(0);
  node.output(0, node.emit(Op::gelu_tanh, {x}));
}

void import_quick_gelu(Node& node) {
  node.output(0, swish(node.operand(0), node.real("alpha", 1.702)));
}

void import_thresholded_relu(Node& node) {
  const Value x = node.operand(0);
  const Value above = x > node.real("alpha", 1);
  node.output(0, where(above, x, 0));
}

// Of ONNX Runtime: z sigmoid(z) of z = factor x.
void import_scaled_silu(Node& node) {
  const double alpha = node.real("alpha", 1);
  const Value x = node.operand(0);
  const Value factor = node.has_operand(1) ? rank_0(cast(node.operand(1), DType::F32))
                                           : node.scalar(DType::F32, alpha);
  const Value z = cast(x, DType::F32) * factor;
  node.output(0, swish(cast(z, node.dtype())));
}

}  // namespace anydim::frontends
