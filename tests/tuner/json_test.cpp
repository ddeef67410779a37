#include "tuner/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "ir/error.h"

namespace anydim::tuner {
namespace {

std::string nested(int depth) {
  return std::string(static_cast<std::size_t>(depth), '[') +
         std::string(static_cast<std::size_t>(depth), ']');
}

TEST(Json, DepthIsBounded) {
  EXPECT_TRUE(parse_json(nested(deepest_json)).is_array());
  EXPECT_TRUE(parse_json(nested(deepest_json + 1)).is_discarded());
  EXPECT_TRUE(parse_ordered_json(nested(1000000)).is_discarded());
  EXPECT_TRUE(parse_json(std::string(1000000, '[')).is_discarded());
  EXPECT_TRUE(parse_json("{\"a\": ").is_discarded());
}

TEST(Json, QuotedValuesAreCutAndShown) {
  EXPECT_EQ(printable_json(nlohmann::json("a\u009b\x1b")), "\"a\\u009b\\u001b\"");
  EXPECT_EQ(printable_json(nlohmann::json(std::string(1000, 'a'))).size(), 203u);
}

std::string refusal(const char* text) {
  try {
    integer_of(parse_json(text));
    return "none";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Json, IntegersAreWholeAndOf64Bits) {
  EXPECT_EQ(integer_of(parse_json("-9223372036854775808")), INT64_MIN);
  EXPECT_EQ(integer_of(parse_ordered_json("9223372036854775807")), INT64_MAX);
  EXPECT_EQ(refusal("9223372036854775808"), "`9223372036854775808` is no whole number of 64 bits");
  EXPECT_EQ(refusal("1e300"), "`1e+300` is no whole number of 64 bits");
  EXPECT_EQ(refusal("\"1\""), "`\"1\"` is no whole number of 64 bits");
}

}  // namespace
}  // namespace anydim::tuner
