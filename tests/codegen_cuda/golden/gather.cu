extern "C" __global__ void __launch_bounds__(256) map(const float* in0, const long long* in1, bf16* out0, const long long* extents, KernelError* error, void* workspace) {
  const int n = (int)extents[0];
  let_next_launch_start();
  wait_for_earlier_launches();
  const int points = n * 96;
  for (int point = (int)(blockIdx.x * 256 + threadIdx.x); point < points; point += (int)(gridDim.x * 256)) {
    const int v1 = remainder(point, 96);
    const int rest = quotient(point, 96);
    const int p1 = v1 * 4;
    const long long loaded2 = in1[rest];
    const int index1 = (int)checked_index(error, 0, loaded2, 30522, true);
    float loaded1[4];
    load_vector(loaded1, in0 + (index1 * 384 + p1));
    bf16 result1[4];
#pragma unroll
    for (int lane = 0; lane < 4; ++lane) {
      const float element1 = loaded1[lane];
      result1[lane] = to_bf16(element1);
    }
    store_vector(out0 + (rest * 384 + p1), result1);
  }
}
