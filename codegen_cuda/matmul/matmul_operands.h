// How the operands of a matmul reach tensor cores.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/loops/loop_form.h"
#include "ir/module.h"

namespace anydim::codegen_cuda {

// Which direction of an operand lies contiguous, in memory and in its tiles: along the depth (k),
// or along its rows (m of the left operand, n of the right).
enum class Major : std::uint8_t { Depth, Rows };

// An operand that is copied as it lies: element (row, k) at offset + row + k * stride (Major::Rows)
// or offset + k + row * stride (Major::Depth).
struct DirectOperand {
  std::int32_t buffer = 0;  // position among the region's buffers
  ir::Dim offset;           // elements, over region and batch symbols
  ir::Dim stride;           // elements, over region symbols
};
// What lies at `offset`, where elements along `contiguous` lie side by side and those along `other`
// are a stride apart, both in pieces of so many elements; nullopt elsewhere.
std::optional<DirectOperand> direct_operand(const ir::Dim& offset, std::int32_t buffer,
                                            std::int64_t piece, const ir::Iteration& other,
                                            const ir::Iteration& contiguous,
                                            const ir::SymbolTable& symbols);

struct TensorOperand {
  ir::ScalarProgram program;   // its last step is the element, of the operands' dtype
  Major major = Major::Depth;  // of memory, where a load says so, and of the tiles
  // in pieces of 16 bytes; else the program computes every element
  std::optional<DirectOperand> direct;
};

// Both operands as floats of one dtype whose products are summed in f32.
struct TensorOperands {
  ir::DType dtype = ir::DType::BF16;  // or F16; F32 for TF32 tensor cores
  TensorOperand left, right;
  std::int64_t element_bytes() const { return dtype == ir::DType::F32 ? 4 : 2; }
  std::int64_t chunk() const { return 16 / element_bytes(); }  // elements in 16 bytes
};

// Operands that are f32 numbers, at least one of them of its own accord: what TF32 tensor cores
// round and multiply. nullopt elsewhere.
std::optional<TensorOperands> tf32_operands(const ir::Region& region, const ir::MatmulForm& form,
                                            const ir::SymbolTable& symbols);

// Both as 16-bit floats; nullopt where the products are of another dtype. A conversion of 16-bit
// elements to f32 is left out: their products in f32 are the same.
std::optional<TensorOperands> tensor_operands(const ir::Region& region, const ir::MatmulForm& form,
                                              const ir::SymbolTable& symbols);

// A direct operand as tensor memory access sees it: boxes of 64 elements of depth by some rows, or
// of 64 rows by 64 of depth (Major::Rows). Where coordinates of batch points come third and
// further, they are the values of these iterations.
struct TmaOperand {
  std::int32_t buffer = 0;
  Major major = Major::Depth;
  std::vector<ir::Dim> dims, strides;  // as ir::TensorMap has them
  std::vector<ir::DimLeaf> batch;      // iterations that the operand depends on
};
// nullopt where it can't be: the depth must be constant and not 0, strides constant (a map is made
// for the largest shape of a bucket and serves smaller ones, whose rows must lie where the largest
// one's do).
std::optional<TmaOperand> tma_operand(const TensorOperand& operand, const ir::MatmulForm& form,
                                      const ir::Iteration& row);

// The direction along which most threads beside each other should read.
Major operand_major(const ir::Region& region, const ir::ScalarProgram& program,
                    const ir::Iteration& row, const ir::Iteration& depth,
                    const ir::SymbolTable& symbols);

// Offset in elements of a load in its buffer.
ir::Dim load_offset(const ir::Region& region, const ir::ScalarStep& load,
                    const ir::SymbolTable& symbols);
// A load of an epilogue that differs from row to row (a residual), not from column to column alone
// (a bias).
bool is_load_by_row(const ir::MatmulForm& form, const ir::ScalarStep& step);
// The dim depends on a step's value or on tensor elements, not on symbols alone.
bool depends_on_values(const ir::Dim& dim);

}  // namespace anydim::codegen_cuda
