// A NaN operand gives a NaN.
__device__ inline float lesser(float a, float b) {
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
__device__ inline float greater(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
__device__ inline double lesser(double a, double b) { return a < b || a != a ? a : b; }
__device__ inline double greater(double a, double b) { return a > b || a != a ? a : b; }
