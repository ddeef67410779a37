// What loop forms and placed kernels both say of a kernel.
#pragma once

#include <vector>

#include "ir/loops/loop_form.h"

namespace anydim::ir {

// Refers to the members of the kernel that it is made of.
struct KernelHeader {
  explicit KernelHeader(const auto& kernel)
      : parameters(kernel.parameters), results(kernel.results), symbols(kernel.symbols),
        checks(kernel.checks) {}
  const std::vector<TensorType>& parameters;
  const std::vector<TensorType>& results;
  const SymbolTable& symbols;
  const std::vector<KernelCheck>& checks;
};

}  // namespace anydim::ir
