// Two blocks of a cluster bring a box of 64 x 16 elements (16 bits, swizzled over 128 bytes) to
// both: each loads eight of its rows, with a copy that is cast to the same place of both shared
// memories and counts at both barriers. Shared memory of both blocks as it is afterwards.
typedef unsigned int u32;
struct alignas(64) TensorMap {
  char bytes[128];
};

extern "C" __global__ void kernel(const void*, u32* out, const long long*, void*, void*,
                                  const __grid_constant__ TensorMap map) {
  extern __shared__ __align__(1024) unsigned char shared[];
  u32 tile, barrier, rank;
  asm("{ .reg .u64 wide; cvta.to.shared.u64 wide, %1; cvt.u32.u64 %0, wide; }"
      : "=r"(tile)
      : "l"(shared));
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  barrier = tile + 2048;
  if (threadIdx.x == 0) {
    asm volatile(
        "mbarrier.init.shared::cta.b64 [%0], 1;\nfence.mbarrier_init.release.cluster;" ::"r"(
            barrier)
        : "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 2048;" ::"r"(barrier)
                 : "memory");
  }
  __syncwarp();
  // Both barriers are there, and expect what both blocks send.
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
  if (threadIdx.x == 0) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::"
        "cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(tile + 1024 * rank),
        "l"(&map), "r"(8), "r"(4 + 8 * rank), "r"(barrier), "h"((unsigned short)3)
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
  for (int i = threadIdx.x; i < 512; i += 32) out[512 * rank + i] = words[i];
  // Neither block ends while the other may still send to it.
  __syncwarp();
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
}
