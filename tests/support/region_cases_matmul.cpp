// Products: of weights and of operands that change, over windows, with arithmetic around them.
#include <fmt/format.h>

#include "tests/support/region_case_lists.h"

namespace anydim::tests {
namespace {

std::vector<RegionCase> products_over_windows() {
  return {
      {.name = "ConvolutionWithBiasAndRelu",
       .text = R"(
fn @main(%x: Tensor[(n, 3, h, w), f32], %k: Tensor[(10, 27), f32], %b: Tensor[(10), f32]) -> Tensor[(n, 10, h, w), f32]
  where n in [0, 50], h in [0, 200], w in [0, 200] {
  %p = pad(%x) {before = (1, 1), after = (1, 1), axes = (2, 3)}
  %v = windows(%p) {axes = (2, 3), sizes = (3, 3)}
  %t = transpose(%v) {perm = (0, 1, 4, 5, 2, 3)}
  %s1 = shape(n, 27, h*w)
  %c = dyn.reshape(%t, %s1)
  %m = matmul(%k, %c)
  %s2 = shape(n, 10, h, w)
  %o = dyn.reshape(%m, %s2)
  %e = expand_dims(%b) {axes = (1, 2)}
  %a = add(%o, %e)
  %y = relu(%a)
  return %y
})",
       .shapes = {{{"n", 1}, {"h", 1}, {"w", 1}},
                  {{"n", 2}, {"h", 7}, {"w", 7}},
                  {{"n", 1}, {"h", 5}, {"w", 33}},
                  {{"n", 3}, {"h", 20}, {"w", 3}},
                  {{"n", 0}, {"h", 4}, {"w", 4}}},
       .interpreted = {{{"n", 1}, {"h", 1}, {"w", 1}}, {{"n", 2}, {"h", 7}, {"w", 5}}}},
      {.name = "ConvolutionByStridesAndDilations",
       .text = R"(
fn @main(%x: Tensor[(n, 2, h, w), f32], %k: Tensor[(5, 12), f32]) -> Tensor[(n, 5, ceil_div(h, 2), floor_div(w, 3)), f32]
  where n in [0, 50], h in [2, 200], w in [3, 200] {
  %p = pad(%x) {before = (1, 1), after = (0, 1), axes = (2, 3)}
  %v = windows(%p) {axes = (2, 3), sizes = (2, 3), strides = (2, 3), dilations = (1, 2)}
  %t = transpose(%v) {perm = (0, 1, 4, 5, 2, 3)}
  %s1 = shape(n, 12, ceil_div(h, 2)*floor_div(w, 3))
  %c = dyn.reshape(%t, %s1)
  %m = matmul(%k, %c)
  %s2 = shape(n, 5, ceil_div(h, 2), floor_div(w, 3))
  %o = dyn.reshape(%m, %s2)
  return %o
})",
       .shapes = {{{"n", 1}, {"h", 2}, {"w", 3}},
                  {{"n", 2}, {"h", 9}, {"w", 50}},
                  {{"n", 1}, {"h", 30}, {"w", 23}}},
       .interpreted = {{{"n", 1}, {"h", 2}, {"w", 3}}, {{"n", 2}, {"h", 9}, {"w", 14}}}},
      {.name = "ConvolutionOfALine",
       .text = R"(
fn @main(%x: Tensor[(n, 6, t), f32], %k: Tensor[(8, 18), f32]) -> Tensor[(n, 8, t), f32]
  where n in [0, 50], t in [1, 5000] {
  %p = pad(%x) {before = (2), after = (0), axes = (2)}
  %v = windows(%p) {axes = (2), sizes = (3)}
  %r = transpose(%v) {perm = (0, 1, 3, 2)}
  %s = shape(n, 18, t)
  %c = dyn.reshape(%r, %s)
  %y = matmul(%k, %c)
  return %y
})",
       .shapes = {{{"n", 1}, {"t", 1}},
                  {{"n", 2}, {"t", 65}},
                  {{"n", 1}, {"t", 300}},
                  {{"n", 0}, {"t", 7}}},
       .interpreted = {{{"n", 1}, {"t", 1}}, {{"n", 2}, {"t", 19}}}},
  };
}

