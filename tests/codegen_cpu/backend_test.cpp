#include "codegen_cpu/backend.h"

#include <gtest/gtest.h>

#include <algorithm>
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
    EXPECT_STREQ(error.what(),
                 "unknown processor level sse9: it is one of x86-64, avx2, avxvnni, avx512, "
                 "avx512vnni, avx512bf16 and amx");
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

// Running sums along rows: one row at a time, unless each point takes an exponential and there are
// rows enough.
TEST(Backend, RowsAreGatheredWherePointsTakeLong) {
  const auto backend = make_cpu_backend();
  const auto edges_of = [&](const std::string& steps) {
    const TestRegion region = make_region(
        "fn @main(%x: Tensor[(n, m), f32]) -> Tensor[(n, m), f32]\n"
        "  where n in [0, 1000], m in [0, 1000] {\n" +
        steps + "  return %y\n}");
    EXPECT_EQ(backend->candidates(region.region, {}).size(),
              backend->key_edges(region.region)[0].size() + 1);
    return backend->key_edges(region.region);
  };
  using Edges = std::vector<std::vector<std::int64_t>>;
  EXPECT_EQ(edges_of("  %y = cumulative_sum(%x) {axis = 1}\n"), (Edges{{}, {}}));
  EXPECT_EQ(edges_of("  %e = exp(%x)\n  %y = cumulative_sum(%e) {axis = 1}\n"), (Edges{{3}, {}}));
}

// Micro-kernels of more rows, more of them where a bucket allows more numbers of rows.
TEST(Backend, CodeSizesOfProductsAreInTheOrderOfTheirCode) {
  const TestRegion region = make_region(R"(
fn @main(%x: Tensor[(n, 96), f32], %w: Tensor[(96, 192), f32]) -> Tensor[(n, 192), f32]
  where n in [0, 4096] {
  %y = matmul(%x, %w)
  return %y
})");
  if (std::ranges::none_of(targets(), [](const Target& one) { return one.level == Level::Avx2; }))
    GTEST_SKIP() << "this processor has no AVX2";
  const auto backend = make_cpu_backend({.level = "avx2"});
  const auto product = [](std::int64_t rows, std::int64_t columns) {
    return ir::Schedule{"matmul",
                        {{"rows", rows},
                         {"columns", columns},
                         {"block_rows", 4 * rows},
                         {"block_columns", 0},
                         {"order", 1},
                         {"split", 2}}};
  };
  const struct {
    ir::Bucket bucket;
    ir::Schedule schedule;
  } ascending[] = {{bucket_of({{1, 1}}), product(1, 16)},
                   {bucket_of({{1, 1}}), product(1, 64)},
                   {bucket_of({{7, 32}}), product(6, 16)},
                   {bucket_of({{0, 4096}}), product(6, 16)},
                   {bucket_of({{0, 4096}}), product(10, 16)}};
  double estimated = 0;
  std::size_t bytes = 0;
  for (const auto& [bucket, schedule] : ascending) {
    SCOPED_TRACE(ir::to_string(schedule) + " " + ir::to_string(bucket));
    const double next = backend->code_size(region.region, bucket, schedule);
    const std::size_t compiled = backend->compile(region.region, bucket, schedule).code.size();
    EXPECT_GT(next, estimated);
    EXPECT_GT(compiled, bytes);
    estimated = next;
    bytes = compiled;
  }
}

// Schedules that only a search would try, spread over each kernel kind's space.
TEST(Backend, WholeSpaceIsRight) {
  const struct {
    const char* text;
    std::vector<std::uint32_t> weights;
    std::size_t least;  // schedules
  } cases[] = {
      {softmax_text, {}, 20},
      {"fn @main(%x: Tensor[(n, 70), f32], %w: Tensor[(70, 50), f32]) -> Tensor[(n, 50), f32]\n  "
       "where n in [0, 300] {\n"
       "  %y = matmul(%x, %w)\n  return %y\n}",
       {1},
       100},
      {"fn @main(%q: Tensor[(n, 40), f32], %k: Tensor[(m, 40), f32], %v: Tensor[(m, 20), f32]) -> "
       "Tensor[(n, 20), f32]\n"
       "  where n in [0, 300], m in [1, 300] {\n  %y = attention(%q, %k, %v) {scale = 0.2}\n  "
       "return %y\n}",
       {},
       50},
      {"fn @main(%x: Tensor[(n, 70), f32]) -> Tensor[(n, 70), f32]\n  where n in [0, 300] {\n  %y "
       "= exp(%x)\n  return %y\n}",
       {},
       10},
  };
  const Target target = detect_target();
  const auto backend = make_cpu_backend();
  for (const auto& one : cases) {
    const TestRegion region = make_region(one.text, one.weights);
    const auto likely = backend->candidates(region.region, {}),
               space = backend->space(region.region, {});
    ASSERT_GE(space.size(), one.least);
    EXPECT_TRUE(std::equal(likely.begin(), likely.end(), space.begin()));
    Symbols symbols;
    for (const std::string& name : region.region.body.symbols.names()) symbols[name] = 131;
    const auto inputs = random_inputs(region, symbols, 1);
    const auto expected = reference(region, inputs);
    for (std::size_t i = likely.size() + 3; i < space.size(); i += space.size() / 6) {
      SCOPED_TRACE(to_string(space[i]));
      const auto got = run(region, target, compile(region, target, {}, space[i]), symbols, inputs);
      ASSERT_LE(difference(got[0], expected[0]), 2e-5);
    }
  }
}

