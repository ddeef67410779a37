// The corpus of regions, candidates of every level.
#include "tests/support/region_cases.h"

#include <gtest/gtest.h>

#include "ir/schedule.h"
#include "tests/codegen_cpu/expect_right.h"

namespace anydim::codegen_cpu::testing {
namespace {

class CpuRegions : public ::testing::TestWithParam<std::string> {};

TEST_P(CpuRegions, AgreeWithTheReference) {
  const tests::RegionCase& one = tests::region_case(GetParam());
  const TestRegion region = make_region(one.text, one.weights);
  expect_right(region, {}, one.shapes,
               {.tolerance = one.tolerance, .most = one.most, .fill = one.fill});
  for (const Target& target : targets()) {
    if (one.faults.empty()) break;
    const TestKernel kernel = compile(region, target, {}, candidates(region, target, {}).front());
    for (const tests::RegionFault& fault : one.faults) {
      std::vector<ir::Tensor> inputs = random_inputs(region, fault.symbols, 1);
      fault.fill(inputs);
      ir::KernelError failure;
      run(region, target, kernel, fault.symbols, inputs, 2, &failure);
      EXPECT_EQ(failure.check, 0);
      if (fault.value) EXPECT_EQ(failure.value, *fault.value);
    }
  }
}

// As the policy `exact` makes them.
TEST_P(CpuRegions, AgreeWithTheReferenceInKernelsOfOneShape) {
  const tests::RegionCase& one = tests::region_case(GetParam());
  const TestRegion region = make_region(one.text, one.weights);
  const Target target = targets().back();
  for (const tests::SymbolValues& shape : one.shapes) {
    std::vector<ir::BucketInterval> intervals;
    for (const ir::Dim& key : region.region.keys) {
      const std::int64_t value = tests::value_at(key, shape);
      intervals.push_back({value, value, std::max<std::int64_t>(value, 1)});
    }
    const ir::Bucket bucket = tests::bucket_of(std::move(intervals));
    expect_kernel_right(region, target, bucket, candidates(region, target, bucket).front(),
                        reference_calls(region, {shape}, one.fill), {.tolerance = one.tolerance});
  }
}

INSTANTIATE_TEST_SUITE_P(Corpus, CpuRegions, ::testing::ValuesIn(tests::region_case_names()),
                         [](const auto& tested) { return tested.param; });

// A kernel each; the corpus has them as results of one kernel.
TEST(Rows, EveryReductionOverSeveralAxes) {
  for (const std::string dtype : {"f32", "f64", "f16", "i64", "i32", "i8", "u8"}) {
    for (const std::string op :
         {"reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_mean"}) {
      if (op == "reduce_mean" && dtype[0] != 'f') continue;
      SCOPED_TRACE(op + " " + dtype);
      const TestRegion region =
          make_region("fn @main(%x: Tensor[(n, 3, m), " + dtype + "]) -> Tensor[(n), " + dtype +
                      "]\n  where n in [0, 200], m in [0, 200] {\n  %y = " + op +
                      "(%x) {axes = (1, 2), keepdims = 0}\n  return %y\n}");
      expect_right(region, {}, tests::pairs("n", {1, 3}, "m", {0, 1, 5, 16, 21}),
                   {.tolerance = dtype == "f16" ? 1e-2 : 2e-5});
    }
  }
}

}  // namespace
}  // namespace anydim::codegen_cpu::testing
