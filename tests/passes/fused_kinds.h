// What a fused module computes, run from its loop forms point by point, is what the module
// computed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/backend.h"
#include "ir/tensor.h"

namespace anydim::tests {

struct Shape {
  ir::DType dtype;
  std::vector<std::int64_t> dims;
  std::int64_t below = 4;  // of integers
};

using KernelKinds = std::vector<std::string>;

// The kinds of the regions of the module that `text` fuses to, in order, after comparing what both
// compute on inputs of the given shapes, a list of them each call.
KernelKinds fused_kinds(const std::string& text, const std::vector<std::vector<Shape>>& calls,
                        double tolerance = 1e-5, const ir::Backend* backend = nullptr);

}  // namespace anydim::tests
