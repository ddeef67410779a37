// matmul_mma, matmul_wgmma and matmul_simt on the PTX interpreter: small integers, so that results agree bit for bit.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "codegen_cuda/backend.h"
#include "codegen_cuda/matmul_skeletons.h"
#include "ir/schedule.h"
#include "tests/codegen_cuda/kernel_case.h"
#include "tests/codegen_cuda/matmul_cases.h"
#include "tests/support/region_cases.h"

namespace anydim::codegen_cuda::testing {
namespace {

constexpr double function_tolerance = 1e-5;  // of epilogues with functions, on reals

std::unique_ptr<Skeleton> skeleton_of(const ir::Schedule& schedule) {
  if (schedule.name == "matmul_mma") return make_matmul_mma_skeleton();
  if (schedule.name == "matmul_wgmma") return make_matmul_wgmma_skeleton();
  return make_matmul_simt_skeleton();
}

struct Trial {
  std::string part, schedule, region;
  std::vector<Symbols> shapes;
  Symbols capacity{};
  double tolerance = 0;
  bool checked = false;
  bool every_timing = false;
  std::vector<ir::BucketInterval> bucket{{}};
};

void expect_right(const Trial& trial) {
  SCOPED_TRACE(trial.part + " " + trial.schedule + "\n" + trial.region);
  const ir::Schedule schedule = ir::parse_schedule(trial.schedule);
  const CudaTarget target = small_target(trial.part);
  const KernelCase kernel =
      build_case(make_region(trial.region), target, *skeleton_of(schedule), bucket_of(trial.bucket), schedule, trial.checked);
  const ptx::Module module = ptx::parse_ptx(kernel.ptx);
  std::vector<ptx::Timing> timings{ptx::Timing::ResultsLate};
  if (trial.every_timing) timings = {ptx::Timing::ResultsLate, ptx::Timing::OperandsLate, ptx::Timing::Random};
  for (const ptx::Timing timing : timings) {
    for (const Symbols& symbols : trial.shapes) {
      CaseOptions options;
      options.machine.architecture = target.architecture;
      options.machine.timing = timing;
      options.capacity = trial.capacity;
      std::string at;
      for (const auto& [name, value] : symbols) at += fmt::format(" {}={}", name, value);
      EXPECT_EQ(check_case(kernel, module, symbols, options, trial.tolerance), "") << "at" << at << ", timing " << static_cast<int>(timing);
    }
  }
}

std::vector<Symbols> rows(const std::vector<std::int64_t>& values) {
  std::vector<Symbols> result;
  for (const std::int64_t value : values) result.push_back({{"n", value}});
  return result;
}

// ---- The corpus ----

class CudaProducts : public ::testing::TestWithParam<std::string> {};

TEST_P(CudaProducts, AgreeWithTheReference) {
  const tests::RegionCase& one = tests::region_case(GetParam());
  const auto region = make_region(one.text);
  const CudaTarget target = small_target("h200");
  const std::vector<ir::Schedule> schedules =
      make_matmul_simt_skeleton()->candidates({.target = target, .region = region->region, .form = region->form}, {});
  ASSERT_FALSE(schedules.empty());
  expect_right({.part = "h200", .schedule = to_string(schedules.front()), .region = one.text, .shapes = one.few_shapes(), .bucket = {}});
}

INSTANTIATE_TEST_SUITE_P(Corpus, CudaProducts, ::testing::ValuesIn(tests::product_case_names()),
                         [](const auto& tested) { return tested.param; });

// ---- mma.sync ----

constexpr const char* small_mma = "matmul_mma bm=32 bn=32 bk=32 stages={} down=2 across=1 group=2 whole=0 split=1";

TEST(MatmulMma, DepthsAroundTheNumberOfStages) {
  for (const int stages : {2, 4}) {
    for (const int tiles : {1, stages - 1, stages, 2 * stages + 1}) {
      expect_right({.part = "a100",
                    .schedule = fmt::format(fmt::runtime(small_mma), stages),
                    .region = matmul_text({.columns = 72, .depth = tiles * 32 - 8, .epilogue = MatmulEpilogue::Residual}),
                    .shapes = rows({0, 1, 32, 33, 100})});
    }
  }
}

TEST(MatmulMma, EveryOrderOfOperands) {
  for (const bool columns_major : {false, true}) {
    for (const bool left_transposed : {false, true}) {
      for (const char* dtype : {"bf16", "f16"}) {
        expect_right({.part = "a100",
                      .schedule = "matmul_mma bm=64 bn=64 bk=32 stages=3 down=2 across=2 group=2 whole=0 split=1",
                      .region = matmul_text({.columns = 136,
                                             .depth = 72,
                                             .dtype = dtype,
                                             .columns_major = columns_major,
                                             .left_transposed = left_transposed,
                                             .epilogue = MatmulEpilogue::Bias}),
                      .shapes = rows({1, 64, 65})});
      }
    }
  }
}

TEST(MatmulMma, WarpsAndTilesOfEveryShape) {
  for (const char* shape : {"bm=16 bn=64 bk=64 stages=3 down=1 across=4", "bm=128 bn=96 bk=64 stages=2 down=4 across=2",
                            "bm=32 bn=48 bk=16 stages=3 down=2 across=1", "bm=96 bn=64 bk=32 stages=3 down=2 across=2"}) {
    expect_right({.part = "a100",
                  .schedule = fmt::format("matmul_mma {} group=3 whole=0 split=1", shape),
                  .region = matmul_text({.columns = 200, .depth = 80, .epilogue = MatmulEpilogue::Residual}),
                  .shapes = rows({17, 140}),
                  .every_timing = true});
  }
}

// Rows that are no multiples of 16 bytes, conversions and gathers can't be copied: their elements are computed on the way.
TEST(MatmulMma, ComputedOperands) {
  const std::string schedule = "matmul_mma bm=32 bn=32 bk=32 stages=2 down=2 across=1 group=2 whole=0 split=1";
  for (const bool columns_major : {false, true}) {
    expect_right({.part = "a100",
                  .schedule = schedule,
                  .region = matmul_text({.columns = 35, .depth = 45, .columns_major = columns_major, .left_transposed = columns_major}),
                  .shapes = rows({0, 1, 33, 70})});
  }
  expect_right({.part = "a100",
                .schedule = schedule,
                .region = R"(
fn @main(%table: Tensor[(50, 48), f32], %id: Tensor[(n), i64], %w: Tensor[(48, 40), bf16]) -> Tensor[(n, 40), f32]
  where n in [0, 1000] {
  %rows = gather(%table, %id) {axis = 0}
  %narrow = cast(%rows) {to = bf16}
  %left = cast(%narrow) {to = f32}
  %right = cast(%w) {to = f32}
  %y = matmul(%left, %right)
  return %y
})",
                .shapes = rows({1, 40})});
}

TEST(MatmulMma, Batches) {
  expect_right({.part = "a100",
                .schedule = "matmul_mma bm=32 bn=32 bk=32 stages=3 down=2 across=1 group=2 whole=0 split=1",
                .region = R"(
fn @main(%x: Tensor[(b, n, 24), bf16], %y: Tensor[(b, 24, 40), bf16]) -> Tensor[(b, n, 40), f32]
  where b in [0, 100], n in [0, 1000] {
  %left = cast(%x) {to = f32}
  %right = cast(%y) {to = f32}
  %z = matmul(%left, %right)
  return %z
})",
                .shapes = {{{"b", 0}, {"n", 5}}, {{"b", 1}, {"n", 33}}, {{"b", 5}, {"n", 40}}},
                .bucket = {{}, {}}});
}

