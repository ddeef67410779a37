// Where tile `number` lies: batch points one after the other; within one, `group` tiles below each
// other, then the next column of tiles, so that blocks that run together share operands in the
// second-level cache.
struct TilePlace {
  int down, across, point;
};
template <int group, bool one_point>
__device__ __forceinline__ TilePlace place_tile(int number, int down, int across) {
  const int point = one_point ? 0 : number / (down * across),
            within = number - point * (down * across);
  const int band = within / (group * across), rest = within - band * (group * across);
  const int height = down - band * group;
  // Divisions by numbers that the compiler knows cost little.
  if (height >= group) return TilePlace{band * group + rest % group, rest / group, point};
  return TilePlace{band * group + rest % height, rest / height, point};
}

// The part of `depth_tiles` tiles of depth that block `rank` of a cluster of `split` multiplies.
struct DepthShare {
  int first, tiles;
};
template <int split>
__device__ __forceinline__ DepthShare share_depth(int rank, int depth_tiles) {
  const int share = (depth_tiles + split - 1) / split, first = rank * share;
  return DepthShare{first, depth_tiles - first < share ? depth_tiles - first : share};
}

// Piece `piece` of a warp's sums, 16 rows x `columns`, to rows in shared memory `columns` + 8 apart
// (which no two lanes' banks disagree about). Pieces are numbered along columns first.
template <int columns, int rows_of_16, int fragments>
__device__ __forceinline__ void store_piece(float* to,
                                            const float (&sums)[rows_of_16][fragments][4],
                                            int piece) {
  constexpr int across = fragments * 8 / columns, pitch = columns + 8;
  const int lane = static_cast<int>(threadIdx.x % 32);
  float* place = to + lane / 4 * pitch + lane % 4 * 2;
#pragma unroll
  for (int i = 0; i < rows_of_16; ++i) {
#pragma unroll
    for (int part = 0; part < across; ++part) {
      if (piece != i * across + part) continue;
#pragma unroll
      for (int j = 0; j < columns / 8; ++j) {
        const float(&sum)[4] = sums[i][part * (columns / 8) + j];
        *reinterpret_cast<float2*>(place + j * 8) = float2{sum[0], sum[1]};
        *reinterpret_cast<float2*>(place + 8 * pitch + j * 8) = float2{sum[2], sum[3]};
      }
    }
  }
}
// The same to columns `pitch` apart, which is 4 more than a multiple of 16 (and again no two lanes'
// banks disagree).
template <int columns, int pitch, int rows_of_16, int fragments>
__device__ __forceinline__ void store_piece_transposed(
    float* to, const float (&sums)[rows_of_16][fragments][4], int piece) {
  constexpr int across = fragments * 8 / columns;
  const int lane = static_cast<int>(threadIdx.x % 32);
  float* place = to + lane / 4 + lane % 4 * 2 * pitch;
#pragma unroll
  for (int i = 0; i < rows_of_16; ++i) {
#pragma unroll
    for (int part = 0; part < across; ++part) {
      if (piece != i * across + part) continue;
#pragma unroll
      for (int j = 0; j < columns / 8; ++j) {
        const float(&sum)[4] = sums[i][part * (columns / 8) + j];
#pragma unroll
        for (int number = 0; number < 4; ++number)
          place[(j * 8 + number % 2) * pitch + number / 2 * 8] = sum[number];
      }
    }
  }
}
