// Transaction barriers in shared memory, and tensor memory access (sm_90).

__device__ __forceinline__ void initialise_barrier(unsigned barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
// Makes initialised barriers visible to the asynchronous proxy and to the cluster; a barrier of the
// block (or cluster) must follow.
__device__ __forceinline__ void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// By the lanes that are elected: a branch would part the warp, and what follows may need it whole
// (`.aligned`).
__device__ __forceinline__ void arrive(unsigned barrier, bool elected) {
  asm volatile(
      "{\n"
      ".reg .pred elected;\n"
      "setp.ne.b32 elected, %1, 0;\n"
      "@elected mbarrier.arrive.shared::cta.b64 _, [%0];\n"
      "}" ::"r"(barrier),
      "r"((int)elected)
      : "memory");
}
__device__ __forceinline__ void arrive_expecting(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
// The same at the barrier of the same place in another block of the cluster, for whom nothing was
// written: at the scope of the cluster a release waits for all of the thread's stores to reach the
// second-level cache, about a thousand cycles.
__device__ __forceinline__ void arrive_at(unsigned barrier, int rank, bool elected) {
  asm volatile(
      "{\n"
      ".reg .pred elected;\n"
      ".reg .b32 remote;\n"
      "setp.ne.b32 elected, %2, 0;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "@elected mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
      "}" ::"r"(barrier),
      "r"(rank), "r"((int)elected)
      : "memory");
}
// True once the phase of this parity has completed; a fresh barrier counts as having completed
// parity 1.
__device__ __forceinline__ bool has_completed(unsigned barrier, unsigned parity) {
  unsigned done;
  asm volatile(
      "{\n"
      ".reg .pred completed;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 completed, [%1], %2;\n"
      "selp.u32 %0, 1, 0, completed;\n"
      "}"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done != 0;
}
// `number` and `iteration` say where a checked wait ran out.
template <bool checked>
__device__ __forceinline__ void wait_for(unsigned barrier, unsigned parity, KernelError* error,
                                         int number, int iteration) {
  if constexpr (checked) {
    if (has_completed(barrier, parity)) return;
    for (const unsigned long long begin = nanoseconds(); !has_completed(barrier, parity);) {
      if (nanoseconds() - begin > longest_wait) report_wait(error, number, parity, iteration);
    }
  } else {
    while (!has_completed(barrier, parity)) {
    }
  }
}

__device__ __forceinline__ void prefetch_map(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// A box of a tensor to shared memory, at coordinates innermost first; its bytes, those out of
// bounds too, count towards the barrier's transaction.
__device__ __forceinline__ void load_box(unsigned to, const TensorMap& map, unsigned barrier, int x,
                                         int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, "
      "%4}], [%2];" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(x), "r"(y)
      : "memory");
}
__device__ __forceinline__ void load_box(unsigned to, const TensorMap& map, unsigned barrier, int x,
                                         int y, int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, "
      "%4, %5}], [%2];" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z)
      : "memory");
}
__device__ __forceinline__ void load_box(unsigned to, const TensorMap& map, unsigned barrier, int x,
                                         int y, int z, int u) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, "
      "%4, %5, %6}], [%2];" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(u)
      : "memory");
}

// A box of shared memory to a tensor, by one thread; elements out of bounds are not stored. Every
// thread publishes what it wrote there before. A group of the thread ends with commit_boxes().
__device__ __forceinline__ void publish_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ void store_box(const TensorMap& map, unsigned from, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(&map),
      "r"(from), "r"(x), "r"(y)
      : "memory");
}
__device__ __forceinline__ void commit_boxes() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Until the boxes of all but this thread's last `pending` groups have been read; until all have
// been written too.
template <int pending>
__device__ __forceinline__ void wait_boxes_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory");
}
__device__ __forceinline__ void wait_boxes() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// The same to the same place in every block of the cluster whose bit of `blocks` is set; each one's
// barrier of that place counts the bytes.
__device__ __forceinline__ void load_box_for(unsigned to, const TensorMap& map, unsigned barrier,
                                             int x, int y, unsigned short blocks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::"
      "cluster [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(x), "r"(y), "h"(blocks)
      : "memory");
}
