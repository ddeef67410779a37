// Products of bf16 operands: every kind of instruction against the reference evaluator, tile
// registers emulated where the processor has none.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "codegen_cpu/matmul/matmul_operands.h"
#include "codegen_cpu/matmul/matmul_schedule.h"
#include "tests/codegen_cpu/expect_right.h"

namespace anydim::codegen_cpu::testing {
namespace {

// The candidates of every kind of instruction over `bucket`, at each of `shapes`: at most `most` on
// vectors and as many on tiles.
void expect_all_right(const TestRegion& region, const ir::Bucket& bucket,
                      const std::vector<Symbols>& shapes, double tolerance = 2e-5,
                      std::size_t most = 2) {
  const std::vector<ReferenceCall> calls = reference_calls(region, shapes);
  for (const Target& target : all_targets()) {
    std::size_t vectors = 0, tiles = 0;
    for (const ir::Schedule& schedule : candidates(region, target, bucket)) {
      std::size_t& taken = MatmulSchedule::from(schedule).tiles ? tiles : vectors;
      if (taken++ < most)
        expect_kernel_right(region, target, bucket, schedule, calls,
                            {.tolerance = tolerance, .bf16_tolerance = 8e-3});
    }
    ASSERT_GT(vectors + tiles, 0u);
    // For few rows the cost model may leave tiles out.
    const bool many_rows = bucket.intervals.empty() || bucket.intervals[0].high > 16;
    if (!target.amx || many_rows) ASSERT_EQ(tiles != 0, target.amx);
  }
}

TestRegion weight_region(int depth, int columns) {
  const std::string k = std::to_string(depth), n = std::to_string(columns);
  return make_region("fn @main(%x: Tensor[(n, " + k + "), bf16], %w: Tensor[(" + k + ", " + n +
                         "), bf16]) -> Tensor[(n, " + n +
                         "), f32] where n in [0, 5000] {\n %a = cast(%x) {to = f32}\n %b = "
                         "cast(%w) {to = f32}\n %y = matmul(%a, %b)\n return %y\n}",
                     {1});
}

TEST(MatmulBf16, WeightAndVaryingRows) {
  const TestRegion region = weight_region(64, 72);
  expect_all_right(region, bucket_of({{0, 5000}}),
                   sizes("n", {0, 1, 2, 15, 16, 17, 31, 32, 33, 47, 48, 49, 130}), 2e-5, 4);
  expect_all_right(region, bucket_of({{1, 1}}), sizes("n", {1}), 2e-5, 4);
  expect_all_right(region, bucket_of({{2, 6}}), sizes("n", {2, 3, 6}));
  expect_all_right(region, bucket_of({{7, 32}}), sizes("n", {7, 8, 31, 32}));
  expect_all_right(region, bucket_of({{33, 256}}), sizes("n", {33, 34, 256}));
  expect_all_right(region, bucket_of({{257, 5000}}), sizes("n", {257, 258, 700}));
}

TEST(MatmulBf16, OddExtents) {
  for (const auto& [depth, columns] : std::vector<std::pair<int, int>>{
           {1, 1}, {3, 17}, {13, 33}, {34, 100}, {0, 5}, {65, 15}, {9, 0}, {96, 16}})
    expect_all_right(weight_region(depth, columns), bucket_of({{0, 5000}}),
                     sizes("n", {0, 1, 5, 23, 40}));
}

TEST(MatmulBf16, TransposedWeightWithGeluStoredNarrow) {
  const TestRegion region = make_region(R"(
fn @main(%x: Tensor[(b, s, 24), bf16], %w: Tensor[(50, 24), bf16], %bias: Tensor[(50), f32]) -> Tensor[(b, s, 50), bf16]
  where b in [0, 64], s in [0, 512] {
  %t = transpose(%w) {perm = (1, 0)}
  %a = cast(%x) {to = f32}
  %c = cast(%t) {to = f32}
  %y = matmul(%a, %c)
  %z = add(%bias, %y)
  %g = gelu(%z)
  %n = cast(%g) {to = bf16}
  return %n
})",
                                        {1});
  expect_all_right(
      region, bucket_of({{0, 32768}}),
      {{{"b", 0}, {"s", 3}}, {{"b", 1}, {"s", 1}}, {{"b", 3}, {"s", 7}}, {{"b", 2}, {"s", 33}}});
}

TEST(MatmulBf16, Gates) {
  const TestRegion region = make_region(R"(
fn @main(%x: Tensor[(n, 48), bf16], %w: Tensor[(48, 80), bf16]) -> Tensor[(n, 40), bf16]
  where n in [0, 5000] {
  %a = cast(%x) {to = f32}
  %c = cast(%w) {to = f32}
  %p = matmul(%a, %c)
  %g, %u = split(%p) {axis = -1, sizes = (40, 40)}
  %s = gelu(%g)
  %m = mul(%s, %u)
  %y = cast(%m) {to = bf16}
  return %y
})",
                                        {1});
  ASSERT_EQ(std::get<ir::MatmulForm>(region.form.kind).gates(), 2);
  expect_all_right(region, bucket_of({{0, 5000}}), sizes("n", {0, 1, 16, 33, 70}));
  expect_all_right(region, bucket_of({{2, 6}}), sizes("n", {2, 5}));
}

