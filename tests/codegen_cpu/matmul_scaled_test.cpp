// Products with weights of i8 that have a scale for each block of the depth: made real as they are
// multiplied, on every level, like the reference evaluator.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "codegen_cpu/matmul/matmul_operands.h"
#include "codegen_cpu/matmul/matmul_schedule.h"
#include "ir/error.h"
#include "ir/region.h"
#include "tests/codegen_cpu/expect_right.h"

namespace anydim::codegen_cpu::testing {
namespace {

// x [n, depth] times the transpose of weights [columns, blocks * block], of which depth are used,
// with scales [columns, blocks]; `attributes`: of the product.
TestRegion scaled_region(int depth, int columns, int block, const std::string& attributes = {}) {
  const int blocks = (depth + block - 1) / block, width = blocks * block;
  const std::string k = std::to_string(depth), n = std::to_string(columns),
                    w = std::to_string(width), b = std::to_string(blocks);
  std::string text =
      "fn @main(%x: Tensor[(n, " + k + "), f32], %w: Tensor[(" + n + ", " + w +
      "), i8], %s: Tensor[(" + n + ", " + b + "), f32]) -> Tensor[(n, " + n +
      "), f32] where n in [0, 5000] {\n" + " %r = cast(%w) {to = f32}\n" +
      " %s3 = expand_dims(%s) {axes = (2)}\n %shape = shape(" + n + ", " + b + ", " +
      std::to_string(block) + ")\n" +
      " %each = dyn.broadcast_to(%s3, %shape)\n %flat = reshape(%each) {shape = (" + n + ", " + w +
      ")}\n" + " %m = mul(%r, %flat)\n %c = strided_slice(%m) {axes = (1), starts = (0), ends = (" +
      k + ")}\n" + " %t = transpose(%c) {perm = (1, 0)}\n %y = matmul(%x, %t)" + attributes +
      "\n return %y\n}";
  return make_region(text, {1, 2});
}

// x [n, depth] times weights [depth, columns], with a scale for each `block` of the depth of each
// column, [blocks, columns], and with zero points as many, as DequantizeLinear has them.
TestRegion region_of_columns(int depth, int columns, int block, bool zeros = false,
                             const std::string& attributes = {}) {
  const int blocks = (depth + block - 1) / block;
  const std::string k = std::to_string(depth), n = std::to_string(columns),
                    whole = std::to_string(blocks * block), b = std::to_string(blocks);
  // %NAME spread over the depth, as %NAME4.
  const auto spread = [&](const std::string& name) {
    const std::string value = " %" + name;
    return value + "1 = expand_dims(%" + name + ") {axes = (1)}\n" + value + "2 = broadcast_to(%" +
           name + "1) {shape = (" + b + ", " + std::to_string(block) + ", " + n + ")}\n" + value +
           "3 = reshape(%" + name + "2) {shape = (" + whole + ", " + n + ")}\n" + value +
           "4 = strided_slice(%" + name + "3) {axes = (0), starts = (0), ends = (" + k + ")}\n";
  };
  const std::string text =
      "fn @main(%x: Tensor[(n, " + k + "), f32], %w: Tensor[(" + k + ", " + n +
      "), i8], %s: Tensor[(" + b + ", " + n + "), f32], %z: Tensor[(" + b + ", " + n +
      "), i8]) -> Tensor[(n, " + n + "), f32] where n in [0, 5000] {\n" + spread("s") +
      (zeros ? spread("z") +
                   " %wide = cast(%w) {to = i32}\n %zero = cast(%z4) {to = i32}\n"
                   " %i = sub(%wide, %zero)\n %r = cast(%i) {to = f32}\n"
             : " %r = cast(%w) {to = f32}\n") +
      " %m = mul(%s4, %r)\n %y = matmul(%x, %m)" + attributes + "\n return %y\n}";
  return make_region(text, {1, 2, 3});
}

// The same with the scale of each column, or of all.
TestRegion region_of_scale(int depth, int columns, const std::string& scale) {
  const std::string k = std::to_string(depth), n = std::to_string(columns);
  return make_region("fn @main(%x: Tensor[(n, " + k + "), f32], %w: Tensor[(" + k + ", " + n +
                         "), i8], %s: Tensor[" + scale + ", f32]) -> Tensor[(n, " + n +
                         "), f32] where n in [0, 5000] {\n %r = cast(%w) {to = f32}\n" +
                         " %m = mul(%r, %s)\n %y = matmul(%x, %m)\n return %y\n}",
                     {1, 2});
}

// Terms of up to 128 cancel.
// The first candidates, and the first that unpacks the weight.
void expect_right_everywhere(const TestRegion& region, double tolerance = 2e-4,
                             const tests::FillInputs& fill = {}) {
  const auto unpacks = [](const ir::Schedule& schedule) {
    return MatmulSchedule::from(schedule).unpack;
  };
  for (const auto& [bucket, rows] : std::vector<std::pair<ir::Bucket, std::vector<std::int64_t>>>{
           {bucket_of({{0, 5000}}), {0, 1, 2, 5, 33}},
           {bucket_of({{1, 1}}), {1}},
           {bucket_of({{7, 32}}), {7, 32}}}) {
    const std::vector<ReferenceCall> calls = reference_calls(region, sizes("n", rows), fill);
    for (const Target& target : targets()) {
      auto schedules = candidates(region, target, bucket);
      const auto unpacking = std::ranges::find_if(schedules, unpacks);
      ASSERT_NE(unpacking, schedules.end());
      std::iter_swap(schedules.begin(), unpacking);
      for (std::size_t i = 0; i < std::min<std::size_t>(schedules.size(), 4); ++i)
        expect_kernel_right(region, target, bucket, schedules[i], calls, {.tolerance = tolerance});
    }
  }
}

MatmulOperands operands_of(const TestRegion& region, const Target& target = {}) {
  return matmul_operands(target, region.region, std::get<ir::MatmulForm>(region.form.kind),
                         region.form.symbols);
}

TEST(MatmulScaled, IsRecognised) {
  const MatmulOperands blocks = operands_of(scaled_region(64, 40, 32));
  ASSERT_TRUE(blocks.scales);
  EXPECT_EQ(blocks.scales->block, 32);
  EXPECT_EQ(blocks.scales->blocks, 2);
  EXPECT_TRUE(blocks.product.scaled());
  const MatmulOperands one = operands_of(scaled_region(20, 40, 32));
  ASSERT_TRUE(one.scales);
  EXPECT_EQ(one.scales->blocks, 1);
}

TEST(MatmulScaled, EveryLevelAndShape) {
  for (const auto& [depth, columns, block] : std::vector<std::tuple<int, int, int>>{
           {64, 72, 32}, {96, 33, 16}, {70, 17, 32}, {20, 5, 32}, {130, 100, 128}, {1, 1, 16}}) {
    expect_right_everywhere(scaled_region(depth, columns, block));
  }
}

TEST(MatmulScaled, ScalesOfColumns) {
  const MatmulOperands blocks = operands_of(region_of_columns(70, 17, 32));
  ASSERT_TRUE(blocks.scales);
  EXPECT_EQ(blocks.scales->block, 32);
  EXPECT_EQ(blocks.scales->blocks, 3);
  EXPECT_EQ(blocks.scales->block_stride, 17);
  EXPECT_EQ(blocks.scales->column_stride, 1);
  for (const auto& [depth, columns, block] :
       std::vector<std::tuple<int, int, int>>{{64, 72, 32}, {70, 17, 32}, {130, 33, 16}})
    expect_right_everywhere(region_of_columns(depth, columns, block));
  EXPECT_FALSE(operands_of(region_of_columns(60, 8, 20)).scales) << "no power of two";
}

TEST(MatmulScaled, ZeroPointsOfBlocks) {
  const MatmulOperands blocks = operands_of(region_of_columns(70, 17, 32, true));
  ASSERT_TRUE(blocks.zeros);
  EXPECT_EQ(blocks.zeros->block, 32);
  EXPECT_EQ(blocks.zeros->block_stride, 17);
  for (const auto& [depth, columns, block] :
       std::vector<std::tuple<int, int, int>>{{64, 72, 32}, {70, 17, 32}, {130, 33, 16}})
    expect_right_everywhere(region_of_columns(depth, columns, block, true));
}

TEST(MatmulScaled, OneScaleOfAColumnOrOfAll) {
  constexpr double long_sums = 1e-3;
  for (const int depth : {520, 37, 1}) {  // longer than a piece, odd, and shorter than each
    const TestRegion column = region_of_scale(depth, 21, "(21)");
    const MatmulOperands operands = operands_of(column);
    ASSERT_TRUE(operands.scales);
    EXPECT_EQ(operands.scales->block_stride, 0);
    EXPECT_EQ(operands.scales->column_stride, 1);
    expect_right_everywhere(column, long_sums);
    const TestRegion all = region_of_scale(depth, 21, "()");
    ASSERT_TRUE(operands_of(all).scales);
    EXPECT_EQ(operands_of(all).scales->column_stride, 0);
    expect_right_everywhere(all, long_sums);
  }
}

TEST(MatmulScaled, NumbersForAll) {
  const auto region = [](const std::string& zero) {
    return make_region(
        "fn @main(%x: Tensor[(n, 70), f32], %w: Tensor[(70, 21), i8]) -> Tensor[(n, 21), f32]"
        " where n in [0, 5000] {\n %s = constant(f32 () [0.25])\n" +
            (zero.empty() ? " %r = cast(%w) {to = f32}\n"
                          : " %z = constant(i32 () [" + zero +
                                "])\n %i = cast(%w) {to = i32}\n %d = sub(%i, %z)\n"
                                " %r = cast(%d) {to = f32}\n") +
            " %m = mul(%r, %s)\n %y = matmul(%x, %m)\n return %y\n}",
        {1});
  };
  const MatmulOperands plain = operands_of(region(""));
  ASSERT_TRUE(plain.scales);
  EXPECT_EQ(plain.scales->number, 0.25);
  EXPECT_FALSE(plain.zeros);
  EXPECT_EQ(plain.of_blocks(0), nullptr);
  expect_right_everywhere(region(""));
  const MatmulOperands centred = operands_of(region("-11"));
  ASSERT_TRUE(centred.zeros);
  EXPECT_EQ(centred.zeros->number, -11);
  expect_right_everywhere(region("-11"));
}

Target with_byte_dots() {
  Target target;
  target.level = Level::Avx512;
  target.byte_dots = true;
  return target;
}

std::string rounded(int block) { return " {left_block = " + std::to_string(block) + "}"; }

// The region with its weight, parameter 1, in 4 bits.
TestRegion in_4_bits(TestRegion region) {
  region.region.weights_of_4_bits = {1};
  ir::seal(region.region);
  ir::set_form(region.region, region.form);
  return region;
}

void narrow_weight(std::vector<ir::Tensor>& inputs) {
  ir::Tensor& weight = inputs[1];
  for (std::int64_t i = 0; i < weight.elements(); ++i)
    weight.set_integer(i, (weight.integer_at(i) & 15) - 8);
}

// Elements that rounding leaves alone: integers times a power of two, the largest of which is in
// each `block` of a row.
tests::FillInputs bytes_of_blocks(std::int64_t block) {
  return [block](std::vector<ir::Tensor>& inputs) {
    ir::Tensor& x = inputs[0];
    const std::int64_t depth = x.dims()[1];
    for (std::int64_t i = 0; i < x.elements(); ++i) {
      const std::int64_t within = i % depth % block, number = i / depth * 3 + i % depth / block;
      const std::int64_t integer = within == number % block ? -127 : (i * 37 + number) % 255 - 127;
      x.set_real(i, std::ldexp(static_cast<double>(integer), static_cast<int>(number % 5) - 9));
    }
  };
}

TEST(MatmulScaled, WeightsIn4Bits) {
  const TestRegion packed = in_4_bits(scaled_region(64, 40, 32));
  ASSERT_TRUE(operands_of(packed).weight);
  EXPECT_TRUE(operands_of(packed).weight->in_4_bits);
  EXPECT_EQ(operands_of(packed).weight->packed_steps, 8);
  EXPECT_FALSE(operands_of(in_4_bits(scaled_region(70, 40, 32))).weight->in_4_bits)
      << "the last step is no whole one";
  for (const auto& [depth, columns, block] : std::vector<std::tuple<int, int, int>>{
           {64, 72, 32}, {96, 33, 16}, {128, 5, 128}, {72, 17, 32}, {8, 1, 16}}) {
    expect_right_everywhere(in_4_bits(scaled_region(depth, columns, block)), 2e-4, narrow_weight);
    expect_right_everywhere(in_4_bits(region_of_columns(depth, columns, block, true)), 2e-4,
                            narrow_weight);
  }
  expect_right_everywhere(in_4_bits(region_of_scale(520, 21, "(21)")), 1e-3, narrow_weight);
}

TEST(MatmulScaled, WeightsIn4BitsHoldNoMore) {
  const TestRegion region = in_4_bits(scaled_region(64, 40, 32));
  const auto packed = [&](std::int64_t element) {
    const MatmulOperands operands = operands_of(region);
    ir::Tensor weight(ir::DType::I8, {40, 64});
    weight.set_integer(70, element);
    return pack_weight(packed_layout(*operands.weight, operands.product), operands.product, weight,
                       fresh_tensor, true);
  };
  // Column 1, depth 6: the upper half of the third byte of the first step.
  EXPECT_EQ(packed(-8).integer_at(4 + 2), 8 << 4);
  EXPECT_EQ(packed(7).integer_at(4 + 2), 7 << 4);
  try {
    packed(8);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "a weight that is i4 has element 8 at 70; expected -8 to 7");
  }
}

// Where bytes are multiplied, in every candidate; elsewhere the left operand stays as it is.
TEST(MatmulScaled, LeftOperandsOfBytes) {
  EXPECT_TRUE(
      operands_of(scaled_region(64, 40, 32, rounded(32)), with_byte_dots()).product.rounded());
  EXPECT_FALSE(operands_of(scaled_region(64, 40, 32, rounded(32))).product.rounded());
  EXPECT_FALSE(
      operands_of(scaled_region(64, 40, 32, rounded(16)), with_byte_dots()).product.rounded())
      << "other blocks";
  EXPECT_FALSE(
      operands_of(scaled_region(70, 40, 32, rounded(32)), with_byte_dots()).product.rounded())
      << "the last block is no whole one";
  for (const auto& [depth, columns, block] :
       std::vector<std::tuple<int, int, int>>{{64, 72, 32}, {320, 33, 64}, {16, 1, 16}}) {
    const TestRegion bytes = scaled_region(depth, columns, block, rounded(block));
    const TestRegion centred = region_of_columns(depth, columns, block, true, rounded(block));
    for (const TestRegion& region : {bytes, centred, in_4_bits(bytes), in_4_bits(centred)}) {
      const bool narrow = !region.region.weights_of_4_bits.empty();
      for (const auto& [bucket, rows] :
           std::vector<std::pair<ir::Bucket, std::vector<std::int64_t>>>{
               {bucket_of({{0, 5000}}), {0, 1, 2, 5, 33, 130}},
               {bucket_of({{1, 1}}), {1}},
               {bucket_of({{7, 32}}), {7, 32}}}) {
        const auto fill = [&](std::vector<ir::Tensor>& inputs) {
          bytes_of_blocks(block)(inputs);
          if (narrow) narrow_weight(inputs);
        };
        const auto calls = reference_calls(region, sizes("n", rows), fill);
        for (const Target& target : targets()) {
          const auto schedules = candidates(region, target, bucket);
          for (std::size_t i = 0; i < std::min<std::size_t>(schedules.size(), 4); ++i)
            expect_kernel_right(region, target, bucket, schedules[i], calls, {.tolerance = 1e-3});
        }
      }
    }
  }
}

// The scale of a block is its largest magnitude over 127, and halves go to even; blocks of zeros
// are zeros, and what is no finite number is kept to its row.
TEST(MatmulScaled, LeftOperandsAreRoundedToBytes) {
  constexpr std::int64_t rows = 4, depth = 64, columns = 3, block = 32;
  const TestRegion region = scaled_region(depth, columns, block, rounded(block));
  ir::Tensor x(ir::DType::F32, {rows, depth}), w(ir::DType::I8, {columns, depth}),
      s(ir::DType::F32, {columns, 2});
  for (std::int64_t i = 0; i < x.elements(); ++i)
    x.set_real(i, i >= depth && i < depth + block ? 0 : std::sin(static_cast<double>(i)));
  x.set_real(1, 0.5 / 127), x.set_real(0, 1), x.set_real(2, 1.5 / 127);
  x.set_real(3 * depth + 40, std::numeric_limits<double>::quiet_NaN());
  for (std::int64_t i = 0; i < w.elements(); ++i) w.set_integer(i, i * 29 % 256 - 128);
  for (std::int64_t i = 0; i < s.elements(); ++i) s.set_real(i, 0.125 * static_cast<double>(i + 1));
  for (const Target& target : targets()) {
    if (!target.byte_dots) continue;
    SCOPED_TRACE(target.name());
    const auto schedule = candidates(region, target, bucket_of({{0, 5000}})).front();
    const ir::Tensor y =
        run(region, target, compile(region, target, bucket_of({{0, 5000}}), schedule),
            {{"n", rows}}, {x, w, s})[0];
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = 0; column < columns; ++column) {
        double expected = 0;
        for (std::int64_t first = 0; first < depth; first += block) {
          float most = 0;
          const auto at = [&](std::int64_t k) {
            return static_cast<float>(x.real_at(row * depth + first + k));
          };
          for (std::int64_t k = 0; k < block; ++k) most = std::max(most, std::abs(at(k)));
          double sum = 0;
          for (std::int64_t k = 0; k < block && most > 0; ++k)
            sum += std::nearbyint(at(k) * (127 / most)) *
                   static_cast<double>(w.integer_at(column * depth + first + k));
          expected += sum * most / 127 * s.real_at(column * 2 + first / block);
        }
        const double got = y.real_at(row * columns + column);
        if (row == 3) EXPECT_TRUE(std::isnan(got)) << got;
        else EXPECT_NEAR(got, expected, 1e-4 * std::max(1.0, std::abs(expected))) << row;
      }
    }
  }
}

}  // namespace
}  // namespace anydim::codegen_cpu::testing
