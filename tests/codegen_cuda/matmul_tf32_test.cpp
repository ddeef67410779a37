// matmul_tf32 on the PTX interpreter: products of f32 numbers on tensor cores, where that is asked
// for.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "codegen_cuda/backend.h"
#include "codegen_cuda/matmul/matmul_kinds.h"
#include "ir/schedule.h"
#include "tests/codegen_cuda/kernel_case.h"
#include "tests/codegen_cuda/matmul_cases.h"

namespace anydim::codegen_cuda::testing {
namespace {

CudaTarget tf32_target(const std::string& part) {
  CudaTarget target = small_target(part);
  target.tf32 = true;
  return target;
}

MatmulText f32_text(MatmulText text) {
  text.dtype = "f32";
  return text;
}

void expect_right(const std::string& part, const std::string& shape, const std::string& text,
                  const std::vector<std::int64_t>& rows, const Symbols& capacity = {}) {
  SCOPED_TRACE(part + " " + shape + "\n" + text);
  const CudaTarget target = tf32_target(part);
  const KernelCase kernel = build_case(make_region(text), target, *make_matmul_tf32_kind(),
                                       bucket_of({{}}), ir::parse_schedule("matmul_tf32 " + shape));
  EXPECT_NE(kernel.ptx.find("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"),
            std::string::npos);
  const ptx::Module module = ptx::parse_ptx(kernel.ptx);
  for (const std::int64_t n : rows) {
    CaseOptions options;
    options.machine.architecture = target.architecture;
    options.capacity = capacity;
    EXPECT_EQ(check_case(kernel, module, {{"n", n}}, options), "") << n;
  }
}

TEST(MatmulTf32, DepthsAroundTheNumberOfStages) {
  for (const int tiles : {1, 2, 3, 7}) {
    expect_right(
        "a100", "bm=32 bn=32 bk=16 stages=3 down=2 across=1 group=2 split=1",
        matmul_text(f32_text(
            {.columns = 72, .depth = tiles * 16 - 4, .epilogue = MatmulEpilogue::Residual})),
        {0, 1, 33, 100});
  }
}

TEST(MatmulTf32, EveryOrderOfOperands) {
  for (const bool columns_major : {false, true}) {
    for (const bool left_transposed : {false, true}) {
      expect_right("a100", "bm=64 bn=64 bk=32 stages=2 down=2 across=2 group=2 split=1",
                   matmul_text(f32_text({.columns = 136,
                                         .depth = 72,
                                         .columns_major = columns_major,
                                         .left_transposed = left_transposed,
                                         .epilogue = MatmulEpilogue::Bias})),
                   {1, 64, 65});
    }
  }
}

TEST(MatmulTf32, ComputedOperands) {
  for (const bool columns_major : {false, true}) {
    expect_right("a100", "bm=32 bn=32 bk=8 stages=2 down=2 across=1 group=2 split=1",
                 matmul_text(f32_text({.columns = 35,
                                       .depth = 45,
                                       .columns_major = columns_major,
                                       .left_transposed = columns_major})),
                 {0, 1, 33});
  }
}

TEST(MatmulTf32, ClustersAndCapacity) {
  expect_right("h200", "bm=32 bn=32 bk=16 stages=2 down=2 across=1 group=1 split=1",
               matmul_text(f32_text({.columns = 64,
                                     .depth = 40,
                                     .columns_major = false,
                                     .epilogue = MatmulEpilogue::Residual})),
               {1, 40}, {{"n", 70}});
  expect_right(
      "h200", "bm=32 bn=32 bk=16 stages=2 down=2 across=1 group=2 split=2",
      matmul_text(f32_text({.columns = 64, .depth = 100, .epilogue = MatmulEpilogue::Bias})), {33});
}

// Operands have 10 bits of fraction: each product errs by at most 2^-10 of itself, and by less than
// a bit's cutting would.
TEST(MatmulTf32, OperandsAreRoundedToTheNearest) {
  const auto region = make_region(matmul_text(f32_text({.columns = 16, .depth = 8})));
  const KernelCase kernel = build_case(
      region, tf32_target("a100"), *make_matmul_tf32_kind(), bucket_of({{}}),
      ir::parse_schedule("matmul_tf32 bm=16 bn=16 bk=8 stages=2 down=1 across=1 group=1 split=1"));
  ir::Tensor x(ir::DType::F32, {4, 8}), w(ir::DType::F32, {16, 8});
  const double above = 1 + std::ldexp(1.5, -11), tie = 1 + std::ldexp(1.0, -11),
               below = 1 + std::ldexp(0.75, -11), exact = 1 + std::ldexp(1.0, -10);
  const double rows[] = {above, tie, below, exact};
  for (std::int64_t row = 0; row < 4; ++row) x.set_real(row * 8, rows[row]);
  for (std::int64_t column = 0; column < 16; ++column) w.set_real(column * 8, 1);
  const CaseRun run = run_case(kernel, ptx::parse_ptx(kernel.ptx), {{"n", 4}}, {x, w});
  EXPECT_EQ(run.findings, "");
  const double expected[] = {exact, exact, 1, exact};
  for (std::int64_t row = 0; row < 4; ++row)
    for (std::int64_t column = 0; column < 16; ++column)
      EXPECT_EQ(run.outputs[0].real_at(row * 16 + column), expected[row]) << row;
}

TEST(MatmulTf32, OnlyWhereItIsAskedFor) {
  const auto wide =
      make_region(matmul_text(f32_text({.columns = 384, .depth = 384, .columns_major = false})));
  const auto narrow = make_region(matmul_text({.columns = 384, .depth = 384}));
  const auto kind = make_matmul_tf32_kind();
  CudaTarget target = *target_named("h200");
  EXPECT_FALSE(kind->accepts({target, wide->region, wide->form}));
  const std::string plain = make_cuda_backend({.target = target})->target();
  target.tf32 = true;
  EXPECT_TRUE(kind->accepts({target, wide->region, wide->form}));
  EXPECT_FALSE(kind->accepts({target, narrow->region, narrow->form}));
  const auto backend = make_cuda_backend({.target = target});
  EXPECT_NE(backend->target(), plain);  // kernels of the one are not taken for the other's
  const ir::Bucket bucket = bucket_of({{513, 1024, 1}});
  const auto schedules = backend->candidates(wide->region, bucket);
  const std::vector<std::int64_t> keys{1024};
  const auto best = std::min_element(schedules.begin(), schedules.end(),
                                     [&](const ir::Schedule& a, const ir::Schedule& b) {
                                       return backend->estimate(wide->region, a, keys, 1) <
                                              backend->estimate(wide->region, b, keys, 1);
                                     });
  EXPECT_EQ(best->name, "matmul_tf32");
}

// As an encoder asks for it: no spills and no local memory.
TEST(MatmulTf32, MachineCode) {
  for (const char* part : {"a100", "h200"}) {
    CudaTarget target = *target_named(part);
    target.tf32 = true;
    const auto backend = make_cuda_backend({.target = target});
    for (const bool columns_major : {false, true}) {
      const auto region =
          make_region(matmul_text(f32_text({.columns = 1536,
                                            .depth = 384,
                                            .columns_major = columns_major,
                                            .epilogue = MatmulEpilogue::BiasGelu})));
      const ir::Bucket bucket = bucket_of({{257, 512, 1}});
      int compiled = 0;
      for (const ir::Schedule& schedule : backend->candidates(region->region, bucket)) {
        if (schedule.name != "matmul_tf32" || ++compiled > 2) continue;
        SCOPED_TRACE(to_string(schedule));
        const ir::CompiledKernel kernel = backend->compile(region->region, bucket, schedule);
        EXPECT_EQ(kernel.resources.spills, 0);
        EXPECT_EQ(kernel.resources.stack_bytes, 0);
        EXPECT_LE(kernel.cuda().launches.front().shared_bytes, target.shared_per_block);
      }
      EXPECT_GT(compiled, 0);
    }
  }
}

}  // namespace
}  // namespace anydim::codegen_cuda::testing
