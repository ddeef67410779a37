// One wgmma.m64n16k16 with both operands in shared memory, K-major and swizzled over 32 bytes:
// d[64, 16] = a[64, 16] * b[16, 16]^T in bf16 with sums in f32.
typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short u16;

__device__ u64 descriptor(u32 address) {
  // Leading offset unused, 256 bytes from eight rows to the next eight, swizzle of 32 bytes.
  return (u64)(address >> 4 & 0x3fff) | (u64)1 << 16 | (u64)(256 >> 4) << 32 | (u64)3 << 62;
}

// Element (row, k) of a K-major tile with 32-byte rows: bit 4 of the address is exchanged with
// bit 7.
__device__ int place(int row, int k) {
  const int byte = row * 32 + k * 2;
  return (byte ^ (byte >> 3 & 16)) / 2;
}

extern "C" __global__ void kernel(const u16* a, const u16* b, float* d, const long long*, void*,
                                  void*) {
  __shared__ __align__(1024) u16 left[64 * 16];
  __shared__ __align__(1024) u16 right[16 * 16];
  for (int i = threadIdx.x; i < 64 * 16; i += 128) left[place(i / 16, i % 16)] = a[i];
  for (int i = threadIdx.x; i < 16 * 16; i += 128) right[place(i / 16, i % 16)] = b[i];
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  u32 left_address, right_address;
  asm("{ .reg .u64 wide; cvta.to.shared.u64 wide, %1; cvt.u32.u64 %0, wide; }"
      : "=r"(left_address)
      : "l"(left));
  asm("{ .reg .u64 wide; cvta.to.shared.u64 wide, %1; cvt.u32.u64 %0, wide; }"
      : "=r"(right_address)
      : "l"(right));
  float r[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, 0, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7}, %8, %9, p, "
      "1, 1, 0, 0; }"
      : "+f"(r[0]), "+f"(r[1]), "+f"(r[2]), "+f"(r[3]), "+f"(r[4]), "+f"(r[5]), "+f"(r[6]),
        "+f"(r[7])
      : "l"(descriptor(left_address)), "l"(descriptor(right_address))
      : "memory");
  asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int i = 0; i < 8; ++i) {
    const int row = 16 * warp + lane / 4 + 8 * (i >> 1 & 1),
              column = 8 * (i >> 2) + 2 * (lane & 3) + (i & 1);
    d[row * 16 + column] = r[i];
  }
}