TEST(MatmulBf16, LayerNormStoredWideAndNarrow) {
  const TestRegion region = make_region(R"(
fn @main(%x: Tensor[(n, 32), bf16], %w: Tensor[(32, 44), bf16], %bias: Tensor[(44), f32], %r: Tensor[(n, 44), f32], %scale: Tensor[(44), f32], %shift: Tensor[(44), f32])
  -> (Tensor[(n, 44), f32], Tensor[(n, 44), bf16])
  where n in [0, 4096] {
  %a = cast(%x) {to = f32}
  %c = cast(%w) {to = f32}
  %y = matmul(%a, %c)
  %z = add(%y, %bias)
  %u = add(%z, %r)
  %v = layer_norm(%u, %scale, %shift) {axis = -1, epsilon = 1e-12}
  %n = cast(%v) {to = bf16}
  return %v, %n
})",
                                        {1});
  ASSERT_FALSE(std::get<ir::MatmulForm>(region.form.kind).rows.empty());
  expect_all_right(region, bucket_of({{0, 4096}}), sizes("n", {0, 1, 5, 17, 30, 100}), 1e-4);
  expect_all_right(region, bucket_of({{1, 1}}), sizes("n", {1}), 1e-4);
}

TEST(MatmulBf16, DynamicOperands) {
  const TestRegion region = make_region(R"(
fn @main(%x: Tensor[(a, 1, m, k), bf16], %y: Tensor[(3, k, n), bf16]) -> Tensor[(a, 3, m, n), f32]
  where a in [0, 8], m in [0, 300], k in [0, 300], n in [0, 300] {
  %b = cast(%x) {to = f32}
  %c = cast(%y) {to = f32}
  %z = matmul(%b, %c)
  return %z
})");
  std::vector<Symbols> shapes;
  for (const std::int64_t m : {1, 9, 70})
    for (const std::int64_t n : {1, 16, 37})
      shapes.push_back({{"a", 2}, {"m", m}, {"k", m + n - 2}, {"n", n}});
  shapes.push_back({{"a", 1}, {"m", 3}, {"k", 3}, {"n", 0}});
  expect_all_right(region, bucket_of({}), shapes);
}

TEST(MatmulBf16, TransposedDynamicOperands) {
  const TestRegion region = make_region(R"(
fn @main(%x: Tensor[(2, k, m), bf16], %y: Tensor[(2, n, k), bf16]) -> Tensor[(2, m, n), f32]
  where m in [0, 300], k in [0, 300], n in [0, 300] {
  %s = transpose(%x) {perm = (0, 2, 1)}
  %t = transpose(%y) {perm = (0, 2, 1)}
  %a = cast(%s) {to = f32}
  %b = cast(%t) {to = f32}
  %z = matmul(%a, %b)
  return %z
})");
  std::vector<Symbols> shapes;
  for (const std::int64_t m : {1, 9, 40})
    for (const std::int64_t n : {1, 16, 37})
      shapes.push_back({{"m", m}, {"k", m + n - 2}, {"n", n}});
  shapes.push_back({{"m", 5}, {"k", 64}, {"n", 70}});
  expect_all_right(region, bucket_of({}), shapes);
}

TEST(MatmulBf16, WeightOnTheLeft) {
  for (const int depth : {515, 576}) {
    const std::string k = std::to_string(depth);
    const TestRegion region =
        make_region("fn @main(%w: Tensor[(37, " + k + "), bf16], %x: Tensor[(b, " + k +
                        R"(, n), bf16]) -> Tensor[(b, 37, n), f32]
  where b in [0, 8], n in [0, 300] {
  %v = cast(%w) {to = f32}
  %c = cast(%x) {to = f32}
  %z = matmul(%v, %c)
  return %z
})",
                    {0});
    expect_all_right(region, bucket_of({}),
                     {{{"b", 1}, {"n", 1}}, {{"b", 2}, {"n", 17}}, {{"b", 1}, {"n", 49}}});
  }
}

