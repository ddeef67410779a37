#include "runtime/cpu_code.h"

#include "ir/region.h"

namespace anydim::runtime {

namespace {

// Keeps the scratch of two workers off each other's cache lines, prefetched neighbours included.
constexpr std::int64_t scratch_unit = 256;

}  // namespace

CpuCode::CpuCode(const ir::Region& region, const ir::CompiledKernel& kernel)
    : code_(kernel.code), entry_(code_.function<ir::KernelEntry>(kernel.cpu().kernel)),
      native_sizes_(kernel.cpu().sizes < 0 ? nullptr
                                           : code_.function<SizesEntry>(kernel.cpu().sizes)) {
  if (native_sizes_ == nullptr)
    sizes_.emplace(ir::shapes_over(region, {kernel.tasks, kernel.scratch_bytes}));
}

bool CpuCode::measure(std::span<const std::int64_t> extents, Sizes& sizes) const {
  std::int64_t values[2];
  std::int32_t failed = -1;
  if (native_sizes_ != nullptr) call_generated(native_sizes_, extents.data(), values, &failed);
  else failed = sizes_->run(extents, values);
  if (failed >= 0) return false;
  sizes.tasks = values[0];
  if (__builtin_add_overflow(values[1], scratch_unit - 1, &values[1])) return false;
  sizes.scratch_stride = values[1] / scratch_unit * scratch_unit;
  return true;
}

}  // namespace anydim::runtime
