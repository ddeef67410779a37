// What the cost model of maps and rows counts, on placed kernels.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "codegen_cuda/form_facts.h"
#include "codegen_cuda/instruction_count.h"
#include "tests/codegen_cuda/kernel_case.h"

namespace anydim::codegen_cuda::testing {
namespace {

std::string sum_of(const std::string& rows, const std::string& symbols) {
  return fmt::format(R"(
fn @main(%x: Tensor[({0}, 64), f32], %table: Tensor[(s, 64), f32]) -> Tensor[({0}, 64), f32]
  where {1} {{
  %y = add(%x, %table)
  return %y
}}
)",
                     rows, symbols);
}

KernelCount count(const std::string& text, const CountedLoops& loops, std::size_t number = 0) {
  const auto region = make_region(text);
  const CudaTarget target = small_target("h200");
  const auto facts = derive_facts(target, region->region, region->form);
  return count_kernel(facts->placed.at(number), loops);
}

// A thread's neighbours share addresses and accesses; sums they have each.
TEST(InstructionCount, OfVectors) {
  const std::string text = sum_of("b, s", "b in [1, 1000], s in [1, 1000]");
  const double one = count(text, {.width = 1}).sections.at(0).vector,
               four = count(text, {.width = 4}).sections.at(0).vector;
  EXPECT_GT(four, one);
  EXPECT_LE(four, one + 3);
}

// Places are found by divisions: by a number that is known, by one that is not, in 64 bits.
TEST(InstructionCount, OfDivisions) {
  const auto vector = [](const std::string& rows, const std::string& symbols) {
    return count(sum_of(rows, symbols), {.width = 4}).sections.at(0).vector;
  };
  const double known = vector("b, 8", "b in [1, 1000], s in [8, 8]"),
               unknown = vector("b, s", "b in [1, 1000], s in [1, 1000]"),
               wide = vector("b, s", "b in [1, 1000000000], s in [1, 1000000]");
  EXPECT_LT(known + 15, unknown);
  EXPECT_LT(unknown, wide);
}

// A product that is only added is part of the sum.
TEST(InstructionCount, OfRows) {
  const KernelCount rows = count(R"(
fn @main(%x: Tensor[(n, 384), f32]) -> Tensor[(n, 384), f32] where n in [1, 1000] {
  %square = mul(%x, %x)
  %sum = reduce_sum(%square) {axes = (1), keepdims = 1}
  %y = sub(%x, %sum)
  return %y
}
)",
                                 {.outer = 1, .width = 4, .unrolled = true});
  ASSERT_EQ(rows.sections.size(), 2U);
  EXPECT_EQ(rows.sections[0].reductions, std::vector{ir::DType::F32});
  // A load of four, and four products that are added.
  EXPECT_EQ(rows.sections[0].vector, 1 + 4);
  // Four differences, and their store.
  EXPECT_EQ(rows.sections[1].vector, 4 + 1);
  EXPECT_GT(rows.block, 10);
  EXPECT_GT(rows.row, 0);
}

TEST(InstructionCount, WhatTheyTouch) {
  const ir::DimLeaf row = ir::loop_leaf(ir::LoopRole::Point, 0),
                    column = ir::loop_leaf(ir::LoopRole::Point, 1);
  const std::vector<ir::Iteration> space{{row, ir::Dim(100)}, {column, ir::Dim(64)}};
  const std::vector<double> extents{100, 64};
  EXPECT_EQ(touched(space, extents, {row, column}, 256), 256);
  EXPECT_EQ(touched(space, extents, {row}, 256), 4);
  EXPECT_EQ(touched(space, extents, {column}, 256), 64);
  EXPECT_EQ(touched(space, extents, {column}, 16), 16);
  EXPECT_EQ(touched(space, extents, {}, 256), 1);
}

}  // namespace
}  // namespace anydim::codegen_cuda::testing
