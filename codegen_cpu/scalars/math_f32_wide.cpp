// The f32 functions that compute in doubles and round once.
#include <numbers>

#include "codegen_cpu/scalars/double_emitter.h"

namespace anydim::codegen_cpu {

namespace {

// sin(r) = r (1 + z P(z)), z = r^2, |r| <= pi / 2
constexpr double sin_coefficients[] = {-0.16666666626107854, 0.008333331106780058,
                                       -0.00019840867964646938, 2.752537151473202e-06,
                                       -2.388867651702274e-08};
// tan(r) = r P(z) / Q(z), z = r^2, |r| <= pi / 4
constexpr double tan_above[] = {1.0000000000221108, -0.1113614897380743, 0.0010751581360680703};
constexpr double tan_below[] = {1.0, -0.44469482140818234, 0.015973411978695496};
// cosh(r) = 1 + z P(z), sinh(r) = r (1 + z P(z)), z = r^2, |r| <= ln(2) / 2
constexpr double cosh_coefficients[] = {0.5000000079137398, 0.04166626707358902,
                                        0.001394623017091255};
constexpr double sinh_coefficients[] = {0.1666666675455035, 0.008333288954573425,
                                        0.00019904960708445567};
// 2^f = 1 + f P(f), |f| <= 1/2
constexpr double exp2_coefficients[] = {
    0.69314718054165,     0.24022651075892676,   0.05550410962593512,  0.009618036904197018,
    0.001333343076672814, 0.0001546711269394884, 1.531495185291665e-05};
// log(1 + f) = f + f^2 P(f), 1 + f between sqrt(1/2) and sqrt(2)
constexpr double log_coefficients[] = {
    -0.5000000002151445,  0.33333334043652413, -0.2499999482984129,  0.19999898138275168,
    -0.16666927437668771, 0.14290571174262254, -0.12497412921185705, 0.11009611293878746,
    -0.09927301962636993, 0.10015383254324242, -0.09871913994801991, 0.05358694599370045};
// erfc(a) = exp(-a^2) P(a) / Q(a), 0 <= a <= 10.1
constexpr double erfc_above[] = {0.9999999999206376, 1.4334239841973448,  0.9996378109441755,
                                 0.4017952488714034, 0.09263989452161851, 0.009989284078435221};
constexpr double erfc_below[] = {1.0,
                                 2.56180314050678,
                                 2.890323340591786,
                                 1.853623516814478,
                                 0.721039385137031,
                                 0.16419883804032975,
                                 0.01770556840397272};
constexpr double erfc_limit = 10.1;  // the result is 0 from there on

// Pi in two parts; the first has so few bits that its multiples by half-integers of 24 bits are
// exact.
constexpr double pi_high = 0x1.921fb54p+1, pi_low = 0x1.10b4611a62633p-29;
// Below it the function is its argument.
constexpr double linear_below = 0x1p-14;

llvm::Type* doubles_like(KernelBuilder& kernel, llvm::Type* narrow) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(narrow);
  return kernel.vector_of(kernel.here().getDoubleTy(), vector ? vector->getNumElements() : 1);
}

class WideMath : DoubleEmitter {
 public:
  WideMath(KernelBuilder& kernel, llvm::Type* narrow)
      : DoubleEmitter(kernel, doubles_like(kernel, narrow)), narrow_(kernel, narrow) {}

  Value sin(Value x) {
    x = widened(x);
    const Nearest turn = nearest_of_product(x, std::numbers::inv_pi);
    return rounded(negated_where_odd(turn.bits, sin_of_half_turn(without_pi(x, turn.value))));
  }

  // cos(r + (k + 1/2) pi) = -(-1)^k sin(r)
  Value cos(Value x) {
    x = widened(x);
    const Nearest turn = nearest(fused(x, real(std::numbers::inv_pi), real(-0.5)));
    Value rest = without_pi(x, at_.CreateFAdd(turn.value, real(0.5)));
    return rounded(negated_where_odd(at_.CreateAdd(turn.bits, integer(1)), sin_of_half_turn(rest)));
  }

