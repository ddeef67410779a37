// Every fence, wait, count, descriptor, swizzle and bound of a kernel matters, or its survivor is
// listed with the reason (survivors.txt).
#include <functional>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "codegen_cuda/attention/attention_kinds.h"
#include "codegen_cuda/matmul/matmul_kinds.h"
#include "ir/schedule.h"
#include "runtime/packing.h"
#include "tests/codegen_cuda/attention_cases.h"
#include "tests/codegen_cuda/kernel_case.h"
#include "tests/codegen_cuda/matmul_cases.h"
#include "tests/ptx/kernels/persistent_matmul.h"
#include "tests/ptx/mutation/campaign.h"
#include "tests/support/attention_regions.h"

namespace anydim::ptx {
namespace {

using codegen_cuda::KernelKind;
using codegen_cuda::testing::CaseOptions;
using codegen_cuda::testing::CaseRun;
using codegen_cuda::testing::KernelCase;
using codegen_cuda::testing::Symbols;

constexpr int threads = 2;  // as many as the test's property PROCESSORS says

// How many mutants of all kernels were caught.
struct Score {
  std::size_t mutants = 0, survivors = 0;
};

void expect_caught(const MutationCase& mutation_case, Score& score) {
  const MutationResult result = run_mutants(mutation_case, threads);
  score.mutants += result.mutants;
  score.survivors += result.survivors.size();
  EXPECT_EQ(compare_survivors(result, "mutation/survivors.txt", mutation_case.name), "");
}

void expect_95_percent(const Score& score) {
  testing::Test::RecordProperty("mutants", static_cast<int>(score.mutants));
  testing::Test::RecordProperty("survivors", static_cast<int>(score.survivors));
  EXPECT_LE(score.survivors * 20, score.mutants)
      << score.survivors << " of " << score.mutants << " mutants survived";
}

struct Shape {
  Symbols symbols;
  Symbols capacity{};  // empty: buffers end where the symbols say
};

struct Generated {
  std::string name, part, schedule, region;
  std::vector<Shape> shapes;  // that together reach all of the kernel's code
  double tolerance = 0;       // 0: small integers, whose sums are exact
  std::size_t keys = 1;
  std::function<void(std::vector<ir::Tensor>&)> fill{};  // changes the inputs
  // no byte that nothing wrote is read, not even for results that go nowhere
  bool check_uninitialised = false;
  std::vector<std::uint32_t> weights{};
};

// What one shape's call is given, and what it should compute or say is wrong.
struct Call {
  Shape shape;
  std::vector<ir::Tensor> inputs, expected{};
  ir::KernelError error{};  // with a check: `expected` is of no matter
  std::uint64_t instructions = 0;
};

// The calls of a region: one for each shape.
using CallsOf = std::function<std::vector<Call>(const codegen_cuda::testing::TestRegion&)>;

void expect_caught(const Generated& generated, const KernelKind& kind, const CallsOf& calls_of,
                   Score& score) {
  using namespace codegen_cuda::testing;
  const codegen_cuda::CudaTarget target = small_target(generated.part);
  const auto region = make_region(generated.region, generated.weights);
  const KernelCase kernel =
      build_case(region, target, kind, bucket_of(std::vector<ir::BucketInterval>(generated.keys)),
                 ir::parse_schedule(generated.schedule));
  std::vector<Call> calls = calls_of(*region);
  const auto run = [&](const Module& module, const MachineOptions& machine, const Call& call) {
    CaseOptions options{.machine = machine, .capacity = call.shape.capacity};
    options.machine.architecture = target.architecture;
    options.machine.check_uninitialised = generated.check_uninitialised;
    // What a call with wrong inputs computes is no one's promise, nor that blocks write apart.
    options.machine.check_races = call.error.check < 0;
    if (call.instructions != 0) options.machine.instruction_limit = 4 * call.instructions + 10'000;
    return run_case(kernel, module, call.shape.symbols, call.inputs, options);
  };
  for (Call& call : calls) call.instructions = run(parse_ptx(kernel.ptx), {}, call).instructions;
  expect_caught(
      {.name = generated.name,
       .ptx = kernel.ptx,
       .run =
           [&](const Module& module, const MachineOptions& machine) {
             for (const Call& call : calls) {
               const CaseRun got = run(module, machine, call);
               if (!got.findings.empty()) return got.findings;
               if (got.error.check != call.error.check || got.error.value != call.error.value)
                 return fmt::format("check {} with {} for {} with {}", got.error.check,
                                    got.error.value, call.error.check, call.error.value);
               if (call.error.check >= 0) continue;
               std::string wrong = compare(got.outputs, call.expected, generated.tolerance);
               if (!wrong.empty()) return wrong;
             }
             return std::string();
           }},
      score);
}

void expect_caught(const Generated& generated, const KernelKind& kind, Score& score) {
  using namespace codegen_cuda::testing;
  const auto calls_of = [&](const TestRegion& region) {
    std::vector<Call> calls;
    for (const Shape& shape : generated.shapes) {
      auto inputs = generated.tolerance == 0 ? integer_inputs(region, shape.symbols)
                                             : real_inputs(region, shape.symbols);
      if (generated.fill) generated.fill(inputs);
      auto expected = reference(region, inputs);
      calls.push_back({shape, std::move(inputs), std::move(expected)});
    }
    return calls;
  };
  expect_caught(generated, kind, calls_of, score);
}

// Tails of rows and k, more k-tiles than stages, three tiles a block; then fewer tiles than blocks
// and a k of 1.
TEST(Mutation, HandWrittenPersistentMatmul) {
  Score score;
  expect_caught({.name = "persistent_matmul",
                 .ptx = persistent_matmul_ptx(),
                 .run =
                     [](const Module& module, const MachineOptions& options) {
                       const std::string wrong =
                           run_persistent_matmul(module, options, {.m = 150, .n = 64, .k = 248});
                       return wrong.empty() ? run_persistent_matmul(module, options,
                                                                    {.m = 64, .n = 32, .k = 1})
                                            : wrong;
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
  expect_caught(
      {.name = "matmul_mma",
       .part = "a100",
       .schedule = "matmul_mma bm=64 bn=32 bk=32 stages=3 down=2 across=1 group=2 split=1",
       .region = linear(72, 200),
       .shapes = {{{{"n", 70}}},
                  {{{"n", 16}}},
                  {{{"n", 32}}},
                  {{{"n", 48}}},
                  {{{"n", 64}}},
                  {{{"n", 1}}, {{"n", 100}}}}},
      *codegen_cuda::make_matmul_mma_kind(), score);
  for (const int swap : {0, 1}) {
    expect_caught(
        {.name = fmt::format("matmul_wgmma swap_ab={}", swap),
         .part = "h200",
         .schedule = fmt::format(
             "matmul_wgmma bm=64 bn=32 stages=3 blocks=1 group=2 swap_ab={} persistent=1 split=1",
             swap),
         .region = linear(72, 200),
         .shapes = {{{{"n", 150}}}, {{{"n", 1}}, {{"n", 200}}}},
         .weights = {1}},
        *codegen_cuda::make_matmul_wgmma_kind(), score);
  }
  expect_95_percent(score);
}

// Results that leave as boxes, of whole rows and at the end; and blocks that bring operands to each
// other.
TEST(Mutation, GeneratedMatmulOfClustersAndBoxes) {
  Score score;
  const auto kind = codegen_cuda::make_matmul_wgmma_kind();
  expect_caught({.name = "matmul_wgmma tma_store",
                 .part = "h200",
                 .schedule = "matmul_wgmma bm=64 bn=32 stages=3 blocks=1 group=2 swap_ab=0 "
                             "persistent=1 split=1 tma_store=4",
                 .region = codegen_cuda::testing::matmul_text(
                     {.columns = 72,
                      .depth = 200,
                      .epilogue = codegen_cuda::testing::MatmulEpilogue::Residual}),
                 .shapes = {{{{"n", 150}}}, {{{"n", 150}}, {{"n", 200}}}},
                 .weights = {1}},
                *kind, score);
  expect_caught({.name = "matmul_wgmma fragments",
                 .part = "h200",
                 .schedule = "matmul_wgmma bm=64 bn=128 stages=2 blocks=1 group=2 swap_ab=0 "
                             "persistent=1 split=1 tma_store=2 fragments=1",
                 .region = codegen_cuda::testing::matmul_text(
                     {.columns = 200,
                      .depth = 200,
                      .dtype = "f16",
                      .result = "f16",
                      .epilogue = codegen_cuda::testing::MatmulEpilogue::Residual}),
                 .shapes = {{{{"n", 150}}}, {{{"n", 150}}, {{"n", 200}}}},
                 .weights = {1}},
                *kind, score);
  for (const char* shared : {"multicast_columns", "multicast_rows"}) {
    expect_caught({.name = fmt::format("matmul_wgmma {}", shared),
                   .part = "h200",
                   .schedule = fmt::format("matmul_wgmma bm=64 bn=32 stages=3 blocks=1 group=2 "
                                           "swap_ab=0 persistent=1 split=1 {}=2",
                                           shared),
                   .region = linear(72, 200),
                   .shapes = {{{{"n", 150}}}, {{{"n", 1}}, {{"n", 300}}}},
                   .weights = {1}},
                  *kind, score);
  }
  expect_95_percent(score);
}

// Two warpgroups that multiply in turn, an odd and an even number of the ring's steps a tile:
// blocks with even and odd numbers of tiles, one and none. Eight tiles a block, as arrivals that
// are counted wrong add up to a whole phase within three turns.
TEST(Mutation, GeneratedMatmulOfWarpgroupsInTurn) {
  Score score;
  const auto kind = codegen_cuda::make_matmul_wgmma_kind();
  for (const auto& [way, depth] : {std::pair("", 168), {" tma_store=2 fragments=1", 200}}) {
    expect_caught({.name = fmt::format("matmul_wgmma pingpong{}", way),
                   .part = "h200",
                   .schedule = fmt::format("matmul_wgmma bm=64 bn=64 stages=2 blocks=1 group=2 "
                                           "swap_ab=0 persistent=1 split=1{} pingpong=1",
                                           way),
                   .region = codegen_cuda::testing::matmul_text(
                       {.columns = 136,
                        .depth = depth,
                        .dtype = "f16",
                        .result = "f16",
                        .epilogue = codegen_cuda::testing::MatmulEpilogue::Bias}),
                   .shapes = {{{{"n", 150}}}, {{{"n", 300}}}, {{{"n", 1}}, {{"n", 200}}}},
                   .weights = {1}},
                  *kind, score);
  }
  EXPECT_LE(score.survivors * 50, score.mutants)
      << score.survivors << " of " << score.mutants << " mutants survived";
}

// Blocks of a cluster that add their sums: unequal shares of depth, 2 * stages + 1 tiles and one
// fewer.
TEST(Mutation, GeneratedMatmulOfSharedDepth) {
  Score score;
  const auto sums = [&](const std::string& name, const std::string& schedule, int depth,
                        const KernelKind& kind) {
    expect_caught({.name = name,
                   .part = "h200",
                   .schedule = schedule,
                   .region = linear(72, depth),
                   .shapes = {{{{"n", 70}}}, {{{"n", 1}}, {{"n", 400}}}},
                   .check_uninitialised = true,
                   .weights = {1}},
                  kind, score);
  };
  const auto wgmma = codegen_cuda::make_matmul_wgmma_kind();
  for (const int swap : {0, 1}) {
    sums(fmt::format("matmul_wgmma split=2 swap_ab={}", swap),
         fmt::format(
             "matmul_wgmma bm=64 bn=32 stages=2 blocks=1 group=2 swap_ab={} persistent=0 split=2",
             swap),
         9 * 64 - 8, *wgmma);
  }
  sums("matmul_wgmma split=2 bm=128",
       "matmul_wgmma bm=128 bn=32 stages=2 blocks=1 group=2 swap_ab=0 persistent=0 split=2",
       9 * 64 - 8, *wgmma);
  sums("matmul_mma split=3",
       "matmul_mma bm=32 bn=32 bk=16 stages=3 down=2 across=1 group=2 split=3", 20 * 16 - 8,
       *codegen_cuda::make_matmul_mma_kind());
  expect_95_percent(score);
}

// Texts whose length is no multiple of 16 see only their first and last key, so that a key too many
// weighs as much as those; others all but some.
void fill_mask(std::vector<ir::Tensor>& inputs) {
  if (inputs.size() < 2) return;  // positions alone are the mask
  ir::Tensor& mask = inputs[1];
  const std::int64_t batch = mask.dims()[0], length = mask.dims()[1];
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t j = 0; j < length; ++j)
      mask.set_integer(b * length + j,
                       (length % 16 != 0 ? j == 0 || j == length - 1 : j % 7 != 3) ? 1 : 0);
}

std::string padded_attention(int heads, int depth) {
  using namespace codegen_cuda::testing;
  return merged_attention({.heads = heads, .depth = depth, .mask = AttentionMask::Padding});
}

// Fewer keys than a tile, a whole tile, several tiles, some with tails, and more blocks than there
// is work for.
std::vector<Shape> texts(const std::vector<std::int64_t>& longer) {
  std::vector<Shape> shapes;
  for (const std::int64_t length : {5, 16, 64}) shapes.push_back({{{"b", 1}, {"s", length}}});
  for (const std::int64_t length : longer) shapes.push_back({{{"b", 1}, {"s", length}}});
  shapes.push_back({{{"b", 1}, {"s", 3}}, {{"b", 3}, {"s", 80}}});
  return shapes;
}

TEST(Mutation, GeneratedAttention) {
  Score score;
  const auto attention = [&](const std::string& name, const std::string& part,
                             const std::string& schedule, const std::string& region,
                             const std::vector<std::int64_t>& longer, const KernelKind& kind) {
    expect_caught({.name = name,
                   .part = part,
                   .schedule = schedule,
                   .region = region,
                   .shapes = texts(longer),
                   .tolerance = 1.2e-2,
                   .keys = 0,
                   .fill = fill_mask},
                  kind, score);
  };
  using namespace codegen_cuda::testing;
  const std::string window =
      merged_attention({.heads = 1, .depth = 32, .mask = AttentionMask::Window, .window = 150});
  const auto mma = codegen_cuda::make_attention_mma_kind(),
             wgmma = codegen_cuda::make_attention_wgmma_kind();
  attention("attention_mma", "a100", "attention_mma warps=2 points=1 tiles=1 keys=16 stages=2",
            padded_attention(1, 32), {70}, *mma);
  // Three heads, two to a block: one place is left over.
  attention("attention_mma points=2", "a100",
            "attention_mma warps=1 points=2 tiles=1 keys=16 stages=1", padded_attention(3, 32),
            {75}, *mma);
  attention("attention_wgmma", "h200", "attention_wgmma groups=1 keys=32 stages=2",
            padded_attention(1, 64), {88, 130}, *wgmma);
  // A diagonal at both ends, whole tiles between.
  attention("attention_mma window", "a100",
            "attention_mma warps=2 points=1 tiles=1 keys=16 stages=2", window, {230}, *mma);
  attention("attention_wgmma window", "h200", "attention_wgmma groups=1 keys=16 stages=2", window,
            {230}, *wgmma);
  expect_95_percent(score);
}

// Warpgroups that begin their multiplications in turn: odd and even numbers of turns, as arrivals
// that are counted wrong add up to a whole phase within two.
TEST(Mutation, GeneratedAttentionInTurn) {
  Score score;
  const auto kind = codegen_cuda::make_attention_wgmma_kind();
  for (const int groups : {2, 3}) {
    expect_caught(
        {.name = fmt::format("attention_wgmma pingpong groups={}", groups),
         .part = "h200",
         .schedule = fmt::format("attention_wgmma groups={} keys=32 stages=2 pingpong=1", groups),
         .region = padded_attention(1, 64),
         .shapes = texts({88, 130}),
         .tolerance = 1.2e-2,
         .keys = 0,
         .fill = fill_mask},
        *kind, score);
  }
  EXPECT_LE(score.survivors * 50, score.mutants)
      << score.survivors << " of " << score.mutants << " mutants survived";
}

// Blocks that work on several places: several for each slot, and none.
TEST(Mutation, GeneratedPersistentAttention) {
  Score score;
  std::vector<Shape> shapes = texts({});
  for (const auto& [batch, length] : {std::pair(5, 70), std::pair(11, 20), std::pair(9, 32)})
    shapes.push_back({{{"b", batch}, {"s", length}}});
  expect_caught({.name = "attention_wgmma persistent",
                 .part = "h200",
                 .schedule = "attention_wgmma groups=1 keys=32 stages=2 persistent=1",
                 .region = padded_attention(2, 32),
                 .shapes = std::move(shapes),
                 .tolerance = 1.2e-2,
                 .keys = 0,
                 .fill = fill_mask},
                *codegen_cuda::make_attention_wgmma_kind(), score);
  EXPECT_LE(score.survivors * 50, score.mutants)
      << score.survivors << " of " << score.mutants << " mutants survived";
}

// Sequences laid end to end: none, empty and short ones, several tiles, more of them than a warp
// has lanes, more blocks than there is work for; and lists of work that are none of theirs.
std::vector<Call> calls_over_sequences(const codegen_cuda::testing::TestRegion& region) {
  using namespace codegen_cuda::testing;
  std::vector<Call> calls;
  const auto call_of = [&](const std::vector<std::int64_t>& offsets,
                           const std::vector<std::int64_t>& work) {
    const auto count = static_cast<std::int64_t>(offsets.size());
    Call call{.shape = {.symbols = {{"t", offsets.back()}, {"n", count}}}, .inputs = {}};
    call.inputs = real_inputs(region, call.shape.symbols);
    tests::fill(call.inputs[1], offsets);
    tests::fill(call.inputs[2], work);
    return call;
  };
  std::vector<std::int64_t> many(36, 0);
  for (std::size_t s = 0; s < many.size(); ++s) many[s] = (s > 3 ? 9 : 0) + (s > 33 ? 2 : 0);
  for (const auto& [offsets, slack] :
       std::vector<std::pair<std::vector<std::int64_t>, std::int64_t>>{{{0}, 0},
                                                                       {{0, 0, 0}, 70},
                                                                       {{0, 16}, 0},
                                                                       {{0, 3, 3, 67, 68, 101}, 70},
                                                                       {{0, 130, 147}, 0},
                                                                       {many, 0}}) {
    Call call = call_of(offsets, runtime::work_list(offsets));
    const Symbols& symbols = call.shape.symbols;
    call.shape.capacity = {{"t", symbols.at("t") + slack},
                           {"n", symbols.at("n") + (slack > 0 ? 2 : 0)}};
    call.expected = reference(region, call.inputs);
    calls.push_back(std::move(call));
  }
  const tests::WrongLists& lists = tests::wrong_lists();
  for (const auto& [list, place] : lists.wrong) {
    Call call = call_of(lists.offsets, list);
    call.error = {std::get<ir::AttentionForm>(region.form.kind).segments->work_check, place};
    calls.push_back(std::move(call));
  }
  return calls;
}

TEST(Mutation, GeneratedAttentionOverSequences) {
  Score score;
  const auto attention = [&](const std::string& name, const std::string& part,
                             const std::string& schedule, const KernelKind& kind) {
    expect_caught({.name = name,
                   .part = part,
                   .schedule = schedule,
                   .region = tests::text_of({.dtype = "bf16", .work = true}),
                   .shapes = {},
                   .tolerance = 1.2e-2,
                   .keys = 2},
                  kind, calls_over_sequences, score);
  };
  attention("attention_mma sequences", "a100",
            "attention_mma warps=2 points=1 tiles=1 keys=16 stages=2",
            *codegen_cuda::make_attention_mma_kind());
  for (const char* persistent : {"", " persistent=1"})
    attention(fmt::format("attention_wgmma sequences{}", persistent), "h200",
              fmt::format("attention_wgmma groups=1 keys=32 stages=2{}", persistent),
              *codegen_cuda::make_attention_wgmma_kind());
  expect_95_percent(score);
}

}  // namespace
}  // namespace anydim::ptx
