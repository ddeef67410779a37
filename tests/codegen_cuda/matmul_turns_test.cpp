// matmul_wgmma whose two warpgroups that multiply have tiles of their own, on the PTX interpreter.
#include "tests/codegen_cuda/matmul_trial.h"

namespace anydim::codegen_cuda::testing {
namespace {

constexpr const char* in_turn = "group=2 swap_ab=0 persistent=1 split=1";

// Blocks with no tile, one (the second warpgroup has none), two, three and more; fewer tiles of
// depth than stages, as many, and more.
TEST(WarpgroupsThatMultiplyInTurn, NumbersOfTiles) {
  for (const int depth : {40, 128, 5 * 64 - 24}) {
    expect_right({.part = "h200",
                  .schedule = fmt::format(
                      "matmul_wgmma bm=64 bn=32 stages=2 blocks=1 {} pingpong=1", in_turn),
                  .region = matmul_text(
                      {.columns = 40, .depth = depth, .epilogue = MatmulEpilogue::Residual}),
                  .shapes = rows({0, 1, 65, 130, 190, 200, 300}),
                  .capacity = {{"n", 300}},
                  .every_timing = true});
  }
}

TEST(WarpgroupsThatMultiplyInTurn, EveryWayOut) {
  for (const char* fields :
       {"bm=64 bn=64 stages=3 blocks=1 tma_store=2 fragments=1",
        "bm=64 bn=128 stages=2 blocks=1 tma_store=2 fragments=1",
        "bm=64 bn=48 stages=3 blocks=1 tma_store=2",
        "bm=64 bn=64 stages=2 blocks=1 multicast_columns=2 tma_store=2 fragments=1",
        "bm=64 bn=64 stages=3 blocks=1 multicast_rows=2", "bm=64 bn=256 stages=2 blocks=1"}) {
    expect_right({.part = "h200",
                  .schedule = fmt::format("matmul_wgmma {} {} pingpong=1", fields, in_turn),
                  .region = matmul_text({.columns = 136,
                                         .depth = 136,
                                         .dtype = "f16",
                                         .result = "f16",
                                         .epilogue = MatmulEpilogue::Residual}),
                  .shapes = rows({1, 70, 200}),
                  .capacity = {{"n", 210}},
                  .every_timing = true});
  }
}

TEST(WarpgroupsThatMultiplyInTurn, CheckedForm) {
  expect_right(
      {.part = "h200",
       .schedule = fmt::format("matmul_wgmma bm=64 bn=64 stages=2 blocks=1 {} pingpong=1", in_turn),
       .region = matmul_text({.columns = 128, .depth = 200, .epilogue = MatmulEpilogue::Bias}),
       .shapes = rows({1, 200}),
       .checked = true,
       .every_timing = true});
}

TEST(WarpgroupsThatMultiplyInTurn, WhatTheyTake) {
  const auto region = make_region(matmul_text({.columns = 128, .depth = 512}));
  const CudaTarget target = small_target("h200");
  const auto fits = [&](const char* fields) {
    return !make_matmul_wgmma_kind()->misfit(
        {.target = target, .region = region->region, .form = region->form},
        ir::parse_schedule(
            fmt::format("matmul_wgmma {} stages=2 blocks=1 group=2 pingpong=1", fields)));
  };
  EXPECT_TRUE(fits("bm=64 bn=256 swap_ab=0 persistent=1 split=1"));
  EXPECT_FALSE(fits("bm=128 bn=64 swap_ab=0 persistent=1 split=1"));
  EXPECT_FALSE(fits("bm=64 bn=64 swap_ab=0 persistent=0 split=1"));
  EXPECT_FALSE(fits("bm=64 bn=64 swap_ab=1 persistent=1 split=1"));
  EXPECT_FALSE(fits("bm=64 bn=64 swap_ab=0 persistent=0 split=2"));
}

// Registers are traded as by two warpgroups that share a tile, and the machine code holds no
// spills.
TEST(WarpgroupsThatMultiplyInTurn, MachineCode) {
  for (const char* tile :
       {"bm=64 bn=256 stages=4 tma_store=2 fragments=1",
        "bm=64 bn=128 stages=6 tma_store=2 fragments=1", "bm=64 bn=192 stages=4"})
    assembled_encoder_product(fmt::format("matmul_wgmma {} blocks=1 {} pingpong=1", tile, in_turn));
}

}  // namespace
}  // namespace anydim::codegen_cuda::testing
