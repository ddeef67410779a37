// Results of 16 bits that are finished where the multiplication left their sums: lane l of a warp
// has rows l / 4 and l / 4 + 8 of its 16, and of every 8 columns numbers 2 (l % 4) and the next.

// Where a warp's rows are to go; rows are numbered by `Index`.
template <typename Index>
struct FragmentPlace {
  unsigned boxes;           // in shared memory: two boxes of 16 rows x 64 columns, 1,024-aligned
  Index row, rows;          // of the result: the warp's first, all
  int column, all_columns;  // of the result: the tile's first, all
};

// Byte of 16 bytes, number `chunk` of 8 in row `row`, of a box whose rows of 128 bytes are swizzled
// by 128.
__device__ __forceinline__ unsigned swizzled_byte(int row, int chunk) {
  return (unsigned)(row * 128 + (chunk ^ row % 8) * 16);
}

// The first `rows` rows of a box from column `column` on, where there are fewer than its 16: no map
// describes them, and nothing behind them is written.
template <typename Index>
__device__ __forceinline__ void store_last_rows(const FragmentPlace<Index>& place, int rows,
                                                unsigned box, unsigned short* results, int column) {
#pragma unroll 1
  for (int chunk = (int)(threadIdx.x % 32); chunk < rows * 8; chunk += 32) {
    const int down = chunk / 8, across = chunk % 8;
    if (column + across * 8 >= place.all_columns) continue;
    *reinterpret_cast<uint4*>(results + (long long)(place.row + down) * place.all_columns + column +
                              across * 8) =
        *static_cast<const uint4*>(__cvta_shared_to_generic(box + swizzled_byte(down, across)));
  }
}

// Boxes of 64 columns, one after the other; while one is stored the next is filled.
// `finish(below, across, left_sum, right_sum)` gives two neighbouring results as a word: `across`
// columns behind the lane's first, in its upper row or the one 8 below it.
template <int columns, typename Index, class Finish>
__device__ __forceinline__ void finish_fragments(const float (&sums)[1][columns / 8][4],
                                                 const TensorMap& map, void* results,
                                                 const FragmentPlace<Index>& place,
                                                 const Finish& finish) {
  constexpr int boxes = columns / 64, box_bytes = 16 * 128;
  const int lane = static_cast<int>(threadIdx.x % 32);
  // Where the lane's row of the first box has its words; of the next pair 2 chunks on, which
  // swizzling exchanges but does not add up.
  const unsigned words_of_lane = place.boxes + swizzled_byte(lane % 16, lane / 16);
  const bool whole = place.row + 16 <= place.rows;
  // Where boxes are odd in number, the first takes the place of the last one of the tile before,
  // which may still be stored; where rows end, threads read boxes and nothing is left to wait for.
  if (boxes % 2 == 1 || !whole) {
    if (elected_lane()) wait_boxes_read<0>();
  }
#pragma unroll
  for (int number = 0; number < boxes; ++number) {
    unsigned words[4][4];
#pragma unroll
    for (int part = 0; part < 8; ++part) {
      const float(&sum)[4] = sums[0][number * 8 + part];
      const int across = number * 64 + part * 8;
      words[part / 2][part % 2 * 2] = finish(false, across, sum[0], sum[1]);
      words[part / 2][part % 2 * 2 + 1] = finish(true, across, sum[2], sum[3]);
    }
    __syncwarp();  // the box is free
#pragma unroll
    for (int pair = 0; pair < 4; ++pair)
      store_matrices((words_of_lane ^ pair * 32) + number % 2 * box_bytes, words[pair]);
    publish_shared();
    __syncwarp();
    const unsigned box = place.boxes + number % 2 * box_bytes;
    const int column = place.column + number * 64;
    if (!whole) {
      store_last_rows(place, (int)(place.rows - place.row), box,
                      static_cast<unsigned short*>(results), column);
    } else if (elected_lane()) {
      store_box(map, box, column, (int)place.row);
      commit_boxes();
      // The box before this one, where the next results go.
      if (boxes % 2 == 0 || number + 1 < boxes) wait_boxes_read<1>();
    }
  }
}
