// Compactions and sorts: around the edges of vectors, warps, tiles, the network's runs and merges.
#include <fmt/format.h>

#include <limits>
#include <random>

#include "tests/support/region_case_lists.h"

namespace anydim::tests {
namespace {

// About `share` of 64 points are chosen.
FillInputs mask_of(unsigned share) {
  return [share](std::vector<ir::Tensor>& inputs) {
    std::mt19937 random(share + 1);
    for (std::int64_t i = 0; i < inputs[0].elements(); ++i)
      inputs[0].set_integer(i, random() % 64 < share ? 1 : 0);
  };
}

std::vector<double> special_reals(ir::DType dtype) {
  constexpr double infinity = std::numeric_limits<double>::infinity(),
                   nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> all{0.0, -0.0, infinity, -infinity, nan, -nan, 1, -1};
  const auto add_limits = [&]<typename Real>(std::numeric_limits<Real> of) {
    all.insert(all.end(), {of.max(), of.lowest(), of.denorm_min(), -of.denorm_min()});
  };
  if (dtype == ir::DType::F32) add_limits(std::numeric_limits<float>());
  if (dtype == ir::DType::F64) add_limits(std::numeric_limits<double>());
  return all;
}

std::vector<SymbolValues> rows_of(std::int64_t rows, const std::vector<std::int64_t>& lengths) {
  return pairs("m", {rows}, "n", lengths);
}

SymbolValues shape(std::int64_t m, std::int64_t n, std::int64_t k) {
  return {{"m", m}, {"n", n}, {"k", k}};
}

std::string whole(const std::string& dtype, bool descending) {
  return fmt::format(R"(
fn @main(%x: Tensor[(m, n), {}]) -> Tensor[(m, n), i64]
  where m in [0, 1000], n in [0, 100000] {{
  %i = argsort(%x) {{descending = {}}}
  return %i
}})",
                     dtype, descending ? 1 : 0);
}

// The first `k` positions of rows of `n`; k is the extent of a parameter that nothing reads.
std::string leading(const std::string& dtype, bool descending) {
  return fmt::format(R"(
fn @main(%x: Tensor[(m, n), {}], %y: Tensor[(k), bool]) -> Tensor[(m, k), i64]
  where m in [0, 1000], n in [0, 100000], k in [0, 100000] {{
  %i = argsort(%x, dim(k)) {{descending = {}}}
  return %i
}})",
                     dtype, descending ? 1 : 0);
}

}  // namespace

void fill_ties(std::vector<ir::Tensor>& inputs) {
  std::mt19937 random(5);
  ir::Tensor& input = inputs[0];
  const std::vector<double> special = special_reals(input.dtype());
  const auto bits = 8 * ir::size_of(input.dtype());
  const std::uint64_t ones = ~std::uint64_t{0} >> (64 - bits);
  for (std::int64_t i = 0; i < input.elements(); ++i) {
    const auto draw = static_cast<std::int64_t>(random() % 40);
    if (ir::is_float(input.dtype())) {
      const auto at = static_cast<std::size_t>(draw);
      input.set_real(i, at < special.size() ? special[at] : static_cast<double>(draw - 20) / 4);
    } else if (input.dtype() == ir::DType::Bool) {
      input.set_integer(i, draw % 2);
    } else if (ir::is_signed(input.dtype())) {
      const auto high = static_cast<std::int64_t>(ones >> 1);
      input.set_integer(i, draw == 0 ? high : draw == 1 ? -high - 1 : draw - 20);
    } else {
      const auto high = static_cast<std::int64_t>(ones);
      input.set_integer(i, draw == 0 ? high : draw == 1 ? high ^ (high >> 1) : draw);
    }
  }
}

