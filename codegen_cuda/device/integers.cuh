// Integer arithmetic wraps.
template <typename Integer>
__device__ inline Integer wrap_add(Integer a, Integer b) {
  return (Integer)((unsigned long long)a + (unsigned long long)b);
}
template <typename Integer>
__device__ inline Integer wrap_subtract(Integer a, Integer b) {
  return (Integer)((unsigned long long)a - (unsigned long long)b);
}
template <typename Integer>
__device__ inline Integer wrap_multiply(Integer a, Integer b) {
  return (Integer)((unsigned long long)a * (unsigned long long)b);
}

// Division by 0 gives 0 (it is reported); the lowest value divided by -1 wraps.
template <typename Integer>
__device__ inline Integer divide(Integer a, Integer b) {
  if (b == 0) return 0;
  if ((Integer)-1 < 0 && b == (Integer)-1) return wrap_subtract((Integer)0, a);
  return (Integer)(a / b);
}
template <typename Integer>
__device__ inline Integer truncated_remainder(Integer a, Integer b) {
  if (b == 0 || ((Integer)-1 < 0 && b == (Integer)-1)) return 0;
  return (Integer)(a % b);
}
// As unsigned, and at most one less than there are bits.
template <typename Integer>
__device__ inline int bit_count(Integer count) {
  constexpr int most = 8 * (int)sizeof(Integer) - 1;
  return (unsigned long long)count < most ? (int)count : most;
}

// By squaring; the reciprocal that a negative exponent asks for truncates to 1, -1 or 0.
template <typename Integer>
__device__ __noinline__ Integer integer_power(Integer base, Integer exponent) {
  if (exponent < 0)
    return base == 1             ? (Integer)1
           : base == (Integer)-1 ? (Integer)(exponent % 2 == 0 ? 1 : -1)
                                 : (Integer)0;
  unsigned long long power = 1, factor = (unsigned long long)base;
  for (unsigned long long rest = (unsigned long long)exponent; rest != 0; rest >>= 1) {
    if (rest & 1) power *= factor;
    factor *= factor;
  }
  return (Integer)power;
}
