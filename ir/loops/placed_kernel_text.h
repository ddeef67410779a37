// What printing and parsing placed kernels share.
#pragma once

#include <string_view>

#include "ir/loops/placed_kernel.h"

namespace anydim::ir {

std::string_view name_of(KernelSection::Kind kind);  // "stage", "row result"

}  // namespace anydim::ir
