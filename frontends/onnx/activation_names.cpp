#include "frontends/onnx/activation_names.h"

#include <algorithm>
#include <array>
#include <string>

#include "frontends/sizes.h"

namespace anydim::frontends {

namespace {

struct Activation {
  std::string_view name;              // in lower case
  std::optional<double> alpha, beta;  // defaults of the parameters that it reads
  Value (*of)(Value x, double alpha, double beta);
};

constexpr std::optional<double> none;
const std::array activations{
    Activation{"affine", 1, 0, [](Value x, double a, double b) { return x * a + b; }},
    Activation{"elu", 1, none,
               [](Value x, double a, double) { return where(x < 0, (exp(x) - 1) * a, x); }},
    Activation{"hardsigmoid", 0.2, 0.5,
               [](Value x, double a, double b) { return max(min(x * a + b, 1), 0); }},
    Activation{"leakyrelu", 0.01, none,
               [](Value x, double a, double) { return where(x < 0, x * a, x); }},
    Activation{"relu", none, none,
               [](Value x, double, double) { return x.node().emit(Op::relu, {x}); }},
    Activation{"scaledtanh", 1, 1, [](Value x, double a, double b) { return tanh(x * b) * a; }},
    Activation{"sigmoid", none, none, [](Value x, double, double) { return sigmoid(x); }},
    Activation{"softplus", none, none, [](Value x, double, double) { return softplus(x); }},
    Activation{"softsign", none, none, [](Value x, double, double) { return x / (abs(x) + 1); }},
    Activation{"tanh", none, none, [](Value x, double, double) { return tanh(x); }},
    Activation{"thresholdedrelu", 1, none,
               [](Value x, double a, double) { return where(x > a, x, 0); }},
};

const Activation* find(std::string_view given) {
  std::string name(given);
  std::ranges::transform(name, name.begin(), [](char c) {
    return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  });
  const auto found = std::ranges::find(activations, name, &Activation::name);
  return found == activations.end() ? nullptr : &*found;
}

}  // namespace

ActivationParameters activation_parameters(std::string_view name) {
  const Activation* activation = find(name);
  if (activation == nullptr) return {};
  return {.alpha = activation->alpha.has_value(), .beta = activation->beta.has_value()};
}

Value named_activation(std::string_view name, Value x, std::optional<double> alpha,
                       std::optional<double> beta) {
  const Activation* activation = find(name);
  if (activation == nullptr)
    x.node().unsupported("has the activation {}, which Anydim does not support",
                         quoted_name(std::string(name)));
  return activation->of(x, alpha.value_or(activation->alpha.value_or(0)),
                        beta.value_or(activation->beta.value_or(0)));
}

}  // namespace anydim::frontends
