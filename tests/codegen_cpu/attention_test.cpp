#include <gtest/gtest.h>

#include <limits>

#include "ir/schedule.h"
#include "tests/codegen_cpu/kernel_harness.h"

namespace anydim::codegen_cpu::testing {
namespace {

using Symbols = std::map<std::string, std::int64_t>;
using Fill = std::function<void(std::vector<ir::Tensor>&)>;

void expect_right(const TestRegion& region, const ir::Bucket& bucket, const std::vector<Symbols>& shapes, const Fill& fill = {}, double tolerance = 2e-5) {
  ASSERT_TRUE(std::holds_alternative<ir::AttentionForm>(region.form.skeleton)) << to_string(region.form);
  for (const Target& target : targets()) {
    for (const ir::Schedule& schedule : candidates(region, target, bucket)) {
      const TestKernel kernel = compile(region, target, bucket, schedule);
      for (const Symbols& symbols : shapes) {
        std::string at;
        for (const auto& [name, value] : symbols) at += " " + name + "=" + std::to_string(value);
        SCOPED_TRACE(std::string(name_of(target.level)) + " " + to_string(schedule) + at);
        auto inputs = random_inputs(region, symbols, 1);
        if (fill) fill(inputs);
        const auto expected = reference(region, inputs);
        const auto got = run(region, target, kernel, symbols, inputs);
        ASSERT_EQ(got.size(), expected.size());
        for (std::size_t i = 0; i < got.size(); ++i) ASSERT_LE(difference(got[i], expected[i]), tolerance) << "output " << i;
      }
    }
  }
}

std::vector<Symbols> lengths(const std::vector<std::int64_t>& values) {
  std::vector<Symbols> result;
  for (const std::int64_t value : values) result.push_back({{"s", value}});
  return result;
}

TEST(Attention, PlainOperands) {
  const TestRegion region = make_region(R"(
fn @main(%q: Tensor[(3, s, 32), f32], %k: Tensor[(3, s, 32), f32], %v: Tensor[(3, s, 32), f32], %bias: Tensor[(3, 1, s), f32]) -> Tensor[(3, s, 32), f32]
  where s in [0, 600] {
  %y = attention(%q, %k, %v, %bias) {scale = 0.17}
  return %y
})");
  expect_right(region, bucket_of({{0, 600}}), lengths({0, 1, 2, 15, 16, 17, 27, 64, 65, 128, 129, 300}));
}

}  // namespace
}  // namespace anydim::codegen_cpu::testing
