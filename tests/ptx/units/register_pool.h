// setmaxnreg: the registers that the warps of one block may pass among themselves.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace anydim::ptx {

inline constexpr int registers_per_multiprocessor = 65536;

// Registers a thread starts with in a kernel that uses setmaxnreg: what __launch_bounds__(threads,
// blocks) leaves to each thread, in steps of 8, but no more than the largest value the kernel asks
// for. Source: docs/cuda.md (observed with ptxas 13.0 for 384x1, 256x2 and 256x1).
int registers_at_launch(int threads, int blocks_per_multiprocessor, int largest_request);

class RegisterPool {
 public:
  RegisterPool() = default;
  RegisterPool(int warps, int registers_per_thread);

  // Empty when `warp` now has `count` registers a thread. Says what is wrong when the value is not
  // one that the instruction takes: not a multiple of 8 within 24..256, or .dec above / .inc below
  // what the warp has.
  std::string release(int warp, int count);
  std::string check_acquire(int warp, int count) const;
  // False: the pool holds too few now, the warp waits and tries again.
  bool try_acquire(int warp, int count);

  int held(int warp) const { return held_[warp]; }
  int available() const {
    return available_;
  }  // registers a thread of one warp, summed over what warps gave back

 private:
  std::vector<int> held_;
  int available_ = 0;
};

}  // namespace anydim::ptx
