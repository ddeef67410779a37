// Compiles a region's kernel and runs it between guard pages, beside the reference evaluator.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "codegen_cpu/target.h"
#include "ir/backend.h"
#include "ir/loops/loop_form.h"
#include "ir/module.h"
#include "ir/tensor.h"
#include "tests/support/region_fixture.h"

namespace anydim::codegen_cpu::testing {

using tests::bucket_of;
using tests::difference;
using tests::make_region;
using tests::random_inputs;
using tests::reference;
using tests::sizes;
using tests::TestRegion;
using tests::value_at;
using tests::values_at;

// Levels that this processor offers.
std::vector<Target> targets();
// The same with each kind of instruction for bf16 and bytes; the last has tile registers, which
// tests/codegen_cpu/tile_emulator.h plays where the processor has none.
std::vector<Target> all_targets();

// Memory of packed weights.
inline ir::Tensor fresh_tensor(ir::DType dtype, std::vector<std::int64_t> dims) {
  return {dtype, std::move(dims)};
}

struct TestKernel {
  ir::CompiledKernel kernel;
  ir::Bucket bucket;
  ir::Schedule schedule;
};
TestKernel compile(const TestRegion& region, const Target& target, const ir::Bucket& bucket,
                   const ir::Schedule& schedule);
std::vector<ir::Schedule> candidates(const TestRegion& region, const Target& target,
                                     const ir::Bucket& bucket);
// Those of the kind alone, without the candidates.
std::vector<ir::Schedule> space(const TestRegion& region, const Target& target,
                                const ir::Bucket& bucket);

// Runs the kernel as a runtime would, weights packed, tasks split in `parts` calls that run in
// reverse order. Each buffer ends at a page that may not be touched; bytes before it are checked to
// be unchanged. Outputs start out as NaN patterns. Runs again with the result in the place of each
// parameter where it may lie, and compares. Throws std::runtime_error naming a damaged buffer, and
// for a failed check unless `failure` takes it.
std::vector<ir::Tensor> run(const TestRegion& region, const Target& target,
                            const TestKernel& kernel,
                            const std::map<std::string, std::int64_t>& symbols,
                            const std::vector<ir::Tensor>& inputs, int parts = 2,
                            ir::KernelError* failure = nullptr);

}  // namespace anydim::codegen_cpu::testing
