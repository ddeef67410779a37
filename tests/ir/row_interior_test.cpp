// Rows whose conditions need not be asked: exactly those where all of them hold.
#include "ir/loops/row_interior.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "ir/loops/loop_form_parse.h"
#include "ir/loops/scalar_program.h"

namespace anydim::ir {
namespace {

// Sums of windows of `places` numbers, of a line of w numbers; a place is `place`, where `where`
// holds.
std::string sum_of_windows(const std::string& place, const std::string& where,
                           const std::string& outer = "$r0 < w") {
  return R"(rows
  parameter 0: Tensor[(w), f32]
  result 0: Tensor[(w), f32]
  where w in [0, 1000], h in [0, 1000]
  for )" +
         outer + R"( over $c0 < 3
  accumulators 1
  stage
    #0: f32 = load 0[)" +
         place + R"(]
    #1: f32 = 0
    #2: f32 = guarded(#0, #1) where )" +
         where + R"(
    accumulated 0: f32 = sum of #2
  row result
    #0: f32 = accumulated 0
    store 0[$r0] = #0
)";
}

std::optional<RowInterior> interior_of(const std::string& text) {
  const LoopForm form = parse_loop_form(text);
  return row_interior(std::get<RowForm>(form.kind), form.symbols);
}

bool asks(const RowInterior& interior) {
  for (const RowStage& stage : interior.stages)
    for (const ScalarStep& step : stage.program.steps)
      if (step.is<step::Guarded>()) return true;
  return false;
}

std::int64_t at(const Dim& dim, std::int64_t w, std::int64_t h = 0) {
  const auto value =
      dim.substitute(std::map<std::string, Dim>{{"w", Dim(w)}, {"h", Dim(h)}}).constant();
  return value.value();
}

TEST(RowInterior, LeavesOutWindowsOverABorder) {
  const auto interior =
      interior_of(sum_of_windows("$c0 + $r0 - 1", "0 <= $c0 + $r0 - 1 and $c0 + $r0 - 1 < w"));
  ASSERT_TRUE(interior);
  EXPECT_FALSE(asks(*interior));
  EXPECT_TRUE(interior->not_negative.empty());
  EXPECT_EQ(interior->begin, Dim(1));
  EXPECT_EQ(at(interior->end, 10), 9);
  EXPECT_LE(at(interior->end, 1), 1);  // no room for a whole window
}

TEST(RowInterior, RoundsToTheSideOfSafety) {
  // Places 3 r - 2 to 3 r + 2.
  const auto interior = interior_of(
      sum_of_windows("2*$c0 + 3*$r0 - 2", "0 <= 2*$c0 + 3*$r0 - 2 and 2*$c0 + 3*$r0 - 2 < w"));
  ASSERT_TRUE(interior);
  EXPECT_EQ(interior->begin, Dim(1));
  for (std::int64_t w = 3; w < 40; ++w) {
    const std::int64_t end = at(interior->end, w);
    EXPECT_LT(3 * (end - 1) + 2, w) << w;
    EXPECT_TRUE(3 * end + 2 >= w || end == w) << w;
  }
}

TEST(RowInterior, CountsDown) {
  const auto interior = interior_of(sum_of_windows("w - 1 - $r0 - $c0", "0 <= w - 1 - $r0 - $c0"));
  ASSERT_TRUE(interior);
  EXPECT_FALSE(asks(*interior));
  EXPECT_EQ(interior->begin, Dim(0));
  EXPECT_EQ(at(interior->end, 10), 8);
}

TEST(RowInterior, AsksOnceARowWhatItsRunDoesNotChange) {
  const auto interior = interior_of(
      sum_of_windows("$r1", "0 <= $c0 + $r0 - 1 and $c0 + $r0 - 1 < h", "$r0 < w, $r1 < w"));
  ASSERT_TRUE(interior);
  EXPECT_FALSE(asks(*interior));
  ASSERT_EQ(interior->not_negative.size(), 2u);
  for (const Dim& dim : interior->not_negative) EXPECT_TRUE(dim.mentions(loop_leaf(LoopRole::Row)));
}

TEST(RowInterior, KeepsWhatItCannotTell) {
  // A place of the line that wraps around is not on one side of a border.
  const auto interior = interior_of(
      sum_of_windows("mod($c0 + $r0, 5)", "mod($c0 + $r0, 5) < w and 0 <= $c0 + $r0 - 1"));
  ASSERT_TRUE(interior);
  EXPECT_TRUE(asks(*interior));
  EXPECT_EQ(interior->begin, Dim(1));
  EXPECT_FALSE(interior_of(sum_of_windows("mod($c0 + $r0, 5)", "mod($c0 + $r0, 5) < w")));
}

// In windows of a plane, what the places' conditions ask along lines stays.
TEST(RowInterior, LeavesConditionsOfFurtherIterations) {
  const LoopForm form = parse_loop_form(R"(rows
  parameter 0: Tensor[(h, w), f32]
  result 0: Tensor[(h, w), f32]
  where h in [0, 1000], w in [0, 1000]
  for $r0 < h, $r1 < w over $c0 < 3, $c1 < 3
  accumulators 1
  stage
    #0: f32 = load 0[$c0 + $r0 - 1, $c1 + $r1 - 1]
    #1: f32 = 0
    #2: f32 = guarded(#0, #1) where 0 <= $c0 + $r0 - 1 and $c0 + $r0 - 1 < h and 0 <= $c1 + $r1 - 1 and $c1 + $r1 - 1 < w
    accumulated 0: f32 = sum of #2
  row result
    #0: f32 = accumulated 0
    store 0[$r0, $r1] = #0
)");
  const auto& rows = std::get<RowForm>(form.kind);
  const auto lines = row_interior(rows, form.symbols, 0, 0);
  ASSERT_TRUE(lines);
  EXPECT_TRUE(lines->not_negative.empty());
  EXPECT_EQ(at(lines->begin, 5, 9), 1);
  EXPECT_EQ(at(lines->end, 5, 9), 8);
  const auto& steps = lines->stages.front().program.steps;
  const auto guarded =
      std::ranges::find_if(steps, [](const ScalarStep& step) { return step.is<step::Guarded>(); });
  ASSERT_NE(guarded, steps.end());
  EXPECT_EQ(guarded->as<step::Guarded>().conditions.size(), 2);
}

}  // namespace
}  // namespace anydim::ir
