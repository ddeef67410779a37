// Device functions (device/NAME.cuh) from a folder in place of those that are built in: a change to
// them is tried where nothing can be built.
#pragma once

#include <filesystem>
#include <memory>

#include "codegen_cuda/target.h"

namespace anydim::campaign {

// Every *.cuh of the folder. Throws Error{CommandLine} where there is none, or where one is no
// piece that kernels include.
std::shared_ptr<const codegen_cuda::ReplacedText> read_replaced_text(
    const std::filesystem::path& folder);

}  // namespace anydim::campaign
