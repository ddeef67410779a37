// matmul_wgmma whose results are finished in registers, on the PTX interpreter.
#include "tests/codegen_cuda/matmul_trial.h"

namespace anydim::codegen_cuda::testing {
namespace {

// Integers that f16 holds: sums, and what is rounded on the way, are exact.
MatmulText of_f16(std::int64_t columns, std::int64_t depth, MatmulEpilogue epilogue) {
  return {
      .columns = columns, .depth = depth, .dtype = "f16", .result = "f16", .epilogue = epilogue};
}

// Boxes of a tile in even and odd number, columns that end within a box, rows that end within a
// warp's 16, between warps and between tiles; several tiles a block, so that boxes are filled again
// while others are stored. Nothing behind the last row is written.
TEST(SumsFinishedInRegisters, EdgesOfTiles) {
  struct Case {
    const char* fields;
    std::int64_t columns;
    MatmulEpilogue epilogue;
  };
  for (const Case& one :
       {Case{"bm=64 bn=64 stages=3 blocks=1 group=2 swap_ab=0 persistent=1 split=1", 200,
             MatmulEpilogue::Residual},
        Case{"bm=128 bn=128 stages=2 blocks=1 group=2 swap_ab=0 persistent=1 split=1", 136,
             MatmulEpilogue::Bias},
        Case{"bm=64 bn=192 stages=2 blocks=1 group=1 swap_ab=0 persistent=1 split=1", 384,
             MatmulEpilogue::None},
        Case{"bm=64 bn=128 stages=2 blocks=2 group=2 swap_ab=0 persistent=0 split=1", 72,
             MatmulEpilogue::Residual},
        Case{"bm=64 bn=64 stages=2 blocks=1 group=1 swap_ab=0 persistent=1 split=1 "
             "multicast_columns=2",
             136, MatmulEpilogue::Residual},
        Case{
            "bm=64 bn=64 stages=2 blocks=1 group=2 swap_ab=0 persistent=1 split=1 multicast_rows=2",
            136, MatmulEpilogue::Bias}}) {
    expect_right({.part = "h200",
                  .schedule = fmt::format("matmul_wgmma {} tma_store=2 fragments=1", one.fields),
                  .region = matmul_text(of_f16(one.columns, 136, one.epilogue)),
                  .shapes = rows({0, 1, 15, 65, 200}),
                  .capacity = {{"n", 210}},
                  .every_timing = true});
  }
}

TEST(SumsFinishedInRegisters, FunctionsOnSums) {
  for (const char* dtype : {"bf16", "f16"}) {
    expect_right({.part = "h200",
                  .schedule = "matmul_wgmma bm=128 bn=256 stages=2 blocks=1 group=2 swap_ab=0 "
                              "persistent=1 split=1 tma_store=2 fragments=1",
                  .region = matmul_text({.columns = 264,
                                         .depth = 136,
                                         .dtype = dtype,
                                         .result = dtype,
                                         .epilogue = MatmulEpilogue::BiasGelu}),
                  .shapes = rows({17, 130}),
                  .capacity = {{"n", 150}},
                  .tolerance = 1e-2});
  }
}

TEST(SumsFinishedInRegisters, CheckedForm) {
  expect_right({.part = "h200",
                .schedule = "matmul_wgmma bm=64 bn=64 stages=2 blocks=1 group=2 swap_ab=0 "
                            "persistent=1 split=1 tma_store=2 fragments=1",
                .region = matmul_text(of_f16(72, 136, MatmulEpilogue::Bias)),
                .shapes = rows({70}),
                .checked = true});
}

TEST(SumsFinishedInRegisters, WhatIsFinishedThere) {
  const auto region = make_region(matmul_text(of_f16(128, 64, MatmulEpilogue::Bias)));
  const auto wide = make_region(matmul_text({.columns = 128, .depth = 64}));  // f32 results
  const CudaTarget target = small_target("h200");
  const auto fits = [&](const TestRegion& of, const std::string& fields) {
    return !make_matmul_wgmma_kind()->misfit(
        {.target = target, .region = of.region, .form = of.form},
        ir::parse_schedule("matmul_wgmma stages=2 blocks=1 group=2 swap_ab=0 persistent=1 " +
                           fields + " fragments=1"));
  };
  EXPECT_TRUE(fits(*region, "bm=64 bn=64 split=1 tma_store=2"));
  EXPECT_TRUE(fits(*region, "bm=128 bn=256 split=1 tma_store=2"));
  EXPECT_FALSE(fits(*region, "bm=64 bn=64 split=1"));              // no boxes
  EXPECT_FALSE(fits(*region, "bm=64 bn=96 split=1 tma_store=2"));  // a box and a half
  EXPECT_FALSE(fits(*wide, "bm=64 bn=64 split=1 tma_store=4"));    // 32 columns of 4 bytes
}

}  // namespace
}  // namespace anydim::codegen_cuda::testing