  // tan(r + k pi / 2) = -1 / tan(r) of odd k
  Value tan(Value x) {
    x = widened(x);
    const Nearest turn = nearest_of_product(x, 2 * std::numbers::inv_pi);
    Value rest = without_pi(x, at_.CreateFMul(turn.value, real(0.5)));
    Value square = at_.CreateFMul(rest, rest);
    Value above = at_.CreateFMul(rest, polynomial(square, tan_above));
    Value below = polynomial(square, tan_below);
    Value even = at_.CreateICmpEQ(at_.CreateAnd(turn.bits, integer(1)), integer(0));
    return rounded(at_.CreateFDiv(at_.CreateSelect(even, above, at_.CreateFNeg(below)),
                                  at_.CreateSelect(even, below, above)));
  }

  Value sinh(Value x) {
    const Hyperbolic parts = hyperbolic(widened(x));
    return narrow_.with_sign_of(  // the sum with +0 loses that of -0
        x, rounded(fused(parts.sum, parts.sinh, at_.CreateFMul(parts.difference, parts.cosh))));
  }
  Value cosh(Value x) {
    const Hyperbolic parts = hyperbolic(widened(x));
    return rounded(fused(parts.sum, parts.cosh, at_.CreateFMul(parts.difference, parts.sinh)));
  }

  Value asinh(Value x) {
    Value wide = magnitude(widened(x));
    Value sum = at_.CreateFAdd(wide, root(fused(wide, wide, real(1))));
    return narrow_.with_sign_of(x, or_linear(x, rounded(log(sum))));
  }
  Value acosh(Value x) {
    x = widened(x);
    Value sum = at_.CreateFAdd(x, root(fused(x, x, real(-1))));
    return rounded(at_.CreateSelect(at_.CreateFCmpOLT(x, real(1)), real(nan), log(sum)));
  }
  Value atanh(Value x) {
    Value wide = widened(x);
    Value ratio = at_.CreateFDiv(at_.CreateFAdd(real(1), wide), at_.CreateFSub(real(1), wide));
    return or_linear(x, rounded(at_.CreateFMul(log(ratio), real(0.5))));
  }

  Value erfc(Value x) {
    x = widened(x);
    Value far = at_most(magnitude(x), erfc_limit);
    Value power = at_.CreateFMul(at_.CreateFMul(far, far), real(-std::numbers::log2e));
    Value ratio = at_.CreateFDiv(polynomial(far, erfc_above), polynomial(far, erfc_below));
    Value right = at_.CreateFMul(exp2(power), ratio);
    return rounded(
        at_.CreateSelect(at_.CreateFCmpOLT(x, real(0)), at_.CreateFSub(real(2), right), right));
  }

  Value pow(Value x, Value y) {
    Value base = magnitude(widened(x));
    const Logarithm parts = logarithm(base);
    Value log2 =
        limits_of_log(base, fused(parts.of_mantissa, real(std::numbers::log2e), parts.exponent));
    // An infinite exponent is as good as a large one, and 0 times it is 0.
    Value power = at_.CreateFMul(between(widened(y), -0x1p128, 0x1p128), log2);
    Value result = rounded(exp2(between(power, -300, 300)));

    // Larger numbers are even. The conversion of a NaN is undefined.
    Value bounded = narrow_.at_most(narrow_.at_least(y, -0x1p24), 0x1p24);
    bounded = at_.CreateSelect(at_.CreateFCmpORD(y, y), bounded, narrow_.real(0));
    Value whole = at_.CreateFPToSI(bounded, narrow_.bits(x)->getType());
    Value is_whole = at_.CreateFCmpOEQ(at_.CreateSIToFP(whole, x->getType()), bounded);
    Value sign = at_.CreateAnd(at_.CreateShl(whole, 31), narrow_.bits(x));
    Value with_sign = narrow_.from_bits(at_.CreateOr(narrow_.bits(result), sign));
    Value undefined = at_.CreateAnd(at_.CreateFCmpOLT(x, narrow_.real(0)),
                                    at_.CreateFCmpOGT(x, narrow_.real(-infinity)));
    Value without = at_.CreateSelect(undefined, narrow_.real(nan), result);
    result = at_.CreateSelect(is_whole, with_sign, without);
    Value is_one =
        at_.CreateOr(at_.CreateFCmpOEQ(x, narrow_.real(1)), at_.CreateFCmpOEQ(y, narrow_.real(0)));
    return at_.CreateSelect(is_one, narrow_.real(1), result);
  }

