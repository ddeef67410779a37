// Plans and machine code of matmul; machine_code_test looks at every kernel of whole encoders.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <tuple>

#include "codegen_cuda/backend.h"
#include "codegen_cuda/compile.h"
#include "codegen_cuda/matmul/matmul_kinds.h"
#include "codegen_cuda/matmul/matmul_mma.h"
#include "codegen_cuda/matmul/matmul_wgmma.h"
#include "ir/schedule.h"
#include "tests/codegen_cuda/kernel_case.h"
#include "tests/codegen_cuda/matmul_cases.h"

namespace anydim::codegen_cuda::testing {
namespace {

using Region = std::shared_ptr<const TestRegion>;

// In the order in which a layer has them: queries, keys and values; attention's output; the two of
// the feed-forward part.
std::vector<MatmulText> layer(std::int64_t width) {
  const auto text = [](std::int64_t columns, std::int64_t depth, MatmulEpilogue epilogue) {
    return MatmulText{.columns = columns,
                      .depth = depth,
                      .dtype = "bf16",
                      .result = "bf16",
                      .epilogue = epilogue};
  };
  return {text(3 * width, width, MatmulEpilogue::Bias),
          text(width, width, MatmulEpilogue::Residual),
          text(4 * width, width, MatmulEpilogue::BiasGelu),
          text(width, 4 * width, MatmulEpilogue::Residual)};
}

// Registers at launch and what warpgroups trade must fit what a block gets, or the reallocation
// never returns.
TEST(MatmulCode, WarpgroupsTradeNoMoreRegistersThanThereAre) {
  const CudaTarget target = *target_named("h200");
  const auto kind = make_matmul_wgmma_kind();
  const Region region = make_region(matmul_text({.columns = 1536,
                                                 .depth = 384,
                                                 .dtype = "bf16",
                                                 .result = "bf16",
                                                 .epilogue = MatmulEpilogue::BiasGelu}));
  const PlanInputs inputs{target, region->region, region->form};
  int trading = 0;
  for (const std::int64_t rows : {64, 128}) {
    for (std::int64_t columns = 16; columns <= 256; columns += 16) {
      for (const std::int64_t blocks : {1, 2, 3}) {
        const WgmmaSchedule schedule{
            .block_rows = rows, .block_columns = columns, .stages = 2, .blocks = blocks};
        if (kind->misfit(inputs, schedule.schedule())) continue;
        const WgmmaSchedule::Registers registers =
            schedule.registers(target.registers_per_multiprocessor);
        EXPECT_LE(registers.launch * schedule.threads() * blocks,
                  target.registers_per_multiprocessor);
        if (registers.consumer == 0) continue;
        ++trading;
        EXPECT_LE(registers.producer + registers.consumer * schedule.consumer_warpgroups(),
                  registers.launch * (schedule.consumer_warpgroups() + 1));
        if (columns % 64 != 0) continue;
        SCOPED_TRACE(to_string(schedule.schedule()));
        const NvrtcOutput output =
            Nvrtc::open()->compile(kind->emit(inputs, {}, schedule.schedule(), false).source,
                                   "trade", target.architecture, CudaOutput::Cubin);
        const ir::KernelResources used = resources_in(output.log);
        EXPECT_EQ(used.remarks, "");
        EXPECT_EQ(used.spills, 0);
        EXPECT_EQ(used.registers, registers.launch);
      }
    }
  }
  EXPECT_GT(trading, 0);
}

// Names of instructions of a kernel's machine code.
std::string disassembled(const std::string& nvdisasm, const CudaTarget& target,
                         const Region& region, const char* schedule) {
  const auto backend = make_cuda_backend(
      {.target = target, .output = CudaOutput::Cubin, .checked = false, .nvrtc_path = {}});
  const ir::CompiledKernel kernel =
      backend->compile(region->region, bucket_of({{}}), ir::parse_schedule(schedule));
  const std::string file = ::testing::TempDir() + "/matmul_code.cubin";
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(kernel.code.data()),
             static_cast<std::streamsize>(kernel.code.size()));
  std::string text;
  FILE* pipe = popen(fmt::format("'{}' '{}'", nvdisasm, file).c_str(), "r");
  if (pipe == nullptr) return {};
  std::array<char, 65536> part{};
  while (const std::size_t bytes = fread(part.data(), 1, part.size(), pipe))
    text.append(part.data(), bytes);
  pclose(pipe);
  std::filesystem::remove(file);
  return text;
}

TEST(MatmulCode, Instructions) {
  const char* nvdisasm = std::getenv("ANYDIM_NVDISASM");
  if (nvdisasm == nullptr || *nvdisasm == '\0') GTEST_SKIP() << "no nvdisasm (ANYDIM_NVDISASM)";
  const Region region = make_region(matmul_text({.columns = 1536,
                                                 .depth = 384,
                                                 .dtype = "bf16",
                                                 .result = "bf16",
                                                 .epilogue = MatmulEpilogue::BiasGelu}));
  struct Expected {
    const char *part, *schedule;
    std::vector<const char*> held, not_held;
  };
  const std::vector<Expected> all{
      {"a100",
       "matmul_mma bm=64 bn=64 bk=64 stages=3 down=2 across=2 group=8 split=1",
       {"HMMA.16816.F32.BF16", "LDGSTS.E", "LDSM.16.M88.4"},
       {"HGMMA", "LDL", "STL"}},
      {"b200",
       "matmul_mma bm=64 bn=64 bk=64 stages=3 down=2 across=2 group=8 split=1",
       {"HMMA.16816.F32.BF16", "LDGSTS.E", "LDSM.16.M88.4"},
       {"LDL", "STL"}},
      {"h200",
       "matmul_mma bm=16 bn=64 bk=64 stages=3 down=1 across=4 group=8 split=2",
       {"HMMA.16816.F32.BF16", "LDGSTS.E", "ACQBULK", "UCGABAR_ARV"},
       {"HGMMA", "LDL", "STL"}},
      {"h200",
       "matmul_wgmma bm=128 bn=192 stages=3 blocks=1 group=8 swap_ab=0 persistent=1 split=1",
       {"HGMMA.64x192x16.F32.BF16", "UTMALDG.2D", "SYNCS.PHASECHK", "WARPGROUP.ARRIVE", "ACQBULK",
        "PREEXIT"},
       {"HMMA", "LDL", "STL"}},
      {"h200",
       "matmul_wgmma bm=128 bn=256 stages=3 blocks=1 group=8 swap_ab=0 persistent=1 split=1",
       {"HGMMA.64x256x16.F32.BF16", "USETMAXREG"},
       {"HMMA", "LDL", "STL", "UTMASTG"}},
      {"h200",
       "matmul_wgmma bm=128 bn=192 stages=3 blocks=1 group=8 swap_ab=0 persistent=1 split=1 "
       "tma_store=2",
       {"HGMMA.64x192x16.F32.BF16", "UTMASTG.2D", "UTMACMDFLUSH", "DEPBAR"},
       {"HMMA", "LDL", "STL"}},
      {"h200",
       "matmul_wgmma bm=128 bn=256 stages=4 blocks=1 group=8 swap_ab=0 persistent=1 split=1 "
       "tma_store=2 fragments=1",
       {"HGMMA.64x256x16.F32.BF16", "STSM.16.M88.4", "UTMASTG.2D", "UTMACMDFLUSH", "DEPBAR"},
       {"HMMA", "LDL", "STL", "STS.64"}},
      {"h200",
       "matmul_wgmma bm=128 bn=128 stages=4 blocks=1 group=8 swap_ab=0 persistent=1 split=1 "
       "multicast_rows=2",
       {"HGMMA.64x128x16.F32.BF16", "UTMALDG.2D.MULTICAST", "UCGABAR_ARV"},
       {"HMMA", "LDL", "STL"}},
  };
  for (const Expected& expected : all) {
    SCOPED_TRACE(std::string(expected.part) + " " + expected.schedule);
    const std::string code =
        disassembled(nvdisasm, *target_named(expected.part), region, expected.schedule);
    ASSERT_NE(code, "");
    for (const char* instruction : expected.held)
      EXPECT_NE(code.find(instruction), std::string::npos) << instruction;
    for (const char* instruction : expected.not_held)
      EXPECT_EQ(code.find(fmt::format(" {}", instruction)), std::string::npos) << instruction;
  }
}

// A residual's vectors are asked for before the first result is stored, which might change them for
// all that the compiler knows: not each behind the store of the one before.
TEST(MatmulCode, ResidualsOfAThreadAreUnderWayTogether) {
  const char* nvdisasm = std::getenv("ANYDIM_NVDISASM");
  if (nvdisasm == nullptr || *nvdisasm == '\0') GTEST_SKIP() << "no nvdisasm (ANYDIM_NVDISASM)";
  const Region region = make_region(matmul_text({.columns = 384,
                                                 .depth = 384,
                                                 .dtype = "bf16",
                                                 .result = "bf16",
                                                 .epilogue = MatmulEpilogue::Residual}));
  for (const auto& [part, schedule, together] :
       {std::tuple("a100", "matmul_mma bm=64 bn=64 bk=64 stages=3 down=2 across=2 group=8 split=1",
                   4),
        {"h200",
         "matmul_wgmma bm=64 bn=192 stages=3 blocks=1 group=8 swap_ab=0 persistent=1 split=1",
         4}}) {
    SCOPED_TRACE(std::string(part) + " " + schedule);
    std::istringstream lines(disassembled(nvdisasm, *target_named(part), region, schedule));
    int loads = 0, most = 0;
    for (std::string line; std::getline(lines, line);) {
      if (line.find(" LDG.E") != std::string::npos) most = std::max(most, ++loads);
      if (line.find(" STG.E") != std::string::npos) loads = 0;
    }
    EXPECT_GE(most, together);
  }
}

// ---- Plans ----

std::int64_t blocks_of(const WgmmaSchedule& schedule, std::int64_t rows, std::int64_t columns) {
  const std::int64_t down = schedule.swap_ab ? schedule.block_columns : schedule.block_rows,
                     across = schedule.swap_ab ? schedule.block_rows : schedule.block_columns;
  return (rows + down - 1) / down * ((columns + across - 1) / across) * schedule.split;
}

TEST(MatmulPlan, CandidatesFitAndReadBack) {
  for (const char* part : {"a100", "h200", "l40s", "b200"}) {
    const CudaTarget target = *target_named(part);
    for (const MatmulText& text : layer(384)) {
      const Region region = make_region(matmul_text(text));
      const PlanInputs inputs{target, region->region, region->form};
      for (const auto& kind : all_kernel_kinds()) {
        if (!kind->accepts(inputs)) continue;
        for (const ir::BucketInterval interval :
             {ir::BucketInterval{1, 16, 1}, ir::BucketInterval{1, 200, 1}, ir::BucketInterval{}}) {
          const auto schedules = kind->candidates(inputs, bucket_of({interval}));
          // A library's product is taken by policy alone.
          EXPECT_EQ(schedules.empty(), kind->name() == "cublaslt") << kind->name();
          double last = 0;
          for (const ir::Schedule& schedule : schedules) {
            EXPECT_EQ(schedule.name, kind->name());
            EXPECT_EQ(kind->misfit(inputs, schedule), std::nullopt) << to_string(schedule);
            EXPECT_EQ(ir::parse_schedule(to_string(schedule)), schedule);
            const std::array<std::int64_t, 1> few{10}, many{100000}, none{0};
            EXPECT_GT(kind->estimate(inputs, schedule, few), 0);
            EXPECT_GT(kind->estimate(inputs, schedule, many),
                      kind->estimate(inputs, schedule, few));
            EXPECT_EQ(kind->estimate(inputs, schedule, none), 0);
            last = std::max(last, kind->estimate(inputs, schedule, few));
          }
          EXPECT_LT(last, 1e-2);
        }
        for (const auto& edges : kind->key_edges(inputs))
          EXPECT_TRUE(std::is_sorted(edges.begin(), edges.end()));
      }
    }
  }
}

// Tiles are chosen to fill a wave: a product of 512 x 768 has more blocks than 128 x 128 tiles
// would give, and few rows swap operands or split the depth.
TEST(MatmulPlan, TilesFillAWave) {
  const CudaTarget target = *target_named("h200");
  const auto kind = make_matmul_wgmma_kind();
  const Region region = make_region(matmul_text({.columns = 768,
                                                 .depth = 768,
                                                 .dtype = "bf16",
                                                 .result = "bf16",
                                                 .epilogue = MatmulEpilogue::Bias}));
  const PlanInputs inputs{target, region->region, region->form};
  const WgmmaSchedule middling =
      WgmmaSchedule::from(kind->candidates(inputs, bucket_of({{512, 512, 1}})).front());
  const std::int64_t blocks = blocks_of(middling, 512, 768);
  EXPECT_GE(blocks, 66) << to_string(middling.schedule());
  EXPECT_LE(blocks, 132 * middling.blocks) << to_string(middling.schedule());
  const WgmmaSchedule large =
      WgmmaSchedule::from(kind->candidates(inputs, bucket_of({{8192, 8192, 1}})).front());
  EXPECT_GE(large.block_rows * large.block_columns, 128 * 128);
  // Where blocks take many tiles, boxes leave while the next tile is multiplied.
  EXPECT_EQ(large.tma_store, 2);
  EXPECT_TRUE(large.fragments);
}

// What one bucket's kernel takes at its own ends is near the least at these sizes. With 144 tiles
// for 132 multiprocessors a launch takes two waves, where 64 x 192 tiles would have been one.
TEST(MatmulPlan, NoBucketReachesIntoANearlyEmptyWave) {
  const CudaTarget target = *target_named("h200");
  const auto kind = make_matmul_wgmma_kind();
  for (const auto& [columns, depth] :
       {std::pair(768, 3072), {3072, 768}, {2304, 768}, {384, 1536}, {1536, 384}}) {
    const Region region = make_region(matmul_text({.columns = columns,
                                                   .depth = depth,
                                                   .dtype = "bf16",
                                                   .result = "bf16",
                                                   .epilogue = MatmulEpilogue::Bias}));
    const PlanInputs inputs{target, region->region, region->form};
    const std::vector<std::int64_t> edges = kind->key_edges(inputs).at(0);
    ASSERT_LE(edges.size(), 48u);  // a table has a bounded number of cells
    const auto least = [&](std::int64_t rows) {
      return kind->estimate(inputs, kind->candidates(inputs, bucket_of({{rows, rows, 1}})).front(),
                            std::array{rows});
    };
    for (std::size_t i = 0; i + 1 < edges.size(); ++i) {
      const std::int64_t low = edges[i], high = edges[i + 1] - 1;
      double smallest = std::numeric_limits<double>::infinity();
      for (const ir::Schedule& schedule : kind->candidates(inputs, bucket_of({{low, high, 1}})))
        smallest = std::min(
            smallest, std::max(kind->estimate(inputs, schedule, std::array{low}) / least(low),
                               kind->estimate(inputs, schedule, std::array{high}) / least(high)));
      EXPECT_LT(smallest, 1.15) << columns << " columns, depth " << depth << ", rows " << low
                                << " to " << high;
    }
  }
}

// Few rows and a long depth: blocks that share the depth spread over the multiprocessors, take the
// stages that they use, and leave the next launch room to begin while they run.
TEST(MatmulPlan, FewRowsLeaveRoomForTheNextLaunch) {
  const CudaTarget target = *target_named("h200");
  const auto kind = make_matmul_wgmma_kind();
  const auto region_of = [](std::int64_t columns, std::int64_t depth) {
    return make_region(matmul_text({.columns = static_cast<int>(columns),
                                    .depth = static_cast<int>(depth),
                                    .dtype = "bf16",
                                    .result = "bf16",
                                    .epilogue = MatmulEpilogue::Bias}),
                       {1});
  };
  for (const auto& [columns, depth] : {std::pair(768, 768), {768, 3072}, {3072, 768}, {384, 384}}) {
    const Region region = region_of(columns, depth);
    const WgmmaSchedule best = WgmmaSchedule::from(
        kind->candidates({target, region->region, region->form}, bucket_of({{1, 16, 1}})).front());
    SCOPED_TRACE(to_string(best.schedule()));
    EXPECT_GE(blocks_of(best, 16, columns), depth == 3072 ? 66 : columns / 64);
    EXPECT_LE(best.stages, (depth / 64 + best.split - 1) / best.split);
    EXPECT_GE(best.blocks, 2);
    EXPECT_LE(2 * (best.shared_bytes() + 1024), target.shared_per_multiprocessor);
    EXPECT_LE(2 * best.threads() * best.registers(target.registers_per_multiprocessor).launch,
              target.registers_per_multiprocessor);
  }
  // Where a launch has blocks for both places none is left, and it begins when the one ahead ends.
  const Region region = region_of(768, 768);
  const PlanInputs inputs{target, region->region, region->form};
  const auto gain = [&](std::int64_t rows) {
    const auto seconds = [&](const char* stages) {
      return kind->estimate(
          inputs,
          ir::parse_schedule(fmt::format("matmul_wgmma bm=64 bn=64 {} group=8 swap_ab=0 "
                                         "persistent=0 split=1",
                                         stages)),
          std::array{rows});
    };
    return seconds("stages=6 blocks=1") / seconds("stages=6 blocks=2");
  };
  EXPECT_GT(gain(128), 1.03);  // 24 blocks
  EXPECT_GT(gain(704), 1.03);  // 132
  const auto twice = ir::parse_schedule(
      "matmul_wgmma bm=64 bn=64 stages=6 blocks=2 group=8 swap_ab=0 persistent=0 split=1");
  const double step = kind->estimate(inputs, twice, std::array<std::int64_t, 1>{768}) -
                      kind->estimate(inputs, twice, std::array<std::int64_t, 1>{704});
  EXPECT_GT(step, target.costs.setup_cycles / target.clock);
}

TEST(MatmulPlan, MisfitsSayWhy) {
  const CudaTarget target = *target_named("a100");
  const Region region =
      make_region(matmul_text({.columns = 136, .depth = 72, .columns_major = false}));
  const PlanInputs inputs{target, region->region, region->form};
  const auto mma = make_matmul_mma_kind();
  const auto why = [&](const char* schedule) {
    return mma->misfit(inputs, ir::parse_schedule(schedule)).value_or("");
  };
  EXPECT_EQ(why("matmul_mma bm=24 bn=32 bk=32 stages=3 down=1 across=1 group=8 split=1"),
            "every warp computes whole fragments of 16 x 16");
  EXPECT_EQ(why("matmul_mma bm=32 bn=48 bk=32 stages=3 down=1 across=1 group=8 split=1"),
            "rows of the right tile are 2, 4 or a multiple of 8 pieces of 16 bytes");
  EXPECT_EQ(why("matmul_mma bm=128 bn=128 bk=64 stages=6 down=4 across=2 group=8 split=1"),
            "it needs 196608 bytes of shared memory, and a block gets 166912");
  EXPECT_EQ(why("matmul_mma bm=64 bn=64 bk=32 stages=3 down=2 across=2 group=8 split=2"),
            "split is 1 to 8 blocks of a cluster, which needs sm_90");
  const CudaTarget hopper = *target_named("h200");
  const PlanInputs boxes{hopper, region->region, region->form};
  EXPECT_FALSE(make_matmul_wgmma_kind()->accepts(inputs));
  EXPECT_EQ(
      make_matmul_wgmma_kind()->misfit(
          boxes,
          ir::parse_schedule(
              "matmul_wgmma bm=64 bn=48 stages=3 blocks=1 group=8 swap_ab=0 persistent=0 split=1")),
      "bn is a multiple of 64 where the operand's rows lie contiguous");
}

// What can't be copied in boxes is left to the other ways: a depth that varies, rows that are no
// multiples of 16 bytes, strides that vary.
TEST(MatmulPlan, WgmmaTakesWhatBoxesCanHold) {
  const CudaTarget target = *target_named("h200");
  const auto accepts = [&](const std::string& text) {
    const Region region = make_region(text);
    return make_matmul_wgmma_kind()->accepts({target, region->region, region->form});
  };
  EXPECT_TRUE(accepts(matmul_text({.columns = 64, .depth = 72})));
  EXPECT_FALSE(accepts(matmul_text({.columns = 64, .depth = 70})));
  EXPECT_FALSE(accepts(matmul_text({.columns = 64, .depth = 0})));
  EXPECT_TRUE(accepts(matmul_text({.columns = 64, .depth = 72, .columns_major = false})));
  EXPECT_FALSE(accepts(matmul_text({.columns = 60, .depth = 72, .columns_major = false})));
  EXPECT_FALSE(accepts(matmul_text({.columns = 64, .depth = 72, .left_transposed = true})));
  EXPECT_FALSE(accepts(matmul_text({.columns = 64, .depth = 72, .dtype = "f32"})));
}

}  // namespace
}  // namespace anydim::codegen_cuda::testing
