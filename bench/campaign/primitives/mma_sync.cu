// One mma.sync.m16n8k16: d = a * b with a[16, 16], b[16, 8] row-major in bf16 and d[16, 8] in f32,
// fragments loaded by hand.
typedef unsigned int u32;
typedef unsigned short u16;

extern "C" __global__ void kernel(const u16* a, const u16* b, float* d, const long long*, void*,
                                  void*) {
  const int lane = threadIdx.x, row = lane / 4, pair = lane % 4 * 2;
  const u32* words = (const u32*)a;
  const u32 a0 = words[(row * 16 + pair) / 2], a1 = words[((row + 8) * 16 + pair) / 2];
  const u32 a2 = words[(row * 16 + pair + 8) / 2], a3 = words[((row + 8) * 16 + pair + 8) / 2];
  const u32 b0 = b[pair * 8 + row] | (u32)b[(pair + 1) * 8 + row] << 16;
  const u32 b1 = b[(pair + 8) * 8 + row] | (u32)b[(pair + 9) * 8 + row] << 16;
  float d0, d1, d2, d3;
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%10,%10,%10,%10};"
      : "=f"(d0), "=f"(d1), "=f"(d2), "=f"(d3)
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "f"(0.0f));
  d[row * 8 + pair] = d0;
  d[row * 8 + pair + 1] = d1;
  d[(row + 8) * 8 + pair] = d2;
  d[(row + 8) * 8 + pair + 1] = d3;
}
