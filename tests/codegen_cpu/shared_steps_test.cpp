// Maps whose rows have steps in common.
#include "codegen_cpu/loops/shared_steps.h"

#include <gtest/gtest.h>

#include "tests/codegen_cpu/expect_right.h"

namespace anydim::codegen_cpu::testing {
namespace {

SharedSteps shared_of(const TestRegion& region) {
  const auto& form = std::get<ir::MapForm>(region.form.kind);
  return shared_steps(form.parts.at(0), region.form.symbols);
}

// Lengths of a row around those of vectors, rows of one task and of several.
const std::vector<Symbols> shapes = {
    {{"n", 1}, {"w", 1}},   {{"n", 7}, {"w", 15}},   {{"n", 3}, {"w", 16}}, {{"n", 40}, {"w", 17}},
    {{"n", 2}, {"w", 900}}, {{"n", 1}, {"w", 5000}}, {{"n", 5}, {"w", 0}},  {{"n", 0}, {"w", 9}}};

TEST(SharedSteps, PlacesAndSharesOfAResampledAxis) {
  for (const std::string mode : {"nearest", "linear", "cubic"}) {
    SCOPED_TRACE(mode);
    const TestRegion region = make_region(R"(
fn @main(%x: Tensor[(n, w), f32], %scales: Tensor[(2), f32]) -> Tensor[(n, 3 * w), f32]
  where n in [0, 100], w in [0, 10000] {
  %m = shape(n, 3 * w)
  %y = dyn.resize(%x, %scales, %m) {axes = (1), mode = ")" +
                                          mode + R"("}
  return %y
})");
    EXPECT_FALSE(shared_of(region).kept.empty());
    expect_right(region, {}, shapes, {.fill = [](std::vector<ir::Tensor>& inputs) {
                   inputs[1] = ir::Tensor::of(ir::DType::F32, {2}, std::vector<double>{1, 3});
                 }});
  }
}

// Positions of a row alone; a number of the row itself stays in the row.
TEST(SharedSteps, FunctionsOfPositions) {
  const TestRegion region = make_region(R"(
fn @main(%x: Tensor[(n, w), f32], %f: Tensor[(w), f32]) -> (Tensor[(n, w), f32])
  where n in [0, 100], w in [0, 10000] {
  %e = exp(%f)
  %t = tanh(%e)
  %s = sigmoid(%x)
  %y = mul(%s, %t)
  return %y
})");
  const SharedSteps shared = shared_of(region);
  ASSERT_EQ(shared.kept.size(), 1u);
  const auto& program = std::get<ir::MapForm>(region.form.kind).parts[0].program;
  EXPECT_TRUE(program.steps[static_cast<std::size_t>(shared.kept[0])].applies(ir::Op::tanh));
  EXPECT_FALSE(std::ranges::all_of(shared.left_out, std::identity()));
  expect_right(region, {}, shapes);
}

TEST(SharedSteps, NothingIsSharedOfCheapSteps) {
  const TestRegion region = make_region(R"(
fn @main(%x: Tensor[(n, w), f32], %f: Tensor[(w), f32]) -> (Tensor[(n, w), f32])
  where n in [0, 100], w in [0, 10000] {
  %g = add(%f, %f)
  %y = mul(%x, %g)
  return %y
})");
  EXPECT_TRUE(shared_of(region).kept.empty());
}

TEST(SharedSteps, OneRowSharesNothing) {
  const TestRegion region = make_region(R"(
fn @main(%x: Tensor[(w), f32]) -> (Tensor[(w), f32]) where w in [0, 10000] {
  %y = tanh(%x)
  return %y
})");
  EXPECT_TRUE(shared_of(region).kept.empty());
}

}  // namespace
}  // namespace anydim::codegen_cpu::testing
