// A matmul in ordinary arithmetic: tiles of both operands as rows of one depth each in shared
// memory, a rectangle of sums in each thread's registers.

__device__ __forceinline__ void add_product(float& sum, float a, float b) { sum = fmaf(a, b, sum); }
__device__ __forceinline__ void add_product(double& sum, double a, double b) {
  sum = fma(a, b, sum);
}
// Integers wrap.
template <typename Integer>
__device__ __forceinline__ void add_product(Integer& sum, Integer a, Integer b) {
  sum = (Integer)((unsigned long long)sum + (unsigned long long)a * (unsigned long long)b);
}

// fetch(tile) reads a tile's elements into registers, store(to) writes them to the tile at `to`;
// two tiles take turns.
template <class Tile, typename Value, class Fetch, class Store>
__device__ __forceinline__ void multiply_tiles_simt(
    Value (&sums)[Tile::thread_rows][Tile::thread_columns], Value* memory, int tiles,
    const Fetch& fetch, const Store& store) {
  const int row = (int)threadIdx.x / Tile::threads_across * Tile::thread_rows;
  const int column = (int)threadIdx.x % Tile::threads_across * Tile::thread_columns;
  if (tiles > 0) {
    fetch(0);
    store(memory);
  }
  __syncthreads();
#pragma unroll 1
  for (int tile = 0; tile < tiles; ++tile) {
    const Value* from = memory + tile % 2 * Tile::elements;
    if (tile + 1 < tiles) fetch(tile + 1);
#pragma unroll
    for (int depth = 0; depth < Tile::depth; ++depth) {
      Value left[Tile::thread_rows], right[Tile::thread_columns];
      load_vector(left, from + depth * Tile::left_pitch + row);
      load_vector(right, from + Tile::left_elements + depth * Tile::right_pitch + column);
#pragma unroll
      for (int i = 0; i < Tile::thread_rows; ++i) {
#pragma unroll
        for (int j = 0; j < Tile::thread_columns; ++j) add_product(sums[i][j], left[i], right[j]);
      }
    }
    if (tile + 1 < tiles) store(memory + (tile + 1) % 2 * Tile::elements);
    __syncthreads();
  }
}
