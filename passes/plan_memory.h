// Offsets of intermediate values in one arena segment, as dim expressions.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/dims/dim.h"
#include "ir/dims/symbols.h"

namespace anydim::passes {

inline constexpr std::int64_t arena_alignment = 64;

// A value that must stay untouched from the instruction that writes it to the last that reads it,
// both inclusive.
struct Lifetime {
  std::int64_t first = 0;
  std::int64_t last = 0;
  ir::Dim bytes;
  // Positions of lifetimes whose place this one may take though they end with the instruction that
  // it begins with: that writes an element where it has read it last.
  std::vector<std::size_t> overwrites = {};
};

struct MemoryPlan {
  std::vector<ir::Dim> offsets;  // one a lifetime, multiples of arena_alignment
  ir::Dim total;
};

// A value takes the slot of one that it may overwrite, ends as it begins and is as large. Others
// whose lifetimes do not meet share a slot where sizes are provably ordered: greedily, in order of
// `first`, into the free slot that is provably large enough and closest, else into one
// provably smaller, which grows, else into a new slot. A slot is as large as the largest value that
// it holds; offsets are sums of slot sizes rounded up to the alignment.
MemoryPlan plan_memory(const std::vector<Lifetime>& lifetimes, const ir::SymbolTable& symbols);

}  // namespace anydim::passes