TEST(MatmulMma, RowStages) {
  for (const int whole : {0, 1}) {
    for (const std::int64_t columns : {96, 90}) {
      expect_right({.part = "a100",
                    .schedule = fmt::format("matmul_mma bm=32 bn=32 bk=32 stages=3 down=2 across=1 group=2 whole={} split=1", whole),
                    .region = matmul_text({.columns = columns, .depth = 64, .epilogue = MatmulEpilogue::LayerNorm}),
                    .shapes = rows({0, 1, 32, 33, 70}),
                    .tolerance = 1e-4});
    }
  }
}

// The same of the widths that models have.
TEST(MatmulMma, RowStagesInAClusterOfModelsWidths) {
  for (const auto& [shape, columns] :
       {std::pair{"bm=32 bn=48 bk=32 stages=2 down=2 across=1", 384}, {"bm=16 bn=128 bk=32 stages=2 down=1 across=4", 768}}) {
    expect_right({.part = "h200",
                  .schedule = fmt::format("matmul_mma {} group=1 whole=2 split=1", shape),
                  .region = matmul_text({.columns = columns, .depth = 96, .epilogue = MatmulEpilogue::LayerNorm}),
                  .shapes = rows({35}),
                  .capacity = {{"n", 40}},
                  .tolerance = 1e-4});
  }
}

