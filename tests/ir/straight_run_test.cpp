// Where an index that folds back runs straight: there it is what it was.
#include "ir/loops/straight_run.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "ir/loops/loop_form_parse.h"

namespace anydim::ir {
namespace {

struct Folded {
  std::string name, index;
  std::int64_t begin, end;  // of 20 points over 16, where the run is found
  bool straight = true;
};

class StraightRunOf : public ::testing::TestWithParam<Folded> {};

const Dim& index_of(const ScalarProgram& program) {
  return program.steps.front().as<step::Load>().index.back();
}

std::int64_t value(const Dim& dim, const DimLeaf& run, std::int64_t at) {
  const auto symbol = [](const DimLeaf& leaf) -> std::optional<Dim> {
    return Dim(leaf.is_symbol() ? 16 : 0);
  };
  const Dim placed = dim.substitute(std::map<DimLeaf, Dim>{{run, Dim(at)}});
  return placed.substitute(symbol).constant().value();
}

LoopForm form_of(const std::string& index) {
  return parse_loop_form(fmt::format(R"(map
  parameter 0: Tensor[(3, w), f32]
  result 0: Tensor[(3, w + 4), f32]
  where w in [16, 1000]
  for $p0 < 3, $p1 < w + 4
    #0: f32 = load 0[$p0, {}]
    store 0[$p0, $p1] = #0
)",
                                     index));
}

void expect_run(const MapPart& part, const StraightRun& found, std::int64_t begin,
                std::int64_t end) {
  const DimLeaf& run = part.space.back().variable;
  EXPECT_EQ(value(found.begin, run, 0), begin);
  EXPECT_EQ(value(found.end, run, 0), end);
  const Dim &folded = index_of(part.program), &straight = index_of(found.program);
  EXPECT_FALSE((straight - Dim::of(run)).mentions(run));
  for (std::int64_t at = begin; at < end; ++at)
    EXPECT_EQ(value(straight, run, at), value(folded, run, at)) << at;
}

TEST_P(StraightRunOf, ReadsTheSame) {
  const Folded& one = GetParam();
  const LoopForm form = form_of(one.index);
  const MapPart& part = std::get<MapForm>(form.kind).parts.front();
  const auto found = straight_run(part, form.symbols);
  ASSERT_EQ(found.has_value(), one.straight);
  if (found) expect_run(part, *found, one.begin, one.end);
}

// As a pad writes it, of known and of unknown sizes.
TEST(StraightRun, IsWhatNoBorderReflects) {
  LoopForm form = form_of("max(0, min($p1 - 2, w - 1))");
  MapPart& part = std::get<MapForm>(form.kind).parts.front();
  const Dim run = part.space.back().index();
  for (const Dim& width : {Dim(16), Dim::symbol("w")}) {
    part.space.back().extent = width + 4;
    const Dim turn = mod(run - 2, 2 * width - 2);
    part.program.steps.front().as<step::Load>().index.back() = min(turn, 2 * width - 2 - turn);
    const auto found = straight_run(part, form.symbols);
    ASSERT_TRUE(found);
    expect_run(part, *found, 2, 18);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Indices, StraightRunOf,
    ::testing::Values(Folded{"Repeated", "max(0, min($p1 - 2, w - 1))", 2, 18},
                      Folded{"WrappedAround", "mod($p1 - 2, w)", 2, 18},
                      Folded{"EarlyInATurn", "mod($p0*(w - 1) + $p1 + 5, w)", 0, 11},
                      Folded{"LateInATurn", "mod($p0*(w - 1) + $p1 + 9, w)", 7, 20},
                      Folded{.name = "InPairs",
                             .index = "floor_div($p1, 4)",
                             .begin = 0,
                             .end = 0,
                             .straight = false}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace anydim::ir
