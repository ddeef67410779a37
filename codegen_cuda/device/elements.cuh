// Between elements in memory and values in registers.
__device__ inline float widen(f16 element) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(element.bits));
  return value;
}
__device__ inline float widen(bf16 element) {
  return __uint_as_float((unsigned)element.bits << 16);
}
__device__ inline bool widen(boolean element) { return element.bits != 0; }

__device__ inline f16 to_f16(float value) {
  f16 element;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(element.bits) : "f"(value));
  return element;
}
__device__ inline bf16 to_bf16(float value) {
  bf16 element;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(element.bits) : "f"(value));
  return element;
}
__device__ inline boolean to_boolean(bool value) {
  boolean element;
  element.bits = value ? 1 : 0;
  return element;
}

// The float next to a double, its last bit set where it is inexact: rounding that once more is as
// good as rounding the double once.
__device__ inline float odd_float(double value) {
  const float nearest = (float)value;
  const double back = nearest;
  if (back == value || value != value) return nearest;
  const unsigned bits = __float_as_uint(nearest) - (fabs(back) > fabs(value) ? 1u : 0u);
  return __uint_as_float(bits | 1u);
}