// Rows that a cluster of blocks holds together: the last block's columns may end early.
TEST(MatmulMma, RowStagesInAClusterOfBlocks) {
  for (const char* shape : {"bm=32 bn=32 bk=32 stages=3 down=2 across=1", "bm=16 bn=64 bk=32 stages=2 down=1 across=4"}) {
    expect_right({.part = "h200",
                  .schedule = fmt::format("matmul_mma {} group=1 whole=2 split=1", shape),
                  .region = matmul_text({.columns = 90, .depth = 64, .epilogue = MatmulEpilogue::LayerNorm}),
                  .shapes = rows({0, 1, 17, 40}),
                  .capacity = {{"n", 40}},
                  .tolerance = 1e-4,
                  .every_timing = true});
  }
}

// Epilogues with functions, in the forms that models have.
TEST(MatmulMma, FunctionsInTheEpilogue) {
  expect_right({.part = "a100",
                .schedule = "matmul_mma bm=32 bn=64 bk=32 stages=3 down=2 across=2 group=2 whole=0 split=1",
                .region = matmul_text({.columns = 96, .depth = 64, .epilogue = MatmulEpilogue::BiasGelu}),
                .shapes = rows({33}),
                .tolerance = function_tolerance});
}

// The grid is a captured graph's; rows behind the actual ones hold NaN, and results there are written by nobody.
TEST(MatmulMma, CapacityLargerThanTheRows) {
  expect_right({.part = "a100",
                .schedule = "matmul_mma bm=32 bn=32 bk=32 stages=3 down=2 across=1 group=2 whole=0 split=1",
                .region = matmul_text({.columns = 64, .depth = 64, .epilogue = MatmulEpilogue::LayerNorm}),
                .shapes = rows({0, 1, 33, 150}),
                .capacity = {{"n", 150}},
                .tolerance = 1e-4});
}

TEST(MatmulMma, ClustersThatSplitTheDepth) {
  for (const int split : {2, 4}) {
    expect_right({.part = "h200",
                  .schedule = fmt::format("matmul_mma bm=16 bn=64 bk=32 stages=3 down=1 across=2 group=2 whole=0 split={}", split),
                  .region = matmul_text({.columns = 136, .depth = 168, .epilogue = MatmulEpilogue::Residual}),
                  .shapes = rows({0, 1, 17, 40}),
                  .capacity = {{"n", 40}},
                  .every_timing = true});
  }
}

// ---- wgmma ----

TEST(MatmulWgmma, DepthsAroundTheNumberOfStages) {
  constexpr int stages = 3;
  for (const int tiles : {1, stages - 1, stages, 2 * stages + 1}) {
    expect_right({.part = "h200",
                  .schedule = fmt::format("matmul_wgmma bm=64 bn=32 stages={} blocks=1 group=2 swap=0 persistent=1 split=1", stages),
                  .region = matmul_text({.columns = 72, .depth = tiles * 64 - 24, .epilogue = MatmulEpilogue::Residual}),
                  .shapes = rows({0, 1, 64, 65, 200}),
                  .every_timing = tiles == stages});
  }
}

