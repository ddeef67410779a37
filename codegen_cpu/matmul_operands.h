// How the operands of a matmul reach its micro-kernel, and the layout of packed weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/backend.h"
#include "ir/loop_form.h"

namespace anydim::codegen_cpu {

// An operand that is read where it lies: element (row, i) at offset + row * row_stride + i. Both are over region and batch symbols.
struct RowsInPlace {
  std::int32_t buffer = 0;
  ir::Dim offset, row_stride;
};

// A weight as it lies in the model: element (batch, k, n) at base + batch . batch_strides + k * depth_stride + n * column_stride.
// Packed, a batch point is columns / panel (rounded up) panels of depth * panel elements, k by k, the last filled up with zeros.
struct PackedWeight {
  std::int32_t buffer = 0;
  std::int64_t depth = 0, columns = 0, base = 0, depth_stride = 0, column_stride = 0;
  std::vector<std::string> batch;  // iterations that the weight depends on
  std::vector<std::int64_t> batch_extents, batch_strides;
};

struct MatmulOperands {
  std::optional<RowsInPlace> left;     // else packed into scratch through the left program
  std::optional<PackedWeight> weight;  // else packed into scratch through the right program
};

// nullopt where the program is no single load of that form.
std::optional<RowsInPlace> rows_in_place(const ir::Region& region, const ir::ScalarProgram& program, ir::DType dtype,
                                         const ir::Iteration& row, const ir::Iteration& inner, const ir::SymbolTable& symbols);
// True where elements along `inner` lie next to each other and those along `row` do not: a load of the transposed operand, or a conversion of one.
bool lies_transposed(const ir::Region& region, const ir::ScalarProgram& program, const ir::Iteration& row, const ir::Iteration& inner,
                     const ir::SymbolTable& symbols);
// Of a widened form or one that is not yet.
MatmulOperands matmul_operands(const ir::Region& region, const ir::MatmulForm& form, const ir::SymbolTable& symbols);

// The dtype that products are computed in: f16 and bf16 widen to f32, which is what their registers hold.
ir::DType compute_dtype(ir::DType accumulate);
// The program with a conversion to `dtype` at its end, where it needs one.
ir::ScalarProgram with_dtype(const ir::ScalarProgram& program, ir::DType dtype);
// The form with operands and accumulator of its compute dtype.
ir::MatmulForm widened(const ir::MatmulForm& form);

// What matmul_operands most likely says, told from the programs alone: for estimates, which are asked for by the hundred.
struct LikelyOperands {
  bool left_in_place = false, weight = false;
};
LikelyOperands likely_operands(const ir::Region& region, const ir::MatmulForm& form);

// Elements of one panel: a cache line of `dtype`.
std::int64_t panel_columns(ir::DType dtype);
ir::PackedLayout packed_layout(const PackedWeight& weight, ir::DType accumulate);
// `weight` brought to `layout`, elements converted to the accumulator's dtype.
ir::Tensor pack_weight(const ir::PackedLayout& layout, ir::DType accumulate, const ir::Tensor& weight);

}  // namespace anydim::codegen_cpu
