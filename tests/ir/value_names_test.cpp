#include "ir/value_names.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "ir/module.h"

namespace anydim::ir {
namespace {

std::string added(Function& function, const std::string& name) {
  return function.values[function.add_value(name)].name;
}

TEST(ValueNames, TakeTheNumberAfterTheHighestThatStandsBehindAName) {
  Function function;
  EXPECT_EQ(added(function, "x"), "x");
  EXPECT_EQ(added(function, "x"), "x_1");
  EXPECT_EQ(added(function, "x_7"), "x_7");
  EXPECT_EQ(added(function, "x"), "x_8");
  EXPECT_EQ(added(function, "x_7"), "x_7_1");
  EXPECT_EQ(added(function, "x_y"), "x_y");
  EXPECT_EQ(added(function, "x_1234567890"), "x_1234567890");
  EXPECT_EQ(added(function, "x"), "x_9") << "ten digits are part of a name";
  EXPECT_EQ(added(function, ""), "");
  EXPECT_EQ(added(function, ""), "_1");
}

TEST(ValueNames, KnowWhatWasAddedWithoutThem) {
  Function function;
  EXPECT_EQ(added(function, "x"), "x");
  function.values.reserve(function.values.size() + 8);
  EXPECT_EQ(added(function, "z"), "z");
  function.values.push_back({"y", {}});
  EXPECT_EQ(added(function, "y"), "y_1");
}

TEST(ValueNames, ForgetValuesThatOthersReplaced) {
  Function function;
  for (const char* name : {"x", "y", "z"}) EXPECT_EQ(added(function, name), name);
  std::vector<Value> others;
  for (const char* name : {"a", "z", "b", "c"}) others.push_back({name, {}});
  function.values = others;
  EXPECT_EQ(added(function, "x"), "x");
  EXPECT_EQ(added(function, "z"), "z_1");
  function.values.resize(1);
  EXPECT_EQ(added(function, "z"), "z");
  EXPECT_EQ(added(function, "a"), "a_1");
}

TEST(ValueNames, AreThoseOfEachCopy) {
  Function function;
  EXPECT_EQ(added(function, "x"), "x");
  Function copy = function;
  EXPECT_EQ(added(copy, "x"), "x_1");
  EXPECT_EQ(added(copy, "x"), "x_2");
  EXPECT_EQ(added(function, "x"), "x_1");
  Function moved = std::move(copy);
  EXPECT_EQ(added(moved, "x"), "x_3");
  copy = moved;
  EXPECT_EQ(added(copy, "x"), "x_4");
  EXPECT_EQ(added(moved, "x"), "x_4");
}

}  // namespace
}  // namespace anydim::ir
