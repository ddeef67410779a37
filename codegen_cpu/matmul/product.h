// What the elements of a product are multiplied as, on a processor.
//
// A micro-kernel advances through the depth in steps. A step is one element of each operand, or
// several where operands are narrower than sums: two bf16, two 16-bit integers, four bytes. In a
// row of the left operand they lie beside each other anyway, and panels of the right one are packed
// so, which is the layout of the processors' dot products.
#pragma once

#include <cstdint>

#include "codegen_cpu/target.h"
#include "ir/loops/loop_form.h"

namespace anydim::codegen_cpu {

struct Product {
  ir::DType left{}, right{};  // operands in memory
  ir::DType sum{};            // accumulators

  static Product of(ir::DType dtype) { return {dtype, dtype, dtype}; }
  std::int64_t depths() const;  // of a step
  // Whether elements of the right operand are made real as they are multiplied: i8 beside f32, a
  // step of one depth, the scales apart.
  bool scaled() const { return left == ir::DType::F32 && right == ir::DType::I8; }
  // Whether blocks of both operands are bytes with scales (MatmulForm::left_block): i8 by u8, which
  // are the weight's i8 and an offset, to sums of f32.
  bool rounded() const {
    return left == ir::DType::I8 && right == ir::DType::U8 && sum == ir::DType::F32;
  }
  // Whether sums are of blocks first, which have scales.
  bool sums_blocks() const { return scaled() || rounded(); }
  std::int64_t step_bytes() const {
    return depths() * static_cast<std::int64_t>(ir::size_of(right));
  }  // of a column
  // On tile registers.
  bool in_tiles(const Target& target) const {
    return target.amx && depths() != 1 && right != ir::DType::I16 && !rounded();
  }
  bool operator==(const Product&) const = default;
};

// How operands are multiplied in `compute`, a compute dtype, which their programs end in or will be
// converted to. Narrower elements that they convert to it are multiplied as they are where
// the results are the same: bf16 by bf16 to f32; bytes to i32, as u8 by i8 (in vector
// registers i8 by u8 too) where the processor multiplies these, else as 16-bit integers.
Product product_of(const Target& target, ir::DType compute, const ir::ScalarProgram& left,
                   const ir::ScalarProgram& right);
// The program's last step, or the step that it converts last, whichever has `dtype`, an operand's
// of product_of; else its last step.
const ir::ScalarStep& element_of(const ir::ScalarProgram& program, ir::DType dtype);
// The program up to its element of `dtype`, an operand's of product_of, which was given the same
// program.
ir::ScalarProgram in_product_dtype(const ir::ScalarProgram& program, ir::DType dtype);

// Steps in `depth`.
ir::Dim steps_of(const Product& product, const ir::Dim& depth);
// Steps that a panel of `depth` has room for on `target`: those beyond the depth are zeros.
ir::Dim packed_steps(const Target& target, const Product& product, const ir::Dim& depth);
// Columns of one panel: a cache line of steps.
std::int64_t panel_columns(const Product& product);

// The dtype that products are computed in: f16 and bf16 widen to f32, which is what their registers
// hold.
ir::DType compute_dtype(ir::DType accumulate);
// The product of a left operand that is rounded to bytes with a weight of i8 and scales.
inline constexpr Product rounded_product{ir::DType::I8, ir::DType::U8, ir::DType::F32};
// What is added to a weight of bytes in rounded_product, and to one of 4 bits.
inline constexpr std::int64_t offset_of_bytes = 128, offset_of_4_bits = 8;
// The program with a conversion to `dtype` at its end, where it needs one.
ir::ScalarProgram with_dtype(const ir::ScalarProgram& program, ir::DType dtype);
// The program without a rounding of its numbers to 16 bits at its end, where it has one.
ir::ScalarProgram unrounded(const ir::ScalarProgram& program);
// The form with operands and accumulator of its compute dtype.
ir::MatmulForm widened(const ir::MatmulForm& form);

// The product of attention, whose programs end in their compute dtype or will: it is of bf16 where
// the processor multiplies pairs of it, as all of q, k and v then are.
Product attention_product(const Target& target, const ir::AttentionForm& form);

}  // namespace anydim::codegen_cpu
