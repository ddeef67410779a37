__device__ inline int shuffle_xor(int value, int distance) {
  return __shfl_xor_sync(0xffffffffu, value, distance);
}
__device__ inline unsigned shuffle_xor(unsigned value, int distance) {
  return __shfl_xor_sync(0xffffffffu, value, distance);
}
__device__ inline float shuffle_xor(float value, int distance) {
  return __shfl_xor_sync(0xffffffffu, value, distance);
}
__device__ inline double shuffle_xor(double value, int distance) {
  return __shfl_xor_sync(0xffffffffu, value, distance);
}
__device__ inline long long shuffle_xor(long long value, int distance) {
  return __shfl_xor_sync(0xffffffffu, value, distance);
}
__device__ inline unsigned long long shuffle_xor(unsigned long long value, int distance) {
  return __shfl_xor_sync(0xffffffffu, value, distance);
}
template <typename Narrow>
__device__ inline Narrow shuffle_xor(Narrow value, int distance) {
  return (Narrow)__shfl_xor_sync(0xffffffffu, (int)value, distance);
}

// Over the lanes of a warp; every lane gets the same result.
template <typename Value, typename Combine>
__device__ inline Value reduce_warp(Value value, Combine combine) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    value = combine(value, shuffle_xor(value, distance));
  return value;
}

// Over the threads of a block of `warps` warps; every thread gets the same result. `shared` is used
// by nobody else until the block's next barrier but one.
template <int warps, typename Value, typename Combine>
__device__ inline Value reduce_block(Value value, Value neutral, Value* shared, Combine combine) {
  value = reduce_warp(value, combine);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (lane == 0) shared[warp] = value;
  __syncthreads();
  return reduce_warp(lane < warps ? shared[lane] : neutral, combine);
}

// Over the `parts` warps of a block, lane by lane.
template <int parts, typename Value, typename Combine>
__device__ inline Value reduce_columns(Value value, Value* shared, Combine combine) {
  const int part = threadIdx.x / 32, column = threadIdx.x % 32;
  shared[part * 32 + column] = value;
  __syncthreads();
  value = shared[column];
#pragma unroll
  for (int other = 1; other < parts; ++other) value = combine(value, shared[other * 32 + column]);
  return value;
}
