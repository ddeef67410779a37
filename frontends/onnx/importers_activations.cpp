// Activations without an op of their own, as ONNX defines them.
#include "frontends/onnx/activation_names.h"
#include "frontends/onnx/importers.h"
#include "frontends/sizes.h"

namespace anydim::frontends {

namespace {

ValueId like(Node& node, double value) { return node.scalar(node.dtype(), value); }

// exp(x) - 1
ValueId exp_minus_one(Node& node, ValueId x) {
  return node.emit(Op::sub, {node.emit(Op::exp, {x}), like(node, 1)});
}

// `negative` where x < 0, else x
ValueId negative_side(Node& node, ValueId x, ValueId negative) {
  return node.emit(Op::where, {node.emit(Op::less, {x, like(node, 0)}), negative, x});
}

// alpha (exp(x) - 1) where x < 0, else x. exp sees min(x, 0), so that no positive x overflows on
// the way.
ValueId elu(Node& node, double alpha) {
  const ValueId x = node.operand(0);
  const ValueId bent = exp_minus_one(node, node.emit(Op::min, {x, like(node, 0)}));
  return negative_side(node, x, node.emit(Op::mul, {like(node, alpha), bent}));
}

ValueId hard_sigmoid(Node& node, double alpha, double beta) {
  const ValueId line = node.emit(
      Op::add, {node.emit(Op::mul, {node.operand(0), like(node, alpha)}), like(node, beta)});
  return node.emit(Op::max, {node.emit(Op::min, {line, like(node, 1)}), like(node, 0)});
}

// log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|)), which cannot overflow
ValueId softplus(Node& node) {
  const ValueId x = node.operand(0);
  const ValueId small = node.emit(Op::exp, {node.emit(Op::neg, {node.emit(Op::abs, {x})})});
  const ValueId tail = node.emit(Op::log, {node.emit(Op::add, {small, like(node, 1)})});
  return node.emit(Op::add, {node.emit(Op::max, {x, like(node, 0)}), tail});
}

}  // namespace

// max(x, 0) + min(0, alpha (exp(x / alpha) - 1))
void import_celu(Node& node) {
  const double alpha = node.real("alpha", 1);
  const ValueId x = node.operand(0);
  const ValueId scaled = node.emit(Op::div, {x, like(node, alpha)});
  const ValueId bent = node.emit(Op::mul, {like(node, alpha), exp_minus_one(node, scaled)});
  const ValueId positive = node.emit(Op::max, {x, like(node, 0)});
  node.output(0, node.emit(Op::add, {positive, node.emit(Op::min, {bent, like(node, 0)})}));
}

void import_elu(Node& node) { node.output(0, elu(node, node.real("alpha", 1))); }

void import_gelu(Node& node) {
  const std::string approximate = node.string("approximate", "none");
  if (approximate != "none" && approximate != "tanh") {
    node.malformed("takes 'none' or 'tanh' as attribute 'approximate', got {}",
                   quoted_name(approximate));
  }
  node.output(0, node.emit(approximate == "none" ? Op::gelu : Op::gelu_tanh, {node.operand(0)}));
}

void import_hard_sigmoid(Node& node) {
  const double alpha = node.real("alpha", 0.2);
  node.output(0, hard_sigmoid(node, alpha, node.real("beta", 0.5)));
}

void import_hard_swish(Node& node) {
  node.output(0, node.emit(Op::mul, {node.operand(0), hard_sigmoid(node, 1.0 / 6.0, 0.5)}));
}

void import_leaky_relu(Node& node) {
  const ValueId x = node.operand(0);
  const ValueId slope = like(node, node.real("alpha", 0.01));
  node.output(0, negative_side(node, x, node.emit(Op::mul, {x, slope})));
}

void import_mish(Node& node) {
  node.output(0, node.emit(Op::mul, {node.operand(0), node.emit(Op::tanh, {softplus(node)})}));
}

void import_prelu(Node& node) {
  node.check_same_dtypes();
  const ValueId x = node.operand(0);
  node.output(0, negative_side(node, x, node.emit(Op::mul, {x, node.operand(1)})));
}

void import_selu(Node& node) {
  const double alpha = node.real("alpha", 1.67326319217681884765625);
  const double gamma = node.real("gamma", 1.05070102214813232421875);
  node.output(0, node.emit(Op::mul, {like(node, gamma), elu(node, alpha)}));
}

// x + bias below -lambda, x - bias above lambda, 0 between
void import_shrink(Node& node) {
  const ValueId x = node.operand(0);
  const double lambda = node.real("lambd", 0.5), bias = node.real("bias", 0);
  const ValueId above =
      node.emit(Op::where, {node.emit(Op::greater, {x, like(node, lambda)}),
                            node.emit(Op::sub, {x, like(node, bias)}), like(node, 0)});
  const ValueId below = node.emit(Op::less, {x, like(node, -lambda)});
  node.output(0, node.emit(Op::where, {below, node.emit(Op::add, {x, like(node, bias)}), above}));
}

void import_softplus(Node& node) { node.output(0, softplus(node)); }

void import_softsign(Node& node) {
  const ValueId x = node.operand(0);
  node.output(
      0, node.emit(Op::div, {x, node.emit(Op::add, {node.emit(Op::abs, {x}), like(node, 1)})}));
}

ValueId swish(Node& node, ValueId x, double alpha) {
  const ValueId inside =
      alpha == 1 ? x : node.emit(Op::mul, {x, node.scalar(node.dtype(x), alpha)});
  return node.emit(Op::mul, {x, node.emit(Op::sigmoid, {inside})});
}

void import_swish(Node& node) {
  node.output(0, swish(node, node.operand(0), node.real("alpha", 1)));
}

void import_swiglu(Node& node) {
  node.check_same_dtypes();
  node.output(0, node.emit(Op::mul,
                           {swish(node, node.operand(0), node.real("alpha", 1)), node.operand(1)}));
}

// ONNX Runtime's

void import_exact_gelu(Node& node) { node.output(0, node.emit(Op::gelu, {node.operand(0)})); }

void import_bias_gelu(Node& node) {
  node.check_same_dtypes();
  node.output(0, node.emit(Op::gelu, {node.emit(Op::add, node.operands())}));
}

void import_bias_add(Node& node) {
  node.check_same_dtypes();
  const ValueId sum = node.emit(Op::add, {node.operand(0), node.operand(1)});
  node.output(0, node.emit(Op::add, {sum, node.operand(2)}));
}

// The first half of a row, by GELU of the other one.
void import_bias_split_gelu(Node& node) {
  node.check_same_dtypes();
  const ValueId sum = node.emit(Op::add, node.operands());
  const auto halves = node.emit_many(Op::split, {sum}, {{"axis", std::int64_t{-1}}}, 2);
  node.output(0, node.emit(Op::mul, {halves[0], node.emit(Op::gelu, {halves[1]})}));
}

void import_fast_gelu(Node& node) {
  node.check_same_dtypes();
  const ValueId x = node.has_operand(1) ? node.emit(Op::add, node.operands()) : node.operand(0);
  node.output(0, node.emit(Op::gelu_tanh, {x}));
}

void import_quick_gelu(Node& node) {
  node.output(0, swish(node, node.operand(0), node.real("alpha", 1.702)));
}

void import_thresholded_relu(Node& node) {
  const ValueId x = node.operand(0);
  const ValueId above = node.emit(Op::greater, {x, like(node, node.real("alpha", 1))});
  node.output(0, node.emit(Op::where, {above, x, like(node, 0)}));
}

// Of ONNX Runtime: z sigmoid(z) of z = factor x.
void import_scaled_silu(Node& node) {
  const double alpha = node.real("alpha", 1);
  const ValueId x = node.operand(0);
  const ValueId factor = node.has_operand(1) ? node.rank_0(node.cast(node.operand(1), DType::F32))
                                             : node.scalar(DType::F32, alpha);
  const ValueId z = node.emit(Op::mul, {node.cast(x, DType::F32), factor});
  node.output(0, swish(node, node.cast(z, node.dtype())));
}

}  // namespace anydim::frontends
