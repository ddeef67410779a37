#include "runtime/bucket_lookup.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "ir/error.h"

namespace anydim::runtime {

namespace {

constexpr std::size_t bits = 64;

}  // namespace

BucketLookup::BucketLookup(const ir::DispatchTable& table)
    : rows_(table.entries.size()), words_((rows_ + bits - 1) / bits) {
  internal_check(rows_ > 0, "a dispatch table has a general entry");
  const std::size_t count = table.entries[0].bucket.intervals.size();
  divisible_.assign(words_, 0);
  for (std::size_t row = 0; row < rows_; ++row) {
    const ir::Bucket& bucket = table.entries[row].bucket;
    internal_check(bucket.intervals.size() == count,
                   "all buckets of a table have an interval a key");
    for (const ir::BucketInterval& interval : bucket.intervals) {
      multiples_.push_back(interval.multiple);
      if (interval.multiple != 1) divisible_[row / bits] |= std::uint64_t{1} << (row % bits);
    }
  }
  for (std::size_t key = 0; key < count; ++key) {
    Key& own = keys_.emplace_back();
    for (const ir::DispatchTable::Entry& entry : table.entries) {
      const ir::BucketInterval& interval = entry.bucket.intervals[key];
      own.edges.push_back(interval.low);
      if (interval.high < std::numeric_limits<std::int64_t>::max())
        own.edges.push_back(interval.high + 1);
    }
    std::ranges::sort(own.edges);
    own.edges.erase(std::ranges::unique(own.edges).begin(), own.edges.end());
    own.rows.assign((own.edges.size() + 1) * words_, 0);
    for (std::size_t piece = 0; piece < own.edges.size(); ++piece) {
      for (std::size_t row = 0; row < rows_; ++row) {
        const ir::BucketInterval& interval = table.entries[row].bucket.intervals[key];
        if (interval.low <= own.edges[piece] && own.edges[piece] <= interval.high)
          own.rows[(piece + 1) * words_ + row / bits] |= std::uint64_t{1} << (row % bits);
      }
    }
  }
}

bool BucketLookup::divides(std::size_t row, std::span<const std::int64_t> keys) const {
  const std::int64_t* multiples = multiples_.data() + row * keys_.size();
  for (std::size_t key = 0; key < keys_.size(); ++key)
    if (keys[key] % multiples[key] != 0) return false;
  return true;
}

std::size_t BucketLookup::find(std::span<const std::int64_t> keys) const {
  internal_check(keys.size() == keys_.size(), "a lookup has a value a key");
  // Most regions have one to five keys; memory is taken for more alone.
  constexpr std::size_t few = 16;
  const std::uint64_t* on_the_stack[few];
  std::vector<const std::uint64_t*> on_the_heap(keys_.size() > few ? keys_.size() : 0);
  const std::uint64_t** pieces = keys_.size() > few ? on_the_heap.data() : on_the_stack;
  for (std::size_t key = 0; key < keys_.size(); ++key) {
    const Key& own = keys_[key];
    // Branch-free halving: where a value falls is as good as random.
    const std::int64_t* first = own.edges.data();
    for (std::size_t length = own.edges.size(); length > 0;) {
      const std::size_t half = (length + 1) / 2;
      first += first[half - 1] <= keys[key] ? half : 0;
      length -= half;
    }
    pieces[key] = own.rows.data() + static_cast<std::size_t>(first - own.edges.data()) * words_;
  }
  for (std::size_t word = 0; word < words_; ++word) {
    std::uint64_t rows = ~std::uint64_t{0};
    for (std::size_t key = 0; key < keys_.size(); ++key) rows &= pieces[key][word];
    for (; rows != 0; rows &= rows - 1) {
      const std::size_t row = word * bits + static_cast<std::size_t>(std::countr_zero(rows));
      if (row >= rows_) break;
      if ((divisible_[word] >> (row % bits) & 1) == 0 || divides(row, keys)) return row;
    }
  }
  return rows_ - 1;
}

}  // namespace anydim::runtime
