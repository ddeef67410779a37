// Attention: head sizes, masks, keys apart from queries, sequences laid end to end.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "tests/support/attention_regions.h"
#include "tests/support/region_case_lists.h"

namespace anydim::tests {
namespace {

std::vector<SymbolValues> rows_and_keys(
    const std::vector<std::pair<std::int64_t, std::int64_t>>& shapes) {
  std::vector<SymbolValues> result;
  for (const auto& [rows, keys] : shapes) result.push_back({{"s", rows}, {"t", keys}});
  return result;
}

// Rows that see no key, keys that are hidden from some rows, and scores that are NaN; a value is
// infinite, and 0 times it NaN.
void fill_nan_weights(std::vector<ir::Tensor>& inputs) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(),
                   infinity = std::numeric_limits<double>::infinity();
  ir::Tensor &values = inputs[2], &bias = inputs[3];
  const std::int64_t rows = bias.dims()[1], keys = bias.dims()[2];
  for (std::int64_t i = 0; i < bias.elements(); ++i) {
    const std::int64_t row = i / std::max<std::int64_t>(keys, 1) % rows, key = i % keys;
    if (row % 3 == 1 || (row % 3 == 2 && key % 4 == 0)) bias.set_real(i, -infinity);
    if (row % 5 == 3 && key == keys / 2) bias.set_real(i, nan);
  }
  if (values.elements() > 5) values.set_real(5, infinity);
}

// Text b has b * 5 tokens less; the last text of several is masked from end to end.
void fill_integer_mask(std::vector<ir::Tensor>& inputs) {
  const std::int64_t batch = inputs[3].dims()[0], length = inputs[3].dims()[1];
  for (std::int64_t b = 0; b < batch; ++b) {
    const bool masked = b + 1 == batch && batch > 1;
    for (std::int64_t j = 0; j < length; ++j)
      inputs[3].set_integer(b * length + j, !masked && j < length - 5 * b ? 1 : 0);
  }
}

void fill_first_offsets(std::vector<ir::Tensor>& inputs) {
  fill_offsets(inputs[1], inputs[0].dims()[0]);
}

// What loop forms of narrow operands are: widened, and the result narrowed.
RegionCase of_dtype(const std::string& dtype, double tolerance) {
  const bool narrow = dtype != "f64";
  const std::string tensor = fmt::format("Tensor[(2, s, 24), {}]", dtype);
  std::string body = narrow ? R"(
  %qw = cast(%q) {to = f32}
  %kw = cast(%k) {to = f32}
  %vw = cast(%v) {to = f32}
  %y = attention(%qw, %kw, %vw) {scale = 0.2})"
                            : R"(
  %y = attention(%q, %k, %v) {scale = 0.2})";
  if (narrow) body += fmt::format("\n  %z = cast(%y) {{to = {}}}", dtype);
  return {.name = "Attention_" + dtype,
          .text = fmt::format("fn @main(%q: {0}, %k: {0}, %v: {0}) -> {0}\n  where s in [0, 600] "
                              "{{{1}\n  return %{2}\n}}",
                              tensor, body, narrow ? "z" : "y"),
          .shapes = sizes("s", {0, 1, 20, 70}),
          .tolerance = tolerance,
          .most = 1};
}

}  // namespace

