// matmul_wgmma on the PTX interpreter.
#include "tests/codegen_cuda/matmul_trial.h"

namespace anydim::codegen_cuda::testing {
namespace {

TEST(MatmulWgmma, DepthsAroundTheNumberOfStages) {
  constexpr int stages = 3;
  for (const int tiles : {1, stages - 1, stages, 2 * stages + 1}) {
    expect_right(
        {.part = "h200",
         .schedule = fmt::format(
             "matmul_wgmma bm=64 bn=32 stages={} blocks=1 group=2 swap_ab=0 persistent=1 split=1",
             stages),
         .region = matmul_text(
             {.columns = 72, .depth = tiles * 64 - 24, .epilogue = MatmulEpilogue::Residual}),
         .shapes = rows({0, 1, 64, 65, 200}),
         .every_timing = tiles == stages});
  }
}

TEST(MatmulWgmma, TilesOfEveryWidth) {
  for (const char* shape : {"bm=64 bn=16 stages=4 blocks=2", "bm=128 bn=48 stages=2 blocks=1",
                            "bm=64 bn=112 stages=3 blocks=2", "bm=128 bn=256 stages=2 blocks=1",
                            "bm=64 bn=192 stages=2 blocks=2"}) {
    expect_right(
        {.part = "h200",
         .schedule = fmt::format("matmul_wgmma {} group=2 swap_ab=0 persistent=1 split=1", shape),
         .region = matmul_text({.columns = 264, .depth = 128, .epilogue = MatmulEpilogue::Bias}),
         .shapes = rows({63, 130})});
  }
}

TEST(MatmulWgmma, SwapAbForFewRows) {
  for (const int columns : {16, 64}) {
    expect_right(
        {.part = "h200",
         .schedule = fmt::format(
             "matmul_wgmma bm=64 bn={} stages=3 blocks=1 group=2 swap_ab=1 persistent={} split=1",
             columns, columns == 64 ? 1 : 0),
         .region = matmul_text(
             {.columns = 136, .depth = 192, .dtype = "f16", .epilogue = MatmulEpilogue::Residual}),
         .shapes = rows({0, 1, 16, 17, 70})});
  }
}

// The right operand as most exporters leave it: depth x columns, 64 columns side by side in a box.
TEST(MatmulWgmma, RightOperandByRows) {
  for (const char* shape :
       {"bm=64 bn=64 stages=2 blocks=1 group=2 swap_ab=0 persistent=1 split=1",
        "bm=128 bn=192 stages=2 blocks=1 group=2 swap_ab=0 persistent=0 split=1",
        "bm=64 bn=32 stages=3 blocks=1 group=2 swap_ab=1 persistent=1 split=1",
        "bm=64 bn=128 stages=2 blocks=1 group=2 swap_ab=0 persistent=0 split=2"}) {
    expect_right({.part = "h200",
                  .schedule = fmt::format("matmul_wgmma {}", shape),
                  .region = matmul_text({.columns = 200,
                                         .depth = 168,
                                         .columns_major = false,
                                         .epilogue = MatmulEpilogue::Residual}),
                  .shapes = rows({1, 65, 130}),
                  .capacity = {{"n", 130}}});
  }
}

TEST(MatmulWgmma, CapacityLargerThanTheRows) {
  for (const int swap : {0, 1}) {
    expect_right(
        {.part = "h200",
         .schedule = fmt::format(
             "matmul_wgmma bm=64 bn=32 stages=3 blocks=1 group=2 swap_ab={} persistent=1 split=1",
             swap),
         .region = matmul_text({.columns = 96, .depth = 128, .epilogue = MatmulEpilogue::Residual}),
         .shapes = rows({0, 1, 33, 200}),
         .capacity = {{"n", 200}}});
  }
}

TEST(MatmulWgmma, ClustersThatSplitTheDepth) {
  for (const char* shape :
       {"bm=64 bn=16 stages=3 blocks=1 group=2 swap_ab=1 persistent=0 split=2",
        "bm=64 bn=64 stages=2 blocks=1 group=2 swap_ab=0 persistent=0 split=4",
        "bm=128 bn=96 stages=2 blocks=1 group=2 swap_ab=0 persistent=0 split=2"}) {
    expect_right(
        {.part = "h200",
         .schedule = fmt::format("matmul_wgmma {}", shape),
         .region = matmul_text({.columns = 72, .depth = 424, .epilogue = MatmulEpilogue::Residual}),
         .shapes = rows({0, 1, 17, 65}),
         .every_timing = true});
  }
  expect_right(
      {.part = "h200",
       .schedule = "matmul_wgmma bm=64 bn=32 stages=2 blocks=3 group=2 swap_ab=1 persistent=0 "
                   "split=8",
       .region = matmul_text({.columns = 72, .depth = 1000, .epilogue = MatmulEpilogue::Residual}),
       .shapes = rows({33})});
  expect_right(
      {.part = "h200",
       .schedule = "matmul_wgmma bm=128 bn=128 stages=3 blocks=1 group=2 swap_ab=0 persistent=0 "
                   "split=2",
       .region = matmul_text({.columns = 136, .depth = 200, .epilogue = MatmulEpilogue::Residual}),
       .shapes = rows({130})});
}

// However wide a tile is: when all sums are put down; by those that copy too. That they have been
// read is told by a barrier.
TEST(MatmulWgmma, BlocksThatSplitTheDepthMeetOnce) {
  const auto region = make_region(matmul_text({.columns = 256, .depth = 512}));
  const auto meetings = [&](const char* tile) {
    const auto kernel = build_case(
        region, small_target("h200"), *make_matmul_wgmma_kind(), bucket_of({{}}),
        ir::parse_schedule(fmt::format("matmul_wgmma {} stages=4 blocks=1 group=8 swap_ab=0 "
                                       "persistent=0 split=2",
                                       tile)));
    int count = 0;
    for (std::size_t at = 0;
         (at = kernel.ptx.find("barrier.cluster.wait", at)) != std::string::npos; ++at)
      ++count;
    return count;
  };
  EXPECT_EQ(meetings("bm=64 bn=16"), 2);
  EXPECT_EQ(meetings("bm=128 bn=256"), 2);
}

TEST(MatmulWgmma, WhatSplitsTheDepth) {
  const auto region = make_region(matmul_text({.columns = 256, .depth = 512}));
  const CudaTarget target = small_target("h200");
  const auto why = [&](const char* fields) {
    return make_matmul_wgmma_kind()
        ->misfit({.target = target, .region = region->region, .form = region->form},
                 ir::parse_schedule(fmt::format("matmul_wgmma {} blocks=1 group=8 swap_ab=0 "
                                                "persistent=0 split=2",
                                                fields)))
        .value_or("");
  };
  EXPECT_EQ(why("bm=128 bn=128 stages=3"), "");
  EXPECT_EQ(why("bm=128 bn=128 stages=2"),
            "sums of a split tile lie where its stages were: 69632 bytes, and 2 stages have 65536");
}

// Blocks of a cluster, one below the other, each bring their part of the columns to all of them.
TEST(MatmulWgmma, ClustersThatShareAnOperand) {
  for (const char* shape :
       {"bm=64 bn=32 stages=3 blocks=1 group=2 swap_ab=0 persistent=0 split=1 multicast_columns=2",
        "bm=64 bn=64 stages=2 blocks=1 group=1 swap_ab=0 persistent=1 split=1 multicast_columns=2",
        "bm=64 bn=32 stages=2 blocks=1 group=2 swap_ab=0 persistent=1 split=1 "
        "multicast_columns=4"}) {
    expect_right({.part = "h200",
                  .schedule = fmt::format("matmul_wgmma {}", shape),
                  .region = matmul_text(
                      {.columns = 72, .depth = 5 * 64 - 24, .epilogue = MatmulEpilogue::Residual}),
                  .shapes = rows({0, 1, 64, 65, 200}),
                  .capacity = {{"n", 200}},
                  .every_timing = true});
  }
  // The right operand as most exporters leave it, and a tile of 128 x 256.
  expect_right({.part = "h200",
                .schedule = "matmul_wgmma bm=64 bn=128 stages=2 blocks=1 group=2 swap_ab=0 "
                            "persistent=1 split=1 multicast_columns=2",
                .region = matmul_text({.columns = 200,
                                       .depth = 168,
                                       .columns_major = false,
                                       .epilogue = MatmulEpilogue::Bias}),
                .shapes = rows({65, 130})});
  expect_right(
      {.part = "h200",
       .schedule = "matmul_wgmma bm=128 bn=256 stages=2 blocks=1 group=2 swap_ab=0 persistent=0 "
                   "split=1 multicast_columns=2",
       .region = matmul_text({.columns = 264, .depth = 128, .epilogue = MatmulEpilogue::Residual}),
       .shapes = rows({130})});
}

// Blocks of a cluster, one beside the other, each bring their part of the rows to all of them; the
// last one may have no columns.
TEST(MatmulWgmma, ClustersThatShareRows) {
  for (const char* shape :
       {"bm=64 bn=32 stages=3 blocks=1 group=2 swap_ab=0 persistent=0 split=1 multicast_rows=2",
        "bm=128 bn=16 stages=2 blocks=1 group=1 swap_ab=0 persistent=1 split=1 multicast_rows=2 "
        "tma_store=4",
        "bm=64 bn=16 stages=2 blocks=1 group=2 swap_ab=0 persistent=1 split=1 multicast_rows=4"}) {
    expect_right({.part = "h200",
                  .schedule = fmt::format("matmul_wgmma {}", shape),
                  .region = matmul_text(
                      {.columns = 72, .depth = 5 * 64 - 24, .epilogue = MatmulEpilogue::Residual}),
                  .shapes = rows({0, 65, 200}),
                  .capacity = {{"n", 200}},
                  .every_timing = std::string_view(shape).ends_with("tma_store=4")});
  }
}

TEST(MatmulWgmma, WhatSharesAnOperand) {
  const auto region =
      make_region(matmul_text({.columns = 96, .depth = 128, .columns_major = false}));
  const CudaTarget target = small_target("h200");
  const PlanInputs inputs{.target = target, .region = region->region, .form = region->form};
  const auto kind = make_matmul_wgmma_kind();
  const auto fits = [&](const std::string& fields) {
    return !kind->misfit(inputs, ir::parse_schedule("matmul_wgmma " + fields));
  };
  EXPECT_TRUE(fits(
      "bm=64 bn=128 stages=2 blocks=1 group=2 swap_ab=0 persistent=0 split=1 multicast_columns=2"));
  // Half a box of 64 columns.
  EXPECT_FALSE(fits(
      "bm=64 bn=64 stages=2 blocks=1 group=2 swap_ab=0 persistent=0 split=1 multicast_columns=2"));
  // Two kinds of cluster.
  EXPECT_FALSE(fits(
      "bm=64 bn=128 stages=2 blocks=1 group=2 swap_ab=0 persistent=0 split=2 multicast_columns=2"));
  EXPECT_FALSE(fits(
      "bm=64 bn=128 stages=2 blocks=1 group=2 swap_ab=0 persistent=0 split=1 multicast_columns=3"));
  EXPECT_FALSE(fits(
      "bm=64 bn=64 stages=2 blocks=1 group=2 swap_ab=1 persistent=0 split=1 multicast_columns=2"));
  EXPECT_TRUE(fits(
      "bm=64 bn=64 stages=2 blocks=1 group=2 swap_ab=0 persistent=0 split=1 multicast_rows=2"));
  EXPECT_FALSE(fits(
      "bm=64 bn=64 stages=2 blocks=1 group=2 swap_ab=0 persistent=0 split=2 multicast_rows=2"));
  EXPECT_FALSE(fits(
      "bm=64 bn=128 stages=2 blocks=1 group=2 swap_ab=0 persistent=0 split=1 multicast_columns=2 "
      "multicast_rows=2"));  // one operand at a time
}

// Assembled without spills or remarks, as large products of an encoder would ask for it.
TEST(MatmulWgmma, MachineCodeOfClustersThatShareAnOperand) {
  for (
      const char* shape :
      {"bm=128 bn=128 stages=5 blocks=1 group=8 swap_ab=0 persistent=1 split=1 multicast_columns=2",
       "bm=128 bn=256 stages=3 blocks=1 group=8 swap_ab=0 persistent=1 split=1 multicast_columns=2",
       "bm=128 bn=192 stages=4 blocks=1 group=8 swap_ab=0 persistent=1 split=1 multicast_rows=2 "
       "tma_store=2"}) {
    const ir::CompiledKernel kernel =
        assembled_encoder_product(fmt::format("matmul_wgmma {}", shape));
    EXPECT_EQ(kernel.cuda().launches.front().cluster[0], 2) << shape;
  }
}

// Results leave by tensor memory access where 16 rows are whole; nothing behind the last row is
// written, whatever the map's capacity.
TEST(MatmulWgmma, ResultsThatLeaveAsBoxes) {
  struct Case {
    const char *fields, *result;
    std::int64_t columns;
    MatmulEpilogue epilogue;
  };
  for (const Case& one :
       {Case{"bm=64 bn=32 stages=3 blocks=1 group=2 swap_ab=0 persistent=1 split=1 tma_store=4",
             "f32", 72, MatmulEpilogue::Residual},
        Case{"bm=128 bn=48 stages=2 blocks=1 group=2 swap_ab=0 persistent=1 split=1 tma_store=4",
             "f32", 100, MatmulEpilogue::None},
        Case{"bm=64 bn=128 stages=2 blocks=1 group=2 swap_ab=0 persistent=0 split=1 tma_store=4",
             "f32", 264, MatmulEpilogue::Bias},
        Case{"bm=64 bn=64 stages=2 blocks=1 group=1 swap_ab=0 persistent=1 split=1 "
             "multicast_columns=2 "
             "tma_store=4",
             "f32", 72, MatmulEpilogue::Residual}}) {
    expect_right({.part = "h200",
                  .schedule = fmt::format("matmul_wgmma {}", one.fields),
                  .region = matmul_text({.columns = one.columns,
                                         .depth = 200,
                                         .result = one.result,
                                         .epilogue = one.epilogue}),
                  .shapes = rows({0, 15, 65, 200}),
                  .capacity = {{"n", 200}},
                  .every_timing = true});
  }
  // Sums of 16-bit results are rounded where they are stored.
  for (const char* result : {"bf16", "f16"}) {
    expect_right({.part = "h200",
                  .schedule = "matmul_wgmma bm=64 bn=64 stages=3 blocks=1 group=2 swap_ab=0 "
                              "persistent=1 split=1 tma_store=2",
                  .region = matmul_text({.columns = 200,
                                         .depth = 136,
                                         .dtype = result,
                                         .result = result,
                                         .epilogue = MatmulEpilogue::BiasGelu}),
                  .shapes = rows({17, 130}),
                  .capacity = {{"n", 150}},
                  .tolerance = 1e-2});
  }
}

TEST(MatmulWgmma, WhatLeavesAsBoxes) {
  const CudaTarget target = small_target("h200");
  const auto kind = make_matmul_wgmma_kind();
  const auto why = [&](const std::string& text, const std::string& fields) {
    const auto region = make_region(text);
    return kind
        ->misfit({.target = target, .region = region->region, .form = region->form},
                 ir::parse_schedule("matmul_wgmma " + fields))
        .value_or("");
  };
  const std::string tile = "bm=64 bn=64 stages=2 blocks=1 group=2 persistent=0 ";
  const std::string taken = matmul_text({.columns = 72, .depth = 64});
  EXPECT_EQ(why(taken, tile + "swap_ab=0 split=1 tma_store=4"), "");
  const auto reason = [](int bytes) {
    return fmt::format(
        "tma_store is 0 or {}, the bytes of an element of a result that boxes can hold, and 0 "
        "where swap_ab or split",
        bytes);
  };
  EXPECT_EQ(why(taken, tile + "swap_ab=0 split=1 tma_store=2"), reason(4));
  EXPECT_EQ(why(taken, tile + "swap_ab=1 split=1 tma_store=4"), reason(4));
  const std::string deep = matmul_text(
      {.columns = 72, .depth = 256, .result = "bf16", .epilogue = MatmulEpilogue::Bias});
  EXPECT_EQ(why(deep, tile + "swap_ab=0 split=1 tma_store=2"), "");
  EXPECT_EQ(why(deep, tile + "swap_ab=0 split=2 tma_store=2"), reason(2));
  // Rows of 284 bytes, and a result that lies transposed.
  EXPECT_EQ(why(matmul_text({.columns = 71, .depth = 64}), tile + "swap_ab=0 split=1 tma_store=4"),
            reason(0));
  EXPECT_EQ(why(R"(
fn @main(%x: Tensor[(n, 64), bf16], %w: Tensor[(64, 72), bf16]) -> Tensor[(72, n), bf16]
  where n in [0, 1000] {
  %p = matmul(%x, %w)
  %y = transpose(%p) {perm = (1, 0)}
  return %y
})",
                tile + "swap_ab=0 split=1 tma_store=2"),
            reason(0));
}

TEST(MatmulWgmma, Batches) {
  expect_right(
      {.part = "h200",
       .schedule =
           "matmul_wgmma bm=64 bn=32 stages=3 blocks=1 group=2 swap_ab=0 persistent=1 split=1",
       .region = R"(
fn @main(%x: Tensor[(b, 80, 64), bf16], %y: Tensor[(b, 40, 64), bf16]) -> Tensor[(b, 80, 40), f32]
  where b in [0, 100] {
  %left = cast(%x) {to = f32}
  %yt = transpose(%y) {perm = (0, 2, 1)}
  %right = cast(%yt) {to = f32}
  %z = matmul(%left, %right)
  return %z
})",
       .shapes = {{{"b", 0}}, {{"b", 1}}, {{"b", 3}}},
       .capacity = {{"b", 4}},
       .weights = {}});
}

