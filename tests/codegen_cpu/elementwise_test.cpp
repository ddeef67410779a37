// Every elementwise op on every element type and level, over special values, against the reference
// evaluator.
#include "tests/support/elementwise_cases.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "codegen_cpu/emitters.h"
#include "tests/codegen_cpu/expect_right.h"

namespace anydim::codegen_cpu::testing {
namespace {

TEST(Elementwise, EveryOpOnEveryType) {
  for (const tests::ElementwiseCase& tested : tests::elementwise_cases()) {
    const TestRegion region = make_region(tested.text);
    const std::vector<ir::Tensor> inputs = tests::special_pairs(tested.dtype);
    const Symbols symbols{{"n", inputs[0].elements()}};
    const auto expected = reference(region, inputs);
    for (const Target& target : targets()) {
      const TestKernel kernel = compile(region, target, {}, candidates(region, target, {}).front());
      EXPECT_EQ(
          tests::compare(tested, inputs, run(region, target, kernel, symbols, inputs), expected),
          "")
          << name_of(target.level);
    }
  }
}

// LLVM has no vectors of halves to compare or round: what it did lane by lane would be ten times as
// much code as for floats.
TEST(Elementwise, HalvesAreComputedInVectors) {
  const auto code_size = [](const char* dtype, const char* steps, const Target& target) {
    const TestRegion region =
        make_region(fmt::format("fn @main(%x: Tensor[(n), {0}]) -> Tensor[(n), {0}]\n"
                                "  where n in [0, 100000] {{\n  {1}  return %y\n}}",
                                dtype, steps));
    return compile(region, target, {}, candidates(region, target, {}).front()).kernel.code.size();
  };
  for (const Target& target : targets()) {
    if (target.level == Level::Baseline) continue;
    for (const char* steps : {"%y = floor(%x)\n", "%y = max(%x, %x)\n", "%y = log(%x)\n",
                              "%b = less(%x, %x)\n  %z = sign(%x)\n  %y = where(%b, %x, %z)\n"})
      EXPECT_LT(code_size("f16", steps, target), 2 * code_size("f32", steps, target))
          << steps << name_of(target.level);
  }
}

}  // namespace
}  // namespace anydim::codegen_cpu::testing
