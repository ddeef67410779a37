#include "frontends/onnx/activation_names.h"

#include <algorithm>
#include <string>

#include "frontends/sizes.h"

namespace anydim::frontends {

ValueId named_activation(Node& node, std::string_view given, ValueId x,
                         std::optional<double> alpha_given, std::optional<double> beta_given) {
  std::string name(given);
  std::transform(name.begin(), name.end(), name.begin(), [](char c) {
    return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  });
  const auto number = [&](double value) { return node.scalar(node.dtype(x), value); };
  const auto alpha = [&](double fallback) { return number(alpha_given.value_or(fallback)); };
  const auto beta = [&](double fallback) { return number(beta_given.value_or(fallback)); };
  const auto add = [&](ValueId a, ValueId b) { return node.emit(Op::add, {a, b}); };
  const auto mul = [&](ValueId a, ValueId b) { return node.emit(Op::mul, {a, b}); };
  const auto below_zero = [&] { return node.emit(Op::less, {x, number(0)}); };
  if (name == "sigmoid") return node.emit(Op::sigmoid, {x});
  if (name == "tanh") return node.emit(Op::tanh, {x});
  if (name == "relu") return node.emit(Op::relu, {x});
  if (name == "affine") return add(mul(x, alpha(1)), beta(0));
  if (name == "scaledtanh") return mul(node.emit(Op::tanh, {mul(x, beta(1))}), alpha(1));
  if (name == "leakyrelu") return node.emit(Op::where, {below_zero(), mul(x, alpha(0.01)), x});
  if (name == "thresholdedrelu")
    return node.emit(Op::where, {node.emit(Op::greater, {x, alpha(1)}), x, number(0)});
  if (name == "hardsigmoid") {
    const ValueId line = add(mul(x, alpha(0.2)), beta(0.5));
    return node.emit(Op::max, {node.emit(Op::min, {line, number(1)}), number(0)});
  }
  if (name == "elu") {
    const ValueId bent = node.emit(Op::sub, {node.emit(Op::exp, {x}), number(1)});
    return node.emit(Op::where, {below_zero(), mul(bent, alpha(1)), x});
  }
  if (name == "softsign") return node.emit(Op::div, {x, add(node.emit(Op::abs, {x}), number(1))});
  if (name == "softplus") {
    // log(1 + exp(x)) without overflow.
    const ValueId tail = node.emit(Op::exp, {node.emit(Op::neg, {node.emit(Op::abs, {x})})});
    return add(node.emit(Op::max, {x, number(0)}), node.emit(Op::log, {add(tail, number(1))}));
  }
  node.unsupported("has the activation {}, which Anydim does not support",
                   quoted_name(std::string(given)));
}

}  // namespace anydim::frontends
