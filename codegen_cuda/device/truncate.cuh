// Reals to integers: towards zero, saturated at the type's ends, NaN to 0.
__device__ inline int truncate_to_i32(float a) {
  int r;
  asm("cvt.rzi.s32.f32 %0, %1;" : "=r"(r) : "f"(a));
  return r;
}
__device__ inline int truncate_to_i32(double a) {
  int r;
  asm("cvt.rzi.s32.f64 %0, %1;" : "=r"(r) : "d"(a));
  return a == a ? r : 0;
}
__device__ inline unsigned truncate_to_u32(float a) {
  unsigned r;
  asm("cvt.rzi.u32.f32 %0, %1;" : "=r"(r) : "f"(a));
  return r;
}
__device__ inline unsigned truncate_to_u32(double a) {
  unsigned r;
  asm("cvt.rzi.u32.f64 %0, %1;" : "=r"(r) : "d"(a));
  return a == a ? r : 0;
}
__device__ inline long long truncate_to_i64(float a) {
  long long r;
  asm("cvt.rzi.s64.f32 %0, %1;" : "=l"(r) : "f"(a));
  return a == a ? r : 0;
}
__device__ inline long long truncate_to_i64(double a) {
  long long r;
  asm("cvt.rzi.s64.f64 %0, %1;" : "=l"(r) : "d"(a));
  return a == a ? r : 0;
}
__device__ inline unsigned long long truncate_to_u64(float a) {
  unsigned long long r;
  asm("cvt.rzi.u64.f32 %0, %1;" : "=l"(r) : "f"(a));
  return a == a ? r : 0;
}
__device__ inline unsigned long long truncate_to_u64(double a) {
  unsigned long long r;
  asm("cvt.rzi.u64.f64 %0, %1;" : "=l"(r) : "d"(a));
  return a == a ? r : 0;
}
__device__ inline int clamp_integer(int a, int low, int high) {
  return a < low ? low : a > high ? high : a;
}
template <typename Real>
__device__ inline short truncate_to_i16(Real a) {
  return (short)clamp_integer(truncate_to_i32(a), -32768, 32767);
}
template <typename Real>
__device__ inline signed char truncate_to_i8(Real a) {
  return (signed char)clamp_integer(truncate_to_i32(a), -128, 127);
}
template <typename Real>
__device__ inline unsigned short truncate_to_u16(Real a) {
  return (unsigned short)clamp_integer(truncate_to_i32(a), 0, 65535);
}
template <typename Real>
__device__ inline unsigned char truncate_to_u8(Real a) {
  return (unsigned char)clamp_integer(truncate_to_i32(a), 0, 255);
}
