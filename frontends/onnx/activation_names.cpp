#include "frontends/onnx/activation_names.h"

#include <algorithm>
#include <string>

#include "frontends/sizes.h"

namespace anydim::frontends {

Value named_activation(Node& node, std::string_view given, Value x,
                       std::optional<double> alpha_given, std::optional<double> beta_given) {
  std::string name(given);
  std::transform(name.begin(), name.end(), name.begin(), [](char c) {
    return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  });
  const auto alpha = [&](double fallback) { return alpha_given.value_or(fallback); };
  const auto beta = [&](double fallback) { return beta_given.value_or(fallback); };
  if (name == "sigmoid") return sigmoid(x);
  if (name == "tanh") return tanh(x);
  if (name == "relu") return node.emit(Op::relu, {x});
  if (name == "affine") return x * alpha(1) + beta(0);
  if (name == "scaledtanh") return tanh(x * beta(1)) * alpha(1);
  if (name == "leakyrelu") return where(x < 0, x * alpha(0.01), x);
  if (name == "thresholdedrelu") return where(x > alpha(1), x, 0);
  if (name == "hardsigmoid") return max(min(x * alpha(0.2) + beta(0.5), 1), 0);
  if (name == "elu") {
    const Value bent = exp(x) - 1;
    return where(x < 0, bent * alpha(1), x);
  }
  if (name == "softsign") return x / (abs(x) + 1);
  if (name == "softplus") return softplus(x);
  node.unsupported("has the activation {}, which Anydim does not support",
                   quoted_name(std::string(given)));
}

}  // namespace anydim::frontends
