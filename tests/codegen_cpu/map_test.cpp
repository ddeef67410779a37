#include <gtest/gtest.h>

#include "ir/schedule.h"
#include "tests/codegen_cpu/expect_right.h"

namespace anydim::codegen_cpu::testing {
namespace {

const std::vector<std::int64_t> tails{0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 130};

TEST(Map, AddsAndScalesAtEveryTail) {
  const TestRegion region = make_region(R"(
fn @main(%x: Tensor[(n), f32], %y: Tensor[(n), f32], %s: Tensor[(), f32]) -> Tensor[(n), f32]
  where n in [0, 5000] {
  %a = add(%x, %y)
  %b = mul(%a, %s)
  return %b
})");
  expect_right(region, {}, sizes("n", tails));
}

TEST(Map, SeveralOutputsAndTypes) {
  const TestRegion region = make_region(R"(
fn @main(%x: Tensor[(n), f32], %i: Tensor[(n), i64]) -> (Tensor[(n), bool], Tensor[(n), i8], Tensor[(n), f64], Tensor[(n), f16])
  where n in [0, 5000] {
  %z = constant(f32 () [0.25])
  %less = less(%x, %z)
  %small = cast(%i) {to = i8}
  %f = cast(%i) {to = f32}
  %sum = add(%x, %f)
  %wide = cast(%sum) {to = f64}
  %half = cast(%sum) {to = f16}
  return %less, %small, %wide, %half
})");
  expect_right(region, {}, sizes("n", tails));
}

TEST(Map, BroadcastsAlongBothAxes) {
  const TestRegion region = make_region(R"(
fn @main(%x: Tensor[(b, 1, 12), f32], %y: Tensor[(s, 1), f32]) -> Tensor[(b, s, 12), f32]
  where b in [0, 50], s in [0, 50] {
  %a = sub(%x, %y)
  return %a
})");
  expect_right(region, {},
               {{{"b", 0}, {"s", 3}}, {{"b", 3}, {"s", 0}}, {{"b", 1}, {"s", 1}}, {{"b", 5}, {"s", 7}}, {{"b", 33}, {"s", 17}}});
}

TEST(Map, TransposesAndSlices) {
  const TestRegion region = make_region(R"(
fn @main(%x: Tensor[(b, s, 36), f32]) -> Tensor[(b, 3, s, 12), f32]
  where b in [0, 50], s in [0, 50] {
  %shape = shape(b, s, 3, 12)
  %r = dyn.reshape(%x, %shape)
  %t = transpose(%r) {perm = (0, 2, 1, 3)}
  return %t
})");
  expect_right(region, {}, {{{"b", 0}, {"s", 3}}, {{"b", 1}, {"s", 1}}, {{"b", 2}, {"s", 17}}, {{"b", 7}, {"s", 33}}});
  const TestRegion reversed = make_region(R"(
fn @main(%x: Tensor[(n, m), i32]) -> Tensor[(m, n), i32]
  where n in [0, 50], m in [0, 50] {
  %t = transpose(%x) {perm = (1, 0)}
  return %t
})");
  expect_right(reversed, {}, {{{"n", 0}, {"m", 3}}, {{"n", 1}, {"m", 1}}, {{"n", 20}, {"m", 33}}});
}

TEST(Map, GathersRowsAndReportsIndicesOutOfRange) {
  const TestRegion region = make_region(R"(
fn @main(%table: Tensor[(30, 20), f32], %ids: Tensor[(b, s), i64], %extra: Tensor[(20), f32]) -> Tensor[(b, s, 20), f32]
  where b in [0, 50], s in [0, 50] {
  %g = gather(%table, %ids) {axis = 0}
  %a = add(%g, %extra)
  return %a
})");
  expect_right(region, {}, {{{"b", 0}, {"s", 3}}, {{"b", 1}, {"s", 1}}, {{"b", 3}, {"s", 17}}});
  for (const Target& target : targets()) {
    const TestKernel kernel = compile(region, target, {}, candidates(region, target, {}).front());
    std::vector<ir::Tensor> inputs = random_inputs(region, {{"b", 2}, {"s", 3}}, 1);
    inputs[1].set_integer(4, 30);
    ir::KernelError failure;
    run(region, target, kernel, {{"b", 2}, {"s", 3}}, inputs, 2, &failure);
    EXPECT_EQ(failure.check, 0);
    EXPECT_EQ(failure.value, 30);
    inputs[1].set_integer(4, -31);
    run(region, target, kernel, {{"b", 2}, {"s", 3}}, inputs, 2, &failure);
    EXPECT_EQ(failure.value, -31);
  }
}

TEST(Map, GathersAlongTheLastAxis) {
  const TestRegion region = make_region(R"(
fn @main(%x: Tensor[(b, 30), f32], %ids: Tensor[(s), i32]) -> Tensor[(b, s), f32]
  where b in [0, 50], s in [0, 50] {
  %g = gather(%x, %ids) {axis = 1}
  return %g
})");
  expect_right(region, {}, {{{"b", 2}, {"s", 0}}, {{"b", 1}, {"s", 1}}, {{"b", 3}, {"s", 37}}});
  for (const Target& target : targets()) {
    const TestKernel kernel = compile(region, target, {}, candidates(region, target, {}).front());
    std::vector<ir::Tensor> inputs = random_inputs(region, {{"b", 2}, {"s", 40}}, 1);
    inputs[1].set_integer(37, 99);
    ir::KernelError failure;
    run(region, target, kernel, {{"b", 2}, {"s", 40}}, inputs, 1, &failure);
    EXPECT_EQ(failure.check, 0);
    EXPECT_EQ(failure.value, 99);
  }
}

TEST(Map, ConcatenatesInParts) {
  const TestRegion region = make_region(R"(
fn @main(%x: Tensor[(n, 5), f32], %y: Tensor[(n, m), f32], %z: Tensor[(n, 3), f32]) -> Tensor[(n, m + 8), f32]
  where n in [0, 50], m in [0, 50] {
  %c = concat(%x, %y, %z) {axis = 1}
  return %c
})");
  expect_right(region, {}, {{{"n", 0}, {"m", 3}}, {{"n", 3}, {"m", 0}}, {{"n", 4}, {"m", 33}}});
}

TEST(Map, ConcatenatesUnderGuards) {
  const TestRegion region = make_region(R"(
fn @main(%x: Tensor[(n, 5), f32], %y: Tensor[(n, m), f32]) -> Tensor[(n, m + 5), f32]
  where n in [0, 50], m in [0, 50] {
  %c = concat(%x, %y) {axis = 1}
  %r = neg(%c)
  return %r
})");
  expect_right(region, {}, {{{"n", 0}, {"m", 3}}, {{"n", 3}, {"m", 0}}, {{"n", 4}, {"m", 33}}, {{"n", 1}, {"m", 11}}});
}

TEST(Map, DividesIntegersWithoutTraps) {
  const TestRegion region = make_region(R"(
fn @main(%x: Tensor[(n), i32], %y: Tensor[(n), i32]) -> Tensor[(n), i32]
  where n in [0, 50] {
  %q = div(%x, %y)
  return %q
})");
  for (const Target& target : targets()) {
    const TestKernel kernel = compile(region, target, {}, candidates(region, target, {}).front());
    std::vector<ir::Tensor> inputs = random_inputs(region, {{"n", 37}}, 1);
    for (std::int64_t i = 0; i < 37; ++i) inputs[1].set_integer(i, i % 2 == 0 ? -1 : 3);
    inputs[0].set_integer(0, INT32_MIN);
    const auto expected = reference(region, inputs);
    EXPECT_EQ(difference(run(region, target, kernel, {{"n", 37}}, inputs)[0], expected[0]), 0);
    inputs[1].set_integer(20, 0);
    ir::KernelError failure;
    run(region, target, kernel, {{"n", 37}}, inputs, 1, &failure);
    EXPECT_EQ(failure.check, 0);
  }
}

}  // namespace
}  // namespace anydim::codegen_cpu::testing
