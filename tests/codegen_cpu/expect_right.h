// Kernels of a region against the reference evaluator.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "ir/schedule.h"
#include "tests/codegen_cpu/kernel_harness.h"
#include "tests/support/region_cases.h"

namespace anydim::codegen_cpu::testing {

using Symbols = tests::SymbolValues;

using tests::every_candidate;

struct Expectation {
  double tolerance = 2e-5;  // as difference() counts it
  // of bf16 results, which may round to the neighbour; absent: the same
  std::optional<double> bf16_tolerance{};
  std::size_t most = every_candidate;  // candidates of one target, the best first
  // changes the random inputs; optional
  tests::FillInputs fill{};
};

// A call of a region with random inputs and what the reference evaluator gives for them: made once
// for all kernels that are held against it.
struct ReferenceCall {
  Symbols symbols;
  std::vector<ir::Tensor> inputs, results;
};
std::vector<ReferenceCall> reference_calls(const TestRegion& region,
                                           const std::vector<Symbols>& shapes,
                                           const tests::FillInputs& fill = {});

// One schedule's kernel in each of `calls`.
void expect_kernel_right(const TestRegion& region, const Target& target, const ir::Bucket& bucket,
                         const ir::Schedule& schedule, const std::vector<ReferenceCall>& calls,
                         const Expectation& expectation = {});

// The candidates of every level over `bucket`, at each of `shapes`.
void expect_right(const TestRegion& region, const ir::Bucket& bucket,
                  const std::vector<Symbols>& shapes, const Expectation& expectation = {});

}  // namespace anydim::codegen_cpu::testing
