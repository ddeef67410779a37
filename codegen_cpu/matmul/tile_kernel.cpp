#include "codegen_cpu/matmul/tile_kernel.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>

#include "codegen_cpu/matmul/multiply_variants.h"
#include "ir/error.h"

namespace anydim::codegen_cpu {

namespace {

constexpr std::int64_t row_bytes = 64, panel = 16, step_bytes = 4, setting_bytes = 64;
// Registers 0 to 3 hold results, row by row, 4 and 5 left operands, 6 and 7 right ones in turn, in
// every micro-kernel, so that settings suit all of them.
constexpr std::int64_t tile_registers = 8, most_results = 4, first_left = 4, first_right = 6;

struct Registers {
  std::int64_t rows, columns;  // in tiles
  std::int64_t result(std::int64_t row, std::int64_t column) const {
    return row * columns + column;
  }
  std::int64_t left(std::int64_t row) const { return first_left + row; }
  std::int64_t right(std::int64_t column) const {
    return first_right + column % (tile_registers - first_right);
  }
};

class Emitter {
 public:
  Emitter(llvm::Module& module, const Target& target, const std::string& name,
          const TileKernel& kernel, Registers tiles)
      : kernel_(kernel), tiles_(tiles), builder_(module.getContext()) {
    auto* pointer = builder_.getPtrTy();
    auto* i64 = builder_.getInt64Ty();
    auto* type = llvm::FunctionType::get(builder_.getVoidTy(),
                                         {i64, pointer, i64, pointer, i64, i64, pointer}, false);
    function_ = llvm::Function::Create(type, llvm::Function::InternalLinkage, name, module);
    function_->addFnAttr(llvm::Attribute::NoInline);
    set_function_attributes(*function_, target);
  }

  llvm::Function* run() {
    auto* entry = block("entry");
    auto* body = block("body");
    auto* after = block("after");
    builder_.SetInsertPoint(entry);
    for (std::int64_t row = 0; row < tiles_.rows; ++row)
      for (std::int64_t column = 0; column < tiles_.columns; ++column)
        call(llvm::Intrinsic::x86_tilezero, {number(tiles_.result(row, column))});
    Value* steps = known(kernel_.steps, 5);
    Value* left_bytes = builder_.CreateMul(known(kernel_.left_stride, 2),
                                           builder_.getInt64(ir::size_of(kernel_.product.left)));
    Value* panel_bytes =
        builder_.CreateMul(known(kernel_.panel_stride, 4), builder_.getInt64(sizeof(float)));
    // Where the last tile of rows lies, from the first row.
    Value* last_row = builder_.CreateSub(function_->getArg(0), builder_.getInt64(tile_rows));
    Value* none = builder_.getInt64(0);
    builder_.CreateCondBr(builder_.CreateICmpSGT(steps, none), body, after);

    builder_.SetInsertPoint(body);
    auto* step = builder_.CreatePHI(builder_.getInt64Ty(), 2, "step");
    step->addIncoming(none, entry);
    // 16 steps are one tile of either operand, 64 bytes of a row of the left one and 64 bytes a
    // step of the right one.
    Value* along_left = builder_.CreateMul(step, builder_.getInt64(step_bytes));
    for (std::int64_t row = 0; row < tiles_.rows; ++row) {
      Value* offset =
          row == 0 ? along_left
                   : builder_.CreateAdd(along_left, builder_.CreateMul(last_row, left_bytes));
      call(llvm::Intrinsic::x86_tileloadd64,
           {number(tiles_.left(row)), bytes(function_->getArg(1), offset), left_bytes});
    }
    const llvm::Intrinsic::ID multiply = kernel_.product.right == ir::DType::BF16
                                             ? llvm::Intrinsic::x86_tdpbf16ps
                                             : llvm::Intrinsic::x86_tdpbusd;
    Value* along_right = builder_.CreateMul(step, builder_.getInt64(row_bytes));
    for (std::int64_t column = 0; column < tiles_.columns; ++column) {
      Value* offset = builder_.CreateAdd(
          along_right,
          builder_.CreateMul(panel_bytes, builder_.getInt64(static_cast<std::uint64_t>(column))));
      call(llvm::Intrinsic::x86_tileloadd64,
           {number(tiles_.right(column)), bytes(function_->getArg(3), offset),
            builder_.getInt64(row_bytes)});
      for (std::int64_t row = 0; row < tiles_.rows; ++row)
        call(multiply, {number(tiles_.result(row, column)), number(tiles_.left(row)),
                        number(tiles_.right(column))});
    }
    Value* next = builder_.CreateAdd(step, builder_.getInt64(tile_steps));
    step->addIncoming(next, body);
    builder_.CreateCondBr(builder_.CreateICmpSLT(next, steps), body, after);

    builder_.SetInsertPoint(after);
    const std::int64_t stride =
        (kernel_.tile_stride == 0 ? tiles_.columns * panel : kernel_.tile_stride) *
        std::int64_t{sizeof(float)};
    Value* stride_bytes = builder_.getInt64(static_cast<std::uint64_t>(stride));
    for (std::int64_t row = 0; row < tiles_.rows; ++row) {
      Value* rows = row == 0 ? none : builder_.CreateMul(last_row, stride_bytes);
      for (std::int64_t column = 0; column < tiles_.columns; ++column) {
        Value* offset = builder_.CreateAdd(
            rows, builder_.getInt64(static_cast<std::uint64_t>(column * row_bytes)));
        call(llvm::Intrinsic::x86_tilestored64,
             {number(tiles_.result(row, column)), bytes(function_->getArg(6), offset),
              stride_bytes});
      }
    }
    builder_.CreateRetVoid();
    return function_;
  }

