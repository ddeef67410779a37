// Products of 8-bit integers: every kind of instruction gives the reference evaluator's integers,
// tile registers emulated where the processor has none.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "codegen_cpu/matmul/matmul_operands.h"
#include "codegen_cpu/matmul/matmul_schedule.h"
#include "tests/codegen_cpu/expect_right.h"

namespace anydim::codegen_cpu::testing {
namespace {

// The candidates of every target over `bucket`, at each of `shapes`: at most `most` on vectors and
// as many on tiles. Integers have no tolerance.
void expect_all_equal(const TestRegion& region, const ir::Bucket& bucket,
                      const std::vector<Symbols>& shapes, std::size_t most = 2) {
  const std::vector<ReferenceCall> calls = reference_calls(region, shapes);
  for (const Target& target : all_targets()) {
    std::size_t vectors = 0, tiles = 0;
    for (const ir::Schedule& schedule : candidates(region, target, bucket)) {
      std::size_t& taken = MatmulSchedule::from(schedule).tiles ? tiles : vectors;
      if (taken++ < most)
        expect_kernel_right(region, target, bucket, schedule, calls, {.tolerance = 0});
    }
    ASSERT_GT(vectors + tiles, 0u);
  }
}

// The first candidate of every target.
void expect_best_equal(const TestRegion& region, const std::vector<Symbols>& shapes) {
  const std::vector<ReferenceCall> calls = reference_calls(region, shapes);
  for (const Target& target : all_targets())
    expect_kernel_right(region, target, {}, candidates(region, target, {}).front(), calls,
                        {.tolerance = 0});
}

TestRegion weight_region(const std::string& left, const std::string& right, int depth,
                         int columns) {
  const std::string k = std::to_string(depth), n = std::to_string(columns);
  return make_region("fn @main(%x: Tensor[(n, " + k + "), " + left + "], %w: Tensor[(" + k + ", " +
                         n + "), " + right + "]) -> Tensor[(n, " + n +
                         "), i32] where n in [0, 5000] {\n %a = cast(%x) {to = i32}\n %b = "
                         "cast(%w) {to = i32}\n %y = matmul(%a, %b)\n return %y\n}",
                     {1});
}

TEST(MatmulBytes, WeightAndVaryingRows) {
  const TestRegion region = weight_region("u8", "i8", 64, 72);
  expect_all_equal(region, bucket_of({{0, 5000}}),
                   sizes("n", {0, 1, 2, 15, 16, 17, 31, 32, 33, 47, 48, 49, 130}));
  expect_all_equal(region, bucket_of({{1, 1}}), sizes("n", {1}));
  expect_all_equal(region, bucket_of({{2, 6}}), sizes("n", {2, 3, 6}));
  expect_all_equal(region, bucket_of({{33, 256}}), sizes("n", {33, 34, 256}));
  expect_all_equal(region, bucket_of({{257, 5000}}), sizes("n", {257, 258, 700}));
}

// Windows over images of bytes, whose rows are runs of packed lines: runs that fill cache lines and
// such that do not, a stride, channels outermost, a sequence.
TEST(MatmulBytes, WindowsOfImages) {
  struct Windows {
    std::string image, permutation, axes, border, sizes, strides, rows;
    int depth;
  };
  for (const Windows& one : std::vector<Windows>{
           {"7, w, 64", "0, 1, 2, 4, 5, 3", "1, 2", "1, 1", "3, 3", "1, 1", "7*w", 576},
           {"7, w, 5", "0, 1, 2, 4, 5, 3", "1, 2", "1, 1", "3, 3", "1, 1", "7*w", 45},
           {"7, w, 24", "0, 1, 2, 4, 5, 3", "1, 2", "1, 1", "3, 3", "2, 2", "4*ceil_div(w, 2)",
            216},
           {"3, 7, w", "0, 2, 3, 1, 4, 5", "2, 3", "1, 1", "3, 3", "1, 1", "7*w", 27},
           {"w, 20", "0, 1, 3, 2", "1", "2", "5", "1", "w", 100}}) {
    SCOPED_TRACE(one.image);
    const TestRegion region = make_region(
        fmt::format(R"(
fn @main(%x: Tensor[(n, {image}), u8], %w: Tensor[({k}, 40), i8]) -> Tensor[(n, {rows}, 40), i32]
  where n in [0, 9], w in [3, 99] {{
  %p = pad(%x) {{before = ({border}), after = ({border}), axes = ({axes})}}
  %v = windows(%p) {{axes = ({axes}), sizes = ({sizes}), strides = ({strides})}}
  %t = transpose(%v) {{perm = ({permutation})}}
  %r = dyn.reshape(%t, shape(n, {rows}, {k}))
  %a = cast(%r) {{to = i32}}
  %b = cast(%w) {{to = i32}}
  %y = matmul(%a, %b)
  return %y
}})",
                    fmt::arg("image", one.image), fmt::arg("k", one.depth),
                    fmt::arg("rows", one.rows), fmt::arg("border", one.border),
                    fmt::arg("axes", one.axes), fmt::arg("sizes", one.sizes),
                    fmt::arg("strides", one.strides), fmt::arg("permutation", one.permutation)),
        {1});
    expect_all_equal(region, {},
                     {{{"n", 1}, {"w", 3}}, {{"n", 2}, {"w", 33}}, {{"n", 0}, {"w", 9}}}, 2);
  }
}

TEST(MatmulBytes, OddExtents) {
  for (const auto& [depth, columns] : std::vector<std::pair<int, int>>{{1, 1},
                                                                       {2, 16},
                                                                       {3, 17},
                                                                       {13, 33},
                                                                       {34, 100},
                                                                       {0, 5},
                                                                       {65, 15},
                                                                       {9, 0},
                                                                       {96, 16},
                                                                       {130, 31}})
    expect_all_equal(weight_region("u8", "i8", depth, columns), bucket_of({{0, 5000}}),
                     sizes("n", {0, 1, 5, 23, 40}));
}

TEST(MatmulBytes, EverySign) {
  for (const std::string left : {"u8", "i8"})
    for (const std::string right : {"u8", "i8"})
      expect_all_equal(weight_region(left, right, 37, 40), bucket_of({{0, 5000}}),
                       sizes("n", {1, 7, 19, 45}), 1);
  expect_all_equal(weight_region("i16", "i8", 37, 40), bucket_of({{0, 5000}}),
                   sizes("n", {1, 7, 19, 45}), 1);
}

// The largest products there are, in every place: no instruction may saturate on the way.
TEST(MatmulBytes, ExtremesKeepAllBits) {
  constexpr std::int64_t depth = 67, columns = 40;
  const TestRegion region = weight_region("u8", "i8", depth, columns);
  for (const int weight : {-128, 127}) {
    for (const Target& target : all_targets()) {
      for (const std::int64_t rows : {1, 19}) {
        ir::Tensor x(ir::DType::U8, {rows, depth}), w(ir::DType::I8, {depth, columns});
        for (std::int64_t i = 0; i < x.elements(); ++i) x.set_integer(i, 255);
        for (std::int64_t i = 0; i < w.elements(); ++i) w.set_integer(i, weight);
        const ir::Schedule schedule = candidates(region, target, bucket_of({{0, 5000}})).front();
        SCOPED_TRACE(target.name() + " " + to_string(schedule));
        const ir::Tensor y =
            run(region, target, compile(region, target, bucket_of({{0, 5000}}), schedule),
                {{"n", rows}}, {x, w})[0];
        for (std::int64_t i = 0; i < y.elements(); ++i)
          ASSERT_EQ(y.integer_at(i), 255 * weight * depth) << i;
      }
    }
  }
}

TEST(MatmulBytes, BothOperandsComeLate) {
  const TestRegion region = make_region(R"(
fn @main(%x: Tensor[(b, s, 21), u8], %y: Tensor[(b, 21, t), i8]) -> Tensor[(b, s, t), i32] where b in [0, 9], s in [0, 99], t in [0, 99] {
  %a = cast(%x) {to = i32}
  %c = cast(%y) {to = i32}
  %z = matmul(%a, %c)
  return %z
})");
  expect_best_equal(region, {{{"b", 1}, {"s", 1}, {"t", 1}},
                             {{"b", 2}, {"s", 17}, {"t", 33}},
                             {{"b", 3}, {"s", 40}, {"t", 7}},
                             {{"b", 0}, {"s", 3}, {"t", 4}}});
}

// Keys of an attention lie row by row: packing turns them.
TEST(MatmulBytes, TransposedAndComputedOperands) {
  const TestRegion region = make_region(R"(
fn @main(%x: Tensor[(s, 21), f32], %y: Tensor[(t, 21), i8], %scale: Tensor[(), f32]) -> Tensor[(s, t), f32] where s in [0, 99], t in [0, 99] {
  %r = div(%x, %scale)
  %o = round(%r)
  %q = cast(%o) {to = u8}
  %a = cast(%q) {to = i32}
  %w = transpose(%y) {perm = (1, 0)}
  %c = cast(%w) {to = i32}
  %z = matmul(%a, %c)
  %f = cast(%z) {to = f32}
  %g = mul(%f, %scale)
  return %g
})");
  expect_best_equal(region, {{{"s", 1}, {"t", 1}}, {{"s", 17}, {"t", 33}}, {{"s", 40}, {"t", 70}}});
}

// Four depths lie beside each other, columns of a panel behind each other; what is filled up is
// zero.
TEST(MatmulBytes, PackedLayout) {
  constexpr std::int64_t depth = 5, columns = 19;
  constexpr Product bytes{ir::DType::U8, ir::DType::I8, ir::DType::I32};
  ir::Tensor weight(ir::DType::I8, {depth, columns});
  for (std::int64_t i = 0; i < weight.elements(); ++i) weight.set_integer(i, i - 40);
  for (const std::int64_t steps : {2, 16}) {
    PackedWeight place;
    place.packed_steps = steps;
    place.depth = depth;
    place.columns = place.depth_stride = columns;
    place.column_stride = 1;
    const ir::PackedLayout layout = packed_layout(place, bytes);
    EXPECT_EQ(layout.name, "panels16 i8");
    const ir::Tensor packed = pack_weight(layout, bytes, weight, fresh_tensor);
    ASSERT_EQ(packed.dims(), (std::vector<std::int64_t>{2, steps, 16, 4}));
    for (std::int64_t i = 0; i < packed.elements(); ++i) {
      const std::int64_t k = i / 64 % steps * 4 + i % 4, c = i / (64 * steps) * 16 + i / 4 % 16;
      EXPECT_EQ(packed.integer_at(i), k < depth && c < columns ? k * columns + c - 40 : 0) << i;
    }
  }
}

TEST(MatmulBytes, ChosenByTheOperandsAndTheProcessor) {
  const auto product = [](const Target& target, const std::string& x, const std::string& w) {
    const TestRegion region = weight_region(x, w, 8, 8);
    return matmul_operands(target, region.region, std::get<ir::MatmulForm>(region.form.kind),
                           region.form.symbols)
        .product;
  };
  using ir::DType;
  const Target dots{.level = Level::Avx512, .byte_dots = true}, none{.level = Level::Avx512};
  const Product bytes{DType::U8, DType::I8, DType::I32}, shorts{DType::I16, DType::I16, DType::I32};
  EXPECT_EQ(product(dots, "u8", "i8"), bytes);
  EXPECT_EQ(product(dots, "i8", "u8"), (Product{DType::I8, DType::U8, DType::I32}));
  EXPECT_EQ(product({.level = Level::Avx512, .byte_dots = true, .amx = true}, "i8", "u8"), shorts);
  EXPECT_EQ(product(none, "u8", "i8"), shorts);
  EXPECT_EQ(product(dots, "i8", "i8"), shorts);
  EXPECT_EQ(product(dots, "u8", "i16"), shorts);
  EXPECT_EQ(product(dots, "u8", "i64"), Product::of(DType::I32));
}

}  // namespace
}  // namespace anydim::codegen_cpu::testing
