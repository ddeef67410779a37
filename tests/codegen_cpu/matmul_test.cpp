#include <gtest/gtest.h>

#include "ir/schedule.h"
#include "tests/codegen_cpu/kernel_harness.h"

namespace anydim::codegen_cpu::testing {
namespace {

using Symbols = std::map<std::string, std::int64_t>;

// Every candidate of every level over `bucket`, at each of `shapes`.
void expect_right(const TestRegion& region, const ir::Bucket& bucket, const std::vector<Symbols>& shapes, double tolerance = 2e-5) {
  for (const Target& target : targets()) {
    for (const ir::Schedule& schedule : candidates(region, target, bucket)) {
      const TestKernel kernel = compile(region, target, bucket, schedule);
      for (const Symbols& symbols : shapes) {
        std::string at;
        for (const auto& [name, value] : symbols) at += " " + name + "=" + std::to_string(value);
        SCOPED_TRACE(std::string(name_of(target.level)) + " " + to_string(schedule) + at);
        const auto inputs = random_inputs(region, symbols, 1);
        const auto expected = reference(region, inputs);
        const auto got = run(region, target, kernel, symbols, inputs);
        ASSERT_EQ(got.size(), expected.size());
        for (std::size_t i = 0; i < got.size(); ++i) ASSERT_LE(difference(got[i], expected[i]), tolerance) << "output " << i;
      }
    }
  }
}

std::vector<Symbols> sizes(const std::string& name, const std::vector<std::int64_t>& values) {
  std::vector<Symbols> result;
  for (const std::int64_t value : values) result.push_back({{name, value}});
  return result;
}

TEST(Matmul, WeightAndVaryingRows) {
  const TestRegion region = make_region(R"(
fn @main(%x: Tensor[(n, 40), f32], %w: Tensor[(40, 72), f32]) -> Tensor[(n, 72), f32]
  where n in [0, 5000] {
  %y = matmul(%x, %w)
  return %y
})", {1});
  expect_right(region, bucket_of({{0, 5000}}), sizes("n", {0, 1, 2, 5, 6, 7, 13, 27, 64, 130}));
  expect_right(region, bucket_of({{1, 1}}), sizes("n", {1}));
  expect_right(region, bucket_of({{2, 6}}), sizes("n", {2, 3, 6}));
  expect_right(region, bucket_of({{7, 32}}), sizes("n", {7, 8, 31, 32}));
  expect_right(region, bucket_of({{257, 5000}}), sizes("n", {257, 300, 700}));
}

}  // namespace
}  // namespace anydim::codegen_cpu::testing
