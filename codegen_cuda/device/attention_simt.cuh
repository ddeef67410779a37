// Attention without tensor cores: any dtype and stride, any head dim, operands computed element by
// element.
//
// A block takes 16 queries of one batch point and a chunk of output columns. A lane is a key while
// scores are computed, and `columns` output columns while values are summed. Real: float or double.

__device__ __forceinline__ float exponential(float x) { return expf(x); }
__device__ __forceinline__ double exponential(double x) { return exp(x); }

template <typename Real, int columns>
struct AttentionSimt {
  static constexpr int lanes = 32, warps = 4, warp_rows = 4, block_rows = warps * warp_rows,
                       threads = warps * lanes;
  static constexpr int tile_keys = lanes, tile_depth = 32, tile_width = lanes * columns;

  template <typename Combine>
  static __device__ __forceinline__ Real across_lanes(Real value, const Combine& combine) {
#pragma unroll
    for (int distance = lanes / 2; distance > 0; distance /= 2)
      value = combine(value, __shfl_xor_sync(0xffffffffu, value, distance));
    return value;
  }

  // Rows first_row ... of the block, output columns from first_column on. The callables give
  // elements: query(row, d), key(key, d), value(key, column), score(row, key, product), write(row,
  // column, value).
  template <class Query, class Key, class Value, class Score, class Write>
  static __device__ __forceinline__ void run(long long first_row, long long rows, long long keys,
                                             long long first_key, long long end_key,
                                             long long depth, long long first_column,
                                             long long width, const Query& query, const Key& key,
                                             const Value& value, const Score& score,
                                             const Write& write) {
    __shared__ Real query_tile[tile_depth][block_rows];
    __shared__ Real key_tile[tile_depth][tile_keys + 1];
    __shared__ Real value_tile[tile_keys][tile_width];
    __shared__ Real weight_tile[warps][tile_keys][warp_rows];
    const Real lowest = static_cast<Real>(__uint_as_float(0xff800000u));  // -infinity
    const int thread = threadIdx.x, warp = thread / lanes, lane = thread % lanes;
    const long long warp_row = first_row + warp * warp_rows;
    Real outputs[warp_rows][columns] = {};
    Real maxima[warp_rows], sums[warp_rows] = {};
#pragma unroll
    for (int r = 0; r < warp_rows; ++r) maxima[r] = lowest;

#pragma unroll 1
    for (long long tile = first_key; tile < end_key; tile += tile_keys) {
      __syncthreads();  // everybody has read the tile before
#pragma unroll 1
      for (int item = thread; item < tile_keys * tile_width; item += threads) {
        const int row = item / tile_width, column = item % tile_width;
        const bool inside = tile + row < end_key && first_column + column < width;
        value_tile[row][column] = inside ? value(tile + row, first_column + column) : Real(0);
      }
      Real products[warp_rows] = {};
#pragma unroll 1
      for (long long first = 0; first < depth; first += tile_depth) {
        if (first > 0) __syncthreads();
#pragma unroll 1
        for (int item = thread; item < block_rows * tile_depth; item += threads) {
          const int row = item / tile_depth, d = item % tile_depth;
          query_tile[d][row] = first_row + row < rows && first + d < depth
                                   ? query(first_row + row, first + d)
                                   : Real(0);
        }
#pragma unroll 1
        for (int item = thread; item < tile_keys * tile_depth; item += threads) {
          const int row = item / tile_depth, d = item % tile_depth;
          key_tile[d][row] =
              tile + row < end_key && first + d < depth ? key(tile + row, first + d) : Real(0);
        }
        __syncthreads();
#pragma unroll 8
        for (int d = 0; d < tile_depth; ++d) {
          const Real element = key_tile[d][lane];
#pragma unroll
          for (int r = 0; r < warp_rows; ++r)
            products[r] += query_tile[d][warp * warp_rows + r] * element;
        }
      }
      if (depth == 0) __syncthreads();

      const long long own_key = tile + lane;
#pragma unroll
      for (int r = 0; r < warp_rows; ++r) {
        const Real own = own_key < end_key ? score(warp_row + r < rows ? warp_row + r : rows - 1,
                                                   own_key, products[r])
                                           : lowest;
        const Real maximum = across_lanes(own > maxima[r] ? own : maxima[r],
                                          [](Real a, Real b) { return a > b ? a : b; });
        // While every score is -infinity nothing may be subtracted from it: the weights are
        // exp(-infinity) = 0.
        const Real base = maximum == lowest ? Real(0) : maximum;
        const Real shrink = exponential(maxima[r] - base), weight = exponential(own - base);
        maxima[r] = maximum;
        sums[r] = sums[r] * shrink + across_lanes(weight, [](Real a, Real b) { return a + b; });
        weight_tile[warp][lane][r] = weight;
#pragma unroll
        for (int c = 0; c < columns; ++c) outputs[r][c] *= shrink;
      }
      __syncwarp();
#pragma unroll 4
      for (int row = 0; row < tile_keys; ++row) {
#pragma unroll
        for (int c = 0; c < columns; ++c) {
          const Real element = value_tile[row][lane + lanes * c];
#pragma unroll
          for (int r = 0; r < warp_rows; ++r) outputs[r][c] += weight_tile[warp][row][r] * element;
        }
      }
    }

#pragma unroll
    for (int r = 0; r < warp_rows; ++r) {
      // Without keys the output is an empty sum; with keys that are all -infinity it is 0 / 0, as
      // softmax gives.
      const Real inverse = keys == 0 ? Real(1) : Real(1) / sums[r];
#pragma unroll
      for (int c = 0; c < columns; ++c) {
        const long long column = first_column + lane + lanes * c;
        if (warp_row + r < rows && column < width)
          write(warp_row + r, column, outputs[r][c] * inverse);
      }
    }
  }
};
