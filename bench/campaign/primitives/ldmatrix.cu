// ldmatrix.x4 and ldmatrix.x4.trans of one 16 x 16 tile of 16-bit elements: the four registers of
// each lane, first plain, then transposed.
typedef unsigned int u32;
typedef unsigned short u16;

extern "C" __global__ void kernel(const u16* tile, u32* out, const long long*, void*, void*) {
  __shared__ __align__(128) u16 shared[256];
  const int lane = threadIdx.x;
  for (int i = lane; i < 256; i += 32) shared[i] = tile[i];
  __syncthreads();
  u32 address;
  asm("{ .reg .u64 wide; cvta.to.shared.u64 wide, %1; cvt.u32.u64 %0, wide; }"
      : "=r"(address)
      : "l"(shared + (lane % 16) * 16 + lane / 16 * 8));
  u32 r0, r1, r2, r3;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3)
               : "r"(address)
               : "memory");
  out[lane * 4] = r0, out[lane * 4 + 1] = r1, out[lane * 4 + 2] = r2, out[lane * 4 + 3] = r3;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3)
               : "r"(address)
               : "memory");
  out += 128;
  out[lane * 4] = r0, out[lane * 4 + 1] = r1, out[lane * 4 + 2] = r2, out[lane * 4 + 3] = r3;
}
