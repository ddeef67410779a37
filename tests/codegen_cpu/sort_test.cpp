// What kernels of sorts have beyond the corpus: the buffer of the first of a row, and its turns.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "tests/codegen_cpu/expect_right.h"

namespace anydim::codegen_cpu::testing {
namespace {

using tests::fill_ties;

// Rows of `n` of which the first `k` are wanted.
TestRegion leading(const std::string& dtype, bool descending) {
  return make_region(
      tests::region_case("FirstOfRows_" + dtype + (descending ? "_Falling" : "_Rising")).text);
}

// Each item is in front of all before it: every one enters the buffer.
void fill_falling(std::vector<ir::Tensor>& inputs) {
  ir::Tensor& input = inputs[0];
  for (std::int64_t i = 0; i < input.elements(); ++i) {
    if (ir::is_float(input.dtype())) input.set_real(i, -static_cast<double>(i));
    else input.set_integer(i, -i);
  }
}

Symbols shape(std::int64_t m, std::int64_t n, std::int64_t k) {
  return {{"m", m}, {"n", n}, {"k", k}};
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

// The buffer's turns are a number that the compiler knows, and are unrolled where they are few.
TEST(CpuSort, LeadingOfKnownExtents) {
  for (const auto& [items, ranks] : std::vector<std::pair<int, int>>{
           {69, 1}, {129, 2}, {260, 2}, {324, 1}, {325, 1}, {520, 40}, {580, 1}, {900, 5}}) {
    SCOPED_TRACE(fmt::format("{} of {}", ranks, items));
    const TestRegion region =
        make_region(fmt::format("fn @main(%x: Tensor[(3, {0}), f32]) -> Tensor[(3, {1}), i64] {{\n"
                                "  %i = argsort(%x, dim({1})) {{descending = 1}}\n  return %i\n}}",
                                items, ranks));
    for (const auto& fill :
         {tests::FillInputs{}, tests::FillInputs(fill_ties), tests::FillInputs(fill_falling)})
      expect_right(region, {}, {{}}, {.fill = fill});
  }
}

}  // namespace
}  // namespace anydim::codegen_cpu::testing
