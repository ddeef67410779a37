// One cp.async.bulk.tensor.2d store of a box of 64 x 16 elements (16 bits, swizzled over 128 bytes
// in shared memory) that hangs over both edges of a [20, 72] tensor. Coordinates (32, 8): what lies
// outside is not stored, and the rest of the tensor stays as it was.
typedef unsigned int u32;
struct alignas(64) TensorMap {
  char bytes[128];
};

extern "C" __global__ void kernel(const u32* in, u32*, const long long*, void*, void*,
                                  const __grid_constant__ TensorMap map) {
  extern __shared__ __align__(1024) unsigned char shared[];
  u32* words = (u32*)shared;
  for (int i = threadIdx.x; i < 512; i += 32) words[i] = in[i];
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x != 0) return;
  u32 tile;
  asm("{ .reg .u64 wide; cvta.to.shared.u64 wide, %1; cvt.u32.u64 %0, wide; }"
      : "=r"(tile)
      : "l"(shared));
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map),
      "r"(32), "r"(8), "r"(tile)
      : "memory");
  asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
}