// Sums of products of small integers are exact whatever the order, so a misplaced element shows.
TEST(MatmulBf16, SmallIntegersAreExact) {
  for (const int depth : {32, 37}) {
    const TestRegion region = weight_region(depth, 40);
    for (const Target& target : all_targets()) {
      for (const std::int64_t rows : {1, 7, 19, 45}) {
        ir::Tensor x(ir::DType::BF16, {rows, depth}), w(ir::DType::BF16, {depth, 40});
        for (std::int64_t i = 0; i < x.elements(); ++i)
          x.set_real(i, static_cast<double>(i * 7 % 31 - 15));
        for (std::int64_t i = 0; i < w.elements(); ++i)
          w.set_real(i, static_cast<double>(i * 11 % 29 - 14));
        const auto expected = reference(region, {x, w});
        std::set<bool> kinds;
        for (const ir::Schedule& schedule : candidates(region, target, bucket_of({{0, 5000}}))) {
          if (!kinds.insert(MatmulSchedule::from(schedule).tiles).second) continue;
          SCOPED_TRACE(target.name() + " " + to_string(schedule));
          const TestKernel kernel = compile(region, target, bucket_of({{0, 5000}}), schedule);
          EXPECT_TRUE(run(region, target, kernel, {{"n", rows}}, {x, w})[0].same_bits(expected[0]));
        }
      }
    }
  }
}

// Pairs of depths lie beside each other, columns of a panel behind each other; what is filled up is
// zero.
TEST(MatmulBf16, PackedLayout) {
  constexpr std::int64_t depth = 5, columns = 19;
  constexpr Product brains{ir::DType::BF16, ir::DType::BF16, ir::DType::F32};
  ir::Tensor weight(ir::DType::BF16, {depth, columns});
  for (std::int64_t i = 0; i < weight.elements(); ++i)
    weight.set_real(i, static_cast<double>(i + 1));
  for (const std::int64_t steps : {3, 16}) {
    PackedWeight place;
    place.packed_steps = steps;
    place.depth = depth;
    place.columns = place.depth_stride = columns;
    place.column_stride = 1;
    const ir::PackedLayout layout = packed_layout(place, brains);
    EXPECT_EQ(layout.name, "panels16 bf16");
    const ir::Tensor packed = pack_weight(layout, brains, weight, fresh_tensor);
    ASSERT_EQ(packed.dims(), (std::vector<std::int64_t>{2, steps, 16, 2}));
    for (std::int64_t i = 0; i < packed.elements(); ++i) {
      const std::int64_t k = i / 32 % steps * 2 + i % 2, c = i / (32 * steps) * 16 + i / 2 % 16;
      EXPECT_EQ(packed.real_at(i),
                k < depth && c < columns ? static_cast<double>(k * columns + c + 1) : 0)
          << i;
    }
  }
}

// A model of bf16 throughout multiplies the same way; one operand of f32 leaves the product in f32.
TEST(MatmulBf16, ChosenByTheOperands) {
  const auto product = [](const std::string& x, const std::string& w) {
    const TestRegion region =
        make_region("fn @main(%x: Tensor[(n, 4), " + x + "], %w: Tensor[(4, 4), " + w +
                        "]) -> Tensor[(n, 4), f32] where n in [0, 9] {\n %a = cast(%x) {to = "
                        "f32}\n %b = cast(%w) {to = f32}\n %y = matmul(%a, %b)\n return %y\n}",
                    {1});
    return matmul_operands({}, region.region, std::get<ir::MatmulForm>(region.form.kind),
                           region.form.symbols)
        .product.right;
  };
  EXPECT_EQ(product("bf16", "bf16"), ir::DType::BF16);
  EXPECT_EQ(product("f32", "bf16"), ir::DType::F32);
  EXPECT_EQ(product("bf16", "f16"), ir::DType::F32);
  const TestRegion plain = make_region(
      "fn @main(%x: Tensor[(n, 4), bf16], %w: Tensor[(4, 4), bf16]) -> Tensor[(n, 4), bf16] where "
      "n in [0, 9] {\n %y = matmul(%x, %w)\n return %y\n}",
      {1});
  EXPECT_EQ(matmul_operands({}, plain.region, std::get<ir::MatmulForm>(plain.form.kind),
                            plain.form.symbols)
                .product.right,
            ir::DType::BF16);
}

}  // namespace
}  // namespace anydim::codegen_cpu::testing
