// Every fence, wait, count, descriptor, swizzle and bound of a kernel matters, or its survivor is listed with the reason (survivors.txt).
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "codegen_cuda/matmul_skeletons.h"
#include "ir/schedule.h"
#include "tests/codegen_cuda/kernel_case.h"
#include "tests/ptx/kernels/persistent_matmul.h"
#include "tests/ptx/mutation/campaign.h"

namespace anydim::ptx {
namespace {

using codegen_cuda::Skeleton;
using codegen_cuda::testing::CaseOptions;
using codegen_cuda::testing::KernelCase;
using codegen_cuda::testing::Symbols;

// How many mutants of all kernels were caught.
struct Score {
  std::size_t mutants = 0, survivors = 0;
};

void expect_caught(const MutationCase& mutation_case, Score& score) {
  const MutationResult result = run_mutants(mutation_case, static_cast<int>(std::thread::hardware_concurrency()));
  score.mutants += result.mutants;
  score.survivors += result.survivors.size();
  EXPECT_EQ(compare_survivors(result, "mutation/survivors.txt", mutation_case.name), "");
}

void expect_95_percent(const Score& score) {
  testing::Test::RecordProperty("mutants", static_cast<int>(score.mutants));
  testing::Test::RecordProperty("survivors", static_cast<int>(score.survivors));
  EXPECT_LE(score.survivors * 20, score.mutants) << score.survivors << " of " << score.mutants << " mutants survived";
}

struct Shape {
  Symbols symbols;
  Symbols capacity{};  // empty: buffers end where the symbols say
};

struct Generated {
  std::string name, part, schedule, region;
  std::vector<Shape> shapes;  // that together reach all of the kernel's code
  double tolerance = 0;
  std::size_t keys = 1;
};

void expect_caught(const Generated& generated, const Skeleton& skeleton, Score& score) {
  using namespace codegen_cuda::testing;
  const codegen_cuda::CudaTarget target = small_target(generated.part);
  const auto kernel = std::make_shared<const KernelCase>(build_case(make_region(generated.region), target, skeleton,
                                                                    bucket_of(std::vector<ir::BucketInterval>(generated.keys)),
                                                                    ir::parse_schedule(generated.schedule)));
  std::uint64_t instructions = 0;
  for (const auto& [symbols, capacity] : generated.shapes) {
    CaseOptions options{.machine = {}, .capacity = capacity};
    options.machine.architecture = target.architecture;
    instructions = std::max(
        instructions, run_case(*kernel, parse_ptx(kernel->ptx), symbols, integer_inputs(*kernel->region, symbols), options).instructions);
  }
  expect_caught({.name = generated.name,
                 .ptx = kernel->ptx,
                 .run =
                     [&](const Module& module, const MachineOptions& machine) {
                       for (const auto& [symbols, capacity] : generated.shapes) {
                         CaseOptions options{.machine = machine, .capacity = capacity};
                         options.machine.architecture = target.architecture;
                         std::string wrong = check_case(*kernel, module, symbols, options, generated.tolerance);
                         if (!wrong.empty()) return wrong;
                       }
                       return std::string();
                     },
                 .instructions = instructions},
                score);
}

// Tails of rows and k, more k-tiles than stages, three tiles a block; then fewer tiles than blocks and a k of 1.
TEST(Mutation, HandWrittenPersistentMatmul) {
  Score score;
  expect_caught({.name = "persistent_matmul",
                 .ptx = persistent_matmul_ptx(),
                 .run =
                     [](const Module& module, const MachineOptions& options) {
                       const std::string wrong = run_persistent_matmul(module, options, {.m = 150, .n = 64, .k = 248});
                       return wrong.empty() ? run_persistent_matmul(module, options, {.m = 64, .n = 32, .k = 1}) : wrong;
                     },
                 .instructions = 20'000},
                score);
  expect_95_percent(score);
}

// Rows of bf16, columns-major weights, a bias: n x depth times (columns x depth) transposed.
std::string linear(int columns, int depth) {
  return fmt::format(R"(
fn @main(%x: Tensor[(n, {1}), bf16], %w: Tensor[({0}, {1}), bf16], %bias: Tensor[({0}), f32]) -> Tensor[(n, {0}), f32]
  where n in [0, 100000] {{
  %wt = transpose(%w) {{perm = (1, 0)}}
  %left = cast(%x) {{to = f32}}
  %right = cast(%wt) {{to = f32}}
  %product = matmul(%left, %right)
  %sum = add(%product, %bias)
  return %sum
}}
)",
                     columns, depth);
}

TEST(Mutation, GeneratedMatmul) {
  Score score;
  expect_caught({.name = "matmul_mma",
                 .part = "a100",
                 .schedule = "matmul_mma bm=64 bn=32 bk=32 stages=3 down=2 across=1 group=2 whole=0 split=1",
                 .region = linear(72, 200),
                 .shapes = {{{{"n", 70}}}, {{{"n", 16}}}, {{{"n", 32}}}, {{{"n", 48}}}, {{{"n", 64}}}, {{{"n", 1}}, {{"n", 100}}}}},
                *codegen_cuda::make_matmul_mma_skeleton(), score);
  for (const int swap : {0, 1}) {
    expect_caught({.name = fmt::format("matmul_wgmma swap={}", swap),
                   .part = "h200",
                   .schedule = fmt::format("matmul_wgmma bm=64 bn=32 stages=3 blocks=1 group=2 swap={} persistent=1 split=1", swap),
                   .region = linear(72, 200),
                   .shapes = {{{{"n", 150}}}, {{{"n", 1}}, {{"n", 200}}}}},
                  *codegen_cuda::make_matmul_wgmma_skeleton(), score);
  }
  expect_95_percent(score);
}

}  // namespace
}  // namespace anydim::ptx