TEST(MatmulWgmma, TilesOfEveryWidth) {
  for (const char* shape : {"bm=64 bn=16 stages=4 blocks=2", "bm=128 bn=48 stages=2 blocks=1", "bm=64 bn=112 stages=3 blocks=2",
                            "bm=128 bn=256 stages=2 blocks=1", "bm=64 bn=192 stages=2 blocks=2"}) {
    expect_right({.part = "h200",
                  .schedule = fmt::format("matmul_wgmma {} group=2 swap=0 persistent=1 split=1", shape),
                  .region = matmul_text({.columns = 264, .depth = 128, .epilogue = MatmulEpilogue::Bias}),
                  .shapes = rows({63, 130})});
  }
}

TEST(MatmulWgmma, SwappedForFewRows) {
  for (const int columns : {16, 64}) {
    expect_right({.part = "h200",
                  .schedule = fmt::format("matmul_wgmma bm=64 bn={} stages=3 blocks=1 group=2 swap=1 persistent={} split=1", columns,
                                          columns == 64 ? 1 : 0),
                  .region = matmul_text({.columns = 136, .depth = 192, .dtype = "f16", .epilogue = MatmulEpilogue::Residual}),
                  .shapes = rows({0, 1, 16, 17, 70})});
  }
}

// The right operand as most exporters leave it: depth x columns, 64 columns side by side in a box.
TEST(MatmulWgmma, RightOperandByRows) {
  for (const char* shape : {"bm=64 bn=64 stages=2 blocks=1 group=2 swap=0 persistent=1 split=1",
                            "bm=128 bn=192 stages=2 blocks=1 group=2 swap=0 persistent=0 split=1",
                            "bm=64 bn=32 stages=3 blocks=1 group=2 swap=1 persistent=1 split=1",
                            "bm=64 bn=128 stages=2 blocks=1 group=2 swap=0 persistent=0 split=2"}) {
    expect_right({.part = "h200",
                  .schedule = fmt::format("matmul_wgmma {}", shape),
                  .region = matmul_text({.columns = 200, .depth = 168, .columns_major = false, .epilogue = MatmulEpilogue::Residual}),
                  .shapes = rows({1, 65, 130}),
                  .capacity = {{"n", 130}}});
  }
}

TEST(MatmulWgmma, CapacityLargerThanTheRows) {
  for (const int swap : {0, 1}) {
    expect_right({.part = "h200",
                  .schedule = fmt::format("matmul_wgmma bm=64 bn=32 stages=3 blocks=1 group=2 swap={} persistent=1 split=1", swap),
                  .region = matmul_text({.columns = 96, .depth = 128, .epilogue = MatmulEpilogue::LayerNorm}),
                  .shapes = rows({0, 1, 33, 200}),
                  .capacity = {{"n", 200}},
                  .tolerance = 1e-4});
  }
}

TEST(MatmulWgmma, ClustersThatSplitTheDepth) {
  for (const char* shape : {"bm=64 bn=16 stages=3 blocks=1 group=2 swap=1 persistent=0 split=2",
                            "bm=64 bn=64 stages=2 blocks=1 group=2 swap=0 persistent=0 split=4"}) {
    expect_right({.part = "h200",
                  .schedule = fmt::format("matmul_wgmma {}", shape),
                  .region = matmul_text({.columns = 72, .depth = 424, .epilogue = MatmulEpilogue::Residual}),
                  .shapes = rows({0, 1, 17, 65}),
                  .every_timing = true});
  }
}

