// Vectorised f32 functions. Each takes a float or a vector of floats at the kernel's insertion
// point and gives as many.
//
// Largest errors, against the exact function at every level (tests/codegen_cpu/math_test.cpp, over
// eleven million f32):
// - exp: 1.1 ulp; results below the smallest normal are rounded once more (gradual underflow);
//   overflow gives infinity
// - log: 1.2 ulp; -inf at 0, NaN below
// - erf: 6 ulp; never above 1 in magnitude, exactly 1 from 3.92 on
// - tanh: 6 ulp; never above 1 in magnitude, exactly 1 from 9.02 on
// - asin: 2.4 ulp; acos: 1.1 ulp; atan: 1.4 ulp
// - sin, cos, tan, sinh, cosh, asinh, acosh, atanh, erfc: 0.502 ulp
// - pow: 0.53 ulp, with C's special cases
// and of what ir/real_body.h makes of them:
// - sigmoid: 3 ulp where the result is at least 1e-37, below it 1.2e-38 absolute
// - gelu: 4e-7 * max(1, |x|) absolute; gelu_tanh: 5e-7 * max(1, |x|) absolute
// - pow by a literal: 2 ulp
// NaN gives NaN, but where pow is 1 by any operand; infinities give the limits, except gelu of
// -inf, which is NaN as in its definition.
//
// Formulas: exp and log split off the power of two, and sin, cos and tan the multiple of pi or pi /
// 2 (Cody and Waite, "Software Manual for the Elementary Functions", 1980), and evaluate a minimax
// polynomial of the rest, tan a rational; erf and tanh are minimax rationals x P(x^2) / Q(x^2).
// asin and acos beyond 1/2 halve the angle, atan beyond 1 takes the reciprocal. sinh and cosh are
// the addition theorems of the power of two and the rest; their inverses are logarithms by
// definition. pow is 2^(y log2 |x|). erfc is exp(-x^2) times a minimax rational. The coefficients
// were fitted for this project by iteratively reweighted least squares on the relative error.
#pragma once

#include <span>

#include "codegen_cpu/kernel_builder.h"
#include "ir/host_functions.h"

namespace anydim::codegen_cpu {

llvm::Value* exp_f32(KernelBuilder& kernel, llvm::Value* x);
// exp(factor * x) of x <= 0, factor > 0, as weights of a softmax need it: relative error below 1.5
// * 2^-23 * (1 + |factor * x|); 0 below 2^-127.
llvm::Value* exp_nonpositive_f32(KernelBuilder& kernel, llvm::Value* x, double factor);
llvm::Value* log_f32(KernelBuilder& kernel, llvm::Value* x);
llvm::Value* erf_f32(KernelBuilder& kernel, llvm::Value* x);
llvm::Value* tanh_f32(KernelBuilder& kernel, llvm::Value* x);
llvm::Value* asin_f32(KernelBuilder& kernel, llvm::Value* x);
llvm::Value* acos_f32(KernelBuilder& kernel, llvm::Value* x);
llvm::Value* atan_f32(KernelBuilder& kernel, llvm::Value* x);
// The others but fmod, computed in doubles and rounded once; sin, cos and tan of |x| up to
// periodic_limit and of infinities only.
llvm::Value* wide_f32(KernelBuilder& kernel, ir::LibraryFunction function,
                      std::span<llvm::Value* const> operands);
constexpr double periodic_limit = 0x1p24;

// a * b + c, rounded once where the target has fused multiply-add. Floats or doubles, any width.
llvm::Value* multiply_add(KernelBuilder& kernel, llvm::Value* a, llvm::Value* b, llvm::Value* c);

}  // namespace anydim::codegen_cpu
