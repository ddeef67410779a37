#include "codegen_cpu/scalars/math_f64.h"

#include <array>
#include <limits>
#include <numbers>

#include "codegen_cpu/scalars/double_emitter.h"

namespace anydim::codegen_cpu {

namespace {

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

constexpr double tanh_limit = 22;  // the result is 1 from there on

class DoubleMath : DoubleEmitter {
 public:
  DoubleMath(KernelBuilder& kernel, llvm::Value* like) : DoubleEmitter(kernel, like->getType()) {}

  Value exp(Value x) {
    // Beyond these the result is infinity or 0 in any case; a NaN passes.
    const Power power = power_and_rest(between(x, -746, 710));
    Value mantissa = at_.CreateFAdd(without_one(power.rest), real(1));
    // In two halves, so that denormal results and overflow come out of the multiplications.
    Value whole = at_.CreateSub(power.bits, bits(real(round_to_integer)));
    Value half = at_.CreateAShr(whole, 1);
    return at_.CreateFMul(at_.CreateFMul(mantissa, two_to(half)),
                          two_to(at_.CreateSub(whole, half)));
  }

  Value log(Value x) {
    Value denormal = at_.CreateFCmpOLT(x, real(std::numeric_limits<double>::min()));
    const auto [exponent, f] =
        scaled(at_.CreateSelect(denormal, at_.CreateFMul(x, real(0x1p54)), x));
    Value power = at_.CreateFSub(exponent, at_.CreateSelect(denormal, real(54), real(0)));
    Value s = at_.CreateFDiv(f, at_.CreateFAdd(f, real(2)));
    Value z = at_.CreateFMul(s, s);
    Value tail =
        at_.CreateFMul(s, at_.CreateFSub(at_.CreateFMul(z, polynomial(z, log_coefficients)), f));
    tail = fused(power, real(ln2_low), tail);
    return all_limits_of_log(x, fused(power, real(ln2_high), at_.CreateFAdd(f, tail)));
  }

  Value tanh(Value x) {
    Value twice = at_.CreateFMul(at_most(magnitude(x), tanh_limit), real(2));
    const Power power = power_and_rest(twice);
    Value scale = two_to(power.bits);
    Value above = fused(scale, without_one(power.rest), at_.CreateFSub(scale, real(1)));
    return with_sign_of(x, at_.CreateFDiv(above, at_.CreateFAdd(above, real(2))));
  }

 private:
  // x = n ln(2) + rest, |rest| <= ln(2) / 2; the low bits are those of n.
  struct Power {
    Value bits = nullptr, rest = nullptr;
  };
  Power power_and_rest(Value x) {
    const Nearest power = nearest_of_product(x, std::numbers::log2e);
    return {power.bits, fused(power.value, real(-ln2_low), fused(power.value, real(-ln2_high), x))};
  }
  // exp(r) - 1
  Value without_one(Value rest) {
    return fused(at_.CreateFMul(rest, rest), polynomial(rest, exp_coefficients), rest);
  }
};

}  // namespace

llvm::Value* exp_f64(KernelBuilder& kernel, llvm::Value* x) { return DoubleMath(kernel, x).exp(x); }
llvm::Value* log_f64(KernelBuilder& kernel, llvm::Value* x) { return DoubleMath(kernel, x).log(x); }
llvm::Value* tanh_f64(KernelBuilder& kernel, llvm::Value* x) {
  return DoubleMath(kernel, x).tanh(x);
}

}  // namespace anydim::codegen_cpu
