// Pieces of a matmul on mma.sync: swizzled tiles, fragments, and the way from fragments to rows.

// Where 16-byte chunk `chunk` of row `row` lies in a tile whose rows have `row_chunks` chunks.
// Chunks trade places within a row so that the eight rows that ldmatrix reads at once lie in
// different banks.
template <int row_chunks>
__device__ __forceinline__ unsigned swizzled(int row, int chunk) {
  constexpr int span = row_chunks < 8 ? row_chunks : 8;  // chunks that trade places
  constexpr int repeat = 8 / span;                       // rows that share 128 bytes
  return static_cast<unsigned>(row * row_chunks + (chunk ^ ((row / repeat) & (span - 1)))) * 16u;
}

__device__ __forceinline__ void store_shared(unsigned to, const unsigned (&words)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(words[0]), "r"(words[1]),
               "r"(words[2]), "r"(words[3])
               : "memory");
}

// A 32-bit element of a tile, rounded to TF32.
template <int row_chunks>
__device__ __forceinline__ unsigned load_tf32(unsigned tile, int row, int element) {
  float value;
  asm volatile(
      "ld.shared.f32 %0, [%1];"
      : "=f"(value)
      : "r"(tile + swizzled<row_chunks>(row, element / 4) + static_cast<unsigned>(element % 4) * 4u)
      : "memory");
  return to_tf32(value);
}

// The left operand's 16 x 16 fragment at (row, depth), 16 x 8 where `tf32`, of a tile that holds
// `row_chunks` chunks a row: of depth, or of rows where `transposed`.
template <bool tf32, int row_chunks, bool transposed>
__device__ __forceinline__ void load_left(unsigned (&words)[4], unsigned tile, int row, int depth) {
  const int lane = threadIdx.x % 32;
  if constexpr (tf32 && transposed) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      words[i] =
          load_tf32<row_chunks>(tile, depth + lane % 4 + i / 2 * 4, row + lane / 4 + i % 2 * 8);
  } else if constexpr (tf32) {
    load_matrices<false>(words,
                         tile + swizzled<row_chunks>(row + lane % 16, depth / 4 + lane / 16));
#pragma unroll
    for (int i = 0; i < 4; ++i) words[i] = to_tf32(__uint_as_float(words[i]));
  } else if constexpr (transposed)
    load_matrices<true>(words, tile + swizzled<row_chunks>(depth + lane % 8 + lane / 16 * 8,
                                                           row / 8 + lane / 8 % 2));
  else
    load_matrices<false>(words,
                         tile + swizzled<row_chunks>(row + lane % 16, depth / 8 + lane / 16));
}

// The right operand's two 16 x 8 fragments, 8 x 8 where `tf32`, at (depth, column) and (depth,
// column + 8): words 0, 1 and 2, 3. The tile holds columns as its rows, or depths where
// `transposed`.
template <bool tf32, int row_chunks, bool transposed>
__device__ __forceinline__ void load_right(unsigned (&words)[4], unsigned tile, int depth,
                                           int column) {
  const int lane = threadIdx.x % 32;
  if constexpr (tf32 && transposed) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      words[i] =
          load_tf32<row_chunks>(tile, depth + lane % 4 + i % 2 * 4, column + lane / 4 + i / 2 * 8);
  } else if constexpr (tf32) {
    load_matrices<false>(words, tile + swizzled<row_chunks>(column + lane % 8 + lane / 16 * 8,
                                                            depth / 4 + lane / 8 % 2));
#pragma unroll
    for (int i = 0; i < 4; ++i) words[i] = to_tf32(__uint_as_float(words[i]));
  } else if constexpr (transposed)
    load_matrices<true>(words,
                        tile + swizzled<row_chunks>(depth + lane % 16, column / 8 + lane / 16));
  else
    load_matrices<false>(words, tile + swizzled<row_chunks>(column + lane % 8 + lane / 16 * 8,
                                                            depth / 8 + lane / 8 % 2));
}

// Rows of an operand's tile that lie contiguous in memory: row r is tile_chunks pieces of 16 bytes
// from source + r * stride (elements). Rows from `rows_left` on and elements of a row from
// `elements_left` on are zero.
template <int tile_rows, int tile_chunks, int threads, bool whole_chunks, typename Element,
          typename Rows, typename Elements>