// Blocks of a cluster, one below the other, each bring their part of the columns to all of them.
TEST(MatmulWgmma, ClustersThatShareAnOperand) {
  for (const char* shape : {"bm=64 bn=32 stages=3 blocks=1 group=2 swap=0 persistent=0 split=1 multicast=2",
                            "bm=64 bn=64 stages=2 blocks=1 group=1 swap=0 persistent=1 split=1 multicast=2",
                            "bm=64 bn=32 stages=2 blocks=1 group=2 swap=0 persistent=1 split=1 multicast=4"}) {
    expect_right({.part = "h200",
                  .schedule = fmt::format("matmul_wgmma {}", shape),
                  .region = matmul_text({.columns = 72, .depth = 5 * 64 - 24, .epilogue = MatmulEpilogue::Residual}),
                  .shapes = rows({0, 1, 64, 65, 200}),
                  .capacity = {{"n", 200}},
                  .every_timing = true});
  }
  // The right operand as most exporters leave it, and a tile of 128 x 256.
  expect_right({.part = "h200",
                .schedule = "matmul_wgmma bm=64 bn=128 stages=2 blocks=1 group=2 swap=0 persistent=1 split=1 multicast=2",
                .region = matmul_text({.columns = 200, .depth = 168, .columns_major = false, .epilogue = MatmulEpilogue::Bias}),
                .shapes = rows({65, 130})});
  expect_right({.part = "h200",
                .schedule = "matmul_wgmma bm=128 bn=256 stages=2 blocks=1 group=2 swap=0 persistent=0 split=1 multicast=2",
                .region = matmul_text({.columns = 264, .depth = 128, .epilogue = MatmulEpilogue::LayerNorm}),
                .shapes = rows({130}),
                .tolerance = 1e-4});
}

// Blocks of a cluster, one beside the other, each bring their part of the rows to all of them; the last one may have no columns.
TEST(MatmulWgmma, ClustersThatShareRows) {
  for (const char* shape : {"bm=64 bn=32 stages=3 blocks=1 group=2 swap=0 persistent=0 split=1 beside=2",
                            "bm=128 bn=16 stages=2 blocks=1 group=1 swap=0 persistent=1 split=1 beside=2 boxed=4",
                            "bm=64 bn=16 stages=2 blocks=1 group=2 swap=0 persistent=1 split=1 beside=4"}) {
    expect_right({.part = "h200",
                  .schedule = fmt::format("matmul_wgmma {}", shape),
                  .region = matmul_text({.columns = 72, .depth = 5 * 64 - 24, .epilogue = MatmulEpilogue::Residual}),
                  .shapes = rows({0, 65, 200}),
                  .capacity = {{"n", 200}},
                  .every_timing = std::string_view(shape).ends_with("boxed=4")});
  }
}

// Row stages in a cluster whose blocks, beside each other, hold whole rows: of MiniLM's and BERT-base's widths, rows that are no multiple of the tile.
TEST(MatmulWgmma, RowStagesInAClusterOfBlocks) {
  struct Case {
    const char* shape;
    std::int64_t columns;
    std::vector<std::int64_t> sizes;
    bool every_timing;
  };
  for (const Case& one :
       {Case{"bm=64 bn=32 stages=3 blocks=1", 90, {0, 1, 65, 130}, true}, Case{"bm=64 bn=48 stages=2 blocks=1", 384, {70}, false},
        Case{"bm=128 bn=128 stages=2 blocks=1", 384, {33}, false}, Case{"bm=64 bn=96 stages=2 blocks=1", 768, {3}, false}}) {
    expect_right({.part = "h200",
                  .schedule = fmt::format("matmul_wgmma {} group=1 swap=0 persistent=0 split=1 whole=2", one.shape),
                  .region = matmul_text({.columns = one.columns, .depth = 128, .epilogue = MatmulEpilogue::LayerNorm}),
                  .shapes = rows(one.sizes),
                  .capacity = {{"n", 130}},
                  .tolerance = 1e-4,
                  .every_timing = one.every_timing});
  }
}

