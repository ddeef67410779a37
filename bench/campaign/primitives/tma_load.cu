// One cp.async.bulk.tensor.2d load of a box of 64 x 16 elements (16 bits, swizzled over 128 bytes)
// that hangs over both edges of a [20, 72] tensor: shared memory as it is afterwards, byte for
// byte. Coordinates (32, 8): 40 columns and 12 rows lie inside, the rest comes as zeros.
typedef unsigned int u32;
struct alignas(64) TensorMap {
  char bytes[128];
};

extern "C" __global__ void kernel(const void*, u32* out, const long long*, void*, void*,
                                  const __grid_constant__ TensorMap map) {
  extern __shared__ __align__(1024) unsigned char shared[];
  u32 tile, barrier;
  asm("{ .reg .u64 wide; cvta.to.shared.u64 wide, %1; cvt.u32.u64 %0, wide; }"
      : "=r"(tile)
      : "l"(shared));
  barrier = tile + 2048;
  if (threadIdx.x == 0) {
    asm volatile(
        "mbarrier.init.shared::cta.b64 [%0], 1;\nfence.mbarrier_init.release.cluster;" ::"r"(
            barrier)
        : "memory");
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 2048;" ::"r"(barrier)
                 : "memory");
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, "
        "{%2, %3}], [%4];" ::"r"(tile),
        "l"(&map), "r"(32), "r"(8), "r"(barrier)
        : "memory");
  }
  u32 done = 0;
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, "
        "p; }"
        : "=r"(done)
        : "r"(barrier)
        : "memory");
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (!done && now - begin < 2000000000ull);
  if (!done) __trap();
  const u32* words = (const u32*)shared;
  for (int i = threadIdx.x; i < 512; i += 32) out[i] = words[i];
}
