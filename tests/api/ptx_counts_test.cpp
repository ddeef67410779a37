// Ops whose size only the data tells, compiled by NVRTC and run on the interpreter through runtime's CUDA path, against the reference evaluator.
#include <gtest/gtest.h>

#include <random>

#include "api/anydim.h"
#include "ir/parse.h"
#include "tests/support/pretended_part.h"

namespace anydim {
namespace {

using ir::DType;
using ir::Tensor;

// Small numbers, so that many are equal and some are zero.
Tensor random_numbers(DType dtype, std::vector<std::int64_t> dims, std::mt19937& random, unsigned below) {
  Tensor tensor(dtype, std::move(dims));
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    const auto number = static_cast<std::int64_t>(random() % below);
    if (ir::is_float(dtype)) tensor.set_real(i, static_cast<double>(number) - 2);
    else tensor.set_integer(i, number);
  }
  return tensor;
}

// `inputs(size, random)` for sizes that grow and shrink; results are the evaluator's, bit for bit.
template <typename Inputs>
void expect_same(const char* text, const std::vector<std::int64_t>& sizes, const Inputs& inputs) {
  tests::PretendedPart part("h200");
  const auto executable = compile_for(part.target, ir::parse(text), part.options);
  runtime::Context context(executable);
  std::mt19937 random(7);
  for (const std::int64_t size : sizes) {
    SCOPED_TRACE(size);
    const std::vector<Tensor> given = inputs(size, random);
    const std::vector<Tensor> want = evaluate_reference(ir::parse(text), given);
    const std::vector<Tensor> got = part.reporting([&] { return context.run(given); });
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      SCOPED_TRACE(i);
      ASSERT_EQ(got[i].dims(), want[i].dims());
      ASSERT_TRUE(got[i].same_bits(want[i]));
    }
  }
  EXPECT_EQ(part.gpu->findings(), "");
}

TEST(PtxCounts, CoordinatesAndSelection) {
  expect_same(R"(
fn @main(%x: Tensor[(n, 3), f32], %c: Tensor[(n), bool]) where n in [0, 5000] {
  %i = nonzero(%x)
  %picked = gather_nd(%x, transpose(%i))
  %rows = compress(%x, %c) {axis = 0}
  %twice = add(%rows, %rows)
  return %i, %picked, %twice
})",
              {0, 1, 17, 64, 900, 2}, [](std::int64_t size, std::mt19937& random) {
                return std::vector<Tensor>{random_numbers(DType::F32, {size, 3}, random, 4),
                                           random_numbers(DType::Bool, {size}, random, 2)};
              });
}

TEST(PtxCounts, DifferentElements) {
  expect_same(R"(
fn @main(%x: Tensor[(n), f32], %m: Tensor[(n, 2), i64]) where n in [0, 5000] {
  %a, %b, %c, %d = unique(%x)
  %e, %f, %g, %h = unique(%x) {sorted = 0}
  %i, %j, %k, %l = unique(%m) {axis = 0}
  return %a, %b, %c, %d, %e, %f, %g, %h, %i, %j, %k, %l
})",
              {0, 1, 65, 300, 5}, [](std::int64_t size, std::mt19937& random) {
                return std::vector<Tensor>{random_numbers(DType::F32, {size}, random, 1 + static_cast<unsigned>(size) / 3),
                                           random_numbers(DType::I64, {size, 2}, random, 5)};
              });
}

TEST(PtxCounts, LargestElements) {
  expect_same(R"(
fn @main(%x: Tensor[(3, n), f32], %k: Tensor[(), i64]) where n in [0, 5000] {
  %v, %i = dyn.top_k(%x, %k)
  %o = argsort(%x) {descending = 1}
  return %v, %i, %o
})",
              {4, 40, 7}, [](std::int64_t size, std::mt19937& random) {
                return std::vector<Tensor>{random_numbers(DType::F32, {3, size}, random, 9), Tensor::of<std::int64_t>(DType::I64, {}, {3})};
              });
}

}  // namespace
}  // namespace anydim
