#include "tests/codegen_cpu/expect_right.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace anydim::codegen_cpu::testing {

std::vector<ReferenceCall> reference_calls(const TestRegion& region,
                                           const std::vector<Symbols>& shapes,
                                           const tests::FillInputs& fill) {
  std::vector<ReferenceCall> calls;
  for (const Symbols& symbols : shapes) {
    ReferenceCall call{
        .symbols = symbols, .inputs = random_inputs(region, symbols, 1), .results = {}};
    if (fill) fill(call.inputs);
    call.results = reference(region, call.inputs);
    calls.push_back(std::move(call));
  }
  return calls;
}

void expect_kernel_right(const TestRegion& region, const Target& target, const ir::Bucket& bucket,
                         const ir::Schedule& schedule, const std::vector<ReferenceCall>& calls,
                         const Expectation& expectation) {
  const TestKernel kernel = compile(region, target, bucket, schedule);
  for (const ReferenceCall& call : calls) {
    std::string at;
    for (const auto& [name, value] : call.symbols) at += " " + name + "=" + std::to_string(value);
    SCOPED_TRACE(target.name() + " " + to_string(schedule) + at);
    const auto got = run(region, target, kernel, call.symbols, call.inputs);
    ASSERT_EQ(got.size(), call.results.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double tolerance = got[i].dtype() == ir::DType::BF16
                                   ? expectation.bf16_tolerance.value_or(expectation.tolerance)
                                   : expectation.tolerance;
      ASSERT_LE(difference(got[i], call.results[i]), tolerance) << "output " << i;
    }
  }
}

void expect_right(const TestRegion& region, const ir::Bucket& bucket,
                  const std::vector<Symbols>& shapes, const Expectation& expectation) {
  const std::vector<ReferenceCall> calls = reference_calls(region, shapes, expectation.fill);
  for (const Target& target : targets()) {
    std::vector<ir::Schedule> schedules = candidates(region, target, bucket);
    ASSERT_FALSE(schedules.empty());
    schedules.resize(std::min(expectation.most, schedules.size()));
    for (const ir::Schedule& schedule : schedules)
      expect_kernel_right(region, target, bucket, schedule, calls, expectation);
  }
}

}  // namespace anydim::codegen_cpu::testing
