#include "codegen_cpu/matmul/multiply_step.h"

#include <utility>

#include <llvm/IR/IntrinsicsX86.h>

#include "ir/error.h"

namespace anydim::codegen_cpu {

using llvm::Value;

namespace {

llvm::FixedVectorType* vector_of(llvm::Type* element, std::int64_t lanes) {
  return llvm::FixedVectorType::get(element, static_cast<unsigned>(lanes));
}

llvm::Intrinsic::ID by_vector_bytes(const MicroKernel& kernel, llvm::Intrinsic::ID sixteen,
                                    llvm::Intrinsic::ID thirty_two,
                                    llvm::Intrinsic::ID sixty_four) {
  switch (kernel.lanes * kernel.element->getScalarSizeInBits() / 8) {
    case 16: return sixteen;
    case 32: return thirty_two;
    case 64: return sixty_four;
  }
  internal_error("a vector register has 16, 32 or 64 bytes");
}

}  // namespace

Multiply multiply_of(const Target& target, const Product& product) {
  if (product.depths() == 1) return Multiply::Elements;
  if (product.right == ir::DType::BF16)
    return target.avx512_bf16 ? Multiply::Pairs : Multiply::WidenedPairs;
  if (product.right == ir::DType::U8) return Multiply::BytesExchanged;
  return product.right == ir::DType::I8 ? Multiply::Bytes : Multiply::IntegerPairs;
}

Value* emit_multiply_add(llvm::IRBuilder<>& builder, const MicroKernel& kernel, Value* a, Value* b,
                         Value* sum) {
  if (!kernel.element->isFloatingPointTy()) return builder.CreateAdd(builder.CreateMul(a, b), sum);
  if (kernel.fused_multiply_add)
    return builder.CreateIntrinsic(llvm::Intrinsic::fma, {sum->getType()}, {a, b, sum});
  return builder.CreateFAdd(builder.CreateFMul(a, b), sum);
}

Value* emit_multiply_step(llvm::IRBuilder<>& builder, const MicroKernel& kernel, Value* a, Value* b,
                          Value* sum) {
  switch (kernel.multiply) {
    case Multiply::Elements: return emit_multiply_add(builder, kernel, a, b, sum);
    case Multiply::Pairs: {
      auto* brains = vector_of(builder.getBFloatTy(), 2 * kernel.lanes);
      return builder.CreateIntrinsic(
          llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512, {},
          {sum, builder.CreateBitCast(a, brains), builder.CreateBitCast(b, brains)});
    }
    case Multiply::WidenedPairs: {
      // Lower element, then upper; equal expressions of a row or column are found by the optimiser.
      auto* reals = vector_of(kernel.element, kernel.lanes);
      const auto lower = [&](Value* pair) {
        return builder.CreateBitCast(builder.CreateShl(pair, 16), reals);
      };
      const auto upper = [&](Value* pair) {
        return builder.CreateBitCast(builder.CreateAnd(pair, 0xffff0000U), reals);
      };
      sum = emit_multiply_add(builder, kernel, lower(a), lower(b), sum);
      return emit_multiply_add(builder, kernel, upper(a), upper(b), sum);
    }
    case Multiply::IntegerPairs: {
      auto* shorts = vector_of(builder.getInt16Ty(), 2 * kernel.lanes);
      const llvm::Intrinsic::ID products = by_vector_bytes(
          kernel, llvm::Intrinsic::x86_sse2_pmadd_wd, llvm::Intrinsic::x86_avx2_pmadd_wd,
          llvm::Intrinsic::x86_avx512_pmaddw_d_512);
      return builder.CreateAdd(sum, builder.CreateIntrinsic(products, {},
                                                            {builder.CreateBitCast(a, shorts),
                                                             builder.CreateBitCast(b, shorts)}));
    }
    case Multiply::Bytes:
    case Multiply::BytesExchanged: {
      const llvm::Intrinsic::ID dots = by_vector_bytes(
          kernel, llvm::Intrinsic::x86_avx512_vpdpbusd_128,
          llvm::Intrinsic::x86_avx512_vpdpbusd_256, llvm::Intrinsic::x86_avx512_vpdpbusd_512);
      if (kernel.multiply == Multiply::BytesExchanged) std::swap(a, b);
      return builder.CreateIntrinsic(dots, {}, {sum, a, b});
    }
  }
  internal_error("steps are multiplied in one of six ways");
}

}  // namespace anydim::codegen_cpu
