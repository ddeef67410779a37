// Random expressions for property tests: a plain tree that is evaluated directly and can be built
// as a Dim, so that the canonical form has something independent to be compared with.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/dims/dim.h"

namespace anydim::ir::test {

using Assignment = std::map<std::string, std::int64_t>;

struct Tree {
  enum class Kind {
    Constant,
    Symbol,
    Add,
    Subtract,
    Multiply,
    FloorDiv,
    CeilDiv,
    Mod,
    Min,
    Max,
    Select,
    Broadcast
  };
  Kind kind = Kind::Constant;
  std::int64_t constant = 0;
  std::string symbol;
  Comparison comparison = Comparison::Equal;
  std::vector<Tree> children;
};

// Bytes that decide what is built. When they run out only leaves are left, so shorter or smaller
// bytes give simpler trees and RapidCheck can shrink.
class Choices {
 public:
  explicit Choices(const std::vector<std::uint8_t>& bytes) : bytes_(bytes) {}
  // 0 .. count - 1; 0 when the bytes are used up.
  std::int64_t next(std::int64_t count) {
    if (position_ >= bytes_.size()) return 0;
    return bytes_[position_++] % count;
  }
  bool exhausted() const { return position_ >= bytes_.size(); }

 private:
  const std::vector<std::uint8_t>& bytes_;
  std::size_t position_ = 0;
};

Tree random_tree(Choices& choices, const std::vector<std::string>& symbols, int depth);
// Sums of products of symbols and constants only.
Tree random_polynomial(Choices& choices, const std::vector<std::string>& symbols, int depth);

// Nothing where the expression has no value: a zero divisor, or a broadcast of extents that don't
// fit.
std::optional<std::int64_t> evaluate(const Tree& tree, const Assignment& assignment);
Dim build(const Tree& tree);
std::string show(const Tree& tree);

}  // namespace anydim::ir::test
