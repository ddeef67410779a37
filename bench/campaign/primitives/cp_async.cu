// cp.async of 16 bytes a lane, of which only the first 16 - lane % 17 come from memory and the rest
// are zeros.
typedef unsigned int u32;
typedef unsigned char u8;

extern "C" __global__ void kernel(const u8* in, u8* out, const long long*, void*, void*) {
  __shared__ __align__(128) u8 shared[512];
  const int lane = threadIdx.x;
  u32 address;
  asm("{ .reg .u64 wide; cvta.to.shared.u64 wide, %1; cvt.u32.u64 %0, wide; }"
      : "=r"(address)
      : "l"(shared + 16 * lane));
  const u32 bytes = 16 - lane % 17;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(in + 16 * lane),
               "r"(bytes)
               : "memory");
  asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory");
  __syncthreads();
  for (int i = 0; i < 16; ++i) out[16 * lane + i] = shared[16 * lane + i];
}
