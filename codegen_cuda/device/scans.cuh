__device__ inline int shuffle_up(int value, int distance) {
  return __shfl_up_sync(0xffffffffu, value, distance);
}
__device__ inline unsigned shuffle_up(unsigned value, int distance) {
  return __shfl_up_sync(0xffffffffu, value, distance);
}
__device__ inline float shuffle_up(float value, int distance) {
  return __shfl_up_sync(0xffffffffu, value, distance);
}
__device__ inline double shuffle_up(double value, int distance) {
  return __shfl_up_sync(0xffffffffu, value, distance);
}
__device__ inline long long shuffle_up(long long value, int distance) {
  return __shfl_up_sync(0xffffffffu, value, distance);
}
__device__ inline unsigned long long shuffle_up(unsigned long long value, int distance) {
  return __shfl_up_sync(0xffffffffu, value, distance);
}
template <typename Narrow>
__device__ inline Narrow shuffle_up(Narrow value, int distance) {
  return (Narrow)__shfl_up_sync(0xffffffffu, (int)value, distance);
}

// Running totals over the threads of a block of `warps` warps: what those before this thread have
// together, and in `total` what all have, which every thread gets. `shared` is used by nobody else
// until the block's next barrier but one.
template <int warps, typename Value, typename Combine>
__device__ inline Value scan_block(Value value, Value none, Value* shared, Combine combine,
                                   Value& total) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  Value inclusive = value;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const Value earlier = shuffle_up(inclusive, distance);
    if (lane >= distance) inclusive = combine(earlier, inclusive);
  }
  if (lane == 31) shared[warp] = inclusive;
  const Value neighbour = shuffle_up(inclusive, 1);
  __syncthreads();
  Value before = none;
  total = none;
#pragma unroll
  for (int other = 0; other < warps; ++other) {
    if (other == warp) before = total;
    total = combine(total, shared[other]);
  }
  return lane == 0 ? before : combine(before, neighbour);
}
