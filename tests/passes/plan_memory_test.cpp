#include "passes/plan_memory.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "passes/choose_buckets.h"
#include "tests/support/pass_fixture.h"
#include "tests/support/table_backend.h"

namespace anydim::tests {
namespace {

using namespace ir;
using passes::Lifetime;
using passes::plan_memory;

SymbolTable symbols() {
  SymbolTable table;
  table.declare("n", {.low = 0, .high = 1000, .below = {}, .reason = {}});
  table.declare("m", {.low = 1, .high = 1000, .below = {}, .reason = {}});
  return table;
}

TEST(PlanMemory, ValuesThatNeverMeetShareASlot) {
  Dim n = Dim::symbol("n");
  auto plan =
      plan_memory({{0, 1, n * 64}, {1, 2, n * 128}, {2, 3, n * 64}, {3, 4, n * 128}}, symbols());
  EXPECT_EQ(plan.offsets[0], plan.offsets[2]);
  EXPECT_EQ(plan.offsets[1], plan.offsets[3]);
  EXPECT_EQ(plan.total, n * 192);
}

TEST(PlanMemory, SizesWithoutAnOrderKeepApart) {
  auto plan =
      plan_memory({{0, 0, Dim::symbol("n") * 64}, {1, 1, Dim::symbol("m") * 64}}, symbols());
  EXPECT_EQ(plan.total, Dim::symbol("n") * 64 + Dim::symbol("m") * 64);
}

TEST(PlanMemory, OffsetsAreAligned) {
  auto plan = plan_memory({{0, 1, Dim::symbol("n")}, {0, 1, 4}}, symbols());
  EXPECT_EQ(plan.offsets[1], ceil_div(Dim::symbol("n"), 64) * 64);
  EXPECT_EQ(plan.total, ceil_div(Dim::symbol("n"), 64) * 64 + 64);
}

TEST(PlanMemory, NothingNeedsNothing) { EXPECT_EQ(plan_memory({}, symbols()).total, Dim(0)); }

TEST(PlanMemory, AResultMayTakeThePlaceOfAnOperandThatEnds) {
  const Dim bytes = Dim::symbol("n") * 64;
  const auto second = [&](const Lifetime& operand, const Lifetime& result) {
    return plan_memory({operand, result}, symbols()).offsets[1];
  };
  EXPECT_EQ(second({0, 2, bytes}, {2, 3, bytes, {0}}), Dim(0));
  EXPECT_EQ(second({0, 2, bytes}, {2, 3, bytes}), bytes);
  EXPECT_EQ(second({0, 3, bytes}, {2, 3, bytes, {0}}), bytes) << "it is read later";
  EXPECT_EQ(second({2, 2, bytes}, {2, 3, bytes, {0}}), bytes) << "it begins there, too";
  EXPECT_EQ(second({0, 2, bytes}, {2, 3, bytes * 2, {0}}), bytes) << "it is smaller";
}

TEST(PlanMemory, OneOfTwoResultsTakesThePlace) {
  const Dim bytes = Dim::symbol("n") * 64;
  const auto plan = plan_memory({{0, 2, bytes}, {2, 3, bytes, {0}}, {2, 3, bytes, {0}}}, symbols());
  EXPECT_EQ(plan.offsets[1], Dim(0));
  EXPECT_EQ(plan.offsets[2], bytes);
}

RC_GTEST_PROP(PlanMemory, LiveValuesNeverOverlap, ()) {
  const std::vector<Dim> sizes{Dim::symbol("n") * 4,
                               Dim::symbol("m") * 64,
                               Dim::symbol("n") * Dim::symbol("m"),
                               100,
                               Dim::symbol("n") * 64 + 8,
                               0};
  std::vector<Lifetime> lifetimes;
  for (int i = 0, count = *rc::gen::inRange(0, 12); i < count; ++i) {
    auto first = *rc::gen::inRange<std::int64_t>(0, 10);
    lifetimes.push_back(
        {first, first + *rc::gen::inRange<std::int64_t>(0, 5), *rc::gen::elementOf(sizes)});
    if (i > 0 && *rc::gen::arbitrary<bool>())
      lifetimes.back().overwrites = {*rc::gen::inRange<std::size_t>(0, lifetimes.size() - 1)};
  }
  auto plan = plan_memory(lifetimes, symbols());
  const auto n = *rc::gen::inRange<std::int64_t>(0, 1001),
             m = *rc::gen::inRange<std::int64_t>(1, 1001);
  auto value = [&](const Dim& dim) {
    return dim.evaluate([&](const DimLeaf& leaf) { return leaf.symbol == "n" ? n : m; });
  };
  for (std::size_t i = 0; i < lifetimes.size(); ++i) {
    auto begin = value(plan.offsets[i]), end = begin + value(lifetimes[i].bytes);
    RC_ASSERT(begin % passes::arena_alignment == 0);
    RC_ASSERT(end <= value(plan.total));
    for (std::size_t j = 0; j < i; ++j) {
      if (lifetimes[j].last < lifetimes[i].first || lifetimes[i].last < lifetimes[j].first)
        continue;
      const bool overwritten =
          lifetimes[i].overwrites == std::vector{j} && lifetimes[j].last == lifetimes[i].first;
      if (overwritten && plan.offsets[i] == plan.offsets[j]) continue;
      auto other = value(plan.offsets[j]), other_end = other + value(lifetimes[j].bytes);
      RC_ASSERT(begin == end || other == other_end || end <= other || other_end <= begin);
    }
  }
}

}  // namespace
}  // namespace anydim::tests
