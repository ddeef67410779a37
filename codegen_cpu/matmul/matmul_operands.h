// How the operands of a matmul reach its micro-kernel, and the layout of packed weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "codegen_cpu/matmul/product.h"
#include "codegen_cpu/target.h"
#include "ir/backend.h"
#include "ir/loops/loop_form.h"

namespace anydim::codegen_cpu {

inline std::int64_t bytes_of(ir::DType dtype) {
  return static_cast<std::int64_t>(ir::size_of(dtype));
}

// An operand that is read where it lies: element (row, i) at offset + row * row_stride + i. Both
// are over region and batch symbols.
struct RowsInPlace {
  std::int32_t buffer = 0;
  ir::Dim offset, row_stride;
};

// A weight as it lies in the model: element (batch, k, n) at base + batch . batch_strides + k *
// depth_stride + n * column_stride. Packed, a batch point is columns / panel (rounded up) panels of
// packed_steps * panel steps, step by step, filled up with zeros. In 4 bits, a step is eight depths
// in 4 bytes: the lower halves of these are the first four.
inline constexpr std::int64_t depths_of_4_bits = 8;  // of a step in 4 bits
struct PackedWeight {
  std::int32_t buffer = 0;
  std::int64_t packed_steps = 0;
  bool in_4_bits = false;
  std::int64_t depth = 0, columns = 0, base = 0, depth_stride = 0, column_stride = 0;
  std::vector<ir::DimLeaf> batch;  // iterations that the weight depends on, gates among them
  std::vector<std::int64_t> batch_extents, batch_strides;
};

// Scales or zero points of a weight of i8: of column n and depth k at base + n * column_stride + k
// / block * block_stride. Packed, panels of a weight of f32 of `blocks` steps.
struct BlockScales {
  std::int32_t buffer = -1;
  std::optional<double> number{};      // all of them, which no parameter holds then
  std::int64_t block = 0, blocks = 0;  // depths of a block; their number
  std::int64_t base = 0, block_stride = 0, column_stride = 0;
};

struct MatmulOperands {
  Product product{};
  std::optional<RowsInPlace> left;  // else packed into scratch through the left program
  // packed so that a step's rows lie next to each other, as they are in memory
  bool left_panels = false;
  std::optional<PackedWeight> weight;  // else packed into scratch through the right program
  std::optional<BlockScales> scales;   // of the weight, where the product is scaled
  std::optional<BlockScales> zeros;    // its zero points, i8, for the same blocks; else they are 0
  // The scales or zeros that the parameter holds; null where it holds none.
  const BlockScales* of_blocks(std::size_t parameter) const;
};

// nullopt where the program is no single load of that form.
std::optional<RowsInPlace> rows_in_place(const ir::Region& region, const ir::ScalarProgram& program,
                                         ir::DType dtype, const ir::Iteration& row,
                                         const ir::Iteration& inner,
                                         const ir::SymbolTable& symbols);
// True where elements along `inner` lie next to each other and those along `row` do not: a load of
// the transposed operand, or a conversion of one.
bool lies_transposed(const ir::Region& region, const ir::ScalarProgram& program,
                     const ir::Iteration& row, const ir::Iteration& inner,
                     const ir::SymbolTable& symbols);
// True where every result's elements along `iteration` lie next to each other.
bool stores_along(const ir::Region& region, const ir::MatmulForm& form,
                  const ir::Iteration& iteration, const ir::SymbolTable& symbols);
// Parameters as ir::Backend::overwritable says: a residual that the epilogue adds.
std::vector<std::size_t> overwritable_parameters(const ir::Region& region,
                                                 const ir::MatmulForm& form,
                                                 const ir::SymbolTable& symbols);
// The form with rows and columns exchanged where that makes a weight on the left the right operand,
// which is packed once for all calls: a convolution's product, whose rows are channels. Results
// that lie along columns are then turned in registers, which pays where sums are long.
ir::MatmulForm with_weight_on_the_right(const Target& target, const ir::Region& region,
                                        ir::MatmulForm form, const ir::SymbolTable& symbols);
// The form may be widened or not yet.
MatmulOperands matmul_operands(const Target& target, const ir::Region& region,
                               const ir::MatmulForm& form, const ir::SymbolTable& symbols);

// What matmul_operands most likely says, told from the programs alone: for estimates, which are
// asked for by the hundred.
struct LikelyOperands {
  Product product{};
  bool left_in_place = false, left_panels = false, weight = false;
  bool in_4_bits = false;        // the weight
  bool turned_results = false;   // that lie next to each other along rows
  std::int64_t left_stride = 0;  // bytes between rows that are read in place; 0: not known
};
LikelyOperands likely_operands(const Target& target, const ir::Region& region,
                               const ir::MatmulForm& form);

// The scales or zero points of a weight of so many columns, as a weight whose depth is blocks.
PackedWeight weight_of(const BlockScales& scales, std::int64_t columns);
ir::PackedLayout packed_layout(const PackedWeight& weight, const Product& product);
// `weight` brought to `layout`, elements converted to the right operand's, or `in_4_bits`, which
// throws Error{Malformed} where one has no room there.
ir::Tensor pack_weight(const ir::PackedLayout& layout, const Product& product,
                       const ir::Tensor& weight, const ir::Backend::Allocate& allocate,
                       bool in_4_bits = false);

}  // namespace anydim::codegen_cpu
