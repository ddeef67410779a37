#include "ir/schedule.h"

#include <gtest/gtest.h>

#include "ir/error.h"

namespace anydim::ir {
namespace {

std::string refusal(const std::string& text) {
  try {
    parse_schedule(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Malformed);
    return error.what();
  }
  return "accepted";
}

TEST(Schedule, PrintsAndParses) {
  const Schedule schedule{.name = "matmul",
                          .fields = {{"rows", 8}, {"columns", 48}, {"offset", -3}}};
  EXPECT_EQ(to_string(schedule), "matmul rows=8 columns=48 offset=-3");
  EXPECT_EQ(parse_schedule(to_string(schedule)), schedule);
  EXPECT_EQ(parse_schedule("map"), (Schedule{.name = "map", .fields = {}}));
  EXPECT_EQ(schedule.field("columns"), 48);
  EXPECT_EQ(schedule.find("depth"), std::nullopt);
  EXPECT_THROW(schedule.field("depth"), Error);
}

TEST(Schedule, RefusesOtherText) {
  EXPECT_EQ(refusal(""), "the schedule `` is not `NAME FIELD=INTEGER ...`: it has no name");
  EXPECT_EQ(refusal("rows=3"),
            "the schedule `rows=3` is not `NAME FIELD=INTEGER ...`: it starts with a field");
  EXPECT_EQ(refusal("map rows"),
            "the schedule `map rows` is not `NAME FIELD=INTEGER ...`: `rows` is no field");
  EXPECT_EQ(refusal("map =3"),
            "the schedule `map =3` is not `NAME FIELD=INTEGER ...`: `=3` is no field");
  EXPECT_EQ(refusal("map rows=3x"),
            "the schedule `map rows=3x` is not `NAME FIELD=INTEGER ...`: `rows=3x` has no 64-bit "
            "integer");
  EXPECT_EQ(refusal("map rows=9223372036854775808"),
            "the schedule `map rows=9223372036854775808` is not `NAME FIELD=INTEGER ...`: "
            "`rows=9223372036854775808` has no 64-bit integer");
  EXPECT_EQ(refusal("map rows=3 rows=4"),
            "the schedule `map rows=3 rows=4` is not `NAME FIELD=INTEGER ...`: the field rows "
            "appears twice");
}

TEST(Bucket, ContainsItsKeys) {
  const Bucket bucket{.intervals = {{1, 15, 1}, {0, 512, 8}}};
  EXPECT_EQ(to_string(bucket), "[1, 15] x [0, 512] multiple 8");
  EXPECT_EQ(to_string(Bucket{}), "any");
  EXPECT_TRUE(bucket.contains(std::vector<std::int64_t>{1, 0}));
  EXPECT_TRUE(bucket.contains(std::vector<std::int64_t>{15, 512}));
  EXPECT_FALSE(bucket.contains(std::vector<std::int64_t>{0, 8}));
  EXPECT_FALSE(bucket.contains(std::vector<std::int64_t>{16, 8}));
  EXPECT_FALSE(bucket.contains(std::vector<std::int64_t>{3, 520}));
  EXPECT_FALSE(bucket.contains(std::vector<std::int64_t>{3, 12}));
  EXPECT_TRUE(Bucket{}.contains({}));
}

}  // namespace
}  // namespace anydim::ir
