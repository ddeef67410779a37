// Candidates of the kernel kinds that accept a region, on the PTX interpreter, against the
// reference evaluator.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "tests/codegen_cuda/kernel_case.h"
#include "tests/support/region_cases.h"

namespace anydim::codegen_cuda::testing {

using tests::pairs;
using tests::sizes;

KernelCase compiled(const std::shared_ptr<const TestRegion>& region, const CudaTarget& target,
                    const ir::Bucket& bucket, const ir::Schedule& schedule);
// The best `most` of each kind.
std::vector<ir::Schedule> candidates(const TestRegion& region, const CudaTarget& target,
                                     const ir::Bucket& bucket,
                                     std::size_t most = tests::every_candidate);

// One schedule at each of the shapes. `fill` changes the random inputs; the machine of `options` is
// one for the target.
void expect_right(const std::shared_ptr<const TestRegion>& region, const CudaTarget& target,
                  const ir::Bucket& bucket, const ir::Schedule& schedule,
                  const std::vector<Symbols>& shapes, double tolerance = 2e-5,
                  const tests::FillInputs& fill = {}, CaseOptions options = {});
// The best `most` candidates of each kind for the bucket, on sm_90a; the first also on sm_80.
void expect_right(const std::shared_ptr<const TestRegion>& region, const ir::Bucket& bucket,
                  const std::vector<Symbols>& shapes, double tolerance = 2e-5,
                  const tests::FillInputs& fill = {}, std::size_t most = tests::every_candidate);

// Every candidate for any bucket, assembled for three parts: no spills, no stack, registers for a
// block, no more static shared memory than every block gets.
void expect_machine_code(const std::vector<std::shared_ptr<const TestRegion>>& regions);

// What the first failed check of the first candidate left in the error slot.
ir::KernelError failure_of(const std::shared_ptr<const TestRegion>& region, const Symbols& symbols,
                           const std::vector<ir::Tensor>& inputs);

}  // namespace anydim::codegen_cuda::testing
