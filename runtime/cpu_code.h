// A kernel of this machine's processors, mapped and ready to be called.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "ir/backend.h"
#include "runtime/code_memory.h"
#include "runtime/worker_pool.h"

namespace anydim::runtime {

class CpuCode {
 public:
  // Throws Error{Resource} where the system refuses executable memory.
  CpuCode(const ir::Region& region, const ir::CompiledKernel& kernel);

  struct Sizes {
    std::int64_t tasks = 0;
    // bytes between the scratch of two workers; 0: the kernel needs none
    std::int64_t scratch_stride = 0;
  };
  // Measures a launch with the region's symbols at `extents`. False where a size has no 64-bit
  // value; `sizes` is undefined then.
  bool measure(std::span<const std::int64_t> extents, Sizes& sizes) const;

  // All tasks, on a WorkerPool or a caller's seat in one; `scratch`: sizes.scratch_stride bytes for
  // each of the pool's threads.
  template <typename Workers>
  void run(Workers& workers, const ir::KernelCall& call, const Sizes& sizes,
           std::byte* scratch) const {
    workers.run(sizes.tasks, [&](std::int64_t first, std::int64_t last, int participant) {
      call_generated(entry_, &call, first, last,
                     static_cast<void*>(scratch + participant * sizes.scratch_stride));
    });
  }

 private:
  using SizesEntry = void (*)(const std::int64_t* extents, std::int64_t* sizes,
                              std::int32_t* failed);

  CodeMemory code_;
  ir::KernelEntry entry_;
  SizesEntry native_sizes_ = nullptr;
  std::optional<ir::ShapeInterpreter> sizes_;  // where there is no native code
};

}  // namespace anydim::runtime
