#include "codegen_cuda/occupancy.h"

#include <algorithm>

namespace anydim::codegen_cuda {

std::int64_t resident_blocks(const CudaTarget& target, std::int64_t threads,
                             std::int64_t shared_bytes, std::int64_t registers) {
  constexpr std::int64_t reserved = 1024;  // of each block, by the system
  const std::int64_t allocated = (registers + 7) / 8 * 8 * threads;
  return std::max<std::int64_t>(
      1, std::min({target.shared_per_multiprocessor / (shared_bytes + reserved),
                   target.registers_per_multiprocessor / allocated,
                   static_cast<std::int64_t>(target.threads_per_multiprocessor) / threads,
                   static_cast<std::int64_t>(target.blocks_per_multiprocessor)}));
}

std::int64_t registers_left(const CudaTarget& target, std::int64_t threads, std::int64_t blocks) {
  constexpr std::int64_t most = 256;  // 255, handed out as 256
  return std::min(most, target.registers_per_multiprocessor / (threads * blocks) / 8 * 8);
}

namespace {

bool takes_all_registers(const CudaTarget& target) { return target.capability() >= 100; }

}  // namespace

bool streaming_is_bound(const CudaTarget& target, std::int64_t kept) {
  return kept > 0 || takes_all_registers(target);
}

std::int64_t streaming_registers(const CudaTarget& target, std::int64_t kept) {
  // Beside the values: addresses, sums, and vectors on their way (counted on machine code).
  constexpr std::int64_t beside = 56;
  return takes_all_registers(target) ? 128
                                     : std::max<std::int64_t>(64, (beside + kept + 7) / 8 * 8);
}

std::int64_t streaming_blocks(const CudaTarget& target, std::int64_t threads, std::int64_t kept) {
  return resident_blocks(target, threads, 0, streaming_registers(target, kept));
}

}  // namespace anydim::codegen_cuda
