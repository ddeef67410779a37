extern "C" __global__ void __launch_bounds__(128, 7) rows(const bf16* in0, const bf16* in1, const float* in2, const float* in3, bf16* out0, const long long* extents, KernelError* error, void* workspace) {
  const int n = (int)extents[0];
  let_next_launch_start();
  wait_for_earlier_launches();
  const int thread = threadIdx.x % 32;
  const int rows = n;
  for (int row = blockIdx.x * 4 + threadIdx.x / 32; row < rows; row += gridDim.x * 4) {
    float kept1[12];
    // Reduction
    float partial1 = 0.0f;
#pragma unroll
    for (int item = 0; item < 3; ++item) {
      const int vector = item * 32 + thread;
      const int c0 = vector * 4;
      bf16 loaded1[4];
      load_vector(loaded1, in0 + (c0 + row * 384));
      bf16 loaded2[4];
      load_vector(loaded2, in1 + (c0 + row * 384));
#pragma unroll
      for (int lane = 0; lane < 4; ++lane) {
        const float element1 = widen(loaded1[lane]);
        const float element2 = widen(loaded2[lane]);
        const float add1 = element1 + element2;
        const float cast1 = (float)add1;
        kept1[item * 4 + lane] = cast1;
        partial1 = partial1 + cast1;
      }
    }
    const float reduced1 = reduce_warp(partial1, [](float a, float b) -> float { return a + b; });
    // Reduction
    float partial2 = 0.0f;
    const float div1 = reduced1 / 384.0f;
#pragma unroll
    for (int item1 = 0; item1 < 3; ++item1) {
      const int vector1 = item1 * 32 + thread;
      const int c0_1 = vector1 * 4;
#pragma unroll
      for (int lane1 = 0; lane1 < 4; ++lane1) {
        const float sub1 = kept1[item1 * 4 + lane1] - div1;
        const float mul1 = sub1 * sub1;
        partial2 = partial2 + mul1;
      }
    }
    const float reduced2 = reduce_warp(partial2, [](float a, float b) -> float { return a + b; });
    // Results
    const float div2 = reduced1 / 384.0f;
    const float div3 = reduced2 / 384.0f;
    const float add2 = div3 + 1e-12f;
    const float sqrt1 = sqrtf(add2);
    const float reciprocal1 = 1.0f / sqrt1;
#pragma unroll
    for (int item2 = 0; item2 < 3; ++item2) {
      const int vector2 = item2 * 32 + thread;
      const int c0_2 = vector2 * 4;
      float loaded3[4];
      load_vector(loaded3, in2 + c0_2);
      float loaded4[4];
      load_vector(loaded4, in3 + c0_2);
      bf16 result1[4];
#pragma unroll
      for (int lane2 = 0; lane2 < 4; ++lane2) {
        const float element3 = loaded3[lane2];
        const float element4 = loaded4[lane2];
        const float sub2 = kept1[item2 * 4 + lane2] - div2;
        const float mul2 = sub2 * reciprocal1;
        const float mul3 = mul2 * element3;
        const float add3 = mul3 + element4;
        result1[lane2] = to_bf16(add3);
      }
      store_vector(out0 + (c0_2 + row * 384), result1);
    }
  }
}
