// Micro-kernels on tile registers (AMX): the same product as codegen_cpu/matmul/micro_kernel.h of
// bf16 pairs or of bytes, for blocks of up to two tiles of rows.
//
// A tile register holds 16 rows of 64 bytes: 16 sums of a result, or 32 bf16 or 64 bytes of an
// operand. Panels have 16 columns, so that a tile of the right operand is 16 steps of a panel; the
// left operand is read in place. The depth is a whole number of such tiles. Instructions name tile
// registers by number, which LLVM's forms with immediate numbers allow; nothing else of the kernel
// may use them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codegen_cpu/kernel_builder.h"
#include "codegen_cpu/matmul/matmul_schedule.h"
#include "codegen_cpu/matmul/product.h"
#include "codegen_cpu/scratch_layout.h"
#include "codegen_cpu/target.h"
#include "codegen_cpu/task_split.h"

namespace anydim::codegen_cpu {

struct TileKernel {
  Product product{};
  // of the results in memory, elements; 0: as many as there are columns
  std::int64_t tile_stride = 0;
  // Constants where known; they override the arguments.
  std::optional<std::int64_t> left_stride, panel_stride, steps;
};

// A function like emit_multiply's: void(variant, rows, left, left_stride, right, panel_stride,
// right_stride, steps, tile, ahead, ahead_step), where `variant` is a position in `widths`
// (columns, multiples of 16). Up to 16 rows are one tile of rows, which must have as many as the
// tile registers are set to; up to 32 are two, the second ending with the last row: they overlap
// where there are fewer than 32. `right_stride` is 16; `ahead` is not used.
llvm::Function* emit_tile_multiply(llvm::Module& module, const Target& target,
                                   const std::string& name, const TileKernel& kernel,
                                   const std::vector<std::int64_t>& widths, bool two_tiles);

// The registers' settings in a kernel: none until they are set.
class TileRegisters {
 public:
  TileRegisters(KernelBuilder& kernel, ScratchLayout& scratch);

  // For blocks of `rows` rows (i64, at least 1): results and left operands have so many, at most
  // 16, right operands 16. Does nothing where the kernel set the same last.
  void set(Scope& scope, llvm::Value* rows);
  // At the kernel's end, where they were set.
  void release(Scope& scope);

 private:
  KernelBuilder& kernel_;
  llvm::Value* settings_;   // 64 bytes
  llvm::AllocaInst* rows_;  // that are set; 0: none
};

// Runs body over [0, total), total at least 1, in blocks of at most `most` rows, a multiple of 16.
// Every block fills its tiles: a last one with fewer than 16 rows begins earlier, where there are
// any, and its first `done` rows belong to the block before.
void for_tile_blocks(KernelBuilder& kernel, Scope& scope, llvm::Value* total, std::int64_t most,
                     const BlockBody& body);

}  // namespace anydim::codegen_cpu
