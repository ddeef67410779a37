// Sorts against the reference evaluator, which keeps equal keys in order: lengths around vectors,
// the network's runs and the buffer's turns, and keys of every type.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/codegen_cpu/expect_right.h"

namespace anydim::codegen_cpu::testing {
namespace {

// The first `k` positions of rows of `n`; k is the extent of a parameter that nothing reads.
TestRegion leading(const std::string& dtype, bool descending) {
  return make_region(fmt::format(R"(
fn @main(%x: Tensor[(m, n), {}], %y: Tensor[(k), bool]) -> Tensor[(m, k), i64]
  where m in [0, 1000], n in [0, 100000], k in [0, 100000] {{
  %i = argsort(%x, dim(k)) {{descending = {}}}
  return %i
}})",
                                 dtype, descending ? 1 : 0));
}

TestRegion whole(const std::string& dtype, bool descending) {
  return make_region(fmt::format(R"(
fn @main(%x: Tensor[(m, n), {}]) -> Tensor[(m, n), i64]
  where m in [0, 1000], n in [0, 100000] {{
  %i = argsort(%x) {{descending = {}}}
  return %i
}})",
                                 dtype, descending ? 1 : 0));
}

std::vector<double> special_reals(ir::DType dtype) {
  constexpr double infinity = std::numeric_limits<double>::infinity(),
                   nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> all{0.0, -0.0, infinity, -infinity, nan, -nan, 1, -1};
  if (dtype == ir::DType::F32)
    all.insert(all.end(), {std::numeric_limits<float>::max(), std::numeric_limits<float>::lowest(),
                           std::numeric_limits<float>::denorm_min(),
                           -std::numeric_limits<float>::denorm_min()});
  if (dtype == ir::DType::F64)
    all.insert(
        all.end(),
        {std::numeric_limits<double>::max(), std::numeric_limits<double>::lowest(),
         std::numeric_limits<double>::denorm_min(), -std::numeric_limits<double>::denorm_min()});
  return all;
}

// Few different numbers, so that many are equal, and the ends of the type's range.
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

// Each item is in front of all before it: every one enters the buffer.
void fill_falling(std::vector<ir::Tensor>& inputs) {
  ir::Tensor& input = inputs[0];
  for (std::int64_t i = 0; i < input.elements(); ++i) {
    if (ir::is_float(input.dtype())) input.set_real(i, -static_cast<double>(i));
    else input.set_integer(i, -i);
  }
}

std::vector<Symbols> rows_of(std::int64_t rows, const std::vector<std::int64_t>& lengths) {
  std::vector<Symbols> shapes;
  for (const std::int64_t n : lengths) shapes.push_back({{"m", rows}, {"n", n}});
  return shapes;
}

Symbols shape(std::int64_t m, std::int64_t n, std::int64_t k) {
  return {{"m", m}, {"n", n}, {"k", k}};
}

TEST(CpuSort, EveryEdgeOfVectorsAndRuns) {
  const TestRegion region = whole("f32", false);
  expect_right(region, {},
               rows_of(3, {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 200}),
               {.tolerance = 0, .fill = fill_ties});
  expect_right(region, {}, rows_of(1, {3840, 3841, 4095, 4096, 4097, 8192, 8193, 12300, 20000}),
               {.tolerance = 0});
  expect_right(region, {}, rows_of(0, {3}), {.tolerance = 0});
  expect_right(whole("i64", true), {}, rows_of(1, {2047, 2048, 2049, 6200}),
               {.tolerance = 0, .fill = fill_ties});
}

TEST(CpuSort, KeysOfEveryType) {
  for (const std::string dtype :
       {"f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8", "bool"})
    for (const bool descending : {false, true}) {
      SCOPED_TRACE(dtype + (descending ? " falling" : " rising"));
      expect_right(whole(dtype, descending), {}, rows_of(2, {90, 150}),
                   {.tolerance = 0, .fill = fill_ties});
      expect_right(leading(dtype, descending), {},
                   {shape(2, 400, 3), shape(2, 700, 20), shape(1, 1000, 999)},
                   {.tolerance = 0, .fill = fill_ties});
    }
}