TEST(MatmulWgmma, WhatHoldsWholeRows) {
  const CudaTarget target = small_target("h200");
  const auto skeleton = make_matmul_wgmma_skeleton();
  const auto fits = [&](MatmulEpilogue epilogue, const std::string& fields) {
    const auto region = make_region(matmul_text({.columns = 768, .depth = 768, .epilogue = epilogue}));
    const PlanInputs inputs{.target = target, .region = region->region, .form = region->form};
    return !skeleton->misfit(inputs, ir::parse_schedule("matmul_wgmma stages=2 blocks=1 swap=0 " + fields));
  };
  EXPECT_TRUE(fits(MatmulEpilogue::LayerNorm, "bm=64 bn=96 group=1 persistent=0 split=1 whole=2"));
  EXPECT_FALSE(fits(MatmulEpilogue::Residual, "bm=64 bn=96 group=1 persistent=0 split=1 whole=2"));   // no stages
  EXPECT_FALSE(fits(MatmulEpilogue::LayerNorm, "bm=64 bn=80 group=1 persistent=0 split=1 whole=2"));  // ten blocks
  EXPECT_FALSE(fits(MatmulEpilogue::LayerNorm, "bm=64 bn=96 group=8 persistent=0 split=1 whole=2"));  // tiles below each other come first
  EXPECT_FALSE(fits(MatmulEpilogue::LayerNorm, "bm=64 bn=96 group=1 persistent=1 split=1 whole=2"));
  EXPECT_FALSE(fits(MatmulEpilogue::LayerNorm, "bm=64 bn=96 group=1 persistent=0 split=2 whole=2"));
  EXPECT_FALSE(fits(MatmulEpilogue::LayerNorm, "bm=128 bn=256 group=1 persistent=0 split=1 whole=2"));  // registers would be traded
}

TEST(MatmulWgmma, WhatSharesAnOperand) {
  const auto region = make_region(matmul_text({.columns = 96, .depth = 128, .columns_major = false}));
  const CudaTarget target = small_target("h200");
  const PlanInputs inputs{.target = target, .region = region->region, .form = region->form};
  const auto skeleton = make_matmul_wgmma_skeleton();
  const auto fits = [&](const std::string& fields) { return !skeleton->misfit(inputs, ir::parse_schedule("matmul_wgmma " + fields)); };
  EXPECT_TRUE(fits("bm=64 bn=128 stages=2 blocks=1 group=2 swap=0 persistent=0 split=1 multicast=2"));
  EXPECT_FALSE(fits("bm=64 bn=64 stages=2 blocks=1 group=2 swap=0 persistent=0 split=1 multicast=2"));   // half a box of 64 columns
  EXPECT_FALSE(fits("bm=64 bn=128 stages=2 blocks=1 group=2 swap=0 persistent=0 split=2 multicast=2"));  // two kinds of cluster
  EXPECT_FALSE(fits("bm=64 bn=128 stages=2 blocks=1 group=2 swap=0 persistent=0 split=1 multicast=3"));
  EXPECT_FALSE(fits("bm=64 bn=64 stages=2 blocks=1 group=2 swap=1 persistent=0 split=1 multicast=2"));
  EXPECT_TRUE(fits("bm=64 bn=64 stages=2 blocks=1 group=2 swap=0 persistent=0 split=1 beside=2"));
  EXPECT_FALSE(fits("bm=64 bn=64 stages=2 blocks=1 group=2 swap=0 persistent=0 split=2 beside=2"));
  EXPECT_FALSE(fits("bm=64 bn=128 stages=2 blocks=1 group=2 swap=0 persistent=0 split=1 multicast=2 beside=2"));  // one operand at a time
}

// Assembled without spills or remarks (compile() throws at one), as large products of an encoder would ask for it.
TEST(MatmulWgmma, MachineCodeOfClustersThatShareAnOperand) {
  const auto region =
      make_region(matmul_text({.columns = 1536, .depth = 384, .dtype = "bf16", .result = "bf16", .epilogue = MatmulEpilogue::BiasGelu}));
  const auto backend = make_cuda_backend({.target = *target_named("h200")});
  for (const char* shape : {"bm=128 bn=128 stages=5 blocks=1 group=8 swap=0 persistent=1 split=1 multicast=2",
                            "bm=128 bn=256 stages=3 blocks=1 group=8 swap=0 persistent=1 split=1 multicast=2",
                            "bm=128 bn=192 stages=4 blocks=1 group=8 swap=0 persistent=1 split=1 beside=2 boxed=2"}) {
    const ir::Schedule schedule = ir::parse_schedule(fmt::format("matmul_wgmma {}", shape));
    const ir::CompiledKernel kernel = backend->compile(region->region, bucket_of({{1, 8192, 1}}), schedule);
    EXPECT_EQ(kernel.resources.spills, 0) << shape;
    EXPECT_EQ(kernel.resources.stack_bytes, 0) << shape;
    EXPECT_EQ(kernel.cuda().launches.front().cluster[0], 2) << shape;
  }
}

