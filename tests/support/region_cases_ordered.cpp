// Running sums and scatters: around the edges of vectors, warps and tiles.
#include <fmt/format.h>

#include <random>

#include "tests/support/region_case_lists.h"

namespace anydim::tests {
namespace {

std::string running_sum(const std::string& dims, const std::string& dtype, int exclusive,
                        int reverse) {
  return fmt::format(R"(
fn @main(%x: Tensor[({0}), {1}]) -> Tensor[({0}), {1}]
  where n in [0, 100000], m in [0, 100000] {{
  %y = cumulative_sum(%x) {{axis = 1, exclusive = {2}, reverse = {3}}}
  return %y
}})",
                     dims, dtype, exclusive, reverse);
}

// Indices into axis `axis` of the first input, counted from either end, many of them repeated.
FillInputs indices_into(std::size_t axis) {
  return [axis](std::vector<ir::Tensor>& inputs) {
    const std::int64_t extent = inputs[0].dims()[axis];
    std::mt19937 random(3);
    std::uniform_int_distribution<std::int64_t> any(-extent, extent - 1);
    for (std::int64_t i = 0; i < inputs[1].elements(); ++i) inputs[1].set_integer(i, any(random));
  };
}

FillInputs indices_and_one_beyond(std::int64_t beyond) {
  return [beyond](std::vector<ir::Tensor>& inputs) {
    indices_into(0)(inputs);
    inputs[1].set_integer(1, beyond);
  };
}

std::vector<RegionCase> running_sums() {
  std::vector<RegionCase> cases;
  for (const int exclusive : {0, 1})
    for (const int reverse : {0, 1}) {
      const std::string way =
          fmt::format("{}{}", exclusive ? "_Exclusive" : "", reverse ? "_Reverse" : "");
      cases.push_back({.name = "RunningSumOfRows" + way,
                       .text = running_sum("n, m", "f32", exclusive, reverse),
                       .shapes = pairs("n", {0, 1, 3}, "m", {0, 1, 31, 33, 1023, 1025, 2500})});
      cases.push_back({.name = "RunningSumOfColumns" + way,
                       .text = running_sum("2, n, m", "f32", exclusive, reverse),
                       .shapes = pairs("n", {0, 1, 7}, "m", {0, 1, 3, 16, 33, 64, 71, 130}),
                       .interpreted = pairs("n", {0, 1, 35}, "m", {0, 1, 33})});
    }
  // Rows that the CPU gathers, where there are more than two.
  cases.push_back({.name = "RunningSumOfExponentials",
                   .text = R"(
fn @main(%x: Tensor[(n, m), f32]) -> Tensor[(n, m), f32]
  where n in [0, 100000], m in [0, 100000] {
  %e = exp(%x)
  %y = cumulative_sum(%e) {axis = 1}
  return %y
})",
                   .shapes = pairs("n", {0, 1, 3, 17}, "m", {0, 1, 33}),
                   .tolerance = 1e-5});
  for (const auto& [dtype, tolerance] : std::vector<std::pair<std::string, double>>{
           {"f64", 1e-12}, {"f16", 1e-2}, {"bf16", 2e-2}, {"i64", 0}, {"u32", 0}, {"i8", 0}}) {
    cases.push_back({.name = "RunningSumOfRows_" + dtype,
                     .text = running_sum("n, m", dtype, 0, 0),
                     .shapes = pairs("n", {2}, "m", {1, 300}),
                     .tolerance = tolerance});
    cases.push_back({.name = "RunningSumOfColumns_" + dtype,
                     .text = running_sum("2, n, m", dtype, 0, 0),
                     .shapes = pairs("n", {1, 3}, "m", {0, 1, 33, 71}),
                     .interpreted = pairs("n", {3}, "m", {33}),
                     .tolerance = tolerance});
  }
  cases.push_back({.name = "RunningSumOfLikeColumns",
                   .text = R"(
fn @main(%x: Tensor[(n, 1), f32]) -> Tensor[(n, 70), f32]
  where n in [0, 300] {
  %wide = broadcast_to(%x) {shape = (1, 70)}
  %y = cumulative_sum(%wide) {axis = 0}
  return %y
})",
                   .shapes = sizes("n", {1, 5})});
  cases.push_back({.name = "ArithmeticAroundARunningSum",
                   .text = R"(
fn @main(%x: Tensor[(n, m), f32], %s: Tensor[(m), f32]) -> (Tensor[(m, n), f32], Tensor[(n, m), f16])
  where n in [0, 500], m in [0, 500] {
  %scaled = mul(%x, %s)
  %sum = cumulative_sum(%scaled) {axis = -1}
  %positive = relu(%sum)
  %turned = transpose(%positive)
  %half = cast(%sum) {to = f16}
  return %turned, %half
})",
                   .shapes = pairs("n", {1, 3}, "m", {0, 1, 37, 260}),
                   .tolerance = 1e-3});
  return cases;
}

