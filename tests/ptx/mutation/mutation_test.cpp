// Every fence, wait, count, descriptor and bound of a kernel matters, or its survivor is listed with the reason (survivors.txt).
#include <thread>

#include <gtest/gtest.h>

#include "tests/ptx/kernels/persistent_matmul.h"
#include "tests/ptx/mutation/campaign.h"

namespace anydim::ptx {
namespace {

constexpr const char* survivors = "survivors.txt";

void expect_caught(const MutationCase& mutation_case) {
  const MutationResult result = run_mutants(mutation_case, static_cast<int>(std::thread::hardware_concurrency()));
  testing::Test::RecordProperty("mutants", static_cast<int>(result.mutants));
  testing::Test::RecordProperty("survivors", static_cast<int>(result.survivors.size()));
  EXPECT_EQ(compare_survivors(result, survivors, mutation_case.name), "");
}

// Tails of rows and k, more k-tiles than stages, three tiles a block.
TEST(Mutation, HandWrittenPersistentMatmul) {
  expect_caught({.name = "persistent_matmul",
                 .ptx = persistent_matmul_ptx(),
                 .run = [](const Module& module,
                           const MachineOptions& options) { return run_persistent_matmul(module, options, {.m = 150, .n = 64, .k = 440}); },
                 .instructions = 200'000});
}

}  // namespace
}  // namespace anydim::ptx