std::vector<SymbolValues> three_dims(std::initializer_list<std::int64_t> rows,
                                     std::initializer_list<std::int64_t> columns) {
  std::vector<SymbolValues> shapes;
  for (const std::int64_t m : rows)
    for (const std::int64_t n : columns) shapes.push_back({{"m", m}, {"k", m + n - 2}, {"n", n}});
  return shapes;
}

std::vector<SymbolValues> with(std::vector<SymbolValues> shapes, const std::string& name,
                               std::int64_t value) {
  for (SymbolValues& one : shapes) one.emplace(name, value);
  return shapes;
}

std::vector<RegionCase> plain_products() {
  std::vector<RegionCase> cases;
  for (const auto& [depth, columns] : std::vector<std::pair<int, int>>{
           {1, 1}, {3, 17}, {13, 33}, {7, 100}, {0, 5}, {65, 15}, {9, 0}}) {
    cases.push_back({.name = fmt::format("Product_{}x{}", depth, columns),
                     .text = fmt::format(R"(
fn @main(%x: Tensor[(n, {0}), f32], %w: Tensor[({0}, {1}), f32]) -> Tensor[(n, {1}), f32]
  where n in [0, 5000] {{
  %y = matmul(%x, %w)
  return %y
}})",
                                         depth, columns),
                     .weights = {1},
                     .shapes = sizes("n", {0, 1, 5, 23}),
                     .interpreted = sizes("n", {0, 5, 23})});
  }
  // All that a task reads of the right operand stays in a cache: groups of columns pass under rows.
  for (const int depth : {1, 5, 13}) {
    cases.push_back({.name = fmt::format("ProductOfFewDepths_{}", depth),
                     .text = fmt::format(R"(
fn @main(%x: Tensor[(n, {0}), f32], %w: Tensor[({0}, 230), f32], %r: Tensor[(n, 230), f32]) -> Tensor[(n, 230), f32]
  where n in [0, 5000] {{
  %y = matmul(%x, %w)
  %z = add(%y, %r)
  return %z
}})",
                                         depth),
                     .weights = {1},
                     .shapes = sizes("n", {0, 1, 5, 23, 130}),
                     .interpreted = sizes("n", {5})});
  }
  cases.push_back({.name = "ProductsWithBroadcastBatches",
                   .text = R"(
fn @main(%x: Tensor[(a, 1, m, k), f32], %y: Tensor[(3, k, n), f32]) -> Tensor[(a, 3, m, n), f32]
  where a in [0, 8], m in [0, 300], k in [0, 300], n in [0, 300] {
  %z = matmul(%x, %y)
  return %z
})",
                   .shapes = with(three_dims({1, 9, 70}, {1, 16, 37, 100}), "a", 2),
                   .interpreted = with(three_dims({1, 9}, {1, 37}), "a", 2),
                   .most = 2});
  const std::vector<SymbolValues> empty{{{"a", 0}, {"m", 3}, {"k", 3}, {"n", 3}},
                                        {{"a", 1}, {"m", 0}, {"k", 3}, {"n", 3}},
                                        {{"a", 1}, {"m", 3}, {"k", 3}, {"n", 0}}};
  for (auto* shapes : {&cases.back().shapes, &cases.back().interpreted})
    shapes->insert(shapes->end(), empty.begin(), empty.end());
  cases.push_back({.name = "ProductOfTransposedOperands",
                   .text = R"(
fn @main(%x: Tensor[(2, k, m), f32], %y: Tensor[(2, n, k), f32]) -> Tensor[(2, m, n), f32]
  where m in [0, 300], k in [0, 300], n in [0, 300] {
  %s = transpose(%x) {perm = (0, 2, 1)}
  %t = transpose(%y) {perm = (0, 2, 1)}
  %z = matmul(%s, %t)
  return %z
})",
                   .shapes = three_dims({1, 9, 40}, {1, 16, 37, 70}),
                   .interpreted = three_dims({1, 9}, {1, 37}),
                   .most = 2});
  for (const auto& [dtype, tolerance] : std::vector<std::pair<std::string, double>>{{"f64", 1e-13},
                                                                                    {"f16", 2e-3},
                                                                                    {"bf16", 2e-2},
                                                                                    {"i64", 0},
                                                                                    {"i32", 0},
                                                                                    {"i8", 0},
                                                                                    {"u8", 0}}) {
    for (const bool weight : {false, true}) {
      cases.push_back(
          {.name = fmt::format("Product{}_{}", weight ? "OfAWeight" : "", dtype),
           .text = fmt::format(R"(
fn @main(%x: Tensor[(n, 19), {0}], %w: Tensor[(19, 41), {0}]) -> Tensor[(n, 41), {0}]
  where n in [0, 300] {{
  %y = matmul(%x, %w)
  return %y
}})",
                               dtype),
           .weights = weight ? std::vector<std::uint32_t>{1} : std::vector<std::uint32_t>{},
           .shapes = sizes("n", {0, 1, 5, 40}),
           .interpreted = sizes("n", {0, 1, 40}),
           .tolerance = tolerance,
           .most = 2});
    }
  }
  return cases;
}