__device__ __forceinline__ void copy_tile(unsigned tile, const Element* source, long long stride,
                                          Rows rows_left, Elements elements_left) {
#pragma unroll
  for (int i = 0; i < (tile_rows * tile_chunks + threads - 1) / threads; ++i) {
    const unsigned place = threadIdx.x + i * threads;
    const int row = static_cast<int>(place / tile_chunks),
              chunk = static_cast<int>(place % tile_chunks);
    if (tile_rows * tile_chunks % threads != 0 && place >= tile_rows * tile_chunks) break;
    constexpr int width = sizeof(Element), of_chunk = 16 / width;
    int bytes = 16;
    if (!whole_chunks) {
      const Elements elements = elements_left - chunk * of_chunk;
      bytes = elements >= of_chunk ? 16 : elements > 0 ? static_cast<int>(elements) * width : 0;
    } else if (chunk * of_chunk >= elements_left) {
      bytes = 0;
    }
    if (row >= rows_left) bytes = 0;
    copy_async(tile + swizzled<tile_chunks>(row, chunk),
               bytes == 0 ? source : source + row * stride + chunk * of_chunk, bytes);
  }
}

template <class Tile>
__device__ __forceinline__ void multiply_fragments(float (&sum)[4], const unsigned (&left)[4],
                                                   unsigned right_0, unsigned right_1) {
  if constexpr (Tile::tf32) multiply_tf32(sum, left, right_0, right_1);
  else multiply<Tile::brain>(sum, left, right_0, right_1);
}

// All tiles of depth of one block's tile, with `Tile::stages` of them in shared memory: sums +=
// left right. fetch(tile, memory) starts the copies of one tile to its place and reads what has to
// be computed; store(memory), called after a tile has been multiplied, writes what was computed.
template <class Tile, class Fetch, class Store>
__device__ __forceinline__ void multiply_tiles(
    float (&sums)[Tile::warp_rows / 16][Tile::warp_columns / 8][4], unsigned memory, int tiles,
    const Fetch& fetch, const Store& store) {
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int warp_row = warp / Tile::warps_across * Tile::warp_rows,
            warp_column = warp % Tile::warps_across * Tile::warp_columns;
  const auto stage = [&](int tile) {
    return memory + static_cast<unsigned>(tile % Tile::stages) * Tile::stage_bytes;
  };
#pragma unroll
  for (int tile = 0; tile < Tile::stages - 1; ++tile) {
    if (tile < tiles) {
      fetch(tile, stage(tile));
      store(stage(tile));
    }
    commit_copies();
  }
#pragma unroll 1
  for (int tile = 0; tile < tiles; ++tile) {
    wait_copies<Tile::stages - 2>();
    __syncthreads();  // this tile is there for every warp, and every warp has done with the one
                      // before
    const int next = tile + Tile::stages - 1;
    if (next < tiles) fetch(next, stage(next));
    commit_copies();
    __syncwarp();  // fetching may have parted the lanes
    const unsigned left_tile = stage(tile), right_tile = left_tile + Tile::left_bytes;
#pragma unroll
    for (int depth = 0; depth < Tile::depth; depth += Tile::tf32 ? 8 : 16) {
      unsigned left[Tile::warp_rows / 16][4];
#pragma unroll
      for (int i = 0; i < Tile::warp_rows / 16; ++i) {
        load_left<Tile::tf32, Tile::left_chunks, Tile::left_by_rows>(left[i], left_tile,
                                                                     warp_row + i * 16, depth);
      }
#pragma unroll
      for (int j = 0; j < Tile::warp_columns / 8; j += 2) {
        unsigned right[4];
        load_right<Tile::tf32, Tile::right_chunks, Tile::right_by_rows>(right, right_tile, depth,
                                                                        warp_column + j * 8);
#pragma unroll
        for (int i = 0; i < Tile::warp_rows / 16; ++i) {
          multiply_fragments<Tile>(sums[i][j], left[i], right[0], right[1]);
          multiply_fragments<Tile>(sums[i][j + 1], left[i], right[2], right[3]);
        }
      }
    }
    if (next < tiles) store(stage(next));
  }  // the last tile's wait was for all copies: groups after it are empty
}
