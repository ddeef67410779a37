#include "codegen_cpu/scalars/math_f32.h"

#include <llvm/IR/IntrinsicsX86.h>

#include <limits>
#include <numbers>

#include "codegen_cpu/scalars/math_emitter.h"

namespace anydim::codegen_cpu {

namespace {

// exp(r) = 1 + r + r^2 P(r), |r| <= ln(2) / 2
constexpr float exp_coefficients[] = {0.4999999403953552F, 0.1666651964187622F,
                                      0.04166840389370918F, 0.00836889911442995F,
                                      0.001381422160193324F};
// 2^f = 1 + f P(f), |f| <= 1/2
constexpr float exp2_coefficients[] = {0.6931471824645996F,    0.24022647738456726F,
                                       0.055503323674201965F,  0.00961843691766262F,
                                       0.0013398875016719103F, 0.00015353361959569156F};
// log(1 + f) = f - f^2 / 2 + f^3 P(f), 1 + f between sqrt(1/2) and sqrt(2)
constexpr float log_coefficients[] = {
    0.3333331346511841F,  -0.25000008940696716F, 0.2000211924314499F,
    -0.1666799634695053F, 0.14219552278518677F,  -0.1240558922290802F,
    0.11888162046670914F, -0.11675652116537094F, 0.06746640056371689F};
// tanh(x) = x P(x^2) / Q(x^2), |x| <= 9.02
constexpr float tanh_above[] = {1.0F, 0.13379719853401184F, 0.003494036616757512F,
                                2.0583514924510382e-05F, 1.331911914093098e-08F};
constexpr float tanh_below[] = {1.0F, 0.4671303629875183F, 0.02587108127772808F,
                                0.00032830960117280483F, 7.762038762848533e-07F};
constexpr float tanh_limit = 9.02F;
// erf(x) = x P(x^2) / Q(x^2), |x| <= 3.93
constexpr float erf_above[] = {1.1283791065216064F,    0.19078445434570312F,
                               0.05279035493731499F,   0.0037796322721987963F,
                               0.0002848084841389209F, 2.041957714027376e-06F};
constexpr float erf_below[] = {1.0F,
                               0.5024110674858093F,
                               0.11425776779651642F,
                               0.014997484162449837F,
                               0.0011652171378955245F,
                               3.800393460551277e-05F};
constexpr float erf_limit = 3.92F;
// asin(x) = x + x^3 P(x^2), |x| <= 1/2
constexpr float asin_coefficients[] = {0.16666752099990845F, 0.074953094124794F,
                                       0.04546914994716644F, 0.024184778332710266F,
                                       0.042158305644989014F};
// atan(x) = x + x^3 P(x^2), |x| <= 1
constexpr float atan_coefficients[] = {
    -0.33333298563957214F,  0.1999852955341339F,   -0.14264015853405F,
    0.10950880497694016F,   -0.08399306237697601F, 0.05788137763738632F,
    -0.031096938997507095F, 0.010868623852729797F, -0.0017827945994213223F};

// A number as the sum of two.
struct TwoFloats {
  double high, low;
};
constexpr TwoFloats two_floats(double number) {
  const auto high = static_cast<float>(number);
  return {high, number - high};
}
constexpr TwoFloats pi = two_floats(std::numbers::pi), pi_half = two_floats(std::numbers::pi / 2);

// ln 2 in two parts; the first has so few bits that multiples of it by small integers are exact.
constexpr float ln2_high = 0.693359375F;
constexpr float ln2_low = -2.12194440054690583e-4F;

// Adding it leaves a number's nearest integer in the low bits of the sum.
constexpr double round_to_integer = 0x1.8p23;

class Math : MathEmitter {
 public:
  Math(KernelBuilder& kernel, llvm::Value* like) : MathEmitter(kernel, like->getType()) {}

  llvm::Value* rational(llvm::Value* x, const auto& above, const auto& below, double limit) {
    auto* square = at_.CreateFMul(x, x);
    auto* ratio =
        at_.CreateFDiv(at_.CreateFMul(x, polynomial(square, above)), polynomial(square, below));
    auto* one = with_sign_of(x, real(1.0));
    auto* far = at_.CreateFCmpOGE(magnitude(x), real(limit));
    auto* over = at_.CreateFCmpOGT(magnitude(ratio), real(1.0));  // by rounding, close to the limit
    return at_.CreateSelect(at_.CreateOr(far, over), one, ratio);
  }