std::vector<RegionCase> attention_cases() {
  std::vector<RegionCase> cases{
      {.name = "AttentionOfPlainOperands",
       .text = R"(
fn @main(%q: Tensor[(3, s, 32), f32], %k: Tensor[(3, s, 32), f32], %v: Tensor[(3, s, 32), f32], %bias: Tensor[(3, 1, s), f32]) -> Tensor[(3, s, 32), f32]
  where s in [0, 600] {
  %y = attention(%q, %k, %v, %bias) {scale = 0.17}
  return %y
})",
       .shapes = sizes("s", {0, 1, 2, 15, 16, 17, 27, 64, 65, 128, 129, 300}),
       .interpreted = sizes("s", {0, 1, 17, 65})},
      // As exporters write it: heads split and transposed before, transposed and merged after, the
      // mask made of integers.
      {.name = "AttentionOfHeadsOfOneTensorAndAnIntegerMask",
       .text = R"(
fn @main(%x: Tensor[(b, s, 128), f32], %y: Tensor[(b, s, 128), f32], %z: Tensor[(b, s, 128), f32], %mask: Tensor[(b, s), i64]) -> Tensor[(b, s, 128), f32]
  where b in [0, 64], s in [0, 512] {
  %heads = shape(b, s, 4, 32)
  %x4 = dyn.reshape(%x, %heads)
  %y4 = dyn.reshape(%y, %heads)
  %z4 = dyn.reshape(%z, %heads)
  %q = transpose(%x4) {perm = (0, 2, 1, 3)}
  %k = transpose(%y4) {perm = (0, 2, 1, 3)}
  %v = transpose(%z4) {perm = (0, 2, 1, 3)}
  %m = expand_dims(%mask) {axes = (1, 2)}
  %real = cast(%m) {to = f32}
  %one = constant(f32 () [1])
  %lowest = constant(f32 () [-3.4028234663852886e38])
  %off = sub(%one, %real)
  %bias = mul(%off, %lowest)
  %a = attention(%q, %k, %v, %bias) {scale = 0.17677669}
  %t = transpose(%a) {perm = (0, 2, 1, 3)}
  %merged = shape(b, s, 128)
  %r = dyn.reshape(%t, %merged)
  return %r
})",
       .shapes = {{{"b", 1}, {"s", 1}},
                  {{"b", 2}, {"s", 27}},
                  {{"b", 3}, {"s", 64}},
                  {{"b", 1}, {"s", 300}},
                  {{"b", 0}, {"s", 4}},
                  {{"b", 2}, {"s", 0}}},
       .interpreted = {{{"b", 1}, {"s", 1}}, {{"b", 2}, {"s", 27}}, {{"b", 2}, {"s", 0}}},
       .most = 1,
       .fill = fill_integer_mask},
      {.name = "AttentionOfInfiniteScores",
       .text = R"(
fn @main(%q: Tensor[(1, s, 16), f32], %k: Tensor[(1, s, 16), f32], %v: Tensor[(1, s, 16), f32], %bias: Tensor[(1, s, s), f32]) -> Tensor[(1, s, 16), f32]
  where s in [0, 1200] {
  %y = attention(%q, %k, %v, %bias)
  return %y
})",
       .shapes = sizes("s", {1, 4, 30, 300, 600}),
       .interpreted = sizes("s", {1, 4, 30}),
       .fill = [](std::vector<ir::Tensor>& inputs) { fill_infinite_scores(inputs[3]); }},
      {.name = "AttentionOverSegments",
       .text = text_of(SegmentedAttention{}),
       .shapes = {{{"t", 0}, {"n", 1}},
                  {{"t", 0}, {"n", 3}},
                  {{"t", 1}, {"n", 2}},
                  {{"t", 64}, {"n", 2}},
                  {{"t", 74}, {"n", 4}},
                  {{"t", 221}, {"n", 7}},
                  {{"t", 300}, {"n", 2}},
                  {{"t", 900}, {"n", 40}}},
       .interpreted = {{{"t", 0}, {"n", 3}}, {{"t", 1}, {"n", 2}}, {{"t", 74}, {"n", 4}}},
       .fill = fill_first_offsets},
      {.name = "AttentionOverSegmentsWithBias",
       .text = text_of({.bias = true}),
       .shapes = {{{"t", 1}, {"n", 2}}, {{"t", 91}, {"n", 6}}, {{"t", 250}, {"n", 9}}},
       .interpreted = {{{"t", 1}, {"n", 2}}, {{"t", 91}, {"n", 6}}},
       .most = 1,
       .fill = fill_first_offsets},
      of_dtype("f64", 1e-12),
      of_dtype("f16", 2e-3),
      of_dtype("bf16", 1.2e-2),
  };
  for (const auto& [depth, width] : std::vector<std::pair<int, int>>{
           {64, 64}, {80, 80}, {96, 96}, {128, 128}, {1, 1}, {5, 7}, {24, 40}, {16, 33}, {0, 8}}) {
    cases.push_back({.name = fmt::format("AttentionOfHeads_{}x{}", depth, width),
                     .text = fmt::format(R"(
fn @main(%q: Tensor[(2, s, {0}), f32], %k: Tensor[(2, t, {0}), f32], %v: Tensor[(2, t, {1}), f32]) -> Tensor[(2, s, {1}), f32]
  where s in [0, 600], t in [0, 600] {{
  %y = attention(%q, %k, %v) {{scale = 0.3}}
  return %y
}})",
                                         depth, width),
                     .shapes = rows_and_keys({{1, 1}, {19, 37}, {3, 300}, {3, 0}, {0, 3}}),
                     .interpreted = rows_and_keys({{1, 1}, {19, 37}, {3, 0}, {0, 3}}),
                     .most = 1});
  }
  // Weights of NaN count as 0.
  for (const std::string dtype : {"f32", "f64"}) {
    for (const int width : {16, 33, 64}) {
      cases.push_back({.name = fmt::format("AttentionWithoutNanWeights_{}_{}", dtype, width),
                       .text = fmt::format(R"(
fn @main(%q: Tensor[(2, s, 32), {0}], %k: Tensor[(2, t, 32), {0}], %v: Tensor[(2, t, {1}), {0}], %bias: Tensor[(2, s, t), {0}]) -> Tensor[(2, s, {1}), {0}]
  where s in [0, 600], t in [0, 600] {{
  %y = attention(%q, %k, %v, %bias) {{scale = 0.3, zero_nan = 1}}
  return %y
}})",
                                           dtype, width),
                       .shapes = rows_and_keys({{1, 1}, {3, 40}, {4, 300}, {19, 37}, {3, 0}}),
                       .interpreted = rows_and_keys({{1, 1}, {3, 40}, {3, 0}}),
                       .fill = fill_nan_weights});
    }
  }
  return cases;
}

}  // namespace anydim::tests
