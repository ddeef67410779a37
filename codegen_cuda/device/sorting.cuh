// Numbers as unsigned integers in the same order: NaN, whatever its bits, is the largest, and -0 is
// 0.
__device__ inline unsigned sort_key(float value) {
  if (value != value) return 0xffffffffu;
  const unsigned bits = __float_as_uint(value == 0 ? 0.0f : value);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}
__device__ inline unsigned long long sort_key(double value) {
  if (value != value) return ~0ull;
  const unsigned long long bits =
      (unsigned long long)__double_as_longlong(value == 0 ? 0.0 : value);
  return bits >> 63 ? ~bits : bits | 1ull << 63;
}
__device__ inline unsigned sort_key(bool value) { return value; }
__device__ inline unsigned sort_key(unsigned value) { return value; }
__device__ inline unsigned sort_key(unsigned short value) { return value; }
__device__ inline unsigned sort_key(unsigned char value) { return value; }
__device__ inline unsigned sort_key(int value) { return (unsigned)value ^ 0x80000000u; }
__device__ inline unsigned sort_key(short value) { return sort_key((int)value); }
__device__ inline unsigned sort_key(signed char value) { return sort_key((int)value); }
__device__ inline unsigned long long sort_key(unsigned long long value) { return value; }
__device__ inline unsigned long long sort_key(long long value) {
  return (unsigned long long)value ^ 1ull << 63;
}

// What is sorted: an item's number with its key. Without gaps, so that entries are copied in one
// access.
struct alignas(8) Entry32 {
  unsigned key;
  int number;
};
struct alignas(16) Entry64 {
  unsigned long long key;
  long long number;
};
__device__ inline int number_of(Entry32 entry) { return entry.number; }
__device__ inline long long number_of(Entry64 entry) { return entry.number; }
__device__ inline int number_of(int number) { return number; }
__device__ inline long long number_of(long long number) { return number; }

// How many of the first `diagonal` entries of two sorted runs' merge come from the left one; of
// entries that are equal, the left one's are first. before(a, b): a is strictly in front of b.
template <typename Index, typename Entry, typename Before>
__device__ inline Index merge_split(const Entry* left, Index left_count, const Entry* right,
                                    Index right_count, Index diagonal, Before before) {
  Index low = diagonal > right_count ? diagonal - right_count : 0,
        high = diagonal < left_count ? diagonal : left_count;
  while (low < high) {
    const Index middle = (Index)(low + (high - low) / 2);
    if (before(right[diagonal - 1 - middle], left[middle])) high = middle;
    else low = middle + 1;
  }
  return low;
}

// merged[diagonal, diagonal + items), as far as it reaches, of the merge of two runs. One
// comparison a turn, and turns are not unrolled: a comparison may be long.
template <int items, typename Entry, typename Before>
__device__ inline void merge_some(const Entry* left, int left_count, const Entry* right,
                                  int right_count, int diagonal, Entry* merged, Before before) {
  int a = merge_split(left, left_count, right, right_count, diagonal, before), b = diagonal - a;
  const int end =
      diagonal + items < left_count + right_count ? diagonal + items : left_count + right_count;
#pragma unroll 1
  for (int place = diagonal; place < end; ++place) {
    const bool from_right = a >= left_count || (b < right_count && before(right[b], left[a]));
    merged[place] = from_right ? right[b] : left[a];
    from_right ? ++b : ++a;
  }
}

// Merges entries[0, left) and entries[left, count), each sorted, into merged[0, count). By every
// thread of the block, at most threads * items entries; barriers before and after are the caller's.
template <int items, typename Entry, typename Before>
__device__ inline void merge_tile(const Entry* entries, int left, int count, Entry* merged,
                                  Before before) {
  const int mine = (int)threadIdx.x * items < count ? (int)threadIdx.x * items : count;
  merge_some<items>(entries, left, entries + left, count - left, mine, merged, before);
}

// The tile at `first` of the row in which each two neighbouring sorted runs of `run` entries are
// merged, to merged[0, result); the row has `points` entries, and `entries` has room for a tile. By
// a block of tile / items threads; ends with a barrier.
template <int tile, int items, typename Index, typename Entry, typename Before>
__device__ inline int merge_runs(const Entry* row, Index points, Index first, Index run,
                                 Entry* entries, Entry* merged, Before before) {
  __shared__ Index splits[2];
  const Index begin = first & -(2 * run), rest = points - begin;
  const Index left = rest < run ? rest : run, right = rest - left < run ? rest - left : run;
  const Index diagonal = first - begin,
              end = diagonal + tile < left + right ? diagonal + tile : left + right;
  // Where the tile begins in both runs, and where it ends.
  if (threadIdx.x < 2)
    splits[threadIdx.x] = merge_split<Index>(row + begin, left, row + begin + left, right,
                                             threadIdx.x == 0 ? diagonal : end, before);
  __syncthreads();
  const Index split = splits[0];
  const int left_count = (int)(splits[1] - split), count = (int)(end - diagonal);
  for (int i = threadIdx.x; i < count; i += tile / items)
    entries[i] =
        row[begin + (i < left_count ? split + i : left + (diagonal - split) + (i - left_count))];
  __syncthreads();
  merge_tile<items>(entries, left_count, count, merged, before);
  __syncthreads();
  return count;
}

// Sorts entries[0, count), equal ones as they lie: each thread its own `items`, then runs of twice
// the length until one is left. Says which of the two arrays has them. By every thread of the
// block; ends with a barrier.
template <int items, typename Entry, typename Before>
__device__ inline Entry* sort_tile(Entry* entries, Entry* other, int count, Before before) {
  const int mine = (int)threadIdx.x * items < count ? (int)threadIdx.x * items : count;
  const int end = mine + items < count ? mine + items : count;
#pragma unroll 1
  for (int next = mine + 1; next < end; ++next) {
    const Entry entry = entries[next];
    int place = next;
#pragma unroll 1
    for (; place > mine && before(entry, entries[place - 1]); --place)
      entries[place] = entries[place - 1];
    entries[place] = entry;
  }
  __syncthreads();
  for (int run = items; run < count; run *= 2) {
    const int begin = mine & -(2 * run), rest = count - begin;
    const int left = rest < run ? rest : run, right = rest - left < run ? rest - left : run;
    merge_some<items>(entries + begin, left, entries + begin + left, right, mine - begin,
                      other + begin, before);
    __syncthreads();
    Entry* const sorted = other;
    other = entries;
    entries = sorted;
  }
  return entries;
}
