#include "tests/ptx/memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/error.h"

namespace anydim::ptx {

// Between two allocations lies at least this much that is nobody's.
constexpr std::uint64_t guard_bytes = 4096;

DeviceAddress GlobalMemory::allocate(std::uint64_t bytes, std::uint64_t alignment) {
  internal_check(alignment != 0 && (alignment & (alignment - 1)) == 0,
                 "an alignment is a power of two");
  const DeviceAddress base = (next_ + alignment - 1) / alignment * alignment;
  next_ = base + bytes + guard_bytes;
  Allocation& allocation = allocations_[base];
  allocation.base = base;
  allocation.bytes.assign(bytes, poison);
  last_ = nullptr;
  return base;
}

void GlobalMemory::free(DeviceAddress address) {
  last_ = nullptr;
  internal_check(allocations_.erase(address) == 1, "free of an address that allocate gave");
}

Allocation* GlobalMemory::find(DeviceAddress address) {
  if (last_ != nullptr && address >= last_->base && address - last_->base < last_->bytes.size())
    return last_;
  auto above = allocations_.upper_bound(address);
  if (above == allocations_.begin()) return nullptr;
  Allocation& candidate = (--above)->second;
  if (address - candidate.base >= candidate.bytes.size()) return nullptr;
  return last_ = &candidate;
}

void GlobalMemory::forget_launches() {
  for (auto& [base, allocation] : allocations_) allocation.touched.clear();
}

void GlobalMemory::note_launch(bool waited) {
  for (auto& [base, allocation] : allocations_) {
    for (Touched& touched : allocation.touched) {
      // A group's bits lie two above those of the group that it comes from.
      const auto bits = static_cast<unsigned>(touched);
      const unsigned now = bits & 3U, ahead = bits >> 2 & 3U, uncovered = bits >> 4;
      touched = static_cast<Touched>(waited ? (now | ahead) << 2 | uncovered << 4
                                            : now << 2 | (ahead | uncovered) << 4);
    }
  }
}

std::string GlobalMemory::describe_miss(DeviceAddress address) const {
  const auto above = allocations_.upper_bound(address);
  if (above == allocations_.begin()) return "no allocation lies below it";
  const Allocation& below = std::prev(above)->second;
  return fmt::format("the allocation below it has {} bytes from {:#x} on and ends {} bytes before",
                     below.bytes.size(), below.base, address - below.base - below.bytes.size());
}

}  // namespace anydim::ptx
