#include "codegen_cpu/matmul/unpack_weight.h"

#include "ir/error.h"

namespace anydim::codegen_cpu {

Value* emit_real_weights(llvm::IRBuilder<>& builder, Value* place, unsigned lanes, Value* zeros) {
  auto* bytes = llvm::FixedVectorType::get(builder.getInt8Ty(), lanes);
  auto* wide = llvm::FixedVectorType::get(builder.getInt32Ty(), lanes);
  auto* real = llvm::FixedVectorType::get(builder.getFloatTy(), lanes);
  Value* integers =
      builder.CreateSExt(builder.CreateAlignedLoad(bytes, place, llvm::Align(1)), wide);
  Value* numbers = builder.CreateSIToFP(integers, real);
  return zeros == nullptr ? numbers : builder.CreateFSub(numbers, zeros);
}

Value* emit_real_weights_of_4_bits(llvm::IRBuilder<>& builder, Value* step, std::int64_t depth,
                                   Value* zeros) {
  constexpr std::uint64_t bits = 4, top = 32 - bits;
  constexpr std::int64_t bytes = depths_of_4_bits / 2;
  const auto first = static_cast<std::uint64_t>(depth % bytes * 8 + (depth < bytes ? 0 : bits));
  auto* type = llvm::cast<llvm::FixedVectorType>(step->getType());
  auto* real = llvm::FixedVectorType::get(builder.getFloatTy(), type->getNumElements());
  Value* numbers = nullptr;
  constexpr unsigned table_entries = 1 << bits;
  if (type->getNumElements() == table_entries) {
    // A register is a table of all there are, which reads the lowest bits of an index.
    std::vector<float> table;
    for (int i = 0; i < static_cast<int>(table_entries); ++i)
      table.push_back(static_cast<float>(i < 8 ? i : i - 16));
    numbers = builder.CreateIntrinsic(llvm::Intrinsic::x86_avx512_permvar_sf_512, {},
                                      {llvm::ConstantDataVector::get(builder.getContext(), table),
                                       first == 0 ? step : builder.CreateLShr(step, first)});
  } else {
    Value* high = first == top ? step : builder.CreateShl(step, top - first);
    numbers = builder.CreateSIToFP(builder.CreateAShr(high, top), real);
  }
  return zeros == nullptr ? numbers : builder.CreateFSub(numbers, zeros);
}

Value* emit_bytes_of_4_bits(llvm::IRBuilder<>& builder, Value* step, bool first) {
  constexpr std::uint64_t low_halves = 0x0f0f0f0f, signs = 0x88888888;
  Value* offset = builder.CreateXor(step, signs);
  return builder.CreateAnd(first ? offset : builder.CreateLShr(offset, 4), low_halves);
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
          const std::int64_t depths = weight.in_4_bits ? depths_of_4_bits : 1;
          kernel.loop(block, depth, end, depths, [&](Scope& step, Value* k) {
            auto& b = kernel.at(step);
            Value* from =
                step_of(b, panel, weight.packed_steps, b.CreateUDiv(k, kernel.constant(depths)));
            Value* to = b.CreateMul(b.CreateAdd(b.CreateMul(number, unpack.depth), k),
                                    kernel.constant(unpack.panel));
            for (std::size_t i = 0; i < offsets.size(); ++i) {
              Value* place = kernel.element_pointer(
                  kernel.buffer(static_cast<std::size_t>(weight.buffer)),
                  weight.in_4_bits ? ir::DType::I32 : ir::DType::I8, b.CreateAdd(from, offsets[i]));
              const auto store = [&](std::int64_t within, Value* integers) {
                Value* offset = b.CreateAdd(to, kernel.constant(within * unpack.panel));
                b.CreateAlignedStore(b.CreateFMul(integers, factors[i]),
                                     kernel.element_pointer(unpack.to, ir::DType::F32,
                                                            b.CreateAdd(offset, offsets[i])),
                                     align);
              };
              if (!weight.in_4_bits) {
                store(0, emit_real_weights(b, place, lanes, zeros[i]));
                continue;
              }
              auto* whole = llvm::FixedVectorType::get(b.getInt32Ty(), lanes);
              Value* held = b.CreateAlignedLoad(whole, place, align);
              for (std::int64_t within = 0; within < depths; ++within)
                store(within, emit_real_weights_of_4_bits(b, held, within, zeros[i]));
            }
          });
        });
  });
}

}  // namespace anydim::codegen_cpu
