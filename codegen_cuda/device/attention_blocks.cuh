// What each block of an attention kernel's grid works on.

struct BlockPlace {
  bool any = false;   // the grid may be larger than the work
  bool live = true;   // false: repeats the last batch point and stores nothing, because the block has room for more batch points than there are
  long long point = 0;
  int first_row = 0, last_row = 0;  // of the block
  int first = 0, end = 0;           // rows of the block's sequence: [first, end)
};

// Blocks that have `block_rows` of `points` batch points each; `slot` is this warp's batch point among them. Row blocks of a batch point follow each
// other, so that they share keys and values in the L2 cache; where later rows see more keys they go first.
__device__ __forceinline__ BlockPlace place_block(int rows, long long batch_points, int block_rows, int points, int slot, bool later_rows_first) {
  const int row_blocks = rows / block_rows + (rows % block_rows != 0);
  if (row_blocks == 0) return {};
  const long long group = blockIdx.x / static_cast<unsigned>(row_blocks);
  int row_block = static_cast<int>(blockIdx.x % static_cast<unsigned>(row_blocks));
  if (later_rows_first) row_block = row_blocks - 1 - row_block;
  if (group * points >= batch_points) return {};
  const long long point = group * points + slot;
  const int first = row_block * block_rows, left = rows - first;
  return {true, point < batch_points, point < batch_points ? point : batch_points - 1, first, first + (left < block_rows ? left : block_rows) - 1, 0, rows};
}

// The same over sequences laid end to end: sequence s has rows offsets[s] to offsets[s + 1] - 1 of `rows`. Its blocks are numbered from offsets[s] /
// block_rows + s on, which leaves at least as many numbers as it has blocks and only ever rises: a block finds its sequence by bisection, without a list of
// work. Offsets that break the rule lead to no row outside of the buffers.
__device__ __forceinline__ BlockPlace place_segment_block(const long long* offsets, int segments, int rows, long long batch_points, int block_rows,
                                                          int points, int slot) {
  const auto offset = [&](int segment) {
    const long long at = offsets[segment];
    return static_cast<int>(at < 0 ? 0 : at > rows ? rows : at);
  };
  const auto number_of = [&](int segment) { return offset(segment) / block_rows + segment; };
  const unsigned numbers = static_cast<unsigned>(rows / block_rows) + static_cast<unsigned>(segments) + 1u;
  const long long group = blockIdx.x / numbers;
  const int wanted = static_cast<int>(blockIdx.x % numbers);
  if (segments == 0 || group * points >= batch_points) return {};
  int segment = 0;
  for (int end = segments; end - segment > 1;) {
    const int middle = segment + (end - segment) / 2;
    if (number_of(middle) <= wanted) segment = middle;
    else end = middle;
  }
  const int first = offset(segment), end = offset(segment + 1);
  const long long row = first + static_cast<long long>(wanted - number_of(segment)) * block_rows;
  if (row < first || row >= end) return {};
  const long long point = group * points + slot;
  const int first_row = static_cast<int>(row), left = end - first_row;
  return {true, point < batch_points, point < batch_points ? point : batch_points - 1, first_row, first_row + (left < block_rows ? left : block_rows) - 1,
          first, end};
}

// Reports the first offset that breaks the rule: they start with 0, never fall and end with `rows`. By the first warp of the first block.
__device__ __forceinline__ void check_offsets(const long long* offsets, int segments, long long rows, KernelError* error, int check) {
  if (blockIdx.x != 0 || threadIdx.x >= 32) return;
  for (int base = 0; base <= segments; base += 32) {
    const int at = base + static_cast<int>(threadIdx.x);
    const long long offset = at <= segments ? offsets[at] : 0;
    const bool wrong = at <= segments && ((at == 0 ? offset != 0 : offset < offsets[at - 1]) || (at == segments && offset != rows));
    const unsigned found = __ballot_sync(0xffffffffu, wrong);
    if (found == 0) continue;
    if (threadIdx.x == static_cast<unsigned>(__ffs(static_cast<int>(found)) - 1)) report(error, check, offset);
    return;
  }
}

__device__ __forceinline__ int tile_count(int first_key, int end_key, int tile_keys) {
  return end_key > first_key ? (end_key - first_key + tile_keys - 1) / tile_keys : 0;
}
