#include "ir/host_functions.h"

#include <cmath>

namespace anydim::ir {

HostFunctions host_functions() {
  return {.exp = std::exp,
          .log = std::log,
          .sin = std::sin,
          .cos = std::cos,
          .tan = std::tan,
          .asin = std::asin,
          .acos = std::acos,
          .atan = std::atan,
          .sinh = std::sinh,
          .cosh = std::cosh,
          .asinh = std::asinh,
          .acosh = std::acosh,
          .atanh = std::atanh,
          .tanh = std::tanh,
          .erf = std::erf,
          .pow = std::pow,
          .fmod = std::fmod};
}

}  // namespace anydim::ir
