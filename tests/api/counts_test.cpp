// Ops whose size only the data tells, compiled, against the reference evaluator: sizes 0, 1, a few
// and many, in order and in reverse, under every policy.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <span>

#include "api/anydim.h"
#include "ir/reference/evaluate.h"
#include "ir/shapes/infer.h"
#include "ir/text/parse.h"
#include "tests/support/random_tensors.h"

namespace anydim {
namespace {

using ir::DType;
using ir::Tensor;
using tests::random_numbers;

constexpr std::int64_t sizes[] = {0, 1, 2, 17, 64, 65, 1500};

std::shared_ptr<const runtime::Executable> compiled(const char* text, Policy policy) {
  CompileOptions options;
  options.threads = 2;
  options.keep_kernels = false;
  options.policies = {{"", policy}};
  return compile(ir::parse(text), options);
}

// `inputs(size, random)` for every size; what comes out must be the evaluator's, bit for bit.
template <typename Inputs>
void expect_same(const char* text, const Inputs& inputs) {
  ir::Module module = ir::parse(text);
  ir::infer_types(module);
  for (const Policy policy : {Policy::Symbolic, Policy::Bucketed, Policy::Exact}) {
    SCOPED_TRACE(name_of(policy));
    runtime::Context context(compiled(text, policy));
    std::mt19937 random(7);
    std::vector<std::int64_t> order(std::begin(sizes), std::end(sizes));
    order.insert(order.end(), std::rbegin(sizes), std::rend(sizes));
    for (const std::int64_t size : order) {
      SCOPED_TRACE(size);
      const std::vector<Tensor> given = inputs(size, random);
      const std::vector<Tensor> wanted = ir::evaluate(module, module.functions[0], given);
      const std::vector<Tensor> got = context.run(given);
      ASSERT_EQ(got.size(), wanted.size());
      for (std::size_t i = 0; i < got.size(); ++i) {
        SCOPED_TRACE(i);
        ASSERT_EQ(got[i].dims(), wanted[i].dims());
        ASSERT_TRUE(got[i].same_bits(wanted[i]));
      }
    }
  }
}

TEST(Counts, CoordinatesAndSelection) {
  expect_same(R"(
fn @main(%x: Tensor[(n, 3), f32], %c: Tensor[(n), bool]) {
  %i = nonzero(%x)
  %picked = gather_nd(%x, transpose(%i))
  %rows = compress(%x, %c) {axis = 0}
  %twice = add(%rows, %rows)
  return %i, %picked, %twice
})",
              [](std::int64_t size, std::mt19937& random) {
                return std::vector<Tensor>{random_numbers(DType::F32, {size, 3}, random, 4),
                                           random_numbers(DType::Bool, {size}, random, 2)};
              });
}

// One byte an element: the count itself is the size of the result, known once it is fetched.
TEST(Counts, AResultAsLargeAsItsCount) {
  runtime::Context context(compiled(R"(
fn @main(%c: Tensor[(n), bool]) {
  %kept = compress(%c, %c) {axis = 0}
  return %kept
})",
                                    Policy::Symbolic));
  std::mt19937 random(7);
  for (const std::int64_t size : {2'000'000, 10, 300'000}) {
    const Tensor given = random_numbers(DType::Bool, {size}, random, 2);
    const Tensor got = context.run({given})[0];
    EXPECT_EQ(got.dims()[0], std::ranges::count(given.bytes(), std::byte{1}));
    EXPECT_EQ(context.memory().outputs, got.dims()[0]);
    EXPECT_EQ(std::ranges::count(got.bytes(), std::byte{1}), got.dims()[0]);
  }
}

TEST(Counts, DifferentElements) {
  expect_same(R"(
fn @main(%x: Tensor[(n), f32], %m: Tensor[(n, 2), i64]) {
  %a, %b, %c, %d = unique(%x)
  %e, %f, %g, %h = unique(%x) {sorted = 0}
  %i, %j, %k, %l = unique(%m) {axis = 0}
  return %a, %b, %c, %d, %e, %f, %g, %h, %i, %j, %k, %l
})",
              [](std::int64_t size, std::mt19937& random) {
                return std::vector<Tensor>{random_numbers(DType::F32, {size}, random, 1 + size / 3),
                                           random_numbers(DType::I64, {size, 2}, random, 5)};
              });
}

