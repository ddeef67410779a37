// Which row of a dispatch table serves a shape, in a time that hardly depends on the number of
// rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ir/schedule.h"

namespace anydim::runtime {

// Each key's values are cut at all edges of all rows; for every piece a set of bits says which rows
// contain it. The sets of the keys' pieces are joined, and the first row among them whose
// divisibility holds is it.
class BucketLookup {
 public:
  explicit BucketLookup(const ir::DispatchTable& table);
  // The first row that contains the keys; the last where none does.
  std::size_t find(std::span<const std::int64_t> keys) const;

 private:
  struct Key {
    std::vector<std::int64_t> edges;  // first values of the pieces but the first
    std::vector<std::uint64_t> rows;  // [piece][word]
  };
  bool divides(std::size_t row, std::span<const std::int64_t> keys) const;

  std::size_t rows_ = 0, words_ = 0;
  std::vector<Key> keys_;
  std::vector<std::uint64_t> divisible_;  // rows that ask for multiples of more than 1
  std::vector<std::int64_t> multiples_;   // [row][key]
};

}  // namespace anydim::runtime
