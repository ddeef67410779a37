// Blocks of a cluster (sm_90): meetings, and values in each other's shared memory.

// Every thread of every block; what was written to shared memory before is seen after, by all of
// them. What came before may have parted a warp's lanes, and `.aligned` needs them together. It
// waits for the thread's stores to reach the second-level cache, results in global memory too.
__device__ __forceinline__ void synchronise_cluster() {
  __syncwarp();
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// The same by a thread that has nothing to show the others and only must be there: it does not wait
// for its stores to reach the second-level cache, as a release to a cluster does.
__device__ __forceinline__ void attend_cluster() {
  __syncwarp();
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// The address that block `rank` has for what lies at `local` here.
__device__ __forceinline__ unsigned remote_address(const float* local, int rank) {
  unsigned address;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(address)
               : "r"((unsigned)__cvta_generic_to_shared(local)), "r"(rank));
  return address;
}
__device__ __forceinline__ void add_remote(float (&sums)[4], const float* local, int rank) {
  float values[4];
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(values[0]), "=f"(values[1]), "=f"(values[2]), "=f"(values[3])
               : "r"(remote_address(local, rank))
               : "memory");
#pragma unroll
  for (int i = 0; i < 4; ++i) sums[i] += values[i];
}
