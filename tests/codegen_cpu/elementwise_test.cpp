// Every elementwise op on every element type and level, over special values, against the reference
// evaluator.
#include "tests/support/elementwise_cases.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

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

// Bytes of code of a region whose text has the dtype in the place of DT.
std::size_t code_size(std::string text, const char* dtype, const Target& target) {
  for (std::size_t at; (at = text.find("DT")) != std::string::npos;) text.replace(at, 2, dtype);
  const TestRegion region = make_region(text);
  return compile(region, target, {}, candidates(region, target, {}).front()).kernel.code.size();
}

// LLVM has no vectors of halves to compare or round: what it did lane by lane would be ten times as
// much code as for floats.
TEST(Elementwise, HalvesAreComputedInVectors) {
  for (const Target& target : targets()) {
    if (target.level == Level::Baseline) continue;
    for (const char* steps : {"%y = floor(%x)\n", "%y = max(%x, %x)\n", "%y = log(%x)\n",
                              "%b = less(%x, %x)\n  %z = sign(%x)\n  %y = where(%b, %x, %z)\n"}) {
      const std::string text = fmt::format(
          "fn @main(%x: Tensor[(n), DT]) -> Tensor[(n), DT]\n  where n in [0, 100000] {{\n"
          "  {}  return %y\n}}",
          steps);
      EXPECT_LT(code_size(text, "f16", target), 2 * code_size(text, "f32", target))
          << steps << name_of(target.level);
    }
  }
}

// What loads some lanes of a vector of bytes must not branch for each, as LLVM does where the
// processor has no such masks.
TEST(Elementwise, BytesTakeNoCodeALane) {
  const char* text =
      "fn @main(%x: Tensor[(n, 128, 96), DT]) -> Tensor[(128, n, 96), DT]\n  where n in [0, 1000] "
      "{\n  %y = transpose(%x) {perm = (1, 0, 2)}\n  return %y\n}";
  for (const Target& target : targets())
    EXPECT_LT(code_size(text, "u8", target), 2 * code_size(text, "f32", target))
        << name_of(target.level);
}

// Vectors of integers are divided as reals, which must not round up to a quotient that is not
// reached: numbers around multiples of the divisor, as large as the type has them.
TEST(Elementwise, QuotientsNextToWholeNumbers) {
  const std::pair<const char*, std::int64_t> types[] = {{"i8", 127},         {"u8", 255},
                                                        {"i16", 32767},      {"u16", 65535},
                                                        {"i32", 2147483647}, {"u32", 4294967295}};
  for (const auto& [dtype, most] : types) {
    const TestRegion region = make_region(
        fmt::format("fn @main(%x: Tensor[(n), {0}], %y: Tensor[(n), {0}]) -> (Tensor[(n), {0}], "
                    "Tensor[(n), {0}])\n  where n in [0, 100000] {{\n  %q = div(%x, %y)\n"
                    "  %r = mod(%x, %y)\n  return %q, %r\n}}",
                    dtype));
    const bool is_signed = dtype[0] == 'i';
    const auto fill = [&, most = most](std::vector<ir::Tensor>& inputs) {
      const std::int64_t least = is_signed ? -most - 1 : 0, count = inputs[0].elements();
      for (std::int64_t i = 0; i < count; ++i) {
        std::int64_t divisor = 1 + i * i * 7919 % most;
        if (is_signed && i % 3 == 0) divisor = -divisor;
        const std::int64_t times = most / std::abs(divisor) - i % 2;
        inputs[0].set_integer(i, std::clamp(times * divisor + i % 5 - 2, least, most));
        inputs[1].set_integer(i, divisor);
      }
      if (count > 0) inputs[0].set_integer(0, least), inputs[1].set_integer(0, is_signed ? -1 : 1);
    };
    expect_right(region, {}, tests::sizes("n", {1, 7, 1000}), {.tolerance = 0, .fill = fill});
  }
}

}  // namespace
}  // namespace anydim::codegen_cpu::testing