// Results leave by tensor memory access where 16 rows are whole; nothing behind the last row is written, whatever the map's capacity.
TEST(MatmulWgmma, ResultsThatLeaveAsBoxes) {
  struct Case {
    const char *fields, *result;
    std::int64_t columns;
    MatmulEpilogue epilogue;
  };
  for (const Case& one :
       {Case{"bm=64 bn=32 stages=3 blocks=1 group=2 swap=0 persistent=1 split=1 boxed=4", "f32", 72, MatmulEpilogue::Residual},
        Case{"bm=128 bn=48 stages=2 blocks=1 group=2 swap=0 persistent=1 split=1 boxed=4", "f32", 100, MatmulEpilogue::None},
        Case{"bm=64 bn=128 stages=2 blocks=1 group=2 swap=0 persistent=0 split=1 boxed=4", "f32", 264, MatmulEpilogue::Bias},
        Case{"bm=64 bn=64 stages=2 blocks=1 group=1 swap=0 persistent=1 split=1 multicast=2 boxed=4", "f32", 72,
             MatmulEpilogue::Residual}}) {
    expect_right({.part = "h200",
                  .schedule = fmt::format("matmul_wgmma {}", one.fields),
                  .region = matmul_text({.columns = one.columns, .depth = 200, .result = one.result, .epilogue = one.epilogue}),
                  .shapes = rows({0, 15, 65, 200}),
                  .capacity = {{"n", 200}},
                  .every_timing = true});
  }
  // Sums of 16-bit results are rounded where they are stored.
  for (const char* result : {"bf16", "f16"}) {
    expect_right(
        {.part = "h200",
         .schedule = "matmul_wgmma bm=64 bn=64 stages=3 blocks=1 group=2 swap=0 persistent=1 split=1 boxed=2",
         .region = matmul_text({.columns = 200, .depth = 136, .dtype = result, .result = result, .epilogue = MatmulEpilogue::BiasGelu}),
         .shapes = rows({17, 130}),
         .capacity = {{"n", 150}},
         .tolerance = 1e-2});
  }
}

TEST(MatmulWgmma, WhatLeavesAsBoxes) {
  const CudaTarget target = small_target("h200");
  const auto skeleton = make_matmul_wgmma_skeleton();
  const auto why = [&](const std::string& text, const std::string& fields) {
    const auto region = make_region(text);
    return skeleton
        ->misfit({.target = target, .region = region->region, .form = region->form}, ir::parse_schedule("matmul_wgmma " + fields))
        .value_or("");
  };
  const std::string tile = "bm=64 bn=64 stages=2 blocks=1 group=2 persistent=0 ";
  const std::string taken = matmul_text({.columns = 72, .depth = 64});
  EXPECT_EQ(why(taken, tile + "swap=0 split=1 boxed=4"), "");
  const auto reason = [](int bytes) {
    return fmt::format("boxed is 0 or {}, the bytes of an element of a result that boxes can hold, and 0 where swapped or split", bytes);
  };
  EXPECT_EQ(why(taken, tile + "swap=0 split=1 boxed=2"), reason(4));
  EXPECT_EQ(why(taken, tile + "swap=1 split=1 boxed=4"), reason(4));
  const std::string deep = matmul_text({.columns = 72, .depth = 256, .result = "bf16", .epilogue = MatmulEpilogue::Bias});
  EXPECT_EQ(why(deep, tile + "swap=0 split=1 boxed=2"), "");
  EXPECT_EQ(why(deep, tile + "swap=0 split=2 boxed=2"), reason(2));
  // Rows of 284 bytes; row stages, which store what they compute; and a result that lies transposed.
  EXPECT_EQ(why(matmul_text({.columns = 71, .depth = 64}), tile + "swap=0 split=1 boxed=4"), reason(0));
  EXPECT_EQ(why(matmul_text({.columns = 72, .depth = 64, .epilogue = MatmulEpilogue::LayerNorm}), tile + "swap=0 split=1 boxed=4"),
            reason(0));
  EXPECT_EQ(why(R"(
fn @main(%x: Tensor[(n, 64), bf16], %w: Tensor[(64, 72), bf16]) -> Tensor[(72, n), bf16]
  where n in [0, 1000] {
  %p = matmul(%x, %w)
  %y = transpose(%p) {perm = (1, 0)}
  return %y
})",
                tile + "swap=0 split=1 boxed=2"),
            reason(0));
}

