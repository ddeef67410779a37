// What must hold between two sizes at run time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace anydim::ir {

// The right one is 0 where the relation looks at the left one alone.
enum class Relation : std::uint8_t {
  Equal,          // left == right
  Broadcastable,  // left == right, or one of them is 1
  ExpandsTo,      // left == right, or left is 1
  LessEqual,      // left <= right
  GreaterEqual,   // left >= right
  NonZero,        // left != 0
  MultipleOf,     // right != 0 and left is a multiple of right
};
bool holds(Relation relation, std::int64_t left, std::int64_t right);
// What the left one is to be, where `right` is the text of the right one: "at most 3".
std::string expectation(Relation relation, std::string_view right);
// "WHAT: expected at most 3, got 4" for a relation between `left`, which `what` names, and `right`.
std::string violation(Relation relation, std::string_view what, std::int64_t left,
                      std::int64_t right);

}  // namespace anydim::ir
