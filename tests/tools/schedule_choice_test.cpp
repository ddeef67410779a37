// Schedules that are told or avoided.
#include "bench/campaign/worker/schedule_choice.h"

#include <gtest/gtest.h>

#include "ir/error.h"
#include "tests/support/table_backend.h"

namespace anydim::campaign {
namespace {

bool takes(std::string_view filter, std::string_view schedule) {
  return parse_schedule_filter(filter).matches(ir::parse_schedule(schedule));
}

TEST(ScheduleFilter, FieldsHaveAValueOrOneAbove) {
  EXPECT_TRUE(takes("tile", "tile rows=8 split=2"));
  EXPECT_FALSE(takes("tile", "tiles rows=8"));
  EXPECT_TRUE(takes("tile rows=8 split>1", "tile rows=8 split=2"));
  EXPECT_FALSE(takes("tile rows=8 split>1", "tile rows=8 split=1"));
  EXPECT_FALSE(takes("tile split>1 rows=8", "tile rows=4 split=2"));
  // What a schedule does not have is neither.
  EXPECT_FALSE(takes("tile shared=0", "tile rows=8"));
  EXPECT_FALSE(takes("tile shared>-1", "tile rows=8"));
  EXPECT_THROW(parse_schedule_filter("split>1"), Error);
  EXPECT_THROW(parse_schedule_filter("tile split>many"), Error);
}

using Names = std::vector<std::string>;
Names offered(const ChosenSchedules& chosen) {
  ir::Region region;
  region.name = "product";
  Names names;
  for (const ir::Schedule& schedule : chosen.candidates(region, {}))
    names.push_back(to_string(schedule));
  return names;
}

ChosenSchedules choice(const char* filter, const std::vector<const char*>& avoided) {
  std::vector<ScheduleFilter> filters;
  for (const char* one : avoided) filters.push_back(parse_schedule_filter(one));
  return {std::make_shared<tests::TableBackend>(),
          filter == nullptr ? std::nullopt : std::optional(parse_schedule_filter(filter)), filters};
}

TEST(ChosenSchedules, OffersWhatTheFilterTakesOfAllThatThereIs) {
  const auto chosen = choice("rare", {});
  EXPECT_EQ(offered(chosen), Names{"rare"});
  EXPECT_TRUE(chosen.met());
}

TEST(ChosenSchedules, AFilterThatTakesNothingLeavesAllAndSaysSo) {
  const auto chosen = choice("enormous", {});
  EXPECT_EQ(offered(chosen), (Names{"small", "large"}));
  EXPECT_FALSE(chosen.met());
}

// Else fusion would make regions for it that the backend inside does not take.
TEST(ChosenSchedules, FusesAsTheBackendDoes) {
  for (const bool does : {false, true}) {
    auto inner = std::make_shared<tests::TableBackend>();
    inner->joins_rows = does;
    inner->rounds_keys = does;
    EXPECT_EQ(ChosenSchedules(inner, std::nullopt).joins_rows_to_products(), does);
    EXPECT_EQ(ChosenSchedules(inner, std::nullopt).rounds_keys_and_values(), does);
  }
}

TEST(ChosenSchedules, WhatIsAvoidedIsNeverOffered) {
  EXPECT_EQ(offered(choice(nullptr, {"large"})), (Names{"small", "rare"}));
  EXPECT_EQ(offered(choice("large", {"large"})), (Names{"small", "rare"}));
  EXPECT_EQ(choice(nullptr, {"large"}).space({}, {}).size(), 2u);
  try {
    offered(choice(nullptr, {"small", "large", "rare"}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Unsupported);
    EXPECT_STREQ(error.what(), "every schedule that the region product has is to be avoided");
  }
}

}  // namespace
}  // namespace anydim::campaign
