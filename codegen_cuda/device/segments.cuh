// Rows of several sequences laid end to end: sequence s has rows offsets[s] to offsets[s + 1] - 1.
// A bound is kept within the rows that there are, whatever the offsets say.
__device__ inline long long segment_bound(const long long* offsets, long long number,
                                          long long rows) {
  const long long offset = offsets[number];
  return offset < 0 ? 0 : offset > rows ? rows : offset;
}

// Reports the first of `count` elements of a list that breaks a rule, among those that a warp looks
// at: the first of the grid's warps look at 32 each, so that no block is kept for long. By whole
// warps, whose lanes a report parts. wrong(at, value): whether element `at` does; `value` is what
// is reported.
template <class Wrong>
__device__ __forceinline__ void report_first(KernelError* error, int check, long long count,
                                             const Wrong& wrong) {
  const unsigned lane = threadIdx.x % 32;
  const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long base = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x - lane;
       base < count; base += stride) {
    const long long at = base + lane;
    long long value = at;
    const unsigned found = __ballot_sync(0xffffffffu, at < count && wrong(at, value));
    if (found != 0 && lane == static_cast<unsigned>(__ffs(static_cast<int>(found)) - 1))
      report(error, check, value);
  }
}

// Offsets start with 0, never fall and end with the number of rows.
__device__ __forceinline__ void check_offsets(KernelError* error, int check,
                                              const long long* offsets, long long count,
                                              long long rows) {
  report_first(error, check, count + 1, [&](long long at, long long& offset) {
    offset = offsets[at];
    return (at == 0 ? offset != 0 : offset < offsets[at - 1]) || (at == count && offset != rows);
  });
}

// The sequences of a list of work come longest first, equal ones in their order, so that none comes
// twice, each with the rows of those before it.
__device__ __forceinline__ void check_work(KernelError* error, int check, const long long* offsets,
                                           const long long* work, long long count) {
  const auto known = [&](long long segment) { return segment >= 0 && segment < count; };
  const auto length = [&](long long segment) {
    return known(segment) ? offsets[segment + 1] - offsets[segment] : 0;
  };
  report_first(error, check, count, [&](long long at, long long&) {
    const long long segment = work[2 * at], before = at == 0 ? -1 : work[2 * at - 2];
    const long long rows_before = at == 0 ? 0 : work[2 * at - 1] + length(before);
    return !known(segment) || work[2 * at + 1] != rows_before ||
           (at > 0 && (length(before) < length(segment) ||
                       (length(before) == length(segment) && before >= segment)));
  });
}
