// Random graphs that are well typed and run: what passes must leave alone in meaning.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/module.h"
#include "ir/tensor.h"

namespace anydim::tests {

struct RandomGraph {
  ir::Module module;                           // types not yet inferred
  std::vector<std::vector<ir::Tensor>> calls;  // inputs that @main accepts
};

struct RandomGraphOptions {
  // False: one function of plain bindings, three calls with extents 0, 1 and small primes. True:
  // control flow, lists and function values too, every element type, and five calls where one
  // symbol is 0 (sometimes 2), 1 (3), a bucket's edge, one more, and large.
  bool whole_language = false;
};

// Elementwise ops, views, gathers, reductions, softmax, layer norm, products and attention, and
// these written out as exporters do; shapes come as constants, literals, shape arithmetic and
// elements of inputs. Every value is finite on every call, and no comparison hangs on rounding.
RandomGraph random_graph(std::uint64_t seed, const RandomGraphOptions& options = {});

}  // namespace anydim::tests
