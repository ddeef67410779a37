// Elements of a tensor copied in another order, or some of them again and again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace anydim::ir {

// Writes the elements over `dims`, in row-major order, that lie at `from` with `strides` (in
// elements of `size` bytes: 1, 2, 4 or 8; of any sign). Neither side need be aligned to them.
void copy_strided(std::byte* to, const std::byte* from, std::size_t size,
                  std::span<const std::int64_t> dims, std::span<const std::int64_t> strides);

}  // namespace anydim::ir
