// Activations that operators name in an attribute: those of recurrent layers and of fused products.
#pragma once

#include <optional>
#include <string_view>

#include "frontends/onnx/node.h"

namespace anydim::frontends {

// The activation of x, whose name may be in any case; `alpha` and `beta` stand for its own defaults where they are absent. Unsupported where no activation
// has the name.
ir::ValueId named_activation(Node& node, std::string_view name, ir::ValueId x, std::optional<double> alpha, std::optional<double> beta);

}  // namespace anydim::frontends
