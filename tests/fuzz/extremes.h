// Values that only a call tells, at the ends of what an integer can be: every op that takes sizes,
// steps, axes, counts, positions or indices at run time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/compile.h"
#include "tests/support/random_graph.h"

namespace anydim::tests {

// One such op between others, drawn from `seed`, and calls whose integers are drawn from plausible
// ones and from -2^63, -2^63 + 1, -1, 0, 1, 2^31, 2^40, 2^62, 2^63 - 2, 2^63 - 1 and their kin in
// narrower types. Many calls must be refused.
RandomGraph extreme_graph(std::uint64_t seed);
// Text names of the ops that graphs are drawn around.
std::vector<std::string> extreme_ops();

struct ExtremeCounts {
  std::uint64_t cases = 0;    // calls
  std::uint64_t right = 0;    // results equal to the reference evaluator's
  std::uint64_t refused = 0;  // by both
  std::uint64_t large = 0;    // by one of them for want of memory: nothing to compare
  // by the machine, because a size leaves 64 bits on the way to one that would not
  std::uint64_t uncounted = 0;
  std::uint64_t graphs_refused = 0;  // when compiled, as unsupported or malformed
};

// Each call on a context of its own against the reference evaluator: the same results, or a refusal
// by both. Activations and outputs lie between pages that may not be touched. Empty where all
// agree, else the first disagreement.
std::string extreme_disagreement(const RandomGraph& graph, std::uint64_t seed,
                                 const CompileTarget& target, ExtremeCounts& counts);

// This machine's processors, with every block of memory in the middle of such pages.
CompileTarget guarded_target();

}  // namespace anydim::tests
