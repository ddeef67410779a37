// Orders in which the dims of tensors lie in memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ir/dims/dim.h"
#include "ir/tensor.h"

namespace anydim::passes {

using Dims = std::vector<ir::Dim>;
// Axes of a tensor; of all of them, as they lie in memory, the outermost first, an order.
using Axes = std::vector<std::size_t>;

Axes inverse(const Axes& order);
Axes as_given(std::size_t rank);         // 0, 1, 2, ...
Axes last_two_turned(std::size_t rank);  // the same with the last two exchanged

// The item of each axis of an order.
template <typename T>
std::vector<T> in_order(const std::vector<T>& items, const Axes& order) {
  std::vector<T> result;
  for (const std::size_t axis : order) result.push_back(items[axis]);
  return result;
}

inline bool is_in_place(const Axes& order) { return std::ranges::is_sorted(order); }

// An order without the axes of dims of 1, which lie anywhere.
Axes that_lie(const Dims& dims, Axes order);
// The same order in memory with dims of 1 where a layout with the innermost channels has them: in
// front of the axis behind them, and of the innermost.
Axes with_ones_placed(const Dims& dims, const Axes& order);
// The axes of [begin, end) in the order in which they lie, without those of dims of 1; nullopt:
// others lie between them.
std::optional<Axes> lie_together(const Dims& dims, const Axes& order, std::size_t begin,
                                 std::size_t end);

// Dims of one shape that hold the same elements as dims of another: a range of each.
struct DimGroup {
  std::size_t from_begin = 0, from_end = 0, to_begin = 0, to_end = 0;
};
// How a reshape puts dims together and takes them apart, in the finest groups.
std::vector<DimGroup> groups_of(const Dims& from, const Dims& to);

// A tensor's elements as if it had `dims`, these in another order; as a tensor of `extents`, which
// writes them when they are read.
ir::Tensor reordered(ir::Tensor tensor, const std::vector<std::int64_t>& dims, const Axes& order,
                     std::vector<std::int64_t> extents);

}  // namespace anydim::passes