 private:
  Value widened(Value x) { return at_.CreateFPExt(x, type_); }
  Value rounded(Value x) { return at_.CreateFPTrunc(x, narrow_.type()); }
  Value or_linear(Value x, Value result) {
    return at_.CreateSelect(at_.CreateFCmpOLT(narrow_.magnitude(x), narrow_.real(linear_below)), x,
                            result);
  }

  Value without_pi(Value x, Value multiple) {
    Value rest = fused(multiple, real(-pi_high), x);
    return fused(multiple, real(-pi_low), rest);
  }
  Value sin_of_half_turn(Value x) { return odd_series(x, at_.CreateFMul(x, x), sin_coefficients); }
  Value odd_series(Value x, Value square, const auto& coefficients) {
    return at_.CreateFMul(x, fused(square, polynomial(square, coefficients), real(1)));
  }
  Value negated_where_odd(Value whole, Value x) {
    return from_bits(at_.CreateXor(bits(x), at_.CreateShl(whole, 63)));
  }

  Value exp2(Value x) {
    const Nearest power = nearest(x);
    Value rest = at_.CreateFSub(x, power.value);
    Value mantissa = fused(polynomial(rest, exp2_coefficients), rest, real(1));
    return at_.CreateFMul(mantissa, two_to(power.bits));
  }

  // x = r + k ln 2: the sinh and cosh of r, the halves of 2^k + 2^-k and of 2^k - 2^-k.
  struct Hyperbolic {
    Value sinh = nullptr, cosh = nullptr, sum = nullptr, difference = nullptr;
  };
  Hyperbolic hyperbolic(Value x) {
    x = between(x, -100, 100);  // results are infinite beyond
    const Nearest power = nearest_of_product(x, std::numbers::log2e);
    Value rest = fused(power.value, real(-std::numbers::ln2), x);
    Value square = at_.CreateFMul(rest, rest);
    Value up = two_to(at_.CreateSub(power.bits, integer(1)));
    Value down = two_to(at_.CreateSub(integer(-1), power.bits));
    return {.sinh = odd_series(rest, square, sinh_coefficients),
            .cosh = fused(square, polynomial(square, cosh_coefficients), real(1)),
            .sum = at_.CreateFAdd(up, down),
            .difference = at_.CreateFSub(up, down)};
  }

  // log(x) = ln(2) exponent + of_mantissa, of normal x.
  struct Logarithm {
    Value exponent = nullptr, of_mantissa = nullptr;
  };
  Logarithm logarithm(Value x) {
    const auto [exponent, f] = scaled(x);
    Value square = at_.CreateFMul(f, f);
    return {exponent, fused(square, polynomial(f, log_coefficients), f)};
  }
  Value log(Value x) {
    const Logarithm parts = logarithm(x);
    return all_limits_of_log(x, fused(parts.exponent, real(std::numbers::ln2), parts.of_mantissa));
  }

  MathEmitter narrow_;
};

}  // namespace

llvm::Value* wide_f32(KernelBuilder& kernel, ir::LibraryFunction function,
                      std::span<llvm::Value* const> operands) {
  auto* x = operands[0];
  WideMath math(kernel, x->getType());
  switch (function) {  // NOLINT: the others are not computed in doubles
    case ir::LibraryFunction::sin: return math.sin(x);
    case ir::LibraryFunction::cos: return math.cos(x);
    case ir::LibraryFunction::tan: return math.tan(x);
    case ir::LibraryFunction::sinh: return math.sinh(x);
    case ir::LibraryFunction::cosh: return math.cosh(x);
    case ir::LibraryFunction::asinh: return math.asinh(x);
    case ir::LibraryFunction::acosh: return math.acosh(x);
    case ir::LibraryFunction::atanh: return math.atanh(x);
    case ir::LibraryFunction::erfc: return math.erfc(x);
    case ir::LibraryFunction::pow: return math.pow(x, operands[1]);
    default: return nullptr;
  }
}

}  // namespace anydim::codegen_cpu
