// Reductions over the lanes of a warp: every lane gets the same result.
template <typename Value, typename Combine>
__device__ inline Value reduce_warp(Value value, Combine combine) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) value = combine(value, shuffle_xor(value, distance));
  return value;
}
