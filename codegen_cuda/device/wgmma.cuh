// Warpgroup matrix multiplication (sm_90a): descriptors, ordering, registers.

// The descriptor of a tile in shared memory whose rows are 64 16-bit elements of depth (128 bytes,
// swizzled by 128). Bits 0-13 are the address / 16, 32-45 the bytes between groups of 8 rows / 16,
// 62-63 the swizzle. The next 16 elements of depth lie at + 32 bytes.
__device__ __forceinline__ unsigned long long tile_descriptor(unsigned address) {
  constexpr unsigned long long group_bytes = 8 * 128, swizzle_128 = 1;
  return (address & 0x3ffffu) >> 4 | group_bytes / 16 << 32 | swizzle_128 << 62;
}

// Before the first multiplication and after any ordinary access to its registers.
__device__ __forceinline__ void begin_multiplications() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void commit_multiplications() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int pending>
__device__ __forceinline__ void wait_multiplications() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}
// The compiler must neither move nor copy registers that a multiplication may still write.
template <int count>
__device__ __forceinline__ void pin(float (&fragments)[count][4]) {
#pragma unroll
  for (int i = 0; i < count; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) asm volatile("" : "+f"(fragments[i][j])::"memory");
  }
}

// A barrier of so many threads of the block, whole warps of them; barrier 0 is everyone's.
template <int id>
__device__ __forceinline__ void named_barrier(int threads) {
  asm volatile("bar.sync %0, %1;" ::"n"(id), "r"(threads) : "memory");
}
// Arrives there without waiting.
template <int id>
__device__ __forceinline__ void arrive_at_named_barrier(int threads) {
  asm volatile("bar.arrive %0, %1;" ::"n"(id), "r"(threads) : "memory");
}

// True for one lane of a whole warp, always the same.
__device__ __forceinline__ bool elected_lane() {
  unsigned elected;
  asm volatile(
      "{\n"
      ".reg .pred elected;\n"
      "elect.sync _|elected, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, elected;\n"
      "}"
      : "=r"(elected)
      :
      : "memory");
  return elected != 0;
}

// Registers of a warpgroup's threads: the producer, which only starts copies, gives some, and
// consumers, which hold sums, take them.
template <int count>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}
template <int count>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}
