// Every elementwise op on every element type, over special values, on the PTX interpreter against
// the reference evaluator.
#include "tests/support/elementwise_cases.h"

#include <gtest/gtest.h>

#include "tests/codegen_cuda/expect_right.h"

namespace anydim::codegen_cuda::testing {
namespace {

TEST(CudaElementwise, EveryOpOnEveryType) {
  const CudaTarget target = small_target("h200");
  for (const tests::ElementwiseCase& tested : tests::elementwise_cases()) {
    const auto region = make_region(tested.text);
    const std::vector<ir::Tensor> inputs = tests::special_pairs(tested.dtype);
    const KernelCase kernel = compiled(region, target, {}, candidates(*region, target, {}).front());
    const CaseRun run =
        run_case(kernel, ptx::parse_ptx(kernel.ptx), {{"n", inputs[0].elements()}}, inputs);
    ASSERT_EQ(run.findings, "") << tested.text;
    EXPECT_EQ(tests::compare(tested, inputs, run.outputs, reference(*region, inputs)), "");
  }
}

}  // namespace
}  // namespace anydim::codegen_cuda::testing
