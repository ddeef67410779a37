// How many the warps before this one have, and in `total` what all warps of the block have; `mine`
// is the same for all lanes of a warp. `shared` is used by nobody else until the block's next
// barrier but one.
template <int warps>
__device__ inline int count_before(int mine, int* shared, int& total) {
  const int warp = threadIdx.x / 32;
  if (threadIdx.x % 32 == 0) shared[warp] = mine;
  __syncthreads();
  int before = 0;
  total = 0;
#pragma unroll
  for (int other = 0; other < warps; ++other) {
    if (other < warp) before += shared[other];
    total += shared[other];
  }
  return before;
}
