// How the operands of a matmul reach its micro-kernel, and the layout of packed weights.
//
// A micro-kernel advances through the depth in steps. A step is one element of each operand in their compute dtype, or two where both operands are bf16:
// in a row of the left operand they lie beside each other anyway, and panels of the right one are packed so (the layout of the processors' dot products).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codegen_cpu/target.h"
#include "ir/backend.h"
#include "ir/loop_form.h"

namespace anydim::codegen_cpu {

// An operand that is read where it lies: element (row, i) at offset + row * row_stride + i. Both are over region and batch symbols.
struct RowsInPlace {
  std::int32_t buffer = 0;
  ir::Dim offset, row_stride;
};

// A weight as it lies in the model: element (batch, k, n) at base + batch . batch_strides + k * depth_stride + n * column_stride.
// Packed, a batch point is columns / panel (rounded up) panels of packed_steps * panel steps, step by step, filled up with zeros.
struct PackedWeight {
  std::int32_t buffer = 0;
  std::int64_t packed_steps = 0;
  std::int64_t depth = 0, columns = 0, base = 0, depth_stride = 0, column_stride = 0;
  std::vector<ir::DimLeaf> batch;  // iterations that the weight depends on
  std::vector<std::int64_t> batch_extents, batch_strides;
};

// The dtype that both operands of a product are read in: bf16 where both are conversions of bf16 to the f32 they are multiplied in, as their products are
// the same; else their compute dtype. `left` and `right` end in that one.
ir::DType product_dtype(const ir::ScalarProgram& left, const ir::ScalarProgram& right);
// The program up to its element of product_dtype.
ir::ScalarProgram in_product_dtype(const ir::ScalarProgram& program, ir::DType product);
// Depths in a step, and steps in `depth`.
std::int64_t depths_of_step(ir::DType product);
ir::Dim steps_of(ir::DType product, const ir::Dim& depth);
// Steps that a panel of `depth` has room for on `target`: those beyond the depth are zeros.
ir::Dim packed_steps(const Target& target, ir::DType product, const ir::Dim& depth);

struct MatmulOperands {
  ir::DType product{};
  std::optional<RowsInPlace> left;     // else packed into scratch through the left program
  bool left_panels = false;            // packed so that a step's rows lie next to each other, as they are in memory
  std::optional<PackedWeight> weight;  // else packed into scratch through the right program
};

// nullopt where the program is no single load of that form.
std::optional<RowsInPlace> rows_in_place(const ir::Region& region, const ir::ScalarProgram& program, ir::DType dtype,
                                         const ir::Iteration& row, const ir::Iteration& inner, const ir::SymbolTable& symbols);
// True where elements along `inner` lie next to each other and those along `row` do not: a load of the transposed operand, or a conversion of one.
bool lies_transposed(const ir::Region& region, const ir::ScalarProgram& program, const ir::Iteration& row, const ir::Iteration& inner,
                     const ir::SymbolTable& symbols);
// True where every result's elements along `iteration` lie next to each other.
bool stores_along(const ir::Region& region, const ir::MatmulForm& form, const ir::Iteration& iteration, const ir::SymbolTable& symbols);
// The form with rows and columns exchanged where that makes a weight on the left the right operand, which is packed once for all calls: a convolution's
// product, whose rows are channels. Results are then turned in registers, which pays where sums are long.
ir::MatmulForm with_weight_on_the_right(const Target& target, const ir::Region& region, ir::MatmulForm form,
                                        const ir::SymbolTable& symbols);
// Of a widened form or one that is not yet.
MatmulOperands matmul_operands(const Target& target, const ir::Region& region, const ir::MatmulForm& form, const ir::SymbolTable& symbols);

// The dtype that products are computed in: f16 and bf16 widen to f32, which is what their registers hold.
ir::DType compute_dtype(ir::DType accumulate);
// The program with a conversion to `dtype` at its end, where it needs one.
ir::ScalarProgram with_dtype(const ir::ScalarProgram& program, ir::DType dtype);
// The form with operands and accumulator of its compute dtype.
ir::MatmulForm widened(const ir::MatmulForm& form);

// The same of attention, whose programs end in their compute dtype or will: bf16 where the processor multiplies pairs of it, as all of q, k and v then are.
ir::DType attention_product_dtype(const Target& target, const ir::AttentionForm& form);

// What matmul_operands most likely says, told from the programs alone: for estimates, which are asked for by the hundred.
struct LikelyOperands {
  ir::DType product{};
  bool left_in_place = false, left_panels = false, weight = false;
  bool turned_results = false;   // that lie next to each other along rows
  std::int64_t left_stride = 0;  // bytes between rows that are read in place; 0: not known
};
LikelyOperands likely_operands(const ir::Region& region, const ir::MatmulForm& form);

// Columns of one panel: a cache line of steps.
std::int64_t panel_columns(ir::DType product);
ir::PackedLayout packed_layout(const PackedWeight& weight, ir::DType product);
// `weight` brought to `layout`, elements converted to `product`.
ir::Tensor pack_weight(const ir::PackedLayout& layout, ir::DType product, const ir::Tensor& weight);

}  // namespace anydim::codegen_cpu