 private:
  llvm::BasicBlock* block(const char* name) {
    return llvm::BasicBlock::Create(function_->getContext(), name, function_);
  }
  Value* known(const std::optional<std::int64_t>& constant, unsigned argument) {
    if (constant) return builder_.getInt64(static_cast<std::uint64_t>(*constant));
    return function_->getArg(argument);
  }
  Value* number(std::int64_t tile) { return builder_.getInt8(static_cast<std::uint8_t>(tile)); }
  Value* bytes(Value* base, Value* offset) {
    return builder_.CreateGEP(builder_.getInt8Ty(), base, offset);
  }
  void call(llvm::Intrinsic::ID intrinsic, const std::vector<Value*>& arguments) {
    builder_.CreateIntrinsic(intrinsic, {}, arguments);
  }

  const TileKernel& kernel_;
  const Registers tiles_;
  llvm::IRBuilder<> builder_;
  llvm::Function* function_;
};

}  // namespace

llvm::Function* emit_tile_multiply(llvm::Module& module, const Target& target,
                                   const std::string& name, const TileKernel& kernel,
                                   const std::vector<std::int64_t>& widths, bool two_tiles) {
  MultiplyVariants variants(module, target, name);
  auto& builder = variants.builder();
  llvm::Function* function = variants.function();
  Value* rows = function->getArg(1);
  Value* choice = builder.CreateMul(function->getArg(0), builder.getInt64(2));
  if (two_tiles)
    choice = builder.CreateAdd(
        choice, builder.CreateZExt(builder.CreateICmpUGT(rows, builder.getInt64(tile_rows)),
                                   builder.getInt64Ty()));
  variants.choose(choice, 2 * widths.size());
  const std::vector<Value*> arguments{rows,
                                      function->getArg(2),
                                      function->getArg(3),
                                      function->getArg(4),
                                      function->getArg(5),
                                      function->getArg(7),
                                      function->getArg(8)};
  for (std::size_t variant = 0; variant < widths.size(); ++variant) {
    for (std::int64_t tiles = 1; tiles <= (two_tiles ? 2 : 1); ++tiles) {
      const Registers registers{.rows = tiles, .columns = widths[variant] / panel};
      internal_check(registers.rows * registers.columns <= most_results,
                     "a micro-kernel's results fill at most four tile registers");
      llvm::Function* kernel_function =
          Emitter(module, target,
                  name + "_" + std::to_string(tiles) + "x" + std::to_string(registers.columns),
                  kernel, registers)
              .run();
      variants.add(2 * variant + static_cast<std::uint64_t>(tiles - 1), kernel_function, arguments);
    }
  }
  return function;
}

TileRegisters::TileRegisters(KernelBuilder& kernel, ScratchLayout& scratch)
    : kernel_(kernel), settings_(scratch.reserve(kernel, setting_bytes)),
      rows_(kernel.variable(kernel.here().getInt64Ty(), "tiles_set")) {
  kernel.at(kernel.root()).CreateStore(kernel.constant(0), rows_);
}

void TileRegisters::set(Scope& scope, Value* rows) {
  auto& builder = kernel_.at(scope);
  Value* wanted =
      builder.CreateBinaryIntrinsic(llvm::Intrinsic::umin, rows, kernel_.constant(tile_rows));
  Value* fresh = builder.CreateICmpNE(builder.CreateLoad(builder.getInt64Ty(), rows_), wanted);
  kernel_.guarded(scope, fresh, [&](Scope& inner) {
    auto& at = kernel_.at(inner);
    at.CreateStore(wanted, rows_);
    // Palette 1; bytes a row as 16-bit numbers from byte 16, rows as bytes from byte 48; everything
    // else 0.
    const auto store = [&](std::int64_t offset, Value* value) {
      Value* place = at.CreateConstInBoundsGEP1_64(at.getInt8Ty(), settings_,
                                                   static_cast<std::uint64_t>(offset));
      at.CreateAlignedStore(value, place, llvm::Align(1));
    };
    for (std::int64_t offset = 0; offset < setting_bytes; offset += 8)
      store(offset, at.getInt64(0));
    store(0, at.getInt8(1));
    Value* narrow = at.CreateTrunc(wanted, at.getInt8Ty());
    for (std::int64_t tile = 0; tile < tile_registers; ++tile) {
      store(16 + 2 * tile, at.getInt16(row_bytes));
      store(48 + tile, tile < first_right ? narrow : at.getInt8(tile_steps));
    }
    at.CreateIntrinsic(llvm::Intrinsic::x86_ldtilecfg, {}, {settings_});
  });
}

void TileRegisters::release(Scope& scope) {
  auto& builder = kernel_.at(scope);
  Value* used =
      builder.CreateICmpNE(builder.CreateLoad(builder.getInt64Ty(), rows_), kernel_.constant(0));
  kernel_.guarded(scope, used, [&](Scope& inner) {
    kernel_.at(inner).CreateIntrinsic(llvm::Intrinsic::x86_tilerelease, {}, {});
  });
}

void for_tile_blocks(KernelBuilder& kernel, Scope& scope, Value* total, std::int64_t most,
                     const BlockBody& body) {
  auto& builder = kernel.at(scope);
  Value* size = kernel.constant(most);
  Value* blocks = builder.CreateUDiv(builder.CreateAdd(total, kernel.constant(most - 1)), size);
  Value* latest =
      builder.CreateBinaryIntrinsic(llvm::Intrinsic::usub_sat, total, kernel.constant(tile_rows));
  kernel.loop(scope, kernel.constant(0), blocks, 1, [&](Scope& block, Value* position) {
    auto& inner = kernel.at(block);
    Value* start = inner.CreateMul(position, size);
    Value* first = inner.CreateBinaryIntrinsic(llvm::Intrinsic::umin, start, latest);
    Value* count =
        inner.CreateBinaryIntrinsic(llvm::Intrinsic::umin, size, inner.CreateSub(total, first));
    body(block, {.first = first,
                 .count = count,
                 .number = position,
                 .done = inner.CreateSub(start, first)});
  });
}

}  // namespace anydim::codegen_cpu
