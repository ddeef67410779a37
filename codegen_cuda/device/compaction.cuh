// Zeros to places[first, last) but the first `taken` of all. By a block of `threads` threads.
template <int threads, typename Place>
__device__ inline void clear_places(Place* places, long long first, long long taken,
                                    long long last) {
  for (long long place = (first > taken ? first : taken) + threadIdx.x; place < last;
       place += threads)
    places[place] = 0;
}

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
