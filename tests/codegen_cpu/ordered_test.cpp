// Running sums and scatters, whose lanes are rows that lie side by side: around the edges of
// vectors and turns.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/codegen_cpu/expect_right.h"

namespace anydim::codegen_cpu::testing {
namespace {

std::vector<Symbols> around_vectors(const std::vector<std::int64_t>& rows) {
  return tests::pairs("n", rows, "m", {0, 1, 3, 16, 33, 64, 71, 130});
}

TestRegion running_sum(const std::string& dtype, int axis, int exclusive, int reverse) {
  return make_region(
      fmt::format("fn @main(%x: Tensor[(2, n, m), {0}]) -> Tensor[(2, n, m), {0}]\n"
                  "  where n in [0, 300], m in [0, 300] {{\n"
                  "  %y = cumulative_sum(%x) {{axis = {1}, exclusive = {2}, reverse = {3}}}\n"
                  "  return %y\n}}",
                  dtype, axis, exclusive, reverse));
}

TEST(Ordered, RunningSumsOfColumns) {
  for (const int exclusive : {0, 1})
    for (const int reverse : {0, 1})
      expect_right(running_sum("f32", 1, exclusive, reverse), {}, around_vectors({0, 1, 7}));
  for (const std::string dtype : {"f64", "i64", "f16", "u8"})
    expect_right(running_sum(dtype, 0, 0, 0), {}, around_vectors({1, 3}),
                 {.tolerance = dtype == "f16" ? 1e-2 : 2e-5});
}

TEST(Ordered, RunningSumsOfColumnsThatAreLikeEachOther) {
  expect_right(make_region("fn @main(%x: Tensor[(n, 1), f32]) -> Tensor[(n, 70), f32]\n"
                           "  where n in [0, 300] {\n"
                           "  %wide = broadcast_to(%x) {shape = (1, 70)}\n"
                           "  %y = cumulative_sum(%wide) {axis = 0}\n"
                           "  return %y\n}"),
               {}, {{{"n", 1}}, {{"n", 5}}});
}

// Some indices count from the end, some repeat.
void draw_indices(std::vector<ir::Tensor>& inputs) {
  for (std::int64_t i = 0; i < inputs[1].elements(); ++i) inputs[1].set_integer(i, i * 7 % 6 - 3);
}

TEST(Ordered, ScatteredSlices) {
  for (const std::string reduction : {"none", "add", "mul", "min", "max"}) {
    SCOPED_TRACE(reduction);
    expect_right(make_region("fn @main(%x: Tensor[(3, m), f32], %i: Tensor[(n, 1), i64], "
                             "%u: Tensor[(n, m), f32]) -> Tensor[(3, m), f32]\n"
                             "  where n in [0, 300], m in [0, 300] {\n"
                             "  %y = scatter_nd(%x, %i, %u) {reduction = \"" +
                             reduction + "\"}\n  return %y\n}"),
                 {}, around_vectors({0, 1, 9}), {.fill = draw_indices});
  }
}

// Every lane has an index of its own, and some columns have no update.
TEST(Ordered, ScatteredElements) {
  const auto region = [](const std::string& updated) {
    return make_region("fn @main(%x: Tensor[(3, m), f32], %i: Tensor[(n, " + updated +
                       "), i64], %u: Tensor[(n, " + updated +
                       "), f32]) -> Tensor[(3, m), f32]\n"
                       "  where n in [0, 300], m in [0, 300] {\n"
                       "  %y = scatter_elements(%x, %i, %u) {axis = 0, reduction = \"add\"}\n"
                       "  return %y\n}");
  };
  expect_right(region("m"), {}, around_vectors({0, 1, 9}), {.fill = draw_indices});
  expect_right(region("min(m, 20)"), {}, around_vectors({0, 1, 9}), {.fill = draw_indices});
}

}  // namespace
}  // namespace anydim::codegen_cpu::testing
