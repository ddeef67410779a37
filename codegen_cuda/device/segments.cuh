// Rows of several sequences laid end to end: sequence s has rows offsets[s] to offsets[s + 1] - 1.
// A bound is kept within the rows that there are, whatever the offsets say.
__device__ inline long long segment_bound(const long long* offsets, long long number,
                                          long long rows) {
  const long long offset = offsets[number];
  return offset < 0 ? 0 : offset > rows ? rows : offset;
}

// Offsets start with 0, never fall and end with the number of rows; the threads of one block look
// at all of them.
__device__ inline void check_offsets(KernelError* error, int check, const long long* offsets,
                                     long long count, long long rows) {
  for (long long number = threadIdx.x; number <= count; number += blockDim.x) {
    const long long offset = offsets[number];
    const bool wrong = number == 0 ? offset != 0 : offset < offsets[number - 1];
    if (wrong || (number == count && offset != rows)) report(error, check, offset);
  }
}
