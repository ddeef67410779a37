#include "codegen_cpu/matmul/unpack_weight.h"

#include "ir/error.h"

namespace anydim::codegen_cpu {

using llvm::Value;

Value* emit_real_weights(llvm::IRBuilder<>& builder, Value* place, unsigned lanes, Value* zeros) {
  auto* bytes = llvm::FixedVectorType::get(builder.getInt8Ty(), lanes);
  auto* wide = llvm::FixedVectorType::get(builder.getInt32Ty(), lanes);
  auto* real = llvm::FixedVectorType::get(builder.getFloatTy(), lanes);
  Value* integers =
      builder.CreateSExt(builder.CreateAlignedLoad(bytes, place, llvm::Align(1)), wide);
  Value* numbers = builder.CreateSIToFP(integers, real);
  return zeros == nullptr ? numbers : builder.CreateFSub(numbers, zeros);
}

void emit_unpack_panels(KernelBuilder& kernel, Scope& scope, const UnpackPanels& unpack) {
  internal_check(unpack.operands.scales && unpack.operands.weight, "a scaled weight is unpacked");
  const PackedWeight& weight = *unpack.operands.weight;
  const BlockScales& scales = *unpack.operands.scales;
  const auto lanes = static_cast<unsigned>(kernel.target().lanes(sizeof(float)));
  auto* vector = llvm::FixedVectorType::get(kernel.here().getFloatTy(), lanes);
  const llvm::Align align(sizeof(float));
  const auto step_of = [&](llvm::IRBuilder<>& builder, Value* panel, std::int64_t steps,
                           Value* step) {
    Value* all = builder.CreateAdd(builder.CreateMul(panel, kernel.constant(steps)), step);
    return builder.CreateMul(all, kernel.constant(unpack.panel));
  };
  const auto parameters = [&](const BlockScales& of, Value* offset) -> Value* {
    if (of.number) return llvm::ConstantFP::get(vector, *of.number);
    Value* base = kernel.buffer(static_cast<std::size_t>(of.buffer));
    return kernel.here().CreateAlignedLoad(
        vector, kernel.element_pointer(base, ir::DType::F32, offset), align);
  };
  kernel.loop(scope, kernel.constant(0), unpack.panels, 1, [&](Scope& in_panel, Value* number) {
    Value* panel = kernel.at(in_panel).CreateAdd(unpack.first, number);
    kernel.for_range(
        in_panel, kernel.constant(0), unpack.depth, scales.block, [&](Scope& block, Value* depth) {
          auto& outer = kernel.at(block);
          Value* end = outer.CreateBinaryIntrinsic(
              llvm::Intrinsic::umin, outer.CreateAdd(depth, kernel.constant(scales.block)),
              unpack.depth);
          Value* scale = step_of(outer, panel, scales.blocks,
                                 outer.CreateUDiv(depth, kernel.constant(scales.block)));
          std::vector<Value*> offsets, factors, zeros;
          for (std::int64_t column = 0; column < unpack.panel; column += lanes) {
            offsets.push_back(kernel.constant(column));
            Value* here = outer.CreateAdd(scale, offsets.back());
            factors.push_back(parameters(scales, here));
            zeros.push_back(unpack.operands.zeros ? parameters(*unpack.operands.zeros, here)
                                                  : nullptr);
          }
          kernel.loop(block, depth, end, 1, [&](Scope& step, Value* k) {
            auto& b = kernel.at(step);
            Value* from = step_of(b, panel, weight.packed_steps, k);
            Value* to = b.CreateMul(b.CreateAdd(b.CreateMul(number, unpack.depth), k),
                                    kernel.constant(unpack.panel));
            for (std::size_t i = 0; i < offsets.size(); ++i) {
              Value* bytes =
                  kernel.element_pointer(kernel.buffer(static_cast<std::size_t>(weight.buffer)),
                                         ir::DType::I8, b.CreateAdd(from, offsets[i]));
              Value* real = b.CreateFMul(emit_real_weights(b, bytes, lanes, zeros[i]), factors[i]);
              b.CreateAlignedStore(
                  real,
                  kernel.element_pointer(unpack.to, ir::DType::F32, b.CreateAdd(to, offsets[i])),
                  align);
            }
          });
        });
  });
}

}  // namespace anydim::codegen_cpu
