// attention_wgmma whose warpgroups begin their multiplications in turn, on the PTX interpreter and
// in machine code.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "codegen_cuda/attention/attention_kinds.h"
#include "codegen_cuda/attention/attention_schedule.h"
#include "codegen_cuda/backend.h"
#include "tests/codegen_cuda/attention_cases.h"
#include "tests/support/attention_regions.h"

namespace anydim::codegen_cuda::testing {
namespace {

using Region = std::shared_ptr<const TestRegion>;

std::vector<Symbols> lengths(const std::vector<std::int64_t>& values) {
  std::vector<Symbols> shapes;
  for (const std::int64_t value : values) shapes.push_back({{"b", 1}, {"s", value}});
  return shapes;
}

// No key, one tile (the only turn is that of its values), two, three and more, whole and not; more
// rows than one block has.
TEST(AttentionInTurn, NumbersOfTiles) {
  const Region region = make_region(merged_attention({.heads = 1, .depth = 64}));
  expect_right(region, "attention_wgmma groups=2 keys=32 stages=2 pingpong=1",
               lengths({0, 1, 32, 33, 96, 140}));
  expect_right(region, "attention_wgmma groups=2 keys=64 stages=1 pingpong=1", lengths({64, 200}));
  expect_right(region, "attention_wgmma groups=3 keys=48 stages=3 pingpong=1", lengths({30, 200}));
}

// Edges pass in a loop of their own, which takes part in the turns.
TEST(AttentionInTurn, Masks) {
  for (const AttentionMask mask :
       {AttentionMask::Causal, AttentionMask::Window, AttentionMask::Bias}) {
    SCOPED_TRACE(static_cast<int>(mask));
    const Region region =
        make_region(merged_attention({.heads = 1, .depth = 32, .mask = mask, .window = 50}));
    expect_right(region, "attention_wgmma groups=2 keys=32 stages=2 pingpong=1",
                 lengths({70, 171}));
  }
}

TEST(AttentionInTurn, CheckedForm) {
  const Region region = make_region(merged_attention({.heads = 1, .depth = 64}));
  expect_right(region, "attention_wgmma groups=2 keys=32 stages=2 pingpong=1", lengths({100}),
               true);
}

// A turn that does not end stops the block, and one that is not waited for is told.
TEST(AttentionInTurn, TurnsThatAreMissing) {
  const Region region = make_region(merged_attention({.heads = 1, .depth = 64}));
  const KernelCase kernel =
      attention_kernel(region, "h200", "attention_wgmma groups=2 keys=32 stages=2 pingpong=1");
  const Symbols symbols{{"b", 1}, {"s", 192}};
  const auto without = [&](const std::string& instruction) {
    std::string text = kernel.ptx;
    const std::size_t begin = text.find(instruction), end = text.find(';', begin);
    EXPECT_NE(begin, std::string::npos) << instruction;
    text.erase(begin, end + 1 - begin);
    CaseOptions options;
    options.machine.architecture = small_target("h200").architecture;
    return run_case(kernel, ptx::parse_ptx(text), symbols, real_inputs(*region, symbols), options)
        .findings;
  };
  EXPECT_NE(without("bar.arrive").find("no warp can go on"), std::string::npos);
  EXPECT_NE(without("bar.sync 5").find("for whom nobody waits"), std::string::npos);
}

TEST(AttentionInTurn, WhatTheyTake) {
  const auto region = make_region(merged_attention({.heads = 2, .depth = 64}));
  const CudaTarget target = small_target("h200");
  const auto fits = [&](const char* fields) {
    return !make_attention_wgmma_kind()->misfit(
        {.target = target, .region = region->region, .form = region->form},
        ir::parse_schedule(fmt::format("attention_wgmma {} keys=64 stages=2 pingpong=1", fields)));
  };
  EXPECT_FALSE(fits("groups=1"));
  EXPECT_TRUE(fits("groups=2"));
  EXPECT_TRUE(fits("groups=3"));
}

// Where the weights take about as long as the multiplications, the model lets them pass in turn.
TEST(AttentionInTurn, LongTextsTakeTurns) {
  const AttentionSizes sizes{
      .points = 1024, .rows = 4096, .keys = 4096, .depth = 128, .width = 128};
  const CudaTarget target = *target_named("h200");
  AttentionWgmmaSchedule schedule{.groups = 2, .keys = 128, .stages = 2};
  const double together = attention_wgmma_seconds(target, schedule, sizes, false);
  schedule.pingpong = true;
  const double in_turn = attention_wgmma_seconds(target, schedule, sizes, false);
  EXPECT_LT(in_turn, together);
  EXPECT_GT(in_turn, attention_wgmma_cycles(target, schedule, sizes).tensor / target.clock);
}

TEST(AttentionInTurn, MachineCode) {
  for (const auto& [depth, fields] :
       {std::pair(64, "groups=2 keys=128 stages=2"), std::pair(64, "groups=2 keys=176 stages=2"),
        std::pair(128, "groups=2 keys=128 stages=2"), std::pair(64, "groups=3 keys=64 stages=2")}) {
    for (const AttentionMask mask : {AttentionMask::None, AttentionMask::Causal}) {
      const auto region =
          make_region(merged_attention({.heads = 12, .depth = depth, .mask = mask}));
      const ir::KernelResources used =
          make_cuda_backend({.target = *target_named("h200")})
              ->compile(region->region, bucket_of({}),
                        ir::parse_schedule(fmt::format("attention_wgmma {} pingpong=1", fields)))
              .resources;
      EXPECT_EQ(used.spills, 0) << fields;
      EXPECT_EQ(used.remarks, "") << fields;
      EXPECT_EQ(used.stack_bytes, 0) << fields;
    }
  }
}

}  // namespace
}  // namespace anydim::codegen_cuda::testing