// A right operand that a launch ahead may still write is not read before that has ended.
TEST(MatmulWgmma, OperandsThatAreNoWeights) {
  for (const char* shape : {"bm=64 bn=32 stages=3 blocks=1 group=2 swap_ab=0 persistent=1 split=1",
                            "bm=64 bn=16 stages=2 blocks=1 group=2 swap_ab=1 persistent=0 split=1"})
    expect_right(
        {.part = "h200",
         .schedule = fmt::format("matmul_wgmma {}", shape),
         .region = matmul_text({.columns = 72, .depth = 232, .epilogue = MatmulEpilogue::Residual}),
         .shapes = rows({0, 1, 65}),
         .weights = {}});
}

TEST(MatmulWgmma, CheckedForm) {
  expect_right(
      {.part = "h200",
       .schedule =
           "matmul_wgmma bm=128 bn=64 stages=2 blocks=1 group=2 swap_ab=0 persistent=1 split=1",
       .region = matmul_text({.columns = 128, .depth = 200, .epilogue = MatmulEpilogue::Bias}),
       .shapes = rows({1, 130}),
       .checked = true,
       .every_timing = true});
  expect_right(
      {.part = "h200",
       .schedule = "matmul_wgmma bm=64 bn=64 stages=2 blocks=1 group=2 swap_ab=0 persistent=1 "
                   "split=1 multicast_columns=2",
       .region = matmul_text({.columns = 128, .depth = 200, .epilogue = MatmulEpilogue::Bias}),
       .shapes = rows({1, 130}),
       .checked = true});
}

}  // namespace
}  // namespace anydim::codegen_cuda::testing
