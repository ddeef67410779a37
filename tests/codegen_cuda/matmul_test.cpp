// matmul_mma and matmul_simt on the PTX interpreter.
#include "tests/codegen_cuda/matmul_trial.h"

namespace anydim::codegen_cuda::testing {
namespace {

// ---- mma.sync ----

constexpr const char* small_mma =
    "matmul_mma bm=32 bn=32 bk=32 stages={} down=2 across=1 group=2 split=1";

TEST(MatmulMma, DepthsAroundTheNumberOfStages) {
  for (const int stages : {2, 4}) {
    for (const int tiles : {1, stages - 1, stages, 2 * stages + 1}) {
      expect_right(
          {.part = "a100",
           .schedule = fmt::format(fmt::runtime(small_mma), stages),
           .region = matmul_text(
               {.columns = 72, .depth = tiles * 32 - 8, .epilogue = MatmulEpilogue::Residual}),
           .shapes = rows({0, 1, 32, 33, 100})});
    }
  }
}

TEST(MatmulMma, EveryOrderOfOperands) {
  for (const bool columns_major : {false, true}) {
    for (const bool left_transposed : {false, true}) {
      for (const char* dtype : {"bf16", "f16"}) {
        expect_right(
            {.part = "a100",
             .schedule = "matmul_mma bm=64 bn=64 bk=32 stages=3 down=2 across=2 group=2 split=1",
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
  for (const char* shape :
       {"bm=16 bn=64 bk=64 stages=3 down=1 across=4", "bm=128 bn=96 bk=64 stages=2 down=4 across=2",
        "bm=32 bn=48 bk=16 stages=3 down=2 across=1",
        "bm=96 bn=64 bk=32 stages=3 down=2 across=2"}) {
    expect_right(
        {.part = "a100",
         .schedule = fmt::format("matmul_mma {} group=3 split=1", shape),
         .region = matmul_text({.columns = 200, .depth = 80, .epilogue = MatmulEpilogue::Residual}),
         .shapes = rows({17, 140}),
         .every_timing = true});
  }
}

// Rows that are no multiples of 16 bytes, conversions and gathers can't be copied: their elements
// are computed on the way.
TEST(MatmulMma, ComputedOperands) {
  const std::string schedule =
      "matmul_mma bm=32 bn=32 bk=32 stages=2 down=2 across=1 group=2 split=1";
  for (const bool columns_major : {false, true}) {
    expect_right({.part = "a100",
                  .schedule = schedule,
                  .region = matmul_text({.columns = 35,
                                         .depth = 45,
                                         .columns_major = columns_major,
                                         .left_transposed = columns_major}),
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
                .schedule = "matmul_mma bm=32 bn=32 bk=32 stages=3 down=2 across=1 group=2 split=1",
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

// Epilogues with functions, in the forms that models have.
TEST(MatmulMma, FunctionsInTheEpilogue) {
  expect_right(
      {.part = "a100",
       .schedule = "matmul_mma bm=32 bn=64 bk=32 stages=3 down=2 across=2 group=2 split=1",
       .region = matmul_text({.columns = 96, .depth = 64, .epilogue = MatmulEpilogue::BiasGelu}),
       .shapes = rows({33}),
       .tolerance = function_tolerance});
}

// The grid is a captured graph's; rows behind the actual ones hold NaN, and results there are
// written by nobody.
TEST(MatmulMma, CapacityLargerThanTheRows) {
  expect_right(
      {.part = "a100",
       .schedule = "matmul_mma bm=32 bn=32 bk=32 stages=3 down=2 across=1 group=2 split=1",
       .region = matmul_text({.columns = 64, .depth = 64, .epilogue = MatmulEpilogue::Residual}),
       .shapes = rows({0, 1, 33, 150}),
       .capacity = {{"n", 150}}});
}

TEST(MatmulMma, ClustersThatSplitTheDepth) {
  for (const int split : {2, 4}) {
    expect_right(
        {.part = "h200",
         .schedule = fmt::format(
             "matmul_mma bm=16 bn=64 bk=32 stages=3 down=1 across=2 group=2 split={}", split),
         .region =
             matmul_text({.columns = 136, .depth = 168, .epilogue = MatmulEpilogue::Residual}),
         .shapes = rows({0, 1, 17, 40}),
         .capacity = {{"n", 40}},
         .every_timing = true});
  }
}

// ---- ordinary arithmetic ----

TEST(MatmulSimt, EveryDtype) {
  for (const char* dtype : {"f32", "f64", "f16", "bf16", "i8", "i32", "i64", "u8", "u64"}) {
    expect_right(
        {.part = "a100",
         .schedule = "matmul_simt bm=32 bn=32 bk=16 tm=4 tn=4 group=2",
         .region = matmul_text({.columns = 40, .depth = 21, .dtype = dtype, .result = dtype}),
         .shapes = rows({0, 1, 33})});
  }
}

TEST(MatmulSimt, ShapesAndOrders) {
  for (const char* shape : {"bm=64 bn=64 bk=16 tm=8 tn=4", "bm=128 bn=64 bk=8 tm=8 tn=8",
                            "bm=16 bn=32 bk=16 tm=2 tn=4"}) {
    for (const bool columns_major : {false, true}) {
      for (const std::int64_t depth : {0, 5, 64}) {
        expect_right({.part = "a100",
                      .schedule = fmt::format("matmul_simt {} group=2", shape),
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

}  // namespace
}  // namespace anydim::codegen_cuda::testing
