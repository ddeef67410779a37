// What vectorised functions of reals are written with: numbers of one type, floats or doubles, of
// one width.
#pragma once

#include <cstdint>
#include <iterator>

#include "codegen_cpu/scalars/math_f32.h"

namespace anydim::codegen_cpu {

class MathEmitter {
 public:
  using Value = llvm::Value*;

  MathEmitter(KernelBuilder& kernel, llvm::Type* type)
      : kernel_(kernel), at_(kernel.here()), type_(type) {
    const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type_);
    width_ = vector ? vector->getNumElements() : 1;
    integer_ = kernel.vector_of(at_.getIntNTy(type->getScalarSizeInBits()), width_);
  }

  llvm::Type* type() const { return type_; }
  Value real(double value) { return llvm::ConstantFP::get(type_, value); }
  Value integer(std::int64_t value) {
    return llvm::ConstantInt::get(integer_, static_cast<std::uint64_t>(value), true);
  }
  Value bits(Value x) { return at_.CreateBitCast(x, integer_); }
  Value from_bits(Value x) { return at_.CreateBitCast(x, type_); }

  Value magnitude(Value x) { return at_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x); }
  Value root(Value x) { return at_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x); }
  Value with_sign_of(Value sign, Value x) {
    return at_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, x, sign);
  }
  Value fused(Value a, Value b, Value c) { return multiply_add(kernel_, a, b, c); }
  // A NaN passes.
  Value at_most(Value x, double bound) {
    return at_.CreateSelect(at_.CreateFCmpOGT(x, real(bound)), real(bound), x);
  }
  Value at_least(Value x, double bound) {
    return at_.CreateSelect(at_.CreateFCmpOLT(x, real(bound)), real(bound), x);
  }
  Value between(Value x, double least, double most) { return at_most(at_least(x, least), most); }

  // c[0] + c[1] x + c[2] x^2 + ...
  Value polynomial(Value x, const auto& c) {
    Value sum = real(c[std::size(c) - 1]);
    for (std::size_t i = std::size(c) - 1; i-- > 0;) sum = fused(sum, x, real(c[i]));
    return sum;
  }

 protected:
  KernelBuilder& kernel_;
  llvm::IRBuilder<>& at_;
  llvm::Type* type_;
  llvm::Type* integer_;
  unsigned width_ = 1;
};

}  // namespace anydim::codegen_cpu