TEST(Counts, Orders) {
  expect_same(R"(
fn @main(%x: Tensor[(4, n), f32], %y: Tensor[(n, 3), u8]) {
  %i = argsort(%x)
  %j = argsort(%x) {descending = 1}
  %k = argsort(%y) {axis = 0}
  %l = argsort(%y) {axis = 0, slices = 1}
  return %i, %j, %k, %l
})",
              [](std::int64_t size, std::mt19937& random) {
                return std::vector<Tensor>{random_numbers(DType::F32, {4, size}, random, 40),
                                           random_numbers(DType::U8, {size, 3}, random, 6)};
              });
}

TEST(Counts, LargestElements) {
  expect_same(R"(
fn @main(%x: Tensor[(4, n), f32], %y: Tensor[(n, 3), i64], %k: Tensor[(), i64]) {
  %v, %i = dyn.top_k(%x, %k)
  %w, %j = dyn.top_k(%y, %k) {axis = 0, largest = 0}
  %l = argsort(%x, %k) {descending = 1}
  return %v, %i, %w, %j, %l
})",
              [](std::int64_t size, std::mt19937& random) {
                const std::int64_t k = size / 7;
                return std::vector<Tensor>{random_numbers(DType::F32, {4, size}, random, 400),
                                           random_numbers(DType::I64, {size, 3}, random, 60),
                                           Tensor::of<std::int64_t>(DType::I64, {}, {k})};
              });
}

TEST(Counts, BoxesThatOverlap) {
  expect_same(R"(
fn @main(%b: Tensor[(2, n, 4), f32], %s: Tensor[(2, 2, n), f32]) {
  %r = non_max_suppression(%b, %s, dim(20), constant(f32 () [0.4]), constant(f32 () [1.5]))
  return %r
})",
              [](std::int64_t size, std::mt19937& random) {
                const std::int64_t boxes = std::min<std::int64_t>(size, 70);
                return std::vector<Tensor>{random_numbers(DType::F32, {2, boxes, 4}, random, 12),
                                           random_numbers(DType::F32, {2, 2, boxes}, random, 9)};
              });
}

// Few of many are asked for: the best candidates are looked at first, which gives as many where
// boxes lie apart, and not where they lie on each other. Scores of one class are no numbers here
// and there, and none of another is a candidate.
TEST(Counts, BestBoxesOfMany) {
  for (const std::int64_t places : {4, 1000}) {
    SCOPED_TRACE(places);
    expect_same(R"(
fn @main(%b: Tensor[(1, n, 4), f32], %s: Tensor[(1, 3, n), f32]) {
  %r = non_max_suppression(%b, %s, dim(5), constant(f32 () [0.4]), constant(f32 () [-3])) {center_point_box = 1}
  return %r
})",
                [&](std::int64_t size, std::mt19937& random) {
                  const std::int64_t boxes = std::min<std::int64_t>(size, 300);
                  Tensor scores = random_numbers(DType::F32, {1, 3, boxes}, random, 9);
                  const std::span<float> numbers = scores.mutable_as<float>();
                  for (std::size_t i = 0; i < static_cast<std::size_t>(boxes); ++i) {
                    if (i % 5 == 0) numbers[i] = std::numeric_limits<float>::quiet_NaN();
                    numbers[2 * static_cast<std::size_t>(boxes) + i] = -4;
                  }
                  Tensor corners = random_numbers(DType::F32, {1, boxes, 4}, random, places);
                  for (float& number : corners.mutable_as<float>()) number = std::abs(number) + 1;
                  return std::vector<Tensor>{std::move(corners), std::move(scores)};
                });
  }
}

// The count is all that is read: it sizes another tensor.
TEST(Counts, CountAsSize) {
  expect_same(R"(
fn @main(%x: Tensor[(n), i64]) {
  %i = nonzero(%x)
  %k = gather(shape_of(%i), dim(1))
  %r = dyn.arange(dim(0), %k, dim(1))
  %f = dyn.full(constant(f32 () [2]), shape_of(%r))
  return %r, %f
})",
              [](std::int64_t size, std::mt19937& random) {
                return std::vector<Tensor>{random_numbers(DType::I64, {size}, random, 2)};
              });
}

}  // namespace
}  // namespace anydim
