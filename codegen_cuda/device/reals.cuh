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

template <typename Real>
__device__ inline Real sign_of_real(Real a) { return a > 0 ? (Real)1 : a < 0 ? (Real)-1 : a != a ? a : (Real)0; }

__device__ inline float sigmoid(float a) { return 1.0f / (1.0f + expf(-a)); }
__device__ inline double sigmoid(double a) { return 1.0 / (1.0 + exp(-a)); }
__device__ inline float gelu(float a) { return 0.5f * a * (1.0f + erff(a * 0.707106781f)); }
__device__ inline double gelu(double a) { return 0.5 * a * (1.0 + erf(a * 0.70710678118654752440)); }
// The argument is sqrt(2 / pi) (a + 0.044715 a^3).
__device__ inline float gelu_tanh(float a) { return 0.5f * a * (1.0f + tanhf(a * (0.797884561f + 0.0356774081f * (a * a)))); }
__device__ inline double gelu_tanh(double a) {
  return 0.5 * a * (1.0 + tanh(0.79788456080286535588 * (a + 0.044715 * (a * a * a))));
}

// The remainder with the divisor's sign.
__device__ inline float floored_remainder_of(float a, float b) {
  const float rest = fmodf(a, b);
  if (rest == 0.0f) return copysignf(rest, b);
  return (rest < 0.0f) != (b < 0.0f) ? rest + b : rest;
}
__device__ inline double floored_remainder_of(double a, double b) {
  const double rest = fmod(a, b);
  if (rest == 0.0) return copysign(rest, b);
  return (rest < 0.0) != (b < 0.0) ? rest + b : rest;
}
