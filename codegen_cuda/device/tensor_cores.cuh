// Tensor cores on mma.sync and what feeds them: asynchronous copies of 16 bytes, 8 x 8 matrices
// from and to shared memory, products of fragments.

// 16 bytes from global to shared memory; bytes from `valid_bytes` on become zeros and are not read.
__device__ __forceinline__ void copy_async(unsigned to, const void* from, int valid_bytes) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to),
               "l"(__cvta_generic_to_global(from)), "r"(valid_bytes)
               : "memory");
}
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Until at most `pending` of this thread's groups are under way.
template <int pending>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

// Two floats as 16-bit floats (bf16 where `brain`, else f16), the first in the lower half.
template <bool brain>
__device__ __forceinline__ unsigned pack(float low, float high) {
  unsigned pair;
  if constexpr (brain) asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  else asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

// Four 8 x 8 matrices of 16-bit elements; lane 8 i + r gives the address of row r of matrix i.
template <bool transposed>
__device__ __forceinline__ void load_matrices(unsigned (&words)[4], unsigned address) {
  if constexpr (transposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(address)
                 : "memory");
  }
}

// The way back.
__device__ __forceinline__ void store_matrices(unsigned address, const unsigned (&words)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
               "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
               : "memory");
}

// sum[16 x 8] += left[16 x 16] right[16 x 8]. Lane l holds rows l / 4 (words 0, 1) and l / 4 + 8
// (words 2, 3), columns 2 (l % 4) and the next.
template <bool brain>
__device__ __forceinline__ void multiply(float (&sum)[4], const unsigned (&left)[4],
                                         unsigned right_0, unsigned right_1) {
  if constexpr (brain) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right_0), "r"(right_1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right_0), "r"(right_1));
  }
}

// The nearest number with 10 bits of fraction, ties away from 0. Tensor cores would cut the other
// 13 bits off, which errs twice as far and always towards 0.
__device__ __forceinline__ unsigned to_tf32(float value) {
  unsigned rounded;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(value));
  return rounded;
}

// sum[16 x 8] += left[16 x 8] right[8 x 8] in TF32, laid out as `multiply` with one number a word.
__device__ __forceinline__ void multiply_tf32(float (&sum)[4], const unsigned (&left)[4],
                                              unsigned right_0, unsigned right_1) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, "
      "%9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right_0), "r"(right_1));
}
