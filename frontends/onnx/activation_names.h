// Activations that several importers share: those that operators name in an attribute (recurrent
// layers, fused products), softplus and swish.
#pragma once

#include <optional>
#include <string_view>

#include "frontends/onnx/node.h"

namespace anydim::frontends {

// Whether the activation of this name, in any case, reads them.
struct ActivationParameters {
  bool alpha = false, beta = false;
};
ActivationParameters activation_parameters(std::string_view name);

// The activation of x, whose name may be in any case; `alpha` and `beta` stand for its own defaults
// where they are absent. Unsupported where no activation has the name.
Value named_activation(std::string_view name, Value x, std::optional<double> alpha,
                       std::optional<double> beta);

// log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|)), which cannot overflow
Value softplus(Value x);

// x sigmoid(alpha x)
Value swish(Value x, double alpha = 1);

}  // namespace anydim::frontends