std::vector<RegionCase> products_of_models() {
  return {
      {.name = "ProductOfATransposedWeightWithBiasAndGelu",
       .text = R"(
fn @main(%x: Tensor[(b, s, 24), f32], %w: Tensor[(50, 24), f32], %bias: Tensor[(50), f32]) -> Tensor[(b, s, 50), f32]
  where b in [0, 64], s in [0, 512] {
  %t = transpose(%w) {perm = (1, 0)}
  %y = matmul(%x, %t)
  %z = add(%bias, %y)
  %g = gelu(%z)
  return %g
})",
       .weights = {1},
       .shapes = {{{"b", 0}, {"s", 3}},
                  {{"b", 1}, {"s", 1}},
                  {{"b", 3}, {"s", 7}},
                  {{"b", 2}, {"s", 33}}},
       .most = 2},
      {.name = "ProductOfComputedRows",
       .text = R"(
fn @main(%x: Tensor[(n, 33), f32], %s: Tensor[(n, 1), f32], %w: Tensor[(33, 20), f32]) -> Tensor[(n, 20), f32]
  where n in [0, 300] {
  %t = mul(%x, %s)
  %u = tanh(%t)
  %y = matmul(%u, %w)
  return %y
})",
       .weights = {2},
       .shapes = sizes("n", {0, 1, 5, 40}),
       .most = 2},
      {.name = "ProductOfVectors",
       .text = R"(
fn @main(%x: Tensor[(k), f32], %y: Tensor[(k), f32]) -> Tensor[(), f32] where k in [0, 300] {
  %z = matmul(%x, %y)
  return %z
})",
       .shapes = sizes("k", {0, 1, 17, 300}),
       .most = 2},
      {.name = "ProductOfAMatrixAndAVector",
       .text = R"(
fn @main(%x: Tensor[(m, k), f32], %y: Tensor[(k), f32]) -> Tensor[(m), f32]
  where k in [0, 300], m in [0, 300] {
  %z = matmul(%x, %y)
  return %z
})",
       .shapes = {{{"m", 3}, {"k", 5}}, {{"m", 30}, {"k", 16}}, {{"m", 0}, {"k", 16}}},
       .most = 2},
      {.name = "ProductOfABatchOfWeights",
       .text = R"(
fn @main(%x: Tensor[(b, 3, n, 12), f32], %w: Tensor[(3, 12, 20), f32]) -> Tensor[(b, 3, n, 20), f32]
  where b in [0, 8], n in [0, 300] {
  %y = matmul(%x, %w)
  return %y
})",
       .weights = {1},
       .shapes = {{{"b", 2}, {"n", 5}}, {{"b", 1}, {"n", 33}}, {{"b", 0}, {"n", 33}}},
       .most = 2},
      // Heads are split and transposed by the store's index.
      {.name = "ProductWhoseResultIsTransposed",
       .text = R"(
fn @main(%x: Tensor[(b, s, 24), f32], %w: Tensor[(24, 36), f32], %bias: Tensor[(36), f32]) -> Tensor[(b, 4, s, 9), f32]
  where b in [0, 8], s in [0, 300] {
  %y = matmul(%x, %w)
  %z = add(%y, %bias)
  %shape = shape(b, s, 4, 9)
  %r = dyn.reshape(%z, %shape)
  %t = transpose(%r) {perm = (0, 2, 1, 3)}
  return %t
})",
       .weights = {1},
       .shapes = {{{"b", 2}, {"s", 5}}, {{"b", 3}, {"s", 33}}, {{"b", 1}, {"s", 0}}},
       .most = 2},
      // The left operand is read across its rows; blocks end within a vector where all rows
      // together are whole vectors.
      {.name = "ProductOfRowsNextToEachOther",
       .text = R"(
fn @main(%x: Tensor[(b, 24, n), f32], %w: Tensor[(24, 40), f32]) -> Tensor[(b, n, 40), f32]
  where b in [0, 8], n in [0, 300] {
  %t = transpose(%x) {perm = (0, 2, 1)}
  %y = matmul(%t, %w)
  return %y
})",
       .weights = {1},
       .shapes = {{{"b", 2}, {"n", 1}},
                  {{"b", 1}, {"n", 15}},
                  {{"b", 3}, {"n", 47}},
                  {{"b", 1}, {"n", 131}}},
       .interpreted = {{{"b", 2}, {"n", 1}}, {{"b", 3}, {"n", 47}}},
       .most = 4},
      {.name = "ProductPlusRowsLookedUp",
       .text = R"(
fn @main(%x: Tensor[(n, 24), f32], %w: Tensor[(24, 40), f32], %one: Tensor[(6, 40), f32], %i: Tensor[(), i64], %each: Tensor[(6, 40), f32], %j: Tensor[(n), i64]) -> Tensor[(n, 40), f32]
  where n in [0, 300] {
  %m = matmul(%x, %w)
  %a = gather(%one, %i) {axis = 0}
  %b = gather(%each, %j) {axis = 0}
  %s = add(%m, %a)
  %y = add(%s, %b)
  return %y
})",
       .weights = {1},
       .shapes = sizes("n", {0, 1, 6, 47, 131}),
       .interpreted = sizes("n", {1, 47}),
       .most = 4,
       .fill =
           [](std::vector<ir::Tensor>& inputs) {
             for (const std::size_t indices : {3, 5})
               for (std::int64_t at = 0; at < inputs[indices].elements(); ++at)
                 inputs[indices].set_integer(at, (at * 5 + 4) % 6 - (at % 2 == 0 ? 6 : 0));
           }},
      {.name = "ProductOfKnownRowsNextToEachOther",
       .text = R"(
fn @main(%x: Tensor[(b, 24, 64), f32], %w: Tensor[(24, 40), f32]) -> Tensor[(b, 64, 40), f32]
  where b in [0, 8] {
  %t = transpose(%x) {perm = (0, 2, 1)}
  %y = matmul(%t, %w)
  return %y
})",
       .weights = {1},
       .shapes = sizes("b", {0, 1, 3}),
       .interpreted = sizes("b", {0, 1}),
       .most = 4},
  };
}

}  // namespace

std::vector<RegionCase> matmul_cases() {
  std::vector<RegionCase> cases = products_over_windows();
  for (const auto& more : {plain_products(), products_of_models()})
    cases.insert(cases.end(), more.begin(), more.end());
  return cases;
}

}  // namespace anydim::tests
