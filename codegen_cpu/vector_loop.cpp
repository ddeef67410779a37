#include "codegen_cpu/vector_loop.h"

namespace anydim::codegen_cpu {

llvm::Value* lanes_below(KernelBuilder& kernel, Scope& scope, std::int64_t width,
                         llvm::Value* count) {
  auto& builder = kernel.at(scope);
  const auto lanes = static_cast<unsigned>(width);
  llvm::Value* limit = builder.CreateTrunc(
      builder.CreateBinaryIntrinsic(llvm::Intrinsic::umin, count, kernel.constant(width)),
      builder.getInt32Ty());
  return builder.CreateICmpULT(
      builder.CreateStepVector(llvm::FixedVectorType::get(builder.getInt32Ty(), lanes)),
      builder.CreateVectorSplat(lanes, limit));
}

void for_vectors(KernelBuilder& kernel, Scope& scope, const VectorLoop& loop,
                 const KernelBuilder::LoopBody& body) {
  const auto run = [&](Scope& inner, llvm::Value* position, llvm::Value* mask) {
    inner.define(loop.variable, kernel.at(inner).CreateAdd(loop.first, position));
    inner.set_lanes({.variable = loop.variable,
                     .width = static_cast<unsigned>(loop.width),
                     .mask = mask,
                     .aligned = loop.aligned});
    body(inner, position);
  };
  auto& builder = kernel.at(scope);
  llvm::Value* ended = builder.CreateURem(loop.count, kernel.constant(loop.width));
  llvm::Value* whole = builder.CreateSub(loop.count, ended);
  kernel.for_range(scope, kernel.constant(0), whole, loop.width,
                   [&](Scope& inner, llvm::Value* position) { run(inner, position, nullptr); });
  if (!loop.may_end_early) return;
  llvm::Value* left_over = kernel.at(scope).CreateICmpNE(ended, kernel.constant(0));
  kernel.guarded(scope, left_over, [&](Scope& inner) {
    run(inner, whole, lanes_below(kernel, inner, loop.width, ended));
  });
}

}  // namespace anydim::codegen_cpu
