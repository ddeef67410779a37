// Every elementwise op on every element type and level, over special values, against the reference
// evaluator.
#include "tests/support/elementwise_cases.h"

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

}  // namespace
}  // namespace anydim::codegen_cpu::testing