// Few of many: the buffer's own edges (four times what is wanted and 64), whole blocks of items
// after it and parts of one.
TEST(CpuSort, FewOfLongRows) {
  const TestRegion region = leading("f32", true);
  const std::vector<Symbols> shapes{shape(2, 0, 0),    shape(2, 5, 0),       shape(2, 1, 1),
                                    shape(3, 2, 1),    shape(2, 68, 1),      shape(2, 69, 1),
                                    shape(2, 324, 1),  shape(2, 325, 1),     shape(2, 2000, 1),
                                    shape(3, 4000, 5), shape(1, 33000, 50),  shape(1, 20000, 1200),
                                    shape(1, 9000, 9), shape(1, 9000, 2200), shape(1, 9000, 8999)};
  expect_right(region, {}, shapes, {.tolerance = 0});
  expect_right(region, {}, shapes, {.tolerance = 0, .fill = fill_ties});
  for (const bool descending : {false, true}) {
    expect_right(leading("f32", descending), {}, {shape(1, 7000, 6), shape(1, 9000, 1100)},
                 {.tolerance = 0, .fill = fill_falling});
    expect_right(leading("i64", descending), {}, {shape(1, 7000, 6), shape(1, 9000, 1100)},
                 {.tolerance = 0, .fill = fill_falling});
  }
}

// Rows that a bucket bounds need no merging.
TEST(CpuSort, Buckets) {
  const TestRegion region = leading("f32", false);
  ASSERT_EQ(region.region.keys.size(), 3u);
  expect_right(region, bucket_of({{0, 1000, 1}, {0, 300, 1}, {0, 300, 1}}),
               {shape(4, 300, 300), shape(4, 300, 7), shape(4, 0, 0)},
               {.tolerance = 0, .fill = fill_ties});
  expect_right(region, bucket_of({{0, 1000, 1}, {0, 100000, 1}, {0, 10, 1}}),
               {shape(4, 3000, 10), shape(4, 3, 2)}, {.tolerance = 0, .fill = fill_ties});
}

TEST(CpuSort, AlongOtherAxesAndOfComputedKeys) {
  const TestRegion region = make_region(R"(
fn @main(%x: Tensor[(n, 3, m), f32], %b: Tensor[(m), f32], %y: Tensor[(k), bool]) -> Tensor[(k, 3, m), i64]
  where m in [0, 1000], n in [0, 100000], k in [0, 100000] {
  %a = abs(%x)
  %s = add(%a, %b)
  %i = argsort(%s, dim(k)) {axis = 0}
  return %i
})");
  expect_right(
      region, {},
      {shape(2, 0, 0), shape(2, 1, 1), shape(5, 64, 64), shape(1, 65, 5), shape(3, 500, 4)},
      {.tolerance = 0});
}

// Slices are compared element by element.
TEST(CpuSort, Slices) {
  for (const std::string dtype : {"i64", "f32", "bool"}) {
    SCOPED_TRACE(dtype);
    const TestRegion region = make_region(fmt::format(R"(
fn @main(%x: Tensor[(n, m), {}], %y: Tensor[(k), bool]) -> Tensor[(k), i64]
  where m in [0, 1000], n in [0, 1200], k in [0, 1200] {{
  %i = argsort(%x, dim(k)) {{axis = 0, slices = 1, descending = 1}}
  return %i
}})",
                                                      dtype));
    expect_right(region, {}, {shape(0, 70, 70), shape(1, 65, 64), shape(3, 140, 9), shape(2, 0, 0)},
                 {.tolerance = 0, .fill = fill_ties});
  }
}

// The buffer's turns are a number that the compiler knows, and are unrolled where they are few.
TEST(Sort, LeadingOfKnownExtents) {
  for (const auto& [items, ranks] : std::vector<std::pair<int, int>>{
           {69, 1}, {129, 2}, {260, 2}, {324, 1}, {325, 1}, {520, 40}, {580, 1}, {900, 5}}) {
    SCOPED_TRACE(fmt::format("{} of {}", ranks, items));
    const TestRegion region =
        make_region(fmt::format("fn @main(%x: Tensor[(3, {0}), f32]) -> Tensor[(3, {1}), i64] {{\n"
                                "  %i = argsort(%x, dim({1})) {{descending = 1}}\n  return %i\n}}",
                                items, ranks));
    for (const auto& fill : {std::function<void(std::vector<ir::Tensor>&)>{},
                             std::function(fill_ties), std::function(fill_falling)})
      expect_right(region, {}, {{}}, {.fill = fill});
  }
}

}  // namespace
}  // namespace anydim::codegen_cpu::testing