TEST(MatmulWgmma, Batches) {
  expect_right({.part = "h200",
                .schedule = "matmul_wgmma bm=64 bn=32 stages=3 blocks=1 group=2 swap=0 persistent=1 split=1",
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
                .capacity = {{"b", 4}}});
}

TEST(MatmulWgmma, CheckedTwin) {
  expect_right({.part = "h200",
                .schedule = "matmul_wgmma bm=128 bn=64 stages=2 blocks=1 group=2 swap=0 persistent=1 split=1",
                .region = matmul_text({.columns = 128, .depth = 200, .epilogue = MatmulEpilogue::Bias}),
                .shapes = rows({1, 130}),
                .checked = true,
                .every_timing = true});
  expect_right({.part = "h200",
                .schedule = "matmul_wgmma bm=64 bn=64 stages=2 blocks=1 group=2 swap=0 persistent=1 split=1 multicast=2",
                .region = matmul_text({.columns = 128, .depth = 200, .epilogue = MatmulEpilogue::Bias}),
                .shapes = rows({1, 130}),
                .checked = true});
}

// ---- ordinary arithmetic ----

TEST(MatmulSimt, EveryDtype) {
  for (const char* dtype : {"f32", "f64", "f16", "bf16", "i8", "i32", "i64", "u8", "u64"}) {
    expect_right({.part = "a100",
                  .schedule = "matmul_simt bm=32 bn=32 bk=16 tm=4 tn=4 group=2 whole=0",
                  .region = matmul_text({.columns = 40, .depth = 21, .dtype = dtype, .result = dtype}),
                  .shapes = rows({0, 1, 33})});
  }
}

TEST(MatmulSimt, ShapesAndOrders) {
  for (const char* shape : {"bm=64 bn=64 bk=16 tm=8 tn=4", "bm=128 bn=64 bk=8 tm=8 tn=8", "bm=16 bn=32 bk=16 tm=2 tn=4"}) {
    for (const bool columns_major : {false, true}) {
      for (const std::int64_t depth : {0, 5, 64}) {
        expect_right({.part = "a100",
                      .schedule = fmt::format("matmul_simt {} group=2 whole=0", shape),
                      .region = matmul_text({.columns = 70,
                                             .depth = depth,
                                             .dtype = "f32",
                                             .columns_major = columns_major,
                                             .left_transposed = columns_major,
                                             .epilogue = MatmulEpilogue::Residual}),
                      .shapes = rows({1, 65})});
      }
    }
  }
}

TEST(MatmulSimt, RowStages) {
  for (const int whole : {0, 1}) {
    expect_right({.part = "h200",
                  .schedule = fmt::format("matmul_simt bm=16 bn=32 bk=16 tm=2 tn=4 group=2 whole={}", whole),
                  .region = matmul_text({.columns = 66, .depth = 40, .dtype = "f32", .epilogue = MatmulEpilogue::LayerNorm}),
                  .shapes = rows({0, 1, 17, 40}),
                  .tolerance = 1e-4});
  }
}

}  // namespace
}  // namespace anydim::codegen_cuda::testing
