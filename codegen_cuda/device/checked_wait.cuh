// Where a bounded wait ran out: the checked form of a schedule that is run first on new hardware
// traps instead of hanging.
constexpr int wait_ran_out = -2;  // KernelError::check
// Time, not tries: each try may suspend its thread for as long as the system likes.
constexpr unsigned long long longest_wait = 2000000000;  // ns

__device__ __forceinline__ unsigned long long nanoseconds() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

// KernelError::value: bits 40 and up the block, 28 to 39 the thread, 20 to 27 the barrier's number,
// 19 the parity waited for, below that the iteration.
__device__ __noinline__ void report_wait(KernelError* error, int barrier, unsigned parity,
                                         int iteration) {
  if (atomicCAS(&error->check, -1, wait_ran_out) == -1) {
    error->value = (long long)(blockIdx.x & 0x7fffffu) << 40 | (long long)threadIdx.x << 28 |
                   (long long)(barrier & 0xff) << 20 | (long long)(parity & 1u) << 19 |
                   (iteration & 0x7ffff);
    __threadfence_system();
  }
  asm volatile("trap;");
}
