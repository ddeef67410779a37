// Products whose columns part into gates that the epilogue meets in.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/codegen_cpu/expect_right.h"

namespace anydim::codegen_cpu::testing {
namespace {

TestRegion gated_region(const std::string& text, const std::vector<std::uint32_t>& weights,
                        std::int64_t gates) {
  TestRegion region = make_region(text, weights);
  EXPECT_EQ(std::get<ir::MatmulForm>(region.form.kind).gates(), gates);
  return region;
}

// SwiGLU: the gates' columns fill panels, or end within one.
TEST(GatedProduct, OfTwoGates) {
  for (const int columns : {1, 17, 48, 100}) {
    SCOPED_TRACE(columns);
    const TestRegion region = gated_region(fmt::format(R"(
fn @main(%x: Tensor[(n, 40), f32], %w: Tensor[(40, {0}), f32], %b: Tensor[({0}), f32], %r: Tensor[(n, {1}), f32]) -> Tensor[(n, {1}), f32]
  where n in [0, 5000] {{
  %p = matmul(%x, %w)
  %s = add(%p, %b)
  %g, %u = split(%s) {{axis = -1, sizes = ({1}, {1})}}
  %q = sigmoid(%g)
  %a = mul(%g, %q)
  %m = mul(%a, %u)
  %y = add(%m, %r)
  return %y
}})",
                                                       2 * columns, columns),
                                           {1}, 2);
    expect_right(region, bucket_of({{0, 5000}}), sizes("n", {0, 1, 6, 27, 64}));
    expect_right(region, bucket_of({{1, 1}}), sizes("n", {1}));
    expect_right(region, bucket_of({{257, 5000}}), sizes("n", {300}));
  }
}

// A cell of an LSTM has two results; slices part columns as a split does.
TEST(GatedProduct, OfFourGatesAndTwoResults) {
  const TestRegion region = gated_region(R"(
fn @main(%x: Tensor[(t, n, 80), f32], %i: Tensor[(), i64], %h: Tensor[(n, 20), f32], %w: Tensor[(80, 20), f32], %c: Tensor[(n, 20), f32]) -> (Tensor[(n, 20), f32], Tensor[(n, 20), f32])
  where t in [1, 9], n in [0, 300] {
  %v = transpose(%w) {perm = (1, 0)}
  %p = matmul(%h, %v)
  %now = gather(%x, %i) {axis = 0}
  %s = add(%p, %now)
  %a = strided_slice(%s) {axes = (1), starts = (0), ends = (20)}
  %o = strided_slice(%s) {axes = (1), starts = (20), ends = (40)}
  %f = strided_slice(%s) {axes = (-1), starts = (40), ends = (60)}
  %g = strided_slice(%s) {axes = (1), starts = (60), ends = (80)}
  %a2 = sigmoid(%a)
  %o2 = sigmoid(%o)
  %f2 = sigmoid(%f)
  %g2 = tanh(%g)
  %kept = mul(%f2, %c)
  %new = mul(%a2, %g2)
  %cell = add(%kept, %new)
  %shown = tanh(%cell)
  %state = mul(%o2, %shown)
  return %state, %cell
})",
                                         {3}, 4);
  const auto fill = [](std::vector<ir::Tensor>& inputs) { inputs[1].set_integer(0, -1); };
  expect_right(region, bucket_of({{0, 300}}), tests::pairs("t", {1, 4}, "n", {0, 1, 8, 33}),
               {.fill = fill});
}

// Both operands are of the call, and a batch.
TEST(GatedProduct, OfNoWeight) {
  const TestRegion region = gated_region(R"(
fn @main(%x: Tensor[(b, m, k), f32], %y: Tensor[(b, k, 60), f32]) -> Tensor[(b, m, 20), f32]
  where b in [0, 8], m in [0, 300], k in [0, 300] {
  %p = matmul(%x, %y)
  %q, %r, %s = split(%p) {axis = 2, sizes = (20, 20, 20)}
  %t = mul(%q, %r)
  %z = sub(%t, %s)
  return %z
})",
                                         {}, 3);
  std::vector<Symbols> shapes{{{"b", 2}, {"m", 5}, {"k", 0}}, {{"b", 0}, {"m", 5}, {"k", 3}}};
  for (const std::int64_t m : {0, 1, 9, 70})
    for (const std::int64_t k : {1, 7, 50}) shapes.push_back({{"b", 3}, {"m", m}, {"k", k}});
  expect_right(region, bucket_of({}), shapes, {.most = 4});
}

// Results lie next to each other along rows: squares of each gate's tile are turned.
TEST(GatedProduct, OfTurnedResults) {
  const TestRegion region = gated_region(R"(
fn @main(%x: Tensor[(n, 24), f32], %w: Tensor[(24, 88), f32]) -> Tensor[(44, n), f32]
  where n in [0, 300] {
  %p = matmul(%x, %w)
  %g, %u = split(%p) {axis = -1, sizes = (44, 44)}
  %a = relu(%g)
  %m = mul(%a, %u)
  %y = transpose(%m) {perm = (1, 0)}
  return %y
})",
                                         {1}, 2);
  expect_right(region, bucket_of({{0, 300}}), sizes("n", {0, 1, 15, 16, 37, 100}));
}

TEST(GatedProduct, OfOtherNumbers) {
  for (const std::string dtype : {"bf16", "f16", "f64", "i32"}) {
    SCOPED_TRACE(dtype);
    const bool narrow = dtype == "bf16" || dtype == "f16";
    const std::string sum = narrow ? "f32" : dtype;
    const TestRegion region = gated_region(fmt::format(R"(
fn @main(%x: Tensor[(n, 32), {0}], %w: Tensor[(32, 72), {0}]) -> Tensor[(n, 36), {0}]
  where n in [0, 300] {{
  %a = cast(%x) {{to = {1}}}
  %b = cast(%w) {{to = {1}}}
  %p = matmul(%a, %b)
  %c = cast(%p) {{to = {0}}}
  %g, %u = split(%c) {{axis = -1, sizes = (36, 36)}}
  %y = mul(%g, %u)
  return %y
}})",
                                                       dtype, sum),
                                           {1}, 2);
    expect_right(region, bucket_of({{0, 300}}), sizes("n", {0, 1, 5, 33, 100}),
                 {.tolerance = dtype == "f16" ? 4e-3 : 2e-5, .bf16_tolerance = 2e-2});
  }
}

}  // namespace
}  // namespace anydim::codegen_cpu::testing
