#include <fmt/format.h>
#include <gtest/gtest.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>

#include <cstdint>
#include <map>
#include <string>

#include "codegen_cpu/emitters.h"
#include "codegen_cpu/kernel_kind.h"
#include "codegen_cpu/matmul/matmul_operands.h"
#include "codegen_cpu/matmul/matmul_schedule.h"
#include "tests/codegen_cpu/expect_right.h"

namespace anydim::codegen_cpu::testing {
namespace {

TEST(Matmul, WeightAndVaryingRows) {
  const TestRegion region = make_region(R"(
fn @main(%x: Tensor[(n, 40), f32], %w: Tensor[(40, 72), f32]) -> Tensor[(n, 72), f32]
  where n in [0, 5000] {
  %y = matmul(%x, %w)
  return %y
})",
                                        {1});
  expect_right(region, bucket_of({{0, 5000}}), sizes("n", {0, 1, 2, 5, 6, 7, 13, 27, 64, 130}));
  expect_right(region, bucket_of({{1, 1}}), sizes("n", {1}));
  expect_right(region, bucket_of({{2, 6}}), sizes("n", {2, 3, 6}));
  expect_right(region, bucket_of({{7, 32}}), sizes("n", {7, 8, 31, 32}));
  expect_right(region, bucket_of({{257, 5000}}), sizes("n", {257, 300, 700}));
}

// All that a task reads of the right operand stays in a cache: groups of columns pass under rows.
TEST(Matmul, FewDepthsOfWindows) {
  const TestRegion windows = make_region(R"(
fn @main(%x: Tensor[(b, l), f32], %w: Tensor[(29, 10), f32]) -> Tensor[(b, 29, floor_div(l, 5) - 1), f32]
  where b in [0, 100], l in [10, 10000] {
  %v = windows(%x) {axes = (1), sizes = (10), strides = (5)}
  %t = transpose(%v) {perm = (0, 2, 1)}
  %y = matmul(%w, %t)
  return %y
})");
  expect_right(windows, bucket_of({{0, 100}, {65, 2000}}),
               tests::pairs("b", {0, 2}, "l", {330, 3335}), {.most = 4});
}

TEST(Matmul, ResidualAndLayerNorm) {
  const TestRegion region = make_region(R"(
fn @main(%x: Tensor[(n, 20), f32], %w: Tensor[(20, 44), f32], %bias: Tensor[(44), f32], %r: Tensor[(n, 44), f32], %scale: Tensor[(44), f32], %shift: Tensor[(44), f32]) -> Tensor[(n, 44), f32]
  where n in [0, 4096] {
  %y = matmul(%x, %w)
  %z = add(%y, %bias)
  %u = add(%z, %r)
  %v = layer_norm(%u, %scale, %shift) {axis = -1, epsilon = 1e-12}
  return %v
})",
                                        {1});
  ASSERT_FALSE(std::get<ir::MatmulForm>(region.form.kind).rows.empty());
  expect_right(region, bucket_of({{0, 4096}}), sizes("n", {0, 1, 5, 9, 30, 100}),
               {.tolerance = 1e-4, .most = 2});
  expect_right(region, bucket_of({{1, 1}}), sizes("n", {1}), {.tolerance = 1e-4, .most = 2});
}

// The harness runs kernels with the result in the place of what they may overwrite.
TEST(Matmul, WhatAResultMayOverwrite) {
  const auto overwritable = [](const std::string& body, const std::string& result = "(n, 32)") {
    const TestRegion region = make_region(fmt::format(R"(
fn @main(%x: Tensor[(n, 32), f32], %w: Tensor[(32, 32), f32], %r: Tensor[(n, 32), f32], %s: Tensor[(n, 32), f32]) -> Tensor[{}, f32]
  where n in [0, 300] {{
  %m = matmul(%x, %w)
  {}
  return %y
}})",
                                                      result, body),
                                          {1});
    expect_right(region, bucket_of({{0, 300}}), sizes("n", {0, 1, 9, 100}), {.most = 2});
    return overwritable_parameters(region.region, std::get<ir::MatmulForm>(region.form.kind),
                                   region.form.symbols);
  };
  using Positions = std::vector<std::size_t>;
  EXPECT_EQ(overwritable("%y = add(%m, %r)"), Positions{2});
  EXPECT_EQ(overwritable("%a = add(%m, %r)\n %b = relu(%a)\n %y = add(%b, %s)"), (Positions{2, 3}));
  EXPECT_EQ(overwritable("%a = add(%m, %r)\n %s2 = shape(n, 4, 8)\n %y = dyn.reshape(%a, %s2)",
                         "(n, 4, 8)"),
            Positions{2});
  EXPECT_EQ(overwritable("%y = add(%m, %x)"), Positions{}) << "other elements of it are multiplied";
  EXPECT_EQ(overwritable("%a = add(%m, %r)\n %y = transpose(%a) {perm = (1, 0)}", "(32, n)"),
            Positions{})
      << "elements move";
}

