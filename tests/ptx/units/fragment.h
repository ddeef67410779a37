// Which element of a matrix each lane holds in the registers of mma.sync and wgmma, and the
// arithmetic of both. Source of the layouts: PTX ISA (mma and wgmma fragments); restated in
// docs/cuda.md and compared with it in tests.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace anydim::ptx {

struct Coordinates {
  int row = 0;
  int column = 0;
  friend bool operator==(const Coordinates&, const Coordinates&) = default;
};

enum class ElementFormat { F16, BF16, TF32, S8, U8 };
int element_bits(ElementFormat format);

// The element's value, exact. TF32 takes a 32-bit pattern and ignores its low 13 bits, as the
// tensor core does.
double element_value(ElementFormat format, std::uint32_t bits);

// Operand A (16 x k, row-major) and B (k x 8, column-major) of mma.sync: the element of 32-bit
// register `reg`, part `part` counted from the low end. For B `row` is the k index. Holds for every
// m16n8 shape whose k spans 128, 256 bits a row (k8 and k16 of 16-bit types, k4 and k8 of tf32, k16
// and k32 of bytes). wgmma's A from registers is the same with `lane` replaced by the warp's lane
// and rows shifted by 16 x warp.
Coordinates operand_a_element(ElementFormat format, int lane, int reg, int part);
Coordinates operand_b_element(ElementFormat format, int lane, int reg, int part);

// Accumulators of mma.sync (n = 8: index 0..3) and of wgmma (index 0..n/2-1, `thread` of the
// warpgroup): row and column of element `index` of a thread. For mma.sync thread is the lane.
Coordinates accumulator_element(int thread, int index);

// One dense tile product as the tensor cores of an H200 sum it, bit by bit
// (bench/results/primitives, recorded there, which tests/scripts/campaign_ladder_test.py demands of
// the interpreter): for every element, the products of all k, which are exact, and the addend are
// aligned with the one whose exponent is the largest (of a product that of its factors together),
// cut off 25 bits behind the point, added, and the sum is rounded towards zero to f32. Other parts
// may keep other bits, so that a kernel's results may be compared bit by bit only where its sums
// are exact. Recorded were k = 16 of bf16, without addends; the rest is taken to be alike.
// a: rows x k, b: k x columns, accumulators: rows x columns, all row-major values.
void multiply_accumulate(std::span<const double> a, std::span<const double> b,
                         std::span<float> accumulators, int rows, int columns, int k);

// The same on integers: sums wrap at 32 bits, or are clamped to the range when `saturate` is given.
void multiply_accumulate(std::span<const double> a, std::span<const double> b,
                         std::span<std::int32_t> accumulators, int rows, int columns, int k,
                         bool saturate);

// Registers of one warp for mma.sync: [lane][register], flattened; `count` registers a lane.
struct WarpRegisters {
  int count = 0;
  std::vector<std::uint32_t> values;  // 32 * count
  explicit WarpRegisters(int registers) : count(registers), values(std::size_t(32) * registers) {}
  std::uint32_t& at(int lane, int reg) { return values[std::size_t(lane) * count + reg]; }
  std::uint32_t at(int lane, int reg) const { return values[std::size_t(lane) * count + reg]; }
};

enum class AccumulatorFormat { F32, F16, S32 };

struct MmaShape {
  int k = 0;
  ElementFormat a = ElementFormat::F16;
  ElementFormat b = ElementFormat::F16;
  AccumulatorFormat accumulator = AccumulatorFormat::F32;
  bool saturate = false;  // .satfinite of integer forms
};

int operand_a_registers(const MmaShape& shape);
int operand_b_registers(const MmaShape& shape);
int accumulator_registers(const MmaShape& shape);  // 4 for f32 and s32, 2 for f16 pairs

// D = A x B + C of mma.sync.aligned.m16n8kK.row.col. With f16 accumulators each sum is rounded to
// f32 and then to f16.
WarpRegisters mma_sync(const MmaShape& shape, const WarpRegisters& a, const WarpRegisters& b,
                       const WarpRegisters& c);

}  // namespace anydim::ptx