// The order of updates is part of what is asked: the last one stays, and sums round in order.
std::vector<RegionCase> scatters() {
  std::vector<RegionCase> cases;
  for (const std::string reduction : {"none", "add", "mul", "min", "max"}) {
    const SymbolValues fault{{"n", 3}, {"m", 2}, {"k", 4}};
    cases.push_back({.name = "ScatterElements_" + reduction,
                     .text = fmt::format(R"(
fn @main(%x: Tensor[(n, m), f32], %i: Tensor[(k, m), i64], %u: Tensor[(k, m), f32]) -> Tensor[(n, m), f32]
  where n in [0, 500], m in [0, 500], k in [0, 500] {{
  %y = scatter_elements(%x, %i, %u) {{axis = 0, reduction = "{}"}}
  return %y
}})",
                                         reduction),
                     .shapes = {{{"n", 1}, {"m", 1}, {"k", 0}},
                                {{"n", 1}, {"m", 1}, {"k", 1}},
                                {{"n", 5}, {"m", 3}, {"k", 33}},
                                {{"n", 3}, {"m", 130}, {"k", 9}},
                                {{"n", 3}, {"m", 64}, {"k", 1}},
                                {{"n", 9}, {"m", 0}, {"k", 2}}},
                     .interpreted = {{{"n", 1}, {"m", 1}, {"k", 0}},
                                     {{"n", 1}, {"m", 1}, {"k", 1}},
                                     {{"n", 9}, {"m", 0}, {"k", 2}},
                                     {{"n", 5}, {"m", 3}, {"k", 33}}},
                     .tolerance = 0,
                     .fill = indices_into(0),
                     .faults = {{fault, indices_and_one_beyond(3), 3},
                                {fault, indices_and_one_beyond(-4), -4}}});
    cases.push_back({.name = "ScatterSlices_" + reduction,
                     .text = fmt::format(R"(
fn @main(%x: Tensor[(3, m), f32], %i: Tensor[(n, 1), i64], %u: Tensor[(n, m), f32]) -> Tensor[(3, m), f32]
  where n in [0, 300], m in [0, 300] {{
  %y = scatter_nd(%x, %i, %u) {{reduction = "{}"}}
  return %y
}})",
                                         reduction),
                     .shapes = pairs("n", {0, 1, 9}, "m", {0, 1, 3, 16, 33, 64, 71, 130}),
                     .interpreted = pairs("n", {0, 1, 9}, "m", {0, 33}),
                     .tolerance = 0,
                     .fill = indices_into(0),
                     .faults = {{{{"n", 2}, {"m", 4}}, indices_and_one_beyond(3), 3}}});
  }
  // Some columns have no update.
  cases.push_back({.name = "ScatterElementsOfSomeColumns",
                   .text = R"(
fn @main(%x: Tensor[(3, m), f32], %i: Tensor[(n, min(m, 20)), i64], %u: Tensor[(n, min(m, 20)), f32]) -> Tensor[(3, m), f32]
  where n in [0, 300], m in [0, 300] {
  %y = scatter_elements(%x, %i, %u) {axis = 0, reduction = "add"}
  return %y
})",
                   .shapes = pairs("n", {0, 1, 9}, "m", {0, 1, 3, 16, 33, 64, 71, 130}),
                   .interpreted = pairs("n", {0, 9}, "m", {3, 33}),
                   .tolerance = 0,
                   .fill = indices_into(0)});
  cases.push_back({.name = "ScatterElementsOfSomeRows",
                   .text = R"(
fn @main(%x: Tensor[(n, m), i32], %i: Tensor[(k, q), i32], %u: Tensor[(k, q), i32]) -> Tensor[(n, m), i32]
  where n in [0, 500], m in [0, 500], k in [0, 500], q in [0, 500] {
  %y = scatter_elements(%x, %i, %u) {axis = 1, reduction = "add"}
  return %y
})",
                   .shapes = {{{"n", 4}, {"m", 7}, {"k", 3}, {"q", 20}},
                              {{"n", 3}, {"m", 70}, {"k", 3}, {"q", 9}}},
                   .fill = indices_into(1)});
  for (const std::string dtype : {"bf16", "i64", "bool"}) {
    cases.push_back({.name = "ScatterSlices_" + dtype,
                     .text = fmt::format(R"(
fn @main(%x: Tensor[(n, 24), {0}], %i: Tensor[(k, 1), i64], %u: Tensor[(k, 24), {0}]) -> Tensor[(n, 24), {0}]
  where n in [0, 500], k in [0, 500] {{
  %y = scatter_nd(%x, %i, %u) {{reduction = "{1}"}}
  return %y
}})",
                                         dtype, dtype == "bool" ? "none" : "add"),
                     .shapes = {{{"n", 1}, {"k", 0}}, {{"n", 6}, {"k", 1}}, {{"n", 6}, {"k", 40}}},
                     .tolerance = 0,
                     .fill = indices_into(0)});
  }
  // Two addressed dims, and no dim left to spread over.
  cases.push_back({.name = "ScatterOfElementsByTwoIndices",
                   .text = R"(
fn @main(%x: Tensor[(n, n), f32], %i: Tensor[(b, k, 2), i64], %u: Tensor[(b, k), f32]) -> Tensor[(n, n), f32]
  where n in [0, 500], b in [0, 500], k in [0, 500] {
  %y = scatter_nd(%x, %i, %u)
  return %y
})",
                   .shapes = {{{"n", 1}, {"b", 1}, {"k", 1}},
                              {{"n", 3}, {"b", 2}, {"k", 0}},
                              {{"n", 5}, {"b", 3}, {"k", 17}}},
                   .tolerance = 0,
                   .fill = indices_into(0)});
  return cases;
}

}  // namespace

std::vector<RegionCase> ordered_cases() {
  std::vector<RegionCase> cases = running_sums();
  for (RegionCase& one : scatters()) cases.push_back(std::move(one));
  return cases;
}

}  // namespace anydim::tests
