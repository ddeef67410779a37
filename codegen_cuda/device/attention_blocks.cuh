// What each block of an attention kernel's grid works on.

struct BlockPlace {
  bool any = false;  // the grid may be larger than the work
  bool live = true;  // false: repeats the last batch point and stores nothing, because the block
                     // has room for more batch points than there are
  long long point = 0;
  int first_row = 0, last_row = 0;  // of the block
  int first = 0, end = 0;           // rows of the block's sequence: [first, end)
};

// Block `number` of those that have `block_rows` of `points` batch points each; `slot` is this
// warp's batch point among them. Row blocks of a batch point follow each other, so that they share
// keys and values in the L2 cache; where later rows see more keys they go first.
template <class Number>
__device__ __forceinline__ BlockPlace place_block(Number number, int rows, long long batch_points,
                                                  int block_rows, int points, int slot,
                                                  bool later_rows_first) {
  const int row_blocks = rows / block_rows + (rows % block_rows != 0);
  if (row_blocks == 0) return {};
  const long long group = number / static_cast<unsigned>(row_blocks);
  int row_block = static_cast<int>(number % static_cast<unsigned>(row_blocks));
  if (later_rows_first) row_block = row_blocks - 1 - row_block;
  if (group * points >= batch_points) return {};
  const long long point = group * points + slot;
  const int first = row_block * block_rows, left = rows - first;
  return {true,
          point < batch_points,
          point < batch_points ? point : batch_points - 1,
          first,
          first + (left < block_rows ? left : block_rows) - 1,
          0,
          rows};
}

// An element of a list of numbers from 0 to `most`, or one of those where the list is wrong.
__device__ __forceinline__ unsigned listed(const long long* list, int at, int most) {
  return min(static_cast<unsigned>(list[at]), static_cast<unsigned>(most));
}

// The last of `count` places that has begun; the first has, and none behind one that has not.
// begun(place). Whole warps look together, of which each lane looks at one place: a search among 32
// is one load, among 1,024 two. Or each thread looks by itself.
enum class Search { Together, Alone };
template <Search search, class Begun>
__device__ __forceinline__ int last_begun(int count, const Begun& begun) {
  int place = 0;
  for (int end = count; end - place > 1;) {
    if constexpr (search == Search::Alone) {
      const int middle = place + (end - place) / 2;
      if (begun(middle)) place = middle;
      else end = middle;
    } else {
      const int stride = (end - place + 31) / 32;
      const unsigned at = place + (threadIdx.x % 32 + 1) * stride;
      const unsigned lanes = __ballot_sync(
          0xffffffffu, at < static_cast<unsigned>(end) && begun(static_cast<int>(at)));
      place += __clz(__brev(~lanes)) * stride;  // up to the first that has not begun
      end = min(place + stride, end);
    }
  }
  return place;
}

// The same over sequences laid end to end: sequence s has rows offsets[s] to offsets[s + 1] - 1 of
// `rows`. `work` lists the sequences in the order in which they are begun (ir/ops.def: longest
// first, so that no long one is left to run alone at the end), each with the rows of those before
// it; nullptr: as they lie. The row blocks of the sequence at place p of that order, before which
// `begin` rows come, are numbered from begin / block_rows + p on, which leaves at least as many
// numbers as it has blocks and only ever rises: a block searches its sequence in these sums, for
// any block_rows. Blocks with the same rows follow each other. Offsets
// and lists that break the rule lead to no row outside of the buffers.
template <Search search, class Number>
__device__ __forceinline__ BlockPlace place_segment_block(Number number, const long long* offsets,
                                                          const long long* work, int segments,
                                                          int rows, long long batch_points,
                                                          unsigned block_rows, int points, int slot,
                                                          bool later_rows_first) {
  const auto number_of = [&](int place) {
    const unsigned begin =
        work == nullptr ? listed(offsets, place, rows) : listed(work, 2 * place + 1, rows);
    return begin / block_rows + place;
  };
  const unsigned groups = static_cast<unsigned>((batch_points + points - 1) / points);
  if (segments == 0 || groups == 0) return {};
  if (number / groups >= static_cast<unsigned>(rows) / block_rows + segments) return {};
  const unsigned wanted = static_cast<unsigned>(number / groups);
  const int place = last_begun<search>(segments, [&](int at) { return number_of(at) <= wanted; });
  const int segment = work == nullptr ? place : listed(work, 2 * place, segments - 1);
  const unsigned first = listed(offsets, segment, rows), end = listed(offsets, segment + 1, rows);
  const unsigned length = end > first ? end - first : 0,
                 row_blocks = (length + block_rows - 1) / block_rows;
  unsigned row_block = wanted - number_of(place);
  if (row_block >= row_blocks) return {};
  if (later_rows_first) row_block = row_blocks - 1 - row_block;
  const long long point = static_cast<long long>(number % groups) * points + slot;
  const unsigned first_row = first + row_block * block_rows;
  return {true,
          point < batch_points,
          point < batch_points ? point : batch_points - 1,
          static_cast<int>(first_row),
          static_cast<int>(min(first_row + block_rows, end)) - 1,
          static_cast<int>(first),
          static_cast<int>(end)};
}

// Keys of a tile's first half, in whole fragments.
constexpr int half_tile(int keys) { return keys / 32 * 16; }

// The tiles of a block's keys [first_key, end_key), in the order in which they pass: those in which
// some row may not see some key, or that the keys do not fill ("edges", from the end and from the
// beginning), then those that all rows see whole.
template <int keys>
struct KeyTiles {
  int first_key, end_key;
  int count, edges;  // how many pass, and the edges among them
  int at_end;        // edges at the end

  __device__ __forceinline__ int key_of(int step) const {
    return first_key + (step < at_end ? count - 1 - step : step - at_end) * keys;
  }
  // Whether the first to pass is an edge with keys in its first half alone (TileKind).
  __device__ __forceinline__ bool first_is_short() const {
    constexpr int half = half_tile(keys);
    return at_end > 0 && end_key - key_of(0) <= half;
  }
};

// All rows see the keys of [whole_first, whole_end).
template <int keys>
__device__ __forceinline__ KeyTiles<keys> key_tiles(int first_key, int end_key, int whole_first,
                                                    int whole_end) {
  const int count = (max(end_key - first_key, 0) + keys - 1) / keys;
  const int whole = min(max(whole_end - first_key, 0) / keys, count);
  const int at_end = count - whole;
  const int at_begin =
      whole_first > first_key ? min((whole_first - first_key + keys - 1) / keys, whole) : 0;
  return {first_key, end_key, count, at_end + at_begin, at_end};
}
