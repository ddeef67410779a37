// Every candidate of a region's map, rows, ordered, compact or sort kernel kind, on the PTX
// interpreter, against the reference evaluator.
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

std::unique_ptr<KernelKind> kind_for(const TestRegion& region);
KernelCase compiled(const std::shared_ptr<const TestRegion>& region, const CudaTarget& target,
                    const ir::Bucket& bucket, const ir::Schedule& schedule);
std::vector<ir::Schedule> candidates(const TestRegion& region, const CudaTarget& target,
                                     const ir::Bucket& bucket);

// One schedule at each of the shapes. `fill` changes the random inputs.
void expect_right(const std::shared_ptr<const TestRegion>& region, const CudaTarget& target,
                  const ir::Bucket& bucket, const ir::Schedule& schedule,
                  const std::vector<Symbols>& shapes, double tolerance = 2e-5,
                  const tests::FillInputs& fill = {});
// Every candidate for the bucket, on sm_90a; the first also on sm_80.
void expect_right(const std::shared_ptr<const TestRegion>& region, const ir::Bucket& bucket,
                  const std::vector<Symbols>& shapes, double tolerance = 2e-5,
                  const tests::FillInputs& fill = {});

// Every candidate for any bucket, assembled for three parts: no spills, no stack, registers for a
// block, no more static shared memory than every block gets.
void expect_machine_code(const std::vector<std::shared_ptr<const TestRegion>>& regions);

// What the first failed check of the first candidate left in the error slot.
ir::KernelError failure_of(const std::shared_ptr<const TestRegion>& region, const Symbols& symbols,
                           const std::vector<ir::Tensor>& inputs);

}  // namespace anydim::codegen_cuda::testing
