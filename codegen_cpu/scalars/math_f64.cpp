#include "codegen_cpu/scalars/math_f64.h"

#include <array>
#include <limits>
#include <numbers>

#include "codegen_cpu/scalars/math_emitter.h"

namespace anydim::codegen_cpu {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// exp(r) = 1 + r + r^2 P(r), |r| <= ln(2) / 2: 1/2!, 1/3!, ... up to terms below 2^-58
constexpr auto exp_coefficients = [] {
  std::array<double, 12> coefficients{};
  double factorial = 1;
  for (std::size_t i = 0; i < coefficients.size(); ++i) {
    factorial *= static_cast<double>(i + 2);
    coefficients[i] = 1 / factorial;
  }
  return coefficients;
}();
// 2 (atanh(s) - s) / s = 2 z P(z), z = s^2, |s| <= (sqrt(2) - 1) / (sqrt(2) + 1): 2/3, 2/5, ...
constexpr auto log_coefficients = [] {
  std::array<double, 11> coefficients{};
  for (std::size_t i = 0; i < coefficients.size(); ++i)
    coefficients[i] = 2 / static_cast<double>(2 * i + 3);
  return coefficients;
}();

// ln 2 in two parts; the first has so few bits that multiples of it by exponents are exact.
constexpr double ln2_high = 0x1.62e42fefap-1, ln2_low = 0x1.cf79abc9e3b3ap-40;

// Adding it leaves a number's nearest integer in the low bits of the sum.
constexpr double round_to_integer = 0x1.8p52;
constexpr std::int64_t exponent_bias = 1023;
constexpr unsigned mantissa_bits = 52;
constexpr double tanh_limit = 22;  // the result is 1 from there on

class DoubleMath : MathEmitter {
 public:
  DoubleMath(KernelBuilder& kernel, llvm::Value* like) : MathEmitter(kernel, like->getType()) {}

  Value exp(Value x) {
    // Beyond these the result is infinity or 0 in any case; a NaN passes.
    const Power power = power_and_rest(between(x, -746, 710));
    Value mantissa = at_.CreateFAdd(without_one(power.rest), real(1));
    // In two halves, so that denormal results and overflow come out of the multiplications.
    Value half = at_.CreateAShr(power.whole, 1);
    return at_.CreateFMul(at_.CreateFMul(mantissa, two_to(half)),
                          two_to(at_.CreateSub(power.whole, half)));
  }

  Value log(Value x) {
    constexpr std::int64_t smallest_shift = 54;
    Value denormal = at_.CreateFCmpOLT(x, real(std::numeric_limits<double>::min()));
    Value scaled = at_.CreateSelect(denormal, at_.CreateFMul(x, real(0x1p54)), x);
    Value word = bits(scaled);
    // The exponent that leaves a mantissa between sqrt(1/2) and sqrt(2).
    constexpr std::int64_t sqrt_half_bits = 0x3fe6a09e667f3bcd;
    Value exponent = at_.CreateAShr(at_.CreateSub(word, integer(sqrt_half_bits)), mantissa_bits);
    Value mantissa = from_bits(at_.CreateSub(word, at_.CreateShl(exponent, mantissa_bits)));
    Value f = at_.CreateFSub(mantissa, real(1));
    exponent =
        at_.CreateSub(exponent, at_.CreateSelect(denormal, integer(smallest_shift), integer(0)));
    Value power = as_real(exponent);
    Value s = at_.CreateFDiv(f, at_.CreateFAdd(f, real(2)));
    Value z = at_.CreateFMul(s, s);
    Value tail =
        at_.CreateFMul(s, at_.CreateFSub(at_.CreateFMul(z, polynomial(z, log_coefficients)), f));
    tail = fused(power, real(ln2_low), tail);
    Value result = fused(power, real(ln2_high), at_.CreateFAdd(f, tail));
    result = at_.CreateSelect(at_.CreateFCmpOLT(x, real(infinity)), result, x);
    result = at_.CreateSelect(at_.CreateFCmpOEQ(x, real(0)), real(-infinity), result);
    return at_.CreateSelect(at_.CreateFCmpOLT(x, real(0)),
                            real(std::numeric_limits<double>::quiet_NaN()), result);
  }

  Value tanh(Value x) {
    Value twice = at_.CreateFMul(at_most(magnitude(x), tanh_limit), real(2));
    const Power power = power_and_rest(twice);
    Value scale = two_to(power.whole);
    Value above = fused(scale, without_one(power.rest), at_.CreateFSub(scale, real(1)));
    return with_sign_of(x, at_.CreateFDiv(above, at_.CreateFAdd(above, real(2))));
  }

 private:
  // x = whole ln(2) + rest, |rest| <= ln(2) / 2
  struct Power {
    Value whole = nullptr, rest = nullptr;
  };
  Power power_and_rest(Value x) {
    Value magic = real(round_to_integer);
    Value shifted = fused(x, real(std::numbers::log2e), magic);
    Value power = at_.CreateFSub(shifted, magic);
    Value rest = fused(power, real(-ln2_low), fused(power, real(-ln2_high), x));
    return {at_.CreateSub(bits(shifted), bits(magic)), rest};
  }
  // exp(r) - 1
  Value without_one(Value rest) {
    return fused(at_.CreateFMul(rest, rest), polynomial(rest, exp_coefficients), rest);
  }
  // 2^n of integers from -1022 to 1023.
  Value two_to(Value n) {
    return from_bits(at_.CreateShl(at_.CreateAdd(n, integer(exponent_bias)), mantissa_bits));
  }
  // Of integers of at most 50 bits.
  Value as_real(Value n) {
    Value magic = real(round_to_integer);
    return at_.CreateFSub(from_bits(at_.CreateAdd(n, bits(magic))), magic);
  }
};

}  // namespace

llvm::Value* exp_f64(KernelBuilder& kernel, llvm::Value* x) { return DoubleMath(kernel, x).exp(x); }
llvm::Value* log_f64(KernelBuilder& kernel, llvm::Value* x) { return DoubleMath(kernel, x).log(x); }
llvm::Value* tanh_f64(KernelBuilder& kernel, llvm::Value* x) {
  return DoubleMath(kernel, x).tanh(x);
}

}  // namespace anydim::codegen_cpu
