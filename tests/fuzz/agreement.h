// One graph on everything that computes it, held against the reference evaluator.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

#include "api/compile.h"
#include "tests/support/random_graph.h"

namespace anydim::tests {

struct AgreementOptions {
  double tolerance = 2e-3;       // of floats: absolute, or relative to the expected one
  double half_tolerance = 6e-2;  // where f16 or bf16 takes part
  int threads = 1;
  std::size_t static_calls = 2;   // calls for whose shapes a static program is tried too
  std::size_t exact_calls = 2;    // calls whose shapes get kernels of their own under the policy
                                  // exact; the others keep those of buckets
  std::filesystem::path cache{};  // folder of kernels; empty: none is kept
};

struct Agreement {
  // The first disagreement: `stage` is what failed ("bucketed: results"), `detail` how. Empty: all
  // agree.
  std::string stage{}, detail{};
  // Results differ, but the evaluator's own do as much when every computed float is changed in its
  // last places: nothing can be said.
  bool unstable = false;
  bool refused = false;             // by the evaluator: nothing was compared
  std::size_t static_runs = 0;      // calls whose shapes made a static program
  std::size_t static_refusals = 0;  // and that its gate refused
  explicit operator bool() const { return stage.empty(); }
};

// Every call, in order and then in reverse on the same context, on the virtual machine under the
// policies symbolic, bucketed (whole tables) and exact (before and after its kernels are there),
// symbolic once more on a fake GPU with the same kernels, and for some calls as a static program of
// their shapes. Results lie within the tolerance of the evaluator's; for the same kernels (order of
// calls, processor and fake GPU, bucketed and exact before its kernels, a call twice) they are
// equal bit for bit. A graph that the evaluator refuses agrees. Nothing is thrown: an error of any
// kind is a disagreement.
Agreement agreement(const RandomGraph& graph, const CompileTarget& target,
                    const AgreementOptions& options = {});

}  // namespace anydim::tests
