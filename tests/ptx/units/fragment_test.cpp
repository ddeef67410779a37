#include "tests/ptx/units/fragment.h"

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "ir/tensor.h"

namespace anydim::ptx {
namespace {

struct Case {
  MmaShape shape;
  std::function<std::uint32_t(int)> bits;  // of a small integer in A's and B's format
};

std::uint32_t half_bits(int value) { return ir::float_to_half(static_cast<float>(value)); }
std::uint32_t bfloat_bits(int value) { return ir::float_to_bfloat16(static_cast<float>(value)); }
std::uint32_t float_bits(int value) {
  return std::bit_cast<std::uint32_t>(static_cast<float>(value));
}
std::uint32_t byte_bits(int value) { return static_cast<std::uint8_t>(value); }

std::vector<Case> cases() {
  return {{{16, ElementFormat::F16, ElementFormat::F16}, half_bits},
          {{8, ElementFormat::F16, ElementFormat::F16}, half_bits},
          {{16, ElementFormat::F16, ElementFormat::F16, AccumulatorFormat::F16}, half_bits},
          {{16, ElementFormat::BF16, ElementFormat::BF16}, bfloat_bits},
          {{8, ElementFormat::BF16, ElementFormat::BF16}, bfloat_bits},
          {{8, ElementFormat::TF32, ElementFormat::TF32}, float_bits},
          {{4, ElementFormat::TF32, ElementFormat::TF32}, float_bits},
          {{32, ElementFormat::S8, ElementFormat::S8, AccumulatorFormat::S32}, byte_bits},
          {{16, ElementFormat::S8, ElementFormat::S8, AccumulatorFormat::S32}, byte_bits}};
}

int left_value(int row, int k) { return (3 * row + 5 * k) % 7 - 3; }
int right_value(int k, int column) { return (2 * k + 3 * column) % 5 - 2; }
int addend(int row, int column) { return row - 2 * column; }

// Every operand element has exactly one place in the registers of a warp.
TEST(Fragment, LayoutsAreBijections) {
  for (const Case& each : cases()) {
    const int parts = 32 / element_bits(each.shape.a);
    std::set<std::pair<int, int>> a, b;
    for (int lane = 0; lane < 32; ++lane) {
      for (int reg = 0; reg < operand_a_registers(each.shape); ++reg) {
        for (int part = 0; part < parts; ++part) {
          const Coordinates at = operand_a_element(each.shape.a, lane, reg, part);
          EXPECT_TRUE(at.row < 16 && at.column < each.shape.k);
          EXPECT_TRUE(a.emplace(at.row, at.column).second);
        }
      }
      for (int reg = 0; reg < operand_b_registers(each.shape); ++reg) {
        for (int part = 0; part < parts; ++part) {
          const Coordinates at = operand_b_element(each.shape.b, lane, reg, part);
          EXPECT_TRUE(at.row < each.shape.k && at.column < 8);
          EXPECT_TRUE(b.emplace(at.row, at.column).second);
        }
      }
    }
    EXPECT_EQ(a.size(), std::size_t(16) * each.shape.k);
    EXPECT_EQ(b.size(), std::size_t(8) * each.shape.k);
  }
}

TEST(Fragment, PlacesOfThePtxManual) {
  // m16n8k16 of 16-bit elements: a2,a3 of lane 0 are row 8; a4,a5 start at column 8.
  EXPECT_EQ(operand_a_element(ElementFormat::BF16, 0, 1, 0), (Coordinates{8, 0}));
  EXPECT_EQ(operand_a_element(ElementFormat::BF16, 0, 2, 1), (Coordinates{0, 9}));
  EXPECT_EQ(operand_a_element(ElementFormat::BF16, 31, 3, 1), (Coordinates{15, 15}));
  EXPECT_EQ(operand_b_element(ElementFormat::BF16, 5, 1, 1), (Coordinates{11, 1}));
  // m16n8k8 of tf32.
  EXPECT_EQ(operand_a_element(ElementFormat::TF32, 6, 3, 0), (Coordinates{9, 6}));
  EXPECT_EQ(operand_b_element(ElementFormat::TF32, 6, 1, 0), (Coordinates{6, 1}));
  // m16n8k32 of bytes.
  EXPECT_EQ(operand_a_element(ElementFormat::S8, 5, 2, 3), (Coordinates{1, 23}));
  EXPECT_EQ(operand_b_element(ElementFormat::S8, 5, 1, 2), (Coordinates{22, 1}));
  EXPECT_EQ(accumulator_element(7, 3), (Coordinates{9, 7}));
}

// wgmma: 128 threads hold 64 x n, each element once; warp w has rows 16 w to 16 w + 15.
TEST(Fragment, WgmmaAccumulators) {
  for (const int n : {8, 48, 256}) {
    std::set<std::pair<int, int>> places;
    for (int thread = 0; thread < 128; ++thread) {
      for (int index = 0; index < n / 2; ++index) {
        const Coordinates at = accumulator_element(thread, index);
        EXPECT_EQ(at.row / 16, thread / 32);
        EXPECT_LT(at.column, n);
        places.emplace(at.row, at.column);
      }
    }
    EXPECT_EQ(places.size(), std::size_t(64) * n);
  }
  EXPECT_EQ(accumulator_element(97, 14), (Coordinates{56, 26}));
}

// Pairs d[8j], d[8j+1] and so on of an accumulator are the four registers of A's k16 block j.
TEST(Fragment, AccumulatorsAreOperands) {
  for (int lane = 0; lane < 32; ++lane) {
    for (int block = 0; block < 4; ++block) {
      for (int index = 0; index < 8; ++index) {
        Coordinates expected = operand_a_element(ElementFormat::BF16, lane, index / 2, index % 2);
        expected.column += 16 * block;
        EXPECT_EQ(accumulator_element(lane, 8 * block + index), expected);
      }
    }
  }
}

TEST(Fragment, MmaEqualsPlainProduct) {
  for (const Case& each : cases()) {
    const MmaShape& shape = each.shape;
    const int bits = element_bits(shape.a);
    WarpRegisters a(operand_a_registers(shape)), b(operand_b_registers(shape)),
        c(accumulator_registers(shape));
    const bool pairs = shape.accumulator == AccumulatorFormat::F16;
    for (int lane = 0; lane < 32; ++lane) {
      for (int part = 0; part < 32 / bits; ++part) {
        for (int reg = 0; reg < a.count; ++reg) {
          const Coordinates at = operand_a_element(shape.a, lane, reg, part);
          a.at(lane, reg) |= each.bits(left_value(at.row, at.column)) << (part * bits);
        }
        for (int reg = 0; reg < b.count; ++reg) {
          const Coordinates at = operand_b_element(shape.b, lane, reg, part);
          b.at(lane, reg) |= each.bits(right_value(at.row, at.column)) << (part * bits);
        }
      }
      for (int index = 0; index < 4; ++index) {
        const Coordinates at = accumulator_element(lane, index);
        const int value = addend(at.row, at.column);
        if (pairs) c.at(lane, index / 2) |= half_bits(value) << (index % 2 * 16);
        else
          c.at(lane, index) = shape.accumulator == AccumulatorFormat::S32
                                  ? static_cast<std::uint32_t>(value)
                                  : float_bits(value);
      }
    }
    const WarpRegisters d = mma_sync(shape, a, b, c);
    for (int lane = 0; lane < 32; ++lane) {
      for (int index = 0; index < 4; ++index) {
        const Coordinates at = accumulator_element(lane, index);
        int expected = addend(at.row, at.column);
        for (int k = 0; k < shape.k; ++k)
          expected += left_value(at.row, k) * right_value(k, at.column);
        const std::uint32_t got =
            pairs ? (d.at(lane, index / 2) >> (index % 2 * 16)) & 0xffff : d.at(lane, index);
        const std::uint32_t want = pairs ? half_bits(expected)
                                   : shape.accumulator == AccumulatorFormat::S32
                                       ? static_cast<std::uint32_t>(expected)
                                       : float_bits(expected);
        ASSERT_EQ(got, want) << "lane " << lane << " index " << index;
      }
    }
  }
}

TEST(Fragment, Tf32IgnoresLowBits) {
  EXPECT_EQ(element_value(ElementFormat::TF32, 0x3f801fff), 1.0);
  EXPECT_EQ(element_value(ElementFormat::TF32, 0x3f802000), 1.0009765625);
}

// A row times a column plus an addend.
float summed(const std::vector<double>& a, const std::vector<double>& b, float addend) {
  std::vector<float> sum{addend};
  multiply_accumulate(a, b, sum, 1, 1, static_cast<int>(a.size()));
  return sum[0];
}

TEST(Fragment, SumsAreCutOffWhereTheLargestPartEnds) {
  // 2^-25 is the last bit that is kept beside 1, also of a product that two factors below 2 make.
  EXPECT_EQ(summed({1, 0x1p-25, 0x1p-25, -1}, {1, 1, 1, 1}, 0), 0x1p-24F);
  EXPECT_EQ(summed({1, 0x1p-26, 0x1p-26, -1}, {1, 1, 1, 1}, 0), 0.0F);
  EXPECT_EQ(summed({1.5, 0x1p-25, -1.5}, {1.5, 1, 1.5}, 0), 0x1p-25F);
  // An addend is cut off as products are, and may be the largest.
  EXPECT_EQ(summed({-1, 1}, {1, 1}, 0x1.8p-25F), 0x1p-25F);
  EXPECT_EQ(summed({0x1p-26, 0x1p-26}, {1, 1}, 1), 1.0F);
  // What f32 does not hold is cut off as well, whichever sign it has.
  EXPECT_EQ(summed({1, 0x1.8p-24}, {1, 1}, 0), 1.0F);
  EXPECT_EQ(summed({-1, -0x1.8p-24}, {1, 1}, 0), -1.0F);
  EXPECT_EQ(summed({0, 0}, {1, 1}, 0), 0.0F);
  EXPECT_EQ(summed({0x1p-126, 0x1p-126}, {0x1p-23, 0x1p-23}, 0), 0x1p-148F);
}

TEST(Fragment, SumsOfWhatIsNotFinite) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(summed({infinity, 1}, {1, 1}, 0), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(summed({infinity, infinity}, {1, -1}, 0)));
  EXPECT_TRUE(std::isnan(summed({infinity, 1}, {0, 1}, 0)));
  EXPECT_EQ(summed({0x1p127, 0x1p127}, {1, 1}, 0), std::numeric_limits<float>::infinity());
}

TEST(Fragment, IntegerSumsWrapOrSaturate) {
  const std::vector<double> a{127, 127}, b{127, 127};
  std::vector<std::int32_t> wrapped{0x7fffffff}, clamped{0x7fffffff};
  multiply_accumulate(a, b, wrapped, 1, 1, 2, false);
  multiply_accumulate(a, b, clamped, 1, 1, 2, true);
  EXPECT_EQ(wrapped[0], static_cast<std::int32_t>(0x7fffffffu + 2 * 127 * 127));
  EXPECT_EQ(clamped[0], 0x7fffffff);
}

}  // namespace
}  // namespace anydim::ptx
