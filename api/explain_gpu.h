// What a call of a model would launch on a GPU that is not here, by the cost model and by tables
// that were tuned for it: no driver takes part, and no compiler but where code is asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/compile.h"
#include "api/explain.h"

namespace anydim {

// One launch on the device, as its kernel's schedule asks for it.
struct PlannedEntry {
  std::string name;
  std::string grid;  // "ceil_div(s0, 64) x 1 x 1", over the region's symbols
  std::int64_t threads = 0, cluster_blocks = 1;
  std::int64_t shared_bytes = 0;  // dynamic
  // What the schedule counts on: at most so many registers a thread, and so many blocks of this
  // entry on a multiprocessor.
  std::int64_t registers = 0, blocks_per_multiprocessor = 0;
};

// A kernel of the tables, with the code that it is made of.
struct PlannedKernel {
  TableRow row;
  std::vector<PlannedEntry> entries;  // none: a library's call
  std::string source;                 // CUDA C++
};

struct PlannedLaunch {
  std::size_t kernel = 0;  // of GpuPlan::kernels
  std::vector<std::pair<std::string, std::int64_t>> keys;
  double estimated_seconds = 0;  // at these keys
};

struct GpuPlan {
  std::string part;                                    // codegen_cuda::part_text()
  std::string architecture;                            // "sm_90a"
  std::vector<PlannedKernel> kernels;                  // of all tables, tried from above
  std::optional<std::vector<PlannedLaunch>> launches;  // nothing: only a run tells
};

// `part` as planned_gpu() takes it. `extents`: of every input, in the order of inputs_of(). Throws
// what planned_gpu(), the passes and load_tuning() throw, and Error{Inputs} for sizes that do not
// fit.
GpuPlan explain_gpu(std::string_view part, ir::Module module, const CompileOptions& options,
                    const std::vector<std::vector<std::int64_t>>& extents);
std::string to_text(const GpuPlan& plan);

// The kernel as the compiler leaves it; throws Error{Resource} where NVRTC is missing.
std::string ptx_of(const GpuPlan& plan, const PlannedKernel& kernel);
std::vector<std::byte> cubin_of(const GpuPlan& plan, const PlannedKernel& kernel);

}  // namespace anydim