std::vector<RegionCase> compact_cases() {
  std::vector<RegionCase> cases;
  for (const auto& [name, share] :
       std::vector<std::pair<std::string, unsigned>>{{"None", 0}, {"Some", 30}, {"All", 64}}) {
    cases.push_back({.name = "ChosenPoints_" + name,
                     .text = R"(
fn @main(%c: Tensor[(n), bool]) -> (Tensor[(n), i64], Tensor[(), i64])
  where n in [0, 100000] {
  %p, %k = compact(%c)
  return %p, %k
})",
                     .shapes = sizes("n", {0, 1, 31, 32, 33, 64, 127, 128, 129, 1000, 20000}),
                     .interpreted = sizes("n", {0, 1, 31, 33, 129, 1000}),
                     .tolerance = 0,
                     .fill = mask_of(share)});
  }
  // Numbers of several dims, and only a part of the results wanted.
  for (const std::string dtype : {"f32", "bf16", "i64", "bool"}) {
    cases.push_back({.name = "ChosenOfComputed_" + dtype,
                     .text = fmt::format(R"(
fn @main(%x: Tensor[(m, n), {}]) -> Tensor[(m * n), i64]
  where m in [0, 1000], n in [0, 1000] {{
  %c = cast(%x) {{to = bool}}
  %p, %k = compact(%c)
  return %p
}})",
                                         dtype),
                     .shapes = {{{"m", 0}, {"n", 3}},
                                {{"m", 1}, {"n", 1}},
                                {{"m", 7}, {"n", 33}},
                                {{"m", 30}, {"n", 70}}},
                     .tolerance = 0});
  }
  cases.push_back({.name = "CountOfChosen",
                   .text = R"(
fn @main(%x: Tensor[(m, n), f32], %y: Tensor[(n), f32]) -> Tensor[(), i64]
  where m in [0, 1000], n in [0, 1000] {
  %c = greater(%x, %y)
  %p, %k = compact(%c)
  return %k
})",
                   .shapes = {{{"m", 0}, {"n", 3}}, {{"m", 7}, {"n", 33}}, {{"m", 30}, {"n", 70}}},
                   .tolerance = 0});
  return cases;
}

std::vector<RegionCase> sort_cases() {
  std::vector<RegionCase> cases{
      {.name = "SortOfRows",
       .text = whole("f32", false),
       .shapes = rows_of(3, {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 200}),
       .interpreted = rows_of(2, {0, 1, 2, 33, 129}),
       .fill = fill_ties},
      {.name = "SortOfLongRows",
       .text = whole("f32", true),
       .shapes = rows_of(1, {3840, 3841, 4095, 4096, 4097, 8192, 8193, 12300, 20000}),
       .interpreted = rows_of(1, {2049}),
       .fill = {}},
      {.name = "SortOfNoRows", .text = whole("f32", false), .shapes = rows_of(0, {3})},
      {.name = "FirstOfRows",
       .text = leading("f32", true),
       .shapes = {shape(2, 0, 0), shape(2, 5, 0), shape(2, 1, 1), shape(3, 2, 1), shape(2, 64, 64),
                  shape(2, 65, 3), shape(2, 130, 64), shape(2, 300, 65), shape(2, 600, 1)},
       .interpreted = {shape(2, 0, 0), shape(2, 5, 0), shape(2, 1, 1), shape(2, 65, 3),
                       shape(2, 130, 64)},
       .fill = fill_ties},
      {.name = "SortAlongAnotherAxisOfComputedKeys",
       .text = R"(
fn @main(%x: Tensor[(n, 3, m), f32], %b: Tensor[(m), f32], %y: Tensor[(k), bool]) -> Tensor[(k, 3, m), i64]
  where m in [0, 1000], n in [0, 100000], k in [0, 100000] {
  %a = abs(%x)
  %s = add(%a, %b)
  %i = argsort(%s, dim(k)) {axis = 0}
  return %i
})",
       .shapes = {shape(2, 0, 0), shape(2, 1, 1), shape(5, 64, 64), shape(1, 65, 5),
                  shape(3, 500, 4)},
       .interpreted = {shape(2, 0, 0), shape(2, 1, 1), shape(1, 65, 5), shape(2, 140, 140)}},
  };
  for (const std::string dtype : {"f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u64",
                                  "u32", "u16", "u8", "bool"}) {
    for (const bool descending : {false, true}) {
      const std::string way = dtype + (descending ? "_Falling" : "_Rising");
      cases.push_back({.name = "SortOfRows_" + way,
                       .text = whole(dtype, descending),
                       .shapes = rows_of(2, {90, 150}),
                       .most = 1,
                       .fill = fill_ties});
      cases.push_back({.name = "FirstOfRows_" + way,
                       .text = leading(dtype, descending),
                       .shapes = {shape(2, 400, 3), shape(2, 700, 20), shape(1, 1000, 999)},
                       .interpreted = {shape(2, 150, 20)},
                       .most = 1,
                       .fill = fill_ties});
    }
  }
  // Slices are compared element by element.
  for (const std::string dtype : {"i64", "f32", "bool"}) {
    cases.push_back(
        {.name = "SortOfSlices_" + dtype,
         .text = fmt::format(R"(
fn @main(%x: Tensor[(n, m), {}], %y: Tensor[(k), bool]) -> Tensor[(k), i64]
  where m in [0, 1000], n in [0, 1200], k in [0, 1200] {{
  %i = argsort(%x, dim(k)) {{axis = 0, slices = 1, descending = 1}}
  return %i
}})",
                             dtype),
         .shapes = {shape(0, 70, 70), shape(1, 65, 64), shape(3, 140, 9), shape(2, 0, 0)},
         .fill = fill_ties});
  }
  for (RegionCase& one : cases) one.tolerance = 0;
  return cases;
}

}  // namespace anydim::tests
