// Kernels of a region against the reference evaluator.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/codegen_cpu/kernel_harness.h"

namespace anydim::codegen_cpu::testing {

using Symbols = tests::SymbolValues;

// Every candidate of every level over `bucket`, at each of `shapes`.
inline void expect_right(const TestRegion& region, const ir::Bucket& bucket, const std::vector<Symbols>& shapes, double tolerance = 2e-5) {
  for (const Target& target : targets()) {
    for (const ir::Schedule& schedule : candidates(region, target, bucket)) {
      const TestKernel kernel = compile(region, target, bucket, schedule);
      for (const Symbols& symbols : shapes) {
        std::string at;
        for (const auto& [name, value] : symbols) at += " " + name + "=" + std::to_string(value);
        SCOPED_TRACE(std::string(name_of(target.level)) + " " + to_string(schedule) + at);
        const auto inputs = random_inputs(region, symbols, 1);
        const auto expected = reference(region, inputs);
        const auto got = run(region, target, kernel, symbols, inputs);
        ASSERT_EQ(got.size(), expected.size());
        for (std::size_t i = 0; i < got.size(); ++i) ASSERT_LE(difference(got[i], expected[i]), tolerance) << "output " << i;
      }
    }
  }
}

}  // namespace anydim::codegen_cpu::testing
