// Two blocks of a cluster: each writes its rank's words into the other's shared memory through mapa
// and st.shared::cluster, and reads what it got.
typedef unsigned int u32;

extern "C" __global__ void kernel(const u32* in, u32* out, const long long*, void*, void*) {
  __shared__ u32 shared[32];
  const int lane = threadIdx.x;
  u32 rank, own, theirs;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm("{ .reg .u64 wide; cvta.to.shared.u64 wide, %1; cvt.u32.u64 %0, wide; }"
      : "=r"(own)
      : "l"(shared + lane));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(theirs) : "r"(own), "r"(1 - rank));
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(theirs), "r"(in[rank * 32 + lane] + rank)
               : "memory");
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  out[rank * 32 + lane] = shared[lane];
}
