#include "codegen_cpu/backend.h"

#include <gtest/gtest.h>

#include <thread>

#include "ir/error.h"
#include "tests/codegen_cpu/expect_right.h"

namespace anydim::codegen_cpu::testing {
namespace {

TEST(Backend, NamesTargetAndGenerator) {
  const auto best = make_cpu_backend();
  const auto plain = make_cpu_backend({.level = "x86-64"});
  EXPECT_EQ(plain->target(), "x86-64");
  EXPECT_EQ(best->target(), detect_target().name());
  EXPECT_EQ(best->generator(), plain->generator());
  EXPECT_NE(best->generator().find("LLVM 19"), std::string::npos);
}

TEST(Backend, RefusesUnknownLevels) {
  try {
    make_cpu_backend({.level = "sse9"});
    FAIL() << "an unknown level was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::CommandLine);
    EXPECT_STREQ(error.what(), "unknown processor level sse9: it is one of x86-64, avx2, avx512, avx512bf16 and amx");
  }
}

const char* const softmax_text = R"(
fn @main(%x: Tensor[(n, m), f32]) -> Tensor[(n, m), f32]
  where n in [0, 200], m in [0, 200] {
  %y = softmax(%x) {axis = -1}
  return %y
})";

TEST(Backend, AnswersForARegion) {
  const TestRegion region = make_region(softmax_text);
  const auto backend = make_cpu_backend();
  const auto schedules = backend->candidates(region.region, {});
  ASSERT_FALSE(schedules.empty());
  EXPECT_EQ(schedules.front().name, "rows");
  EXPECT_EQ(backend->key_edges(region.region).size(), region.region.keys.size());
  const std::vector<std::int64_t> few{4, 16}, many{4000, 160};
  const double small = backend->estimate(region.region, schedules.front(), few, 1),
               large = backend->estimate(region.region, schedules.front(), many, 1);
  EXPECT_GT(small, 0);
  EXPECT_GT(large, small);
  EXPECT_LT(backend->estimate(region.region, schedules.front(), many, 2), large);
  EXPECT_EQ(backend->packed_layout(region.region, 0), std::nullopt);
}

TEST(Backend, CompilesOnSeveralThreadsAlike) {
  const TestRegion region = make_region(softmax_text);
  const auto backend = make_cpu_backend();
  const ir::Schedule schedule = backend->candidates(region.region, {}).front();
  std::vector<ir::CompiledKernel> kernels(4);
  std::vector<std::thread> threads;
  for (ir::CompiledKernel& kernel : kernels) threads.emplace_back([&] { kernel = backend->compile(region.region, {}, schedule); });
  for (std::thread& thread : threads) thread.join();
  for (const ir::CompiledKernel& kernel : kernels) {
    EXPECT_EQ(kernel.code, kernels.front().code);
    EXPECT_EQ(kernel.entry_offset, kernels.front().entry_offset);
    EXPECT_GT(kernel.resources.code_bytes, 0);
  }
}

TEST(Backend, ResultsDoNotDependOnTheSplitOfTasks) {
  const TestRegion region = make_region(R"(
fn @main(%x: Tensor[(n, m), f32]) -> Tensor[(n), f32]
  where n in [0, 200], m in [0, 3000] {
  %y = reduce_sum(%x) {axes = (1), keepdims = 0}
  return %y
})");
  const Symbols symbols{{"n", 50}, {"m", 1234}};
  for (const Target& target : targets()) {
    const TestKernel kernel = compile(region, target, {}, candidates(region, target, {}).front());
    const auto inputs = random_inputs(region, symbols, 3);
    const auto once = run(region, target, kernel, symbols, inputs, 1);
    for (const int parts : {2, 7, 50}) EXPECT_TRUE(run(region, target, kernel, symbols, inputs, parts)[0].same_bits(once[0]));
  }
}

}  // namespace
}  // namespace anydim::codegen_cpu::testing
