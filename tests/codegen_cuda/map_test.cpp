#include <gtest/gtest.h>

#include "tests/codegen_cuda/expect_right.h"

namespace anydim::codegen_cuda::testing {
namespace {

const std::vector<std::int64_t> tails{0, 1, 3, 4, 5, 8, 17, 255, 1024, 1027};

TEST(CudaMap, AddsAndScalesAtEveryTail) {
  const auto region = make_region(R"(
fn @main(%x: Tensor[(n), f32], %y: Tensor[(n), f32], %s: Tensor[(), f32]) -> Tensor[(n), f32]
  where n in [0, 5000] {
  %a = add(%x, %y)
  %b = mul(%a, %s)
  return %b
})");
  expect_right(region, {}, sizes("n", tails));
}

TEST(CudaMap, SurplusBlocksExit) {
  const auto region = make_region(R"(
fn @main(%x: Tensor[(n), bf16], %y: Tensor[(n), bf16]) -> Tensor[(n), bf16]
  where n in [0, 5000] {
  %a = add(%x, %y)
  return %a
})");
  const CudaTarget target = small_target("h200");
  const KernelCase kernel = compiled(region, target, {}, candidates(*region, target, {}).front());
  const ptx::Module module = ptx::parse_ptx(kernel.ptx);
  CaseOptions options;
  options.capacity = {{"n", 5000}};
  for (const std::int64_t n : {0, 7, 2049}) EXPECT_EQ(check_case(kernel, module, {{"n", n}}, options), "") << n;
}

TEST(CudaMap, SeveralResultsAndTypes) {
  const auto region = make_region(R"(
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
  expect_right(region, {}, sizes("n", {0, 1, 3, 4, 37}));
}

TEST(CudaMap, BroadcastsAlongBothAxes) {
  const auto region = make_region(R"(
fn @main(%x: Tensor[(b, 1, 12), f32], %y: Tensor[(s, 1), f32]) -> Tensor[(b, s, 12), f32]
  where b in [0, 50], s in [0, 50] {
  %a = sub(%x, %y)
  return %a
})");
  expect_right(region, {}, {{{"b", 0}, {"s", 3}}, {{"b", 3}, {"s", 0}}, {{"b", 1}, {"s", 1}}, {{"b", 5}, {"s", 7}}, {{"b", 9}, {"s", 17}}});
}

TEST(CudaMap, TransposesHeads) {
  const auto region = make_region(R"(
fn @main(%x: Tensor[(b, s, 36), f16]) -> Tensor[(b, 3, s, 12), f16]
  where b in [0, 50], s in [0, 50] {
  %shape = shape(b, s, 3, 12)
  %r = dyn.reshape(%x, %shape)
  %t = transpose(%r) {perm = (0, 2, 1, 3)}
  return %t
})");
  expect_right(region, {}, {{{"b", 0}, {"s", 3}}, {{"b", 1}, {"s", 1}}, {{"b", 2}, {"s", 17}}});
}

TEST(CudaMap, TransposesThroughTiles) {
  for (const std::string dtype : {"i32", "f64", "bf16", "u8"}) {
    const auto region =
        make_region("fn @main(%x: Tensor[(b, n, m), " + dtype + "], %y: Tensor[(b, m, n), " + dtype + "]) -> Tensor[(b, m, n), " + dtype +
                    R"(]
  where b in [0, 50], n in [0, 50], m in [0, 50] {
  %t = transpose(%x) {perm = (0, 2, 1)}
  %a = add(%t, %y)
  return %a
})");
    expect_right(region, {},
                 {{{"b", 1}, {"n", 0}, {"m", 3}},
                  {{"b", 1}, {"n", 1}, {"m", 1}},
                  {{"b", 3}, {"n", 20}, {"m", 33}},
                  {{"b", 2}, {"n", 32}, {"m", 40}}});
  }
}

TEST(CudaMap, GathersRowsAndReportsIndicesOutOfRange) {
  const auto region = make_region(R"(
fn @main(%table: Tensor[(30, 20), f32], %ids: Tensor[(b, s), i64], %extra: Tensor[(20), f32]) -> Tensor[(b, s, 20), f32]
  where b in [0, 50], s in [0, 50] {
  %g = gather(%table, %ids) {axis = 0}
  %a = add(%g, %extra)
  return %a
})");
  expect_right(region, {}, {{{"b", 0}, {"s", 3}}, {{"b", 1}, {"s", 1}}, {{"b", 3}, {"s", 17}}});
  std::vector<ir::Tensor> inputs = integer_inputs(*region, {{"b", 2}, {"s", 3}});
  inputs[1].set_integer(4, 30);
  ir::KernelError failure = failure_of(region, {{"b", 2}, {"s", 3}}, inputs);
  EXPECT_EQ(failure.check, 0);
  EXPECT_EQ(failure.value, 30);
  inputs[1].set_integer(4, -31);
  EXPECT_EQ(failure_of(region, {{"b", 2}, {"s", 3}}, inputs).value, -31);
}

TEST(CudaMap, GathersFromAnEmptyTableReadNothing) {
  const auto region = make_region(R"(
fn @main(%table: Tensor[(n, 20), f32], %ids: Tensor[(s), i64]) -> Tensor[(s, 20), f32]
  where n in [0, 50], s in [0, 50] {
  %g = gather(%table, %ids) {axis = 0}
  return %g
})");
  const Symbols symbols{{"n", 0}, {"s", 2}};
  const ir::KernelError failure = failure_of(region, symbols, integer_inputs(*region, symbols));
  EXPECT_EQ(failure.check, 0);
}

TEST(CudaMap, GathersAlongTheLastAxis) {
  const auto region = make_region(R"(
fn @main(%x: Tensor[(b, 30), f32], %ids: Tensor[(s), i32]) -> Tensor[(b, s), f32]
  where b in [0, 50], s in [0, 50] {
  %g = gather(%x, %ids) {axis = 1}
  return %g
})");
  expect_right(region, {}, {{{"b", 2}, {"s", 0}}, {{"b", 1}, {"s", 1}}, {{"b", 3}, {"s", 37}}});
}

TEST(CudaMap, ConcatenatesInParts) {
  const auto region = make_region(R"(
fn @main(%x: Tensor[(n, 5), f32], %y: Tensor[(n, m), f32], %z: Tensor[(n, 3), f32]) -> Tensor[(n, m + 8), f32]
  where n in [0, 50], m in [0, 50] {
  %c = concat(%x, %y, %z) {axis = 1}
  return %c
})");
  expect_right(region, {}, {{{"n", 0}, {"m", 3}}, {{"n", 3}, {"m", 0}}, {{"n", 4}, {"m", 33}}});
}

TEST(CudaMap, ConcatenatesUnderGuards) {
  const auto region = make_region(R"(
fn @main(%x: Tensor[(n, 5), f32], %y: Tensor[(n, m), f32]) -> Tensor[(n, m + 5), f32]
  where n in [0, 50], m in [0, 50] {
  %c = concat(%x, %y) {axis = 1}
  %r = neg(%c)
  return %r
})");
  expect_right(region, {}, {{{"n", 0}, {"m", 3}}, {{"n", 3}, {"m", 0}}, {{"n", 4}, {"m", 33}}, {{"n", 1}, {"m", 11}}});
}

TEST(CudaMap, SlicesBackwards) {
  const auto region = make_region(R"(
fn @main(%x: Tensor[(n, 16), f32]) -> Tensor[(n, 8), f32]
  where n in [0, 50] {
  %s = strided_slice(%x) {starts = (15), ends = (-17), axes = (1), steps = (-2)}
  return %s
})");
  expect_right(region, {}, sizes("n", {0, 1, 33}));
}

TEST(CudaMap, DividesIntegersAndReportsZeros) {
  const auto region = make_region(R"(
fn @main(%x: Tensor[(n), i32], %y: Tensor[(n), i32]) -> Tensor[(n), i32]
  where n in [0, 50] {
  %q = div(%x, %y)
  return %q
})");
  std::vector<ir::Tensor> inputs = integer_inputs(*region, {{"n", 37}});
  for (std::int64_t i = 0; i < 37; ++i) inputs[1].set_integer(i, i % 2 == 0 ? -1 : 3);
  EXPECT_EQ(failure_of(region, {{"n", 37}}, inputs).check, -1);
  inputs[1].set_integer(20, 0);
  EXPECT_EQ(failure_of(region, {{"n", 37}}, inputs).check, 0);
}

// Sizes beyond 32 bits are counted in 64, whatever runs now.
TEST(CudaMap, CountsInSixtyFourBitsWhereRangesAskForIt) {
  const auto region = make_region(R"(
fn @main(%x: Tensor[(b, s, 48), f32], %y: Tensor[(s, 48), f32]) -> Tensor[(b, s, 48), f32]
  where b in [0, 2147483647], s in [0, 2147483647] {
  %a = add(%x, %y)
  return %a
})");
  const CudaTarget target = small_target("h200");
  const ir::Schedule schedule = candidates(*region, target, {}).front();
  const KernelCase wide = compiled(region, target, {}, schedule);
  EXPECT_NE(wide.source.find("const long long points"), std::string::npos);
  expect_right(region, target, {}, schedule, {{{"b", 0}, {"s", 3}}, {{"b", 3}, {"s", 5}}});
  // The bucket's range of b * s proves that 32 bits suffice.
  const ir::Bucket bucket = bucket_of(std::vector<ir::BucketInterval>(region->region.keys.size(), {0, 1024, 1}));
  EXPECT_NE(compiled(region, target, bucket, schedule).source.find("const int points"), std::string::npos);
  expect_right(region, target, bucket, schedule, {{{"b", 3}, {"s", 5}}});
}

}  // namespace
}  // namespace anydim::codegen_cuda::testing
