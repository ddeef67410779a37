// Products with weights of i8 that have a scale for each block of the depth: made real as they are
// multiplied, on every level, like the reference evaluator.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "codegen_cpu/matmul/matmul_operands.h"
#include "codegen_cpu/matmul/matmul_schedule.h"
#include "tests/codegen_cpu/expect_right.h"

namespace anydim::codegen_cpu::testing {
namespace {

// x [n, depth] times the transpose of weights [columns, blocks * block], of which depth are used,
// with scales [columns, blocks].
TestRegion scaled_region(int depth, int columns, int block) {
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
      k + ")}\n" + " %t = transpose(%c) {perm = (1, 0)}\n %y = matmul(%x, %t)\n return %y\n}";
  return make_region(text, {1, 2});
}

// x [n, depth] times weights [depth, columns], with a scale for each `block` of the depth of each
// column, [blocks, columns], and with zero points as many, as DequantizeLinear has them.
TestRegion region_of_columns(int depth, int columns, int block, bool zeros = false) {
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
      " %m = mul(%s4, %r)\n %y = matmul(%x, %m)\n return %y\n}";
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
void expect_right_everywhere(const TestRegion& region, double tolerance = 2e-4) {
  const auto unpacks = [](const ir::Schedule& schedule) {
    return MatmulSchedule::from(schedule).unpack;
  };
  for (const auto& [bucket, rows] : std::vector<std::pair<ir::Bucket, std::vector<std::int64_t>>>{
           {bucket_of({{0, 5000}}), {0, 1, 2, 5, 33}},
           {bucket_of({{1, 1}}), {1}},
           {bucket_of({{7, 32}}), {7, 32}}}) {
    const std::vector<ReferenceCall> calls = reference_calls(region, sizes("n", rows));
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

MatmulOperands operands_of(const TestRegion& region) {
  return matmul_operands({}, region.region, std::get<ir::MatmulForm>(region.form.kind),
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

}  // namespace
}  // namespace anydim::codegen_cpu::testing
