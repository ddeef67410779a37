#include "codegen_cpu/matmul/round_rows.h"

#include "codegen_cpu/scalars/index_emitter.h"
#include "codegen_cpu/scalars/scalar_emitter.h"
#include "codegen_cpu/vector_loop.h"
#include "ir/loops/scalar_program.h"

namespace anydim::codegen_cpu {

namespace {

constexpr double largest_integer = 127;

class BlockRounder {
 public:
  BlockRounder(KernelBuilder& kernel, const RoundRows& round)
      : kernel_(kernel), round_(round), lanes_(kernel.target().lanes(sizeof(float))),
        real_(kernel.here().getFloatTy()), reals_(vector_of(real_)),
        integers_(vector_of(kernel.here().getInt32Ty())),
        largest_(kernel.variable(integers_, "largest")), sums_(kernel.variable(integers_, "sums")) {
  }

  // `first`: of the block's elements in the row; `place`: where its head goes.
  void run(Scope& block, Value* first, Value* place) {
    keep_elements(block, first);
    auto& b = kernel_.at(block);
    Value* most = b.CreateBitCast(b.CreateIntMaxReduce(b.CreateLoad(integers_, largest_)), real_);
    Value* range = llvm::ConstantFP::get(real_, largest_integer);
    Value* inverse = b.CreateSelect(b.CreateFCmpOGT(most, llvm::ConstantFP::get(real_, 0)),
                                    b.CreateFDiv(range, most), llvm::ConstantFP::get(real_, 0));
    Value* integers = b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), place, rounded_block_head);
    round_elements(block, inverse, integers);
    auto& after = kernel_.at(block);
    Value* scale = after.CreateFDiv(most, range);
    Value* sum =
        after.CreateSIToFP(after.CreateAddReduce(after.CreateLoad(integers_, sums_)), real_);
    const llvm::Align align(sizeof(float));
    after.CreateAlignedStore(scale, place, align);
    after.CreateAlignedStore(after.CreateFMul(scale, sum),
                             after.CreateConstInBoundsGEP1_64(real_, place, 1), align);
  }

 private:
  llvm::FixedVectorType* vector_of(llvm::Type* element) const {
    return llvm::FixedVectorType::get(element, static_cast<unsigned>(lanes_));
  }
  llvm::Align vector_align() const {
    return llvm::Align(static_cast<std::uint64_t>(kernel_.target().vector_bytes()));
  }
  VectorLoop elements(Value* first) const {
    return {.variable = round_.inner.variable,
            .first = first,
            .count = kernel_.constant(round_.block),
            .width = lanes_,
            .may_end_early = false};
  }
  Value* kept(Value* position) {
    return kernel_.element_pointer(round_.memory, ir::DType::F32, position);
  }

  // Computes the block's elements, and the largest of their magnitudes by their bits, among which
  // those of what is no number are the largest.
  void keep_elements(Scope& block, Value* first) {
    kernel_.at(block).CreateStore(llvm::Constant::getNullValue(integers_), largest_);
    for_vectors(kernel_, block, elements(first), [&](Scope& vectors, Value* position) {
      const std::int32_t last = ir::last_step(round_.program);
      ProgramEmitter program(kernel_, round_.program, vectors, {last});
      Value* x = kernel_.splat(program.value(vectors, last), static_cast<unsigned>(lanes_));
      auto& b = kernel_.at(vectors);
      b.CreateAlignedStore(x, kept(position), vector_align());
      constexpr std::uint64_t magnitude = 0x7fffffff;
      Value* bits = b.CreateAnd(b.CreateBitCast(x, integers_), magnitude);
      b.CreateStore(
          b.CreateBinaryIntrinsic(llvm::Intrinsic::umax, bits, b.CreateLoad(integers_, largest_)),
          largest_);
    });
  }

  void round_elements(Scope& block, Value* inverse, Value* integers) {
    kernel_.at(block).CreateStore(llvm::Constant::getNullValue(integers_), sums_);
    kernel_.loop(
        block, kernel_.constant(0), kernel_.constant(round_.block), lanes_,
        [&](Scope& vectors, Value* position) {
          auto& b = kernel_.at(vectors);
          Value* x = b.CreateAlignedLoad(reals_, kept(position), vector_align());
          Value* scaled =
              b.CreateFMul(x, b.CreateVectorSplat(static_cast<unsigned>(lanes_), inverse));
          Value* whole = b.CreateUnaryIntrinsic(llvm::Intrinsic::roundeven, scaled);
          auto* bytes = vector_of(b.getInt8Ty());
          Value* rounded = b.CreateIntrinsic(llvm::Intrinsic::fptosi_sat, {bytes, reals_}, {whole});
          b.CreateAlignedStore(rounded, b.CreateInBoundsGEP(b.getInt8Ty(), integers, position),
                               llvm::Align(1));
          b.CreateStore(
              b.CreateAdd(b.CreateLoad(integers_, sums_), b.CreateSExt(rounded, integers_)), sums_);
        });
  }

  KernelBuilder& kernel_;
  const RoundRows& round_;
  std::int64_t lanes_;
  llvm::Type* real_;
  llvm::FixedVectorType *reals_, *integers_;
  llvm::AllocaInst *largest_, *sums_;  // by lanes, of the block so far
};

}  // namespace

void emit_round_rows(KernelBuilder& kernel, Scope& scope, const RoundRows& round) {
  BlockRounder rounder(kernel, round);
  Value* depth = emit_index(kernel, kernel.root(), round.inner.extent);
  Value* stride = emit_index(kernel, kernel.root(), round.row_stride);
  kernel.loop(scope, kernel.constant(0), round.rows, 1, [&](Scope& row, Value* r) {
    auto& builder = kernel.at(row);
    row.define(round.row, builder.CreateAdd(round.first_row, r));
    Value* base =
        builder.CreateInBoundsGEP(builder.getInt8Ty(), round.to, builder.CreateMul(r, stride));
    kernel.for_range(row, kernel.constant(0), depth, round.block, [&](Scope& block, Value* first) {
      auto& b = kernel.at(block);
      Value* number = b.CreateUDiv(first, kernel.constant(round.block));
      Value* offset = b.CreateMul(number, kernel.constant(round.block + rounded_block_head));
      rounder.run(block, first, b.CreateInBoundsGEP(b.getInt8Ty(), base, offset));
    });
  });
}

}  // namespace anydim::codegen_cpu