  llvm::Value* exp(llvm::Value* x) {
    // Beyond these the result is infinity or 0 in any case; a NaN passes.
    x = between(x, -104, 89);
    auto* magic = real(round_to_integer);
    auto* shifted = fused(x, real(std::numbers::log2e), magic);
    auto* power = at_.CreateFSub(shifted, magic);
    auto* rest = fused(power, real(-ln2_high), x);
    rest = fused(power, real(-ln2_low), rest);
    auto* square = at_.CreateFMul(rest, rest);
    auto* mantissa = fused(square, polynomial(rest, exp_coefficients), rest);
    mantissa = at_.CreateFAdd(mantissa, real(1.0));
    if (kernel_.target().level == Level::Avx512 && width_ == 16) {
      auto* current_rounding = at_.getInt32(4);
      return at_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_mask_scalef_ps_512, {},
                                 {mantissa, power, llvm::Constant::getNullValue(type_),
                                  at_.getInt16(0xffff), current_rounding});
    }
    // In two halves, so that denormal results and overflow come out of the multiplications.
    auto* whole = at_.CreateSub(bits(shifted), bits(magic));
    auto* half = at_.CreateAShr(whole, 1);
    return at_.CreateFMul(at_.CreateFMul(mantissa, two_to(half)),
                          two_to(at_.CreateSub(whole, half)));
  }

  // 2^n of integers from -127, which gives 0, to 127.
  llvm::Value* two_to(llvm::Value* n) {
    return from_bits(at_.CreateShl(at_.CreateAdd(n, integer(127)), 23));
  }

  llvm::Value* exp_nonpositive(llvm::Value* x, double factor) {
    auto* power = at_.CreateFMul(x, real(factor * std::numbers::log2e));
    power = at_least(power, -127);
    auto* magic = real(round_to_integer);
    auto* shifted = at_.CreateFAdd(power, magic);
    auto* rest = at_.CreateFSub(power, at_.CreateFSub(shifted, magic));
    auto* mantissa = fused(polynomial(rest, exp2_coefficients), rest, real(1.0));
    return at_.CreateFMul(mantissa, two_to(at_.CreateSub(bits(shifted), bits(magic))));
  }

  llvm::Value* log(llvm::Value* x) {
    auto* denormal = at_.CreateFCmpOLT(x, real(std::numeric_limits<float>::min()));
    auto* scaled = at_.CreateSelect(denormal, at_.CreateFMul(x, real(0x1p23)), x);
    auto* word = bits(scaled);
    // The exponent that leaves a mantissa between sqrt(1/2) and sqrt(2).
    constexpr std::int64_t sqrt_half_bits = 0x3f3504f3;
    auto* exponent = at_.CreateAShr(at_.CreateSub(word, integer(sqrt_half_bits)), 23);
    auto* f =
        at_.CreateFSub(from_bits(at_.CreateSub(word, at_.CreateShl(exponent, 23))), real(1.0));
    auto* power = at_.CreateSIToFP(
        at_.CreateSub(exponent, at_.CreateSelect(denormal, integer(23), integer(0))), type_);
    auto* square = at_.CreateFMul(f, f);
    auto* tail = at_.CreateFMul(at_.CreateFMul(square, f), polynomial(f, log_coefficients));
    tail = fused(power, real(ln2_low), tail);
    tail = fused(square, real(-0.5), tail);
    auto* result = fused(power, real(ln2_high), at_.CreateFAdd(tail, f));
    constexpr float infinity = std::numeric_limits<float>::infinity();
    result = at_.CreateSelect(at_.CreateFCmpOLT(x, real(infinity)), result, x);
    result = at_.CreateSelect(at_.CreateFCmpOEQ(x, real(0.0)), real(-infinity), result);
    return at_.CreateSelect(at_.CreateFCmpOLT(x, real(0.0)),
                            real(std::numeric_limits<float>::quiet_NaN()), result);
  }

