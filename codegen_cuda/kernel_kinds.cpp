#include <fmt/format.h>

#include "codegen_cuda/kernel_kind.h"

namespace anydim::codegen_cuda {

std::optional<std::string> threads_misfit(std::int64_t threads) {
  if (threads < 32 || threads > 1024 || threads % 32 != 0)
    return "a block has 32 to 1024 threads, in whole warps";
  return std::nullopt;
}

std::optional<std::string> resources_misfit(const CudaTarget& target, std::int64_t threads,
                                            std::int64_t shared_bytes, std::int64_t registers) {
  if (shared_bytes > target.shared_per_block)
    return fmt::format("it needs {} bytes of shared memory, and a block gets {}", shared_bytes,
                       target.shared_per_block);
  if (registers > 255 || registers * threads > target.registers_per_multiprocessor)
    return fmt::format("it needs {} registers for each of {} threads", registers, threads);
  return std::nullopt;
}

std::vector<std::unique_ptr<KernelKind>> all_kernel_kinds() {
  std::vector<std::unique_ptr<KernelKind>> kinds;
#define ANYDIM_CUDA_KIND(name) kinds.push_back(make_##name##_kind());
#include "codegen_cuda/kernel_kinds.def"
#undef ANYDIM_CUDA_KIND
  return kinds;
}

}  // namespace anydim::codegen_cuda
