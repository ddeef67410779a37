// Activations that several importers share: those that operators name in an attribute (recurrent
// layers, fused products), and swish.
#pragma once

#include <optional>
#include <string_view>

#include "frontends/onnx/node.h"

namespace anydim::frontends {

// The activation of x, whose name may be in any case; `alpha` and `beta` stand for its own defaults
// where they are absent. Unsupported where no activation has the name.
ir::ValueId named_activation(Node& node, std::string_view name, ir::ValueId x,
                             std::optional<double> alpha, std::optional<double> beta);

// x sigmoid(alpha x)
ir::ValueId swish(Node& node, ir::ValueId x, double alpha = 1);

}  // namespace anydim::frontends
