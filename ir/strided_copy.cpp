#include "ir/strided_copy.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace anydim::ir {
namespace {

// One dimension of a strided read.
struct Loop {
  std::int64_t extent;
  std::int64_t stride;
};

// Drops dims of extent 1 and merges neighbours that one stride covers, so that runs are as long as
// they can be.
std::vector<Loop> merged_loops(std::span<const std::int64_t> dims,
                               std::span<const std::int64_t> strides) {
  std::vector<Loop> loops;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 1) continue;
    if (!loops.empty() && loops.back().stride == strides[i] * dims[i]) {
      loops.back() = {loops.back().extent * dims[i], strides[i]};
    } else {
      loops.push_back({dims[i], strides[i]});
    }
  }
  if (loops.empty()) loops.push_back({1, 1});
  return loops;
}

// Element by element through memcpy, because foreign memory need not be aligned to its elements.
template <std::size_t size>
void copy_row(std::byte* to, const std::byte* from, std::int64_t count, std::int64_t stride) {
  constexpr auto step = static_cast<std::int64_t>(size);
  for (std::int64_t i = 0; i < count; ++i)
    std::memcpy(to + i * step, from + i * stride * step, size);
}

void copy_strided_row(std::byte* to, const std::byte* from, std::size_t size, const Loop& loop) {
  if (loop.stride == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(loop.extent) * size);
    return;
  }
  switch (size) {
    case 1: return copy_row<1>(to, from, loop.extent, loop.stride);
    case 2: return copy_row<2>(to, from, loop.extent, loop.stride);
    case 4: return copy_row<4>(to, from, loop.extent, loop.stride);
    default: return copy_row<8>(to, from, loop.extent, loop.stride);
  }
}

}  // namespace

void copy_strided(std::byte* to, const std::byte* from, std::size_t size,
                  std::span<const std::int64_t> dims, std::span<const std::int64_t> strides) {
  if (std::ranges::find(dims, 0) != dims.end()) return;
  const std::vector<Loop> loops = merged_loops(dims, strides);
  const Loop inner = loops.back();
  const std::size_t outer = loops.size() - 1;
  std::int64_t rows = 1;
  for (std::size_t i = 0; i < outer; ++i) rows *= loops[i].extent;
  std::vector<std::int64_t> index(outer, 0);
  std::int64_t offset = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    copy_strided_row(to, from + offset * static_cast<std::int64_t>(size), size, inner);
    to += static_cast<std::size_t>(inner.extent) * size;
    for (std::size_t i = outer; i-- > 0;) {
      offset += loops[i].stride;
      if (++index[i] < loops[i].extent) break;
      offset -= loops[i].stride * loops[i].extent;
      index[i] = 0;
    }
  }
}

}  // namespace anydim::ir