  llvm::Value* erf(llvm::Value* x) { return rational(x, erf_above, erf_below, erf_limit); }
  llvm::Value* tanh(llvm::Value* x) { return rational(x, tanh_above, tanh_below, tanh_limit); }

  llvm::Value* asin(llvm::Value* x) {
    const Arcsine part = arcsine(x);
    auto* far = minus(pi_half, at_.CreateFMul(part.value, real(2)));
    return with_sign_of(x, at_.CreateSelect(part.is_far, far, part.value));
  }
  llvm::Value* acos(llvm::Value* x) {
    const Arcsine part = arcsine(x);
    auto* twice = at_.CreateFMul(part.value, real(2));
    auto* far = at_.CreateSelect(at_.CreateFCmpOLT(x, real(0)), minus(pi, twice), twice);
    return at_.CreateSelect(part.is_far, far, minus(pi_half, with_sign_of(x, part.value)));
  }
  // atan(x) = pi / 2 + atan(-1 / x) of x > 0
  llvm::Value* atan(llvm::Value* x) {
    auto* size = magnitude(x);
    auto* is_far = at_.CreateFCmpOGT(size, real(1));
    auto* near = at_.CreateSelect(is_far, at_.CreateFDiv(real(1), size), size);
    auto* angle = odd_series(near, at_.CreateFMul(near, near), atan_coefficients);
    return with_sign_of(x, at_.CreateSelect(is_far, minus(pi_half, angle), angle));
  }

 private:
  // x + x z P(z)
  llvm::Value* odd_series(llvm::Value* x, llvm::Value* z, const auto& coefficients) {
    return fused(at_.CreateFMul(x, z), polynomial(z, coefficients), x);
  }

  // asin(|x|) for |x| <= 1/2, else half of acos(|x|): the arcsine of sqrt((1 - |x|) / 2).
  struct Arcsine {
    llvm::Value *value = nullptr, *is_far = nullptr;
  };
  Arcsine arcsine(llvm::Value* x) {
    auto* size = magnitude(x);
    auto* is_far = at_.CreateFCmpOGT(size, real(0.5));
    auto* half = at_.CreateFMul(at_.CreateFSub(real(1), size), real(0.5));
    auto* z = at_.CreateSelect(is_far, half, at_.CreateFMul(size, size));
    auto* sine = at_.CreateSelect(is_far, root(half), size);
    return {odd_series(sine, z, asin_coefficients), is_far};
  }

  llvm::Value* minus(const TwoFloats& number, llvm::Value* x) {
    return at_.CreateFSub(real(number.high), at_.CreateFSub(x, real(number.low)));
  }
};

}  // namespace

llvm::Value* multiply_add(KernelBuilder& kernel, llvm::Value* a, llvm::Value* b, llvm::Value* c) {
  auto& at = kernel.here();
  if (kernel.target().fused_multiply_add())
    return at.CreateIntrinsic(llvm::Intrinsic::fma, {a->getType()}, {a, b, c});
  return at.CreateFAdd(at.CreateFMul(a, b), c);
}

llvm::Value* exp_f32(KernelBuilder& kernel, llvm::Value* x) { return Math(kernel, x).exp(x); }
llvm::Value* exp_nonpositive_f32(KernelBuilder& kernel, llvm::Value* x, double factor) {
  return Math(kernel, x).exp_nonpositive(x, factor);
}
llvm::Value* log_f32(KernelBuilder& kernel, llvm::Value* x) { return Math(kernel, x).log(x); }
llvm::Value* erf_f32(KernelBuilder& kernel, llvm::Value* x) { return Math(kernel, x).erf(x); }
llvm::Value* tanh_f32(KernelBuilder& kernel, llvm::Value* x) { return Math(kernel, x).tanh(x); }
llvm::Value* asin_f32(KernelBuilder& kernel, llvm::Value* x) { return Math(kernel, x).asin(x); }
llvm::Value* acos_f32(KernelBuilder& kernel, llvm::Value* x) { return Math(kernel, x).acos(x); }
llvm::Value* atan_f32(KernelBuilder& kernel, llvm::Value* x) { return Math(kernel, x).atan(x); }

}  // namespace anydim::codegen_cpu
