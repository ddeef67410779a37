// Kernels of a region against the reference evaluator.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
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

// One schedule's kernel at each of `shapes`.
inline void expect_kernel_right(const TestRegion& region, const Target& target,
                                const ir::Bucket& bucket, const ir::Schedule& schedule,
                                const std::vector<Symbols>& shapes,
                                const Expectation& expectation = {}) {
  const TestKernel kernel = compile(region, target, bucket, schedule);
  for (const Symbols& symbols : shapes) {
    std::string at;
    for (const auto& [name, value] : symbols) at += " " + name + "=" + std::to_string(value);
    SCOPED_TRACE(target.name() + " " + to_string(schedule) + at);
    auto inputs = random_inputs(region, symbols, 1);
    if (expectation.fill) expectation.fill(inputs);
    const auto expected = reference(region, inputs);
    const auto got = run(region, target, kernel, symbols, inputs);
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double tolerance = got[i].dtype() == ir::DType::BF16
                                   ? expectation.bf16_tolerance.value_or(expectation.tolerance)
                                   : expectation.tolerance;
      ASSERT_LE(difference(got[i], expected[i]), tolerance) << "output " << i;
    }
  }
}

// The candidates of every level over `bucket`, at each of `shapes`.
inline void expect_right(const TestRegion& region, const ir::Bucket& bucket,
                         const std::vector<Symbols>& shapes, const Expectation& expectation = {}) {
  for (const Target& target : targets()) {
    std::vector<ir::Schedule> schedules = candidates(region, target, bucket);
    ASSERT_FALSE(schedules.empty());
    schedules.resize(std::min(expectation.most, schedules.size()));
    for (const ir::Schedule& schedule : schedules)
      expect_kernel_right(region, target, bucket, schedule, shapes, expectation);
  }
}

}  // namespace anydim::codegen_cpu::testing
