// Kernels of a plan as files, to be read.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "api/explain_gpu.h"

namespace anydim::tools {

enum class EmittedCode { Cuda, Ptx, Sass };
EmittedCode parse_emitted_code(std::string_view word);  // throws Error{CommandLine}

// DIR/REGION_ROW.cu, .ptx or .sass, of the kernels that the plan's launches need, or of all tables
// where it does not know them; row 0 is tried first. Machine code is read by nvdisasm: what
// ANYDIM_NVDISASM names, else the one on the path. Throws Error{Resource} where NVRTC or nvdisasm
// is missing, Error{Write} for files. Returns the paths.
std::vector<std::filesystem::path> emit_kernels(const GpuPlan& plan, EmittedCode code,
                                                const std::filesystem::path& folder);

}  // namespace anydim::tools
