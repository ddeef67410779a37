#include "codegen_cpu/task_split.h"

#include "codegen_cpu/scalars/index_emitter.h"

namespace anydim::codegen_cpu {

void define_batch(KernelBuilder& kernel, Scope& task, const std::vector<ir::Iteration>& batch,
                  Value* point) {
  for (std::size_t i = batch.size(); i-- > 0;) {
    Value* extent = emit_index(kernel, kernel.root(), batch[i].extent);
    auto& builder = kernel.at(task);
    task.define(batch[i].variable, i == 0 ? point : builder.CreateURem(point, extent));
    if (i > 0) point = builder.CreateUDiv(point, extent);
  }
}

Share even_share(KernelBuilder& kernel, Scope& scope, Value* total, Value* shares, Value* number) {
  auto& builder = kernel.at(scope);
  Value* first = builder.CreateUDiv(builder.CreateMul(number, total), shares);
  Value* end = builder.CreateUDiv(
      builder.CreateMul(builder.CreateAdd(number, kernel.constant(1)), total), shares);
  return {.first = first, .count = builder.CreateSub(end, first), .number = number};
}

void for_even_blocks(KernelBuilder& kernel, Scope& scope, Value* total, std::int64_t most,
                     const BlockBody& body) {
  auto& builder = kernel.at(scope);
  // One division a scope instead of one a block: the first `longer` blocks have a row more.
  Value* blocks = builder.CreateUDiv(builder.CreateAdd(total, kernel.constant(most - 1)),
                                     kernel.constant(most));
  Value* shorter = builder.CreateUDiv(total, blocks);
  Value* longer = builder.CreateURem(total, blocks);
  kernel.loop(scope, kernel.constant(0), blocks, 1, [&](Scope& block, Value* position) {
    auto& inner = kernel.at(block);
    Value* one_more = inner.CreateZExt(inner.CreateICmpULT(position, longer), inner.getInt64Ty());
    Value* earlier = inner.CreateBinaryIntrinsic(llvm::Intrinsic::umin, position, longer);
    body(block, {.first = inner.CreateAdd(inner.CreateMul(position, shorter), earlier),
                 .count = inner.CreateAdd(shorter, one_more),
                 .number = position});
  });
}

void for_parts(KernelBuilder& kernel, Scope& scope, const Share& share, Value* length,
               const BlockBody& body) {
  auto& builder = kernel.at(scope);
  Value* end = builder.CreateAdd(share.first, share.count);
  Value* last = builder.CreateUDiv(builder.CreateSub(end, kernel.constant(1)), length);
  kernel.loop(
      scope, builder.CreateUDiv(share.first, length), builder.CreateAdd(last, kernel.constant(1)),
      1, [&](Scope& part, Value* number) {
        auto& at = kernel.at(part);
        Value* start = at.CreateMul(number, length);
        Value* first = at.CreateBinaryIntrinsic(llvm::Intrinsic::umax, start, share.first);
        Value* behind =
            at.CreateBinaryIntrinsic(llvm::Intrinsic::umin, at.CreateAdd(start, length), end);
        body(part, {.first = first, .count = at.CreateSub(behind, first), .number = number});
      });
}

}  // namespace anydim::codegen_cpu
