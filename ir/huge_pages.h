// Pages of 2 MiB, of which the kernel hands out and clears one where it would 512 small ones.
#pragma once

#include <cstddef>

namespace anydim::ir {

inline constexpr std::size_t huge_page = std::size_t{2} << 20;

// Asks for them in memory that begins at a multiple of one; small ones stay where they do not fit,
// or where the system has none.
void ask_for_huge_pages(void* memory, std::size_t bytes);

}  // namespace anydim::ir
