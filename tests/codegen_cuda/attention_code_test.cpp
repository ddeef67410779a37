// Instructions and limits of attention's schedules; machine_code_test looks at every kernel of
// whole encoders.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>

#include "codegen_cuda/attention/attention_kinds.h"
#include "codegen_cuda/attention/attention_schedule.h"
#include "codegen_cuda/backend.h"
#include "tests/codegen_cuda/attention_cases.h"
#include "tests/codegen_cuda/cubin.h"
#include "tests/support/attention_regions.h"

namespace anydim::codegen_cuda::testing {
namespace {

bool holds(const std::string& ptx, const char* instruction) {
  return ptx.find(instruction) != std::string::npos;
}

TEST(CudaAttentionCode, Instructions) {
  const auto region = make_region(merged_attention({.heads = 2, .depth = 64}));
  const std::string narrow =
      attention_kernel(region, "a100", "attention_mma warps=4 points=1 tiles=1 keys=64 stages=2")
          .ptx;
  for (const char* instruction :
       {"mma.sync.aligned.m16n8k16.row.col.f32.bf16", "ldmatrix.sync.aligned.m8n8.x4",
        "cp.async.cg.shared.global", "ex2.approx"})
    EXPECT_TRUE(holds(narrow, instruction)) << instruction;
  const std::string wide =
      attention_kernel(region, "h200", "attention_wgmma groups=2 keys=128 stages=2").ptx;
  for (const char* instruction :
       {"wgmma.mma_async.sync.aligned.m64n128k16", "wgmma.mma_async.sync.aligned.m64n64k16",
        "cp.async.bulk.tensor.2d", "setmaxnreg.dec.sync.aligned.u32", "griddepcontrol.wait",
        "fence.proxy.async"})
    EXPECT_TRUE(holds(wide, instruction)) << instruction;
}

// Instructions of the loops in which the machine code multiplies, fewest first.
std::vector<std::size_t> multiplying_loops(const std::string& part, const std::string& schedule,
                                           const std::string& text) {
  const auto region = make_region(text);
  const auto backend = make_cuda_backend({.target = *target_named(part),
                                          .output = CudaOutput::Cubin,
                                          .checked = false,
                                          .nvrtc_path = {}});
  const ir::CompiledKernel kernel =
      backend->compile(region->region, bucket_of({}), ir::parse_schedule(schedule));
  EXPECT_EQ(kernel.resources.spills, 0);
  std::vector<std::size_t> counts;
  for (const auto& loop : loops_of(MachineCodeReader().read(kernel.code, true).text))
    if (std::ranges::any_of(loop, [](const std::string& instruction) {
          return instruction.find("HGMMA") != std::string::npos ||
                 instruction.find("HMMA") != std::string::npos;
        }))
      counts.push_back(loop.size());
  return counts;
}

// A tile that all rows see whole has no masks, whatever hides keys in others. Tensor cores take
// 1,024 cycles for a tile of 128 x 128 and heads of 64; 470 instructions of eight warps are issued
// in 940.
TEST(CudaAttentionCode, WholeTilesHaveNoMasks) {
  if (disassembler().empty()) GTEST_SKIP() << "no nvdisasm (ANYDIM_NVDISASM)";
  constexpr std::size_t most = 470;
  const auto text = [](AttentionMask mask) {
    return merged_attention({.heads = 12, .depth = 64, .mask = mask, .window = 300});
  };
  const auto wgmma = [](const std::string& region, const char* turns = "") {
    return multiplying_loops(
        "h200", std::string("attention_wgmma groups=2 keys=128 stages=2") + turns, region);
  };
  const auto plain = wgmma(text(AttentionMask::None)), causal = wgmma(text(AttentionMask::Causal)),
             window = wgmma(text(AttentionMask::Window)),
             packed = wgmma(tests::text_of({.dtype = "bf16", .work = true})),
             in_turn = wgmma(text(AttentionMask::None), " pingpong=1"),
             persistent = wgmma(text(AttentionMask::None), " persistent=1");
  for (const auto& loops : {plain, causal, window, packed, in_turn, persistent}) {
    ASSERT_FALSE(loops.empty());
    EXPECT_LE(loops[0], most);
  }
  EXPECT_LE(causal[0], plain[0]);
  // Tiles with a diagonal have a loop of their own.
  EXPECT_TRUE(
      std::ranges::any_of(causal, [&](std::size_t count) { return count > most && count <= 650; }));
  constexpr std::size_t addresses = 4;  // what else is computed differs by a few
  EXPECT_LE(window[0], plain[0] + addresses);

  const auto mma = [&](AttentionMask mask) {
    return multiplying_loops("a100", "attention_mma warps=4 points=1 tiles=1 keys=64 stages=2",
                             text(mask));
  };
  const auto plain_mma = mma(AttentionMask::None), causal_mma = mma(AttentionMask::Causal);
  ASSERT_GE(plain_mma.size(), 2U);
  EXPECT_LE(plain_mma[0], 390U);
  EXPECT_LT(plain_mma[0] + 40, plain_mma[1]);  // half of an edge's keys are compared
  EXPECT_LE(causal_mma.at(0), plain_mma[0]);
}

// What a schedule says of itself holds for the kernel.
TEST(CudaAttentionCode, SharedMemoryAndRegisters) {
  const auto region = make_region(merged_attention({.heads = 2, .depth = 128}));
  const CudaTarget target = *target_named("h200");
  const PlanInputs inputs{target, region->region, region->form};
  const auto wgmma = make_attention_wgmma_kind(), mma = make_attention_mma_kind();
  for (const auto* kind : {wgmma.get(), mma.get()}) {
    for (const ir::Schedule& schedule : kind->candidates(inputs, {})) {
      EXPECT_EQ(kind->misfit(inputs, schedule), std::nullopt) << to_string(schedule);
      const EmittedKernel kernel = kind->emit(inputs, {}, schedule, false);
      EXPECT_LE(kernel.launches.at(0).shared_bytes, target.shared_per_block);
    }
  }
  for (const std::int64_t groups : {1, 2, 3}) {
    const AttentionWgmmaSchedule fields{.groups = groups, .keys = 128, .stages = 2};
    // Registers at launch: 65,536 shared out evenly, rounded down to 8 a thread; the trade may not
    // ask for more.
    const std::int64_t pool = target.registers_per_multiprocessor / fields.intended_blocks() /
                              fields.threads() / 8 * 8 * fields.threads();
    EXPECT_LE(128 * (fields.fetching_registers() +
                     groups * fields.computing_registers(target.registers_per_multiprocessor)),
              pool);
  }
  EXPECT_NE(mma->misfit(inputs, ir::parse_schedule(
                                    "attention_mma warps=4 points=1 tiles=2 keys=128 stages=2")),
            std::nullopt);
  EXPECT_NE(mma->misfit(inputs, ir::parse_schedule(
                                    "attention_mma warps=4 points=1 tiles=1 keys=128 stages=4")),
            std::nullopt);
  EXPECT_NE(wgmma->misfit(inputs, ir::parse_schedule("attention_wgmma groups=3 keys=256 stages=2")),
            std::nullopt);
}

}  // namespace
}  // namespace anydim::codegen_cuda::testing
