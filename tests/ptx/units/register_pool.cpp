#include "tests/ptx/units/register_pool.h"

#include <algorithm>

#include <fmt/format.h>

namespace anydim::ptx {

namespace {

std::string check_value(int count) {
  if (count % 8 == 0 && count >= 24 && count <= 256) return {};
  return fmt::format("{} registers: the count must be a multiple of 8 within 24..256", count);
}

}  // namespace

int registers_at_launch(int threads, int blocks_per_multiprocessor, int largest_request) {
  return std::min(registers_per_multiprocessor / (threads * blocks_per_multiprocessor) / 8 * 8,
                  largest_request);
}

RegisterPool::RegisterPool(int warps, int registers_per_thread)
    : held_(static_cast<std::size_t>(warps), registers_per_thread) {}

std::string RegisterPool::release(int warp, int count) {
  std::string wrong = check_value(count);
  if (!wrong.empty()) return wrong;
  if (count > held_[warp])
    return fmt::format("setmaxnreg.dec to {} where the warp has {} registers", count, held_[warp]);
  available_ += held_[warp] - count;
  held_[warp] = count;
  return {};
}

std::string RegisterPool::check_acquire(int warp, int count) const {
  std::string wrong = check_value(count);
  if (!wrong.empty()) return wrong;
  if (count < held_[warp])
    return fmt::format("setmaxnreg.inc to {} where the warp has {} registers", count, held_[warp]);
  return {};
}

bool RegisterPool::try_acquire(int warp, int count) {
  const int missing = count - held_[warp];
  if (missing > available_) return false;
  available_ -= missing;
  held_[warp] = count;
  return true;
}

}  // namespace anydim::ptx