const char* const product_text = R"(
fn @main(%x: Tensor[(n, 70), f32], %w: Tensor[(70, 384), f32]) -> Tensor[(n, 384), f32]
  where n in [0, 300] {
  %y = matmul(%x, %w)
  return %y
})";

TEST(Backend, FewThreadsAreOfferedTheSame) {
  for (const char* text : {softmax_text, product_text}) {
    const TestRegion region = make_region(text);
    const auto by_default = make_cpu_backend()->candidates(region.region, {});
    for (const int threads : {1, 2})
      EXPECT_EQ(make_cpu_backend({.level = "", .threads = threads})->candidates(region.region, {}),
                by_default);
  }
}

// Candidates for many threads come behind those for few. They give them more to do, and what they
// compute has the same bits.
TEST(Backend, ManyThreadsAreOfferedSmallerTasks) {
  const auto few = make_cpu_backend(), many = make_cpu_backend({.level = "", .threads = 64});
  const Target target = detect_target();
  const std::vector<std::int64_t> keys{16};
  const Symbols symbols{{"n", 16}};
  const TestRegion region = make_region(product_text, {1});
  const ir::Bucket bucket = bucket_of({{7, 32}});
  const auto usual = few->candidates(region.region, bucket),
             finer = many->candidates(region.region, bucket);
  ASSERT_GT(finer.size(), usual.size());
  EXPECT_TRUE(std::equal(usual.begin(), usual.end(), finer.begin()));
  const auto least = [&](const std::vector<ir::Schedule>& schedules) {
    double seconds = 1;
    for (const ir::Schedule& schedule : schedules)
      seconds = std::min(seconds, many->estimate(region.region, schedule, keys, 64));
    return seconds;
  };
  EXPECT_LT(least(finer), 0.7 * least(usual));
  const auto inputs = random_inputs(region, symbols, 1);
  const auto expected =
      run(region, target, compile(region, target, bucket, usual.front()), symbols, inputs);
  for (std::size_t i = usual.size(); i < finer.size(); ++i) {
    SCOPED_TRACE(to_string(finer[i]));
    const TestKernel kernel = compile(region, target, bucket, finer[i]);
    EXPECT_TRUE(run(region, target, kernel, symbols, inputs, 5)[0].same_bits(expected[0]));
  }
}

TEST(Backend, ALaunchThatIsSharedCountsWhatItsWorkersWaitFor) {
  const TestRegion product = make_region(product_text, {1}), softmax = make_region(softmax_text);
  const auto backend = make_cpu_backend();
  const std::vector<std::int64_t> rows{16}, both{16, 20};
  const struct {
    const TestRegion& region;
    std::span<const std::int64_t> keys;
  } cases[] = {{product, rows}, {softmax, both}};
  for (const auto& one : cases) {
    const ir::Region& region = one.region.region;
    const ir::Schedule schedule = backend->candidates(region, {}).front();
    const auto seconds = [&](const ir::SharedLaunch& launch) {
      return backend->estimate_shared(region, schedule, one.keys, launch);
    };
    // Starting workers costs; a task more than there are threads costs a whole task.
    EXPECT_GT(seconds({.threads = 2, .tasks = 2}),
              backend->estimate(region, schedule, one.keys, 2));
    EXPECT_GT(seconds({.threads = 4, .tasks = 2}), seconds({.threads = 4, .tasks = 1}) / 4);
    // Memory: of one core, of all together, and of caches, which all have their own of.
    constexpr double bytes = 1e9;
    EXPECT_GT(seconds({.threads = 1, .tasks = 8, .bytes = bytes}), 0.01);
    EXPECT_NEAR(seconds({.threads = 8, .tasks = 8, .bytes = bytes}),
                seconds({.threads = 1, .tasks = 8, .bytes = bytes}) / 8, 1e-4);
    EXPECT_NEAR(seconds({.threads = 8, .tasks = 8, .bytes = bytes, .memory_bandwidth = 1e9}), 1,
                1e-4);
    EXPECT_LT(seconds({.threads = 8, .tasks = 8, .bytes = 1e6, .memory_bandwidth = 1}), 0.01);
  }
}

TEST(Backend, CompilesOnSeveralThreadsAlike) {
  const TestRegion region = make_region(softmax_text);
  const auto backend = make_cpu_backend();
  const ir::Schedule schedule = backend->candidates(region.region, {}).front();
  std::vector<ir::CompiledKernel> kernels(4);
  std::vector<std::thread> threads;
  for (ir::CompiledKernel& kernel : kernels)
    threads.emplace_back([&] { kernel = backend->compile(region.region, {}, schedule); });
  for (std::thread& thread : threads) thread.join();
  for (const ir::CompiledKernel& kernel : kernels) {
    EXPECT_EQ(kernel.code, kernels.front().code);
    EXPECT_EQ(kernel.cpu().kernel, kernels.front().cpu().kernel);
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
    for (const int parts : {2, 7, 50})
      EXPECT_TRUE(run(region, target, kernel, symbols, inputs, parts)[0].same_bits(once[0]));
  }
}

}  // namespace
}  // namespace anydim::codegen_cpu::testing
