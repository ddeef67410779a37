// Compiles a region's kernel and runs it between guard pages, beside the reference evaluator.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "codegen_cpu/target.h"
#include "ir/backend.h"
#include "ir/loop_form.h"
#include "ir/module.h"
#include "ir/tensor.h"

namespace anydim::codegen_cpu::testing {

// A module with one function, read from text, and that function as a region.
struct TestRegion {
  ir::Module module;
  ir::Region region;
  ir::LoopForm form;
};
// `weights`: parameter positions.
TestRegion make_region(const std::string& text, std::vector<std::uint32_t> weights = {});

// Levels that this processor offers.
std::vector<Target> targets();

struct TestKernel {
  ir::CompiledKernel kernel;
  ir::Bucket bucket;
  ir::Schedule schedule;
};
TestKernel compile(const TestRegion& region, const Target& target, const ir::Bucket& bucket, const ir::Schedule& schedule);
std::vector<ir::Schedule> candidates(const TestRegion& region, const Target& target, const ir::Bucket& bucket);

// A bucket with one interval a key.
ir::Bucket bucket_of(std::vector<ir::BucketInterval> intervals);

// Uniform in [-1, 1) (floats) or [-9, 9] (integers), from a seeded generator; dims at the given symbol values.
std::vector<ir::Tensor> random_inputs(const TestRegion& region, const std::map<std::string, std::int64_t>& symbols, std::uint32_t seed);

// Runs the kernel as a runtime would, weights packed, tasks split in `parts` calls that run in reverse order. Each buffer ends at a page that may not be touched;
// bytes before it are checked to be unchanged. Outputs start out as NaN patterns. Throws std::runtime_error naming a damaged buffer, and for a failed check unless
// `failure` takes it.
std::vector<ir::Tensor> run(const TestRegion& region, const Target& target, const TestKernel& kernel,
                            const std::map<std::string, std::int64_t>& symbols, const std::vector<ir::Tensor>& inputs, int parts = 2,
                            ir::KernelError* failure = nullptr);

std::vector<ir::Tensor> reference(const TestRegion& region, const std::vector<ir::Tensor>& inputs);

// Largest |a - b| / (1 + |b|); infinite where only one is NaN, or dims differ.
double difference(const ir::Tensor& a, const ir::Tensor& b);

}  // namespace anydim::codegen_cpu::testing
