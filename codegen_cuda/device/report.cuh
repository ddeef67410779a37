// Keeps the first failed check of a launch.
__device__ __noinline__ void report(KernelError* error, int check, long long value) {
  if (atomicCAS(&error->check, -1, check) == -1) error->value = value;
}

// An index counted from the end where it is negative; one outside of [0, extent) is reported, if it
// is needed at all, and 0 stands for it.
__device__ inline long long checked_index(KernelError* error, int check, long long index,
                                          long long extent, bool needed) {
  const long long counted = index < 0 ? index + extent : index;
  if (counted >= 0 && counted < extent) return counted;
  if (needed) report(error, check, index);
  return 0;
}