// Prefetches of the micro-kernels by the level they fetch into: 3 is the first.
std::map<std::uint64_t, int> prefetches(const std::string& text, const ir::Schedule& schedule) {
  const TestRegion region = make_region(text, {1});
  std::map<std::uint64_t, int> found;
  const auto count = [&](llvm::Module& module) {
    for (const llvm::Function& function : module) {
      if (!function.getName().starts_with("multiply_")) continue;
      for (const llvm::Instruction& instruction : llvm::instructions(function)) {
        const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
        if (call != nullptr && call->getIntrinsicID() == llvm::Intrinsic::prefetch)
          ++found[llvm::cast<llvm::ConstantInt>(call->getArgOperand(2))->getZExtValue()];
      }
    }
  };
  const Target target = targets().back();
  compile_form(target, region.region, prepared(target, region.region, region.form),
               bucket_of({{64, 64}}), schedule, count);
  return found;
}

TEST(Matmul, FetchesWhatComesNextWhileItMultiplies) {
  const ir::Schedule schedule =
      MatmulSchedule{.rows = 4, .columns = 16, .block_rows = 64, .block_columns = 16}.schedule();
  const std::string parameters = R"(
fn @main(%x: Tensor[(n, 48), f32], %w: Tensor[(48, 32), f32], %r: Tensor[(n, 32), f32]) -> Tensor[(n, 32), f32]
  where n in [64, 64] {)";
  const std::string end = "\n  return %y\n}";
  // A group of panels of the weight in every loop, and in a loop of its own the rows behind.
  const auto plain = prefetches(parameters + "%y = matmul(%x, %w)" + end, schedule);
  const auto packed =
      prefetches(parameters + "%a = relu(%x)\n %y = matmul(%a, %w)" + end, schedule);
  EXPECT_GT(plain.at(2), packed.at(2));
  // Lines of the results, and of the residual.
  EXPECT_GT(plain.at(3), 0);
  const auto residual =
      prefetches(parameters + "%m = matmul(%x, %w)\n %y = add(%m, %r)" + end, schedule);
  EXPECT_EQ(residual.at(3), 2 * plain.at(3));
}

// A convolution's product: the weight becomes the right operand, and results are turned in
// registers. Shorter sums stay as they are.
TEST(Matmul, WeightOnTheLeft) {
  for (const auto& [dtype, tolerance] : std::vector<std::pair<std::string, double>>{
           {"f32", 2e-5}, {"f64", 1e-13}, {"f16", 2e-3}, {"i32", 0}, {"i8", 0}}) {
    for (const int depth : {511, 515}) {
      SCOPED_TRACE(dtype + " " + std::to_string(depth));
      const std::string k = std::to_string(depth), tensor = ", " + dtype + "]";
      const TestRegion region =
          make_region("fn @main(%w: Tensor[(37, " + k + ")" + tensor + ", %x: Tensor[(b, " + k +
                          ", n)" + tensor + ", %bias: Tensor[(37, 1)" + tensor +
                          ", %r: Tensor[(b, 37, n)" + tensor + ") -> Tensor[(b, 37, n)" + tensor +
                          " where b in [0, 8], n in [0, 300] {\n %y = matmul(%w, %x)\n %z = "
                          "add(%y, %bias)\n %s = add(%z, %r)\n return %s\n}",
                      {0});
      const auto& form = std::get<ir::MatmulForm>(region.form.kind);
      for (const Target& target : targets()) {
        const auto prepared_form = prepared(target, region.region, region.form);
        const auto& turned = std::get<ir::MatmulForm>(prepared_form.kind);
        EXPECT_EQ(turned.m == form.n, depth == 515);
      }
      expect_right(region, bucket_of({}),
                   {{{"b", 1}, {"n", 1}},
                    {{"b", 2}, {"n", 15}},
                    {{"b", 1}, {"n", 16}},
                    {{"b", 1}, {"n", 17}},
                    {{"b", 2}, {"n", 49}},
                    {{"b", 0}, {"n", 5}},
                    {{"b", 1}, {"n", 0}}},
                   {.tolerance = tolerance, .most = dtype == "f32" ? 4U : 1U});
    }
  }
}

// A weight on the left is multiplied from the right, panel by panel, unless most of a panel would
// be empty and rows are packed anyway, or sums are short.
TEST(Matmul, WeightsThatFillNoPanelStayOnTheLeft) {
  const auto turned = [](int rows, int depth, bool transposed) {
    const std::string m = std::to_string(rows), k = std::to_string(depth);
    const TestRegion region =
        make_region("fn @main(%w: Tensor[(" + m + ", " + k + "), f32], %x: Tensor[" +
                        (transposed ? "(n, " + k + ")" : "(" + k + ", n)") + ", f32]) -> Tensor[(" +
                        m + ", n), f32] where n in [0, 5000] {\n" +
                        (transposed ? " %t = transpose(%x) {perm = (1, 0)}\n %y = matmul(%w, %t)\n"
                                    : " %y = matmul(%w, %x)\n") +
                        " return %y\n}",
                    {0});
    const ir::LoopForm form = prepared({}, region.region, region.form);
    return std::get<ir::MatmulForm>(form.kind).n.extent.is_constant(rows);
  };
  EXPECT_TRUE(turned(9, 600, false));
  EXPECT_FALSE(turned(8, 600, false));
  EXPECT_TRUE(turned(8, 600, true)) << "rows are read where they lie";
  EXPECT_FALSE(turned(9, 500, false));
}

}  // namespace
}  // namespace anydim::codegen_cpu::testing
