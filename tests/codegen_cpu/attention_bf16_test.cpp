// Attention of bf16 operands, whose weights are rounded to bf16 where the processor multiplies
// pairs.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "tests/codegen_cpu/expect_right.h"

namespace anydim::codegen_cpu::testing {
namespace {

// The first candidate of every kind of instruction, and the first and the last on tile registers.
void expect_all_right(const TestRegion& region, const std::vector<Symbols>& shapes,
                      double tolerance = 4e-3) {
  ASSERT_TRUE(std::holds_alternative<ir::AttentionForm>(region.form.kind))
      << to_string(region.form);
  const std::vector<ReferenceCall> calls = reference_calls(region, shapes);
  for (const Target& target : all_targets()) {
    const std::vector<ir::Schedule> all = candidates(region, target, bucket_of({}));
    std::vector<ir::Schedule> tiles;
    std::ranges::copy_if(all, std::back_inserter(tiles), [](const ir::Schedule& schedule) {
      return schedule.find("tiles").value_or(0) != 0;
    });
    EXPECT_EQ(tiles.empty(), !target.amx) << target.name();
    std::vector<ir::Schedule> tried{all.front()};
    if (!tiles.empty()) tried.insert(tried.end(), {tiles.front(), tiles.back()});
    for (const ir::Schedule& schedule : tried)
      expect_kernel_right(region, target, bucket_of({}), schedule, calls,
                          {.tolerance = tolerance, .bf16_tolerance = 1e-2});
  }
}

TEST(AttentionBf16, HeadDims) {
  for (const auto& [depth, width] : std::vector<std::pair<int, int>>{
           {32, 32}, {64, 64}, {1, 1}, {5, 7}, {24, 40}, {16, 33}, {0, 8}}) {
    const std::string d = std::to_string(depth), e = std::to_string(width);
    SCOPED_TRACE(d + " " + e);
    const TestRegion region =
        make_region("fn @main(%x: Tensor[(2, s, " + d + "), bf16], %y: Tensor[(2, t, " + d +
                    "), bf16], %z: Tensor[(2, t, " + e + "), bf16]) -> Tensor[(2, s, " + e +
                    "), f32] where s in [0, 600], t in [0, 600] {\n %q = cast(%x) {to = f32}\n %k "
                    "= cast(%y) {to = f32}\n %v = cast(%z) {to = f32}\n"
                    " %r = attention(%q, %k, %v) {scale = 0.3}\n return %r\n}");
    expect_all_right(region, {{{"s", 1}, {"t", 1}},
                              {{"s", 2}, {"t", 2}},
                              {{"s", 19}, {"t", 37}},
                              {{"s", 3}, {"t", 301}},
                              {{"s", 65}, {"t", 64}},
                              {{"s", 3}, {"t", 0}},
                              {{"s", 0}, {"t", 3}}});
  }
}

// As the pass lower_precision and fusion leave it: heads of one tensor, the output stored narrow
// for the product behind it.
TEST(AttentionBf16, HeadsOfOneTensorStoredNarrow) {
  const TestRegion region = make_region(R"(
fn @main(%x: Tensor[(b, s, 192), bf16], %bias: Tensor[(b, 1, 1, s), f32]) -> Tensor[(b, s, 64), bf16]
  where b in [0, 64], s in [0, 512] {
  %heads = shape(b, s, 2, 32)
  %x0 = strided_slice(%x) {axes = (-1), ends = (64), starts = (0)}
  %x1 = strided_slice(%x) {axes = (-1), ends = (128), starts = (64)}
  %x2 = strided_slice(%x) {axes = (-1), ends = (192), starts = (128)}
  %q4 = dyn.reshape(%x0, %heads)
  %k4 = dyn.reshape(%x1, %heads)
  %v4 = dyn.reshape(%x2, %heads)
  %qt = transpose(%q4) {perm = (0, 2, 1, 3)}
  %kt = transpose(%k4) {perm = (0, 2, 1, 3)}
  %vt = transpose(%v4) {perm = (0, 2, 1, 3)}
  %q = cast(%qt) {to = f32}
  %k = cast(%kt) {to = f32}
  %v = cast(%vt) {to = f32}
  %a = attention(%q, %k, %v, %bias) {scale = 0.17677669}
  %t = transpose(%a) {perm = (0, 2, 1, 3)}
  %merged = shape(b, s, 64)
  %r = dyn.reshape(%t, %merged)
  %n = cast(%r) {to = bf16}
  return %n
})");
  expect_all_right(region, {{{"b", 1}, {"s", 1}},
                            {{"b", 2}, {"s", 27}},
                            {{"b", 3}, {"s", 64}},
                            {{"b", 1}, {"s", 300}},
                            {{"b", 2}, {"s", 0}}});
}

// A decoder's cache. Of f32, its numbers are rounded as they are packed, and taken as they lie
// where keys are read in place; of 16 bits they are widened.
TEST(AttentionBf16, KeysAndValuesOfACache) {
  for (const std::string stored : {"f32", "bf16", "f16"}) {
    SCOPED_TRACE(stored);
    const std::string narrow =
        stored == "f32" ? " %k16 = cast(%keys) {to = bf16}\n %v16 = cast(%values) {to = bf16}\n"
                        : "";
    const std::string keys = stored == "f32" ? "%k16" : "%keys",
                      values = stored == "f32" ? "%v16" : "%values";
    const TestRegion region = make_region(
        "fn @main(%x: Tensor[(2, s, 64), bf16], %keys: Tensor[(2, t, 64), " + stored +
        "], %values: Tensor[(2, t, 64), " + stored +
        "]) -> Tensor[(2, s, 64), f32] where s in [0, 600], t in [0, 600] {\n" + narrow +
        " %q = cast(%x) {to = f32}\n %k = cast(" + keys + ") {to = f32}\n %v = cast(" + values +
        ") {to = f32}\n %r = attention(%q, %k, %v) {scale = 0.3}\n return %r\n}");
    const std::vector<ReferenceCall> calls = reference_calls(region, {{{"s", 1}, {"t", 1}},
                                                                      {{"s", 1}, {"t", 300}},
                                                                      {{"s", 3}, {"t", 17}},
                                                                      {{"s", 19}, {"t", 37}},
                                                                      {{"s", 70}, {"t", 301}},
                                                                      {{"s", 3}, {"t", 0}}});
    // What is stored in 16 bits is widened alike, whatever multiplies it.
    for (const Target& target : stored == "f32" ? all_targets() : targets()) {
      std::size_t in_place = 0;
      for (const ir::Schedule& schedule : candidates(region, target, bucket_of({}))) {
        if (schedule.find("keys_in_place").value_or(0) != 0) ++in_place;
        expect_kernel_right(region, target, bucket_of({}), schedule, calls,
                            {.tolerance = 1e-2, .bf16_tolerance = 1e-2});
      }
      EXPECT_EQ(in_place, 1u) << target.name();
    }
  }
}

}  // namespace
}  // namespace anydim::codegen_cpu::testing
