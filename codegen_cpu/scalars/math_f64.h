// Vectorised functions of doubles. Each takes a double or a vector of doubles at the kernel's
// insertion point and gives as many.
//
// Largest errors, against the exact function at every level (tests/codegen_cpu/math_f64_test.cpp):
// - exp: 1 ulp; results below the smallest normal are rounded once more; overflow gives infinity
// - log: 1 ulp; -inf at 0, NaN below
// - tanh: 3 ulp; never above 1 in magnitude
// NaN gives NaN, infinities give the limits.
//
// Formulas: exp and log split off the power of two (Cody and Waite, as in math_f32.h) and sum the
// function's series of the rest, log that of the inverse hyperbolic tangent: log(1 + f) = f - s (f
// - 2 z P(z)), s = f / (2 + f), z = s^2. tanh is (e^2x - 1) / (e^2x + 1), of which the numerator is
// kept exact to its last bits where it is small.
#pragma once

#include "codegen_cpu/kernel_builder.h"

namespace anydim::codegen_cpu {

llvm::Value* exp_f64(KernelBuilder& kernel, llvm::Value* x);
llvm::Value* log_f64(KernelBuilder& kernel, llvm::Value* x);
llvm::Value* tanh_f64(KernelBuilder& kernel, llvm::Value* x);

}  // namespace anydim::codegen_cpu
