#include "ir/shapes/shape_program.h"

#include <gtest/gtest.h>

#include <ostream>

#include "ir/error.h"

namespace anydim::ir {
namespace {

const Dim n = Dim::symbol("n"), m = Dim::symbol("m");

ShapeProgram program_of(std::vector<Dim> expressions) {
  return {.leaves = {{.symbol = "n"}, {.symbol = "m"}, element_leaf(7, 1)},
          .expressions = std::move(expressions)};
}

struct Outcome {
  std::vector<std::int64_t> values;
  std::int32_t failed;
  bool operator==(const Outcome&) const = default;
};

void PrintTo(const Outcome& outcome, std::ostream* out) {
  for (const std::int64_t value : outcome.values) *out << value << " ";
  *out << "failed " << outcome.failed;
}

Outcome run(const ShapeProgram& program, std::vector<std::int64_t> leaves) {
  Outcome outcome{std::vector<std::int64_t>(program.expressions.size(), 99), 0};
  outcome.failed = ShapeInterpreter(program).run(leaves, outcome.values);
  return outcome;
}

TEST(ShapeProgram, EvaluatesEveryKindOfDim) {
  const ShapeProgram program =
      program_of({Dim(5), n * m - 3, Dim::value(7, 1), floor_div(n, m), mod(n, m), min(n, m),
                  max(n, m), select(Comparison::Less, n, m, Dim(1), Dim(2))});
  EXPECT_EQ(run(program, {-7, 2, 11}), (Outcome{{5, -17, 11, -4, 1, -7, 2, 1}, -1}));
  EXPECT_EQ(run(program, {1, -2, 0}), (Outcome{{5, -5, 0, -1, -1, -2, 1, 2}, -1}));
}

TEST(ShapeProgram, Broadcasts) {
  const ShapeProgram program = program_of({broadcast(n, m)});
  EXPECT_EQ(run(program, {1, 5, 0}), (Outcome{{5}, -1}));
  EXPECT_EQ(run(program, {5, 1, 0}), (Outcome{{5}, -1}));
  EXPECT_EQ(run(program, {1, 0, 0}), (Outcome{{0}, -1}));
}

TEST(ShapeProgram, NamesTheFirstFailure) {
  const ShapeProgram program = program_of({n + m, n * m, floor_div(n, m)});
  EXPECT_EQ(run(program, {6, 0, 0}), (Outcome{{6, 0, 99}, 2}));
  EXPECT_EQ(run(program, {INT64_MAX, 1, 0}), (Outcome{{99, 99, 99}, 0}));
  EXPECT_EQ(run(program, {INT64_MAX, -2, 0}), (Outcome{{INT64_MAX - 2, 99, 99}, 1}));
  EXPECT_EQ(run(program, {INT64_MIN, -1, 0}).failed, 0);
}

TEST(ShapeProgram, FailuresOfAnUnchosenBranchDoNotCount) {
  const ShapeProgram program =
      program_of({select(Comparison::Equal, m, Dim(0), Dim(-1), floor_div(n, m))});
  EXPECT_EQ(run(program, {7, 0, 0}), (Outcome{{-1}, -1}));
  EXPECT_EQ(run(program, {7, 2, 0}), (Outcome{{3}, -1}));
}

TEST(ShapeProgram, ManyExpressionsAndForeignLeaves) {
  std::vector<Dim> expressions;
  for (std::int64_t i = 0; i < 300; ++i) expressions.push_back(floor_div(n, Dim(i + 1)) + m);
  const Outcome outcome = run(program_of(expressions), {1000, 5, 0});
  for (std::int64_t i = 0; i < 300; ++i)
    EXPECT_EQ(outcome.values[static_cast<std::size_t>(i)], 1000 / (i + 1) + 5);
  EXPECT_THROW(ShapeInterpreter(program_of({Dim::symbol("k")})), Error);
}

}  // namespace
}  // namespace anydim::ir
