// Short rows, some of which are computed at once.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "codegen_cpu/rows/rows_schedule.h"
#include "tests/codegen_cpu/expect_right.h"

namespace anydim::codegen_cpu::testing {
namespace {

std::string softmax_of(std::int64_t length) {
  return fmt::format(R"(
fn @main(%x: Tensor[(n, m, {0}), f32]) -> (Tensor[(n, m, {0}), f32], Tensor[(n, m), f32])
  where n in [0, 100], m in [0, 100] {{
  %s = softmax(%x) {{axis = 2}}
  %y = mul(%s, %x)
  %z = reduce_max(%y) {{axes = (2), keepdims = 0}}
  return %y, %z
}})",
                     length);
}

const std::vector<Symbols> shapes{{{"n", 1}, {"m", 1}},
                                  {{"n", 2}, {"m", 7}},
                                  {{"n", 3}, {"m", 12}},
                                  {{"n", 0}, {"m", 3}},
                                  {{"n", 41}, {"m", 5}}};

TEST(ShortRows, AgreeWithTheReference) {
  for (const std::int64_t length : {1, 5, 16, 56, 64, 128, 131}) {
    SCOPED_TRACE(length);
    expect_right(make_region(softmax_of(length)), {}, shapes);
  }
}

TEST(ShortRows, GiveTheBitsOfOneRow) {
  const TestRegion region = make_region(softmax_of(56));
  for (const Target& target : targets()) {
    RowsSchedule schedule{.vector = target.lanes(4), .unroll = 2, .grain = 512};
    const TestKernel one = compile(region, target, {}, schedule.schedule());
    schedule.together = 4;
    const TestKernel some = compile(region, target, {}, schedule.schedule());
    for (const Symbols& symbols : shapes) {
      const auto inputs = random_inputs(region, symbols, 1);
      const auto wanted = run(region, target, one, symbols, inputs);
      const auto got = run(region, target, some, symbols, inputs);
      for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i].same_bits(wanted[i]));
    }
  }
}

}  // namespace
}  // namespace anydim::codegen_cpu::testing
