// Random graphs that are well typed and run: what passes must leave alone in meaning.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/module.h"
#include "ir/tensor.h"

namespace anydim::tests {

struct RandomGraph {
  ir::Module module;                           // one function, types not yet inferred
  std::vector<std::vector<ir::Tensor>> calls;  // inputs that @main accepts: extents 0, 1, small primes
};

// Elementwise ops, views, gathers, reductions, softmax, layer norm, products and attention, and these written out as exporters do; shapes come
// as constants, literals, shape arithmetic and elements of inputs. Every value is finite on every call, and no comparison hangs on rounding.
RandomGraph random_graph(std::uint64_t seed);

}  // namespace anydim::tests
