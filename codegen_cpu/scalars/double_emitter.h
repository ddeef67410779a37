// What functions that compute in doubles share.
#pragma once

#include <limits>

#include "codegen_cpu/scalars/math_emitter.h"

namespace anydim::codegen_cpu {

class DoubleEmitter : public MathEmitter {
 public:
  using MathEmitter::MathEmitter;

 protected:
  static constexpr double infinity = std::numeric_limits<double>::infinity();
  static constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  // Adding it leaves a number's nearest integer in the low bits of the sum.
  static constexpr double round_to_integer = 0x1.8p52;

  struct Nearest {
    Value value = nullptr, bits = nullptr;  // the low bits are the integer's
  };
  Nearest nearest(Value x) { return unshifted(at_.CreateFAdd(x, real(round_to_integer))); }
  Nearest nearest_of_product(Value x, double factor) {
    return unshifted(fused(x, real(factor), real(round_to_integer)));
  }

  // 2^n; of n only the low bits are asked.
  Value two_to(Value n) { return from_bits(at_.CreateShl(at_.CreateAdd(n, integer(1023)), 52)); }

  // x = 2^exponent (1 + beyond_one), of normal x > 0; 1 + beyond_one is between sqrt(1/2) and
  // sqrt(2).
  struct Scaled {
    Value exponent = nullptr, beyond_one = nullptr;
  };
  Scaled scaled(Value x) {
    constexpr std::int64_t sqrt_half_bits = 0x3fe6a09e667f3bcd, one_bits = 0x3ff0000000000000;
    Value word = bits(x);
    // The exponent plus 1023.
    Value biased = at_.CreateLShr(at_.CreateAdd(word, integer(one_bits - sqrt_half_bits)), 52);
    Value mantissa =
        from_bits(at_.CreateAdd(at_.CreateSub(word, at_.CreateShl(biased, 52)), integer(one_bits)));
    Value beyond_one = at_.CreateFSub(mantissa, real(1));
    // Not all levels convert integers of 64 bits: this one becomes the low bits of 2^52.
    Value exponent =
        at_.CreateFSub(from_bits(at_.CreateOr(biased, bits(real(0x1p52)))), real(0x1p52 + 1023));
    return {exponent, beyond_one};
  }

  // `found` is right for positive finite x.
  Value limits_of_log(Value x, Value found) {
    found = at_.CreateSelect(at_.CreateFCmpOLT(x, real(infinity)), found, x);
    return at_.CreateSelect(at_.CreateFCmpOEQ(x, real(0)), real(-infinity), found);
  }
  // The same for a logarithm that is NaN below 0.
  Value all_limits_of_log(Value x, Value found) {
    return at_.CreateSelect(at_.CreateFCmpOLT(x, real(0)), real(nan), limits_of_log(x, found));
  }

 private:
  Nearest unshifted(Value sum) { return {at_.CreateFSub(sum, real(round_to_integer)), bits(sum)}; }
};

}  // namespace anydim::codegen_cpu
