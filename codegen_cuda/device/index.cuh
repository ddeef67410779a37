// Quotients and remainders of numbers that are not negative.
__device__ inline int quotient(int a, int b) { return (int)((unsigned)a / (unsigned)b); }
__device__ inline int remainder(int a, int b) { return (int)((unsigned)a % (unsigned)b); }
__device__ inline long long quotient(long long a, long long b) {
  return (long long)((unsigned long long)a / (unsigned long long)b);
}
__device__ inline long long remainder(long long a, long long b) {
  return (long long)((unsigned long long)a % (unsigned long long)b);
}

// Towards minus infinity; the remainder has the divisor's sign.
template <typename Integer>
__device__ inline Integer floor_remainder(Integer a, Integer b) {
  const Integer rest = a % b;
  return rest != 0 && (rest ^ b) < 0 ? rest + b : rest;
}
template <typename Integer>
__device__ inline Integer floor_quotient(Integer a, Integer b) {
  const Integer rest = a % b;
  return a / b - (rest != 0 && (rest ^ b) < 0 ? 1 : 0);
}

template <typename Integer>
__device__ inline Integer lesser_index(Integer a, Integer b) {
  return a < b ? a : b;
}
template <typename Integer>
__device__ inline Integer greater_index(Integer a, Integer b) {
  return a > b ? a : b;
}
// A divisor that may be 0 where its quotient is not used.
template <typename Integer>
__device__ inline Integer nonzero(Integer a) {
  return a == 0 ? 1 : a;
}

// Points [first, last): part `part` of a row of `points` points that `split` blocks share in whole
// tiles of `tile` points; the last one ends with the row.
template <typename Index>
struct PointRange {
  Index first, last;
};
template <int split, int tile, typename Index>
__device__ inline PointRange<Index> part_of_row(Index points, long long part) {
  const Index share = (points / split + tile) / tile * tile;
  const Index first = part * share < points ? (Index)(part * share) : points;
  const Index last = part == split - 1 || points - first < share ? points : first + share;
  return {first, last};
}
