#include "codegen_cuda/compile.h"

#include <gtest/gtest.h>

#include "codegen_cuda/backend.h"
#include "ir/error.h"
#include "tests/codegen_cuda/kernel_case.h"
#include "tests/support/elementwise_cases.h"

namespace anydim::codegen_cuda::testing {
namespace {

TEST(Compile, ReadsTheAssemblersReport) {
  const ir::KernelResources resources = resources_in(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'a' for 'sm_90a'\n"
      "    16 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 40 registers, used 1 barriers, 16 bytes cumulative stack size, 4224 "
      "bytes smem\n"
      "ptxas info    : Compiling entry function 'b' for 'sm_90a'\n"
      "    0 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n"
      "ptxas info    : Used 128 registers, used 1 barriers\n");
  EXPECT_EQ(resources.registers, 128);
  EXPECT_EQ(resources.stack_bytes, 16);
  EXPECT_EQ(resources.shared_bytes, 4224);
  EXPECT_EQ(resources.spills, 20);
}

TEST(Compile, KeepsRemarksOnPerformance) {
  const std::string remark =
      "ptxas info : (C7510) Potential Performance Loss: wgmma.mma_async "
      "instructions are serialized\n";
  EXPECT_EQ(resources_in("ptxas info    : Used 40 registers\n" + remark).remarks, remark);
  EXPECT_EQ(resources_in("ptxas info    : Used 40 registers\n").remarks, "");
}

// Products whose sums are read while they are under way: right, and serialised.
TEST(Compile, ARemarkIsToldAndRefusesNothing) {
  EmittedKernel emitted;
  emitted.source = R"(
extern "C" __global__ void __launch_bounds__(128, 1) impatient(float* out, unsigned long long a) {
  float d[4] = {0, 0, 0, 0};
  for (int i = 0; i < 4; ++i) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %4, 1, 1, 1, 0, "
        "0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "l"(a));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    out[i * 128 + threadIdx.x] = d[0];
  }
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}
)";
  const ir::CompiledKernel kernel = compile_emitted(*Nvrtc::open(), small_target("h200"),
                                                    CudaOutput::Cubin, emitted, "impatient");
  EXPECT_NE(kernel.resources.remarks.find("(C75"), std::string::npos) << kernel.resources.remarks;
  EXPECT_EQ(kernel.resources.spills, 0);
}

TEST(Compile, SpillsAreCountedAndRefuseNothing) {
  // 64 running values that 32 registers cannot hold.
  EmittedKernel emitted;
  emitted.source = R"(
extern "C" __global__ void __launch_bounds__(1024, 2) crowded(const float* in, float* out) {
  float values[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) values[i] = in[i * 1024 + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 64; ++i) {
    const float mixed = values[i] * values[(i * 7 + 3) % 64];
    out[i * 1024 + threadIdx.x] = mixed;
    __syncthreads();
  }
}
)";
  const ir::CompiledKernel kernel =
      compile_emitted(*Nvrtc::open(), small_target("h200"), CudaOutput::Cubin, emitted, "crowded");
  EXPECT_GT(kernel.resources.spills, 0);
  EXPECT_GT(kernel.code.size(), 0u);
}

TEST(Compile, EveryElementwiseOpIsAssembledForThreeArchitectures) {
  for (const char* part : {"a100", "h200", "b200"}) {
    const CudaTarget target = *target_named(part);
    const auto backend = make_cuda_backend(
        {.target = target, .output = CudaOutput::Cubin, .checked = false, .nvrtc_path = {}});
    for (const tests::ElementwiseCase& tested : tests::elementwise_cases()) {
      // One real and one integer type stand for their kind: the interpreter has run all of them.
      if (tested.dtype != ir::DType::F32 && tested.dtype != ir::DType::I32 &&
          tested.dtype != ir::DType::Bool)
        continue;
      SCOPED_TRACE(std::string(part) + "\n" + tested.text);
      const auto region = make_region(tested.text);
      const ir::CompiledKernel kernel =
          backend->compile(region->region, {}, backend->candidates(region->region, {}).front());
      EXPECT_EQ(kernel.resources.spills, 0);
      EXPECT_GT(kernel.resources.registers, 0);
      EXPECT_LE(kernel.resources.registers, 255);
      EXPECT_EQ(kernel.cuda().launches.size(), 1u);
    }
  }
}

// Rows that fill the registers of their threads to the last schedule that keeps them there.
TEST(Compile, EveryCandidateOfRowsIsAssembledWithoutSpills) {
  const auto softmax = make_region(
      "fn @main(%x: Tensor[(n, m), f32]) -> Tensor[(n, m), f32]\n  where n in [0, 200], m in [0, "
      "40000] {\n"
      "  %y = softmax(%x) {axis = -1}\n  return %y\n}");
  const auto backend = make_cuda_backend({.target = *target_named("h200"),
                                          .output = CudaOutput::Cubin,
                                          .checked = false,
                                          .nvrtc_path = {}});
  const auto expect_fits = [&](const TestRegion& region, const ir::Bucket& bucket) {
    for (const ir::Schedule& schedule : backend->candidates(region.region, bucket)) {
      const ir::KernelResources used = backend->compile(region.region, bucket, schedule).resources;
      EXPECT_EQ(used.spills, 0) << to_string(schedule) << " " << to_string(bucket);
      EXPECT_EQ(used.remarks, "") << to_string(schedule) << " " << to_string(bucket);
    }
  };
  for (const std::int64_t longest : {512, 1024, 4096, 16000})
    expect_fits(*softmax, bucket_of({{0, 200, 1}, {0, longest, 1}}));
  for (const char* width : {"1024", "4096", "8192"}) {
    const std::string type = std::string("Tensor[(n, ") + width + "), bf16]",
                      vector = std::string("Tensor[(") + width + "), bf16]";
    expect_fits(*make_region("fn @main(%x: " + type + ", %r: " + type + ", %a: " + vector +
                             ", %b: " + vector + ") -> " + type +
                             "\n  where n in [0, 200] {\n  %s = add(%x, %r)\n  %y = layer_norm(%s, "
                             "%a, %b) {axis = -1, epsilon = 1e-5}\n  return %y\n}"),
                {});
  }
}

TEST(Compile, AScheduleThatDoesNotFitOrBelongIsRefused) {
  const auto region = make_region(
      "fn @main(%x: Tensor[(n), f32]) -> Tensor[(n), f32]\n  where n in [0, 50] {\n  %y = "
      "exp(%x)\n  return %y\n}");
  const auto backend = make_cuda_backend({.target = small_target("h200"),
                                          .output = CudaOutput::Ptx,
                                          .checked = false,
                                          .nvrtc_path = {}});
  EXPECT_THROW(backend->compile(region->region, {},
                                ir::parse_schedule("map vector=4 threads=2048 blocks=1")),
               Error);
  EXPECT_THROW(backend->compile(region->region, {}, ir::parse_schedule("rows threads=32")), Error);
}

// A region as the CPU has it. Whatever is asked about it says what to do.
TEST(Compile, AProductAndWhatNeedsItsRowsWholeAreNoOneKernel) {
  const auto region = make_region(R"(
fn @main(%x: Tensor[(n, 48), f32], %w: Tensor[(48, 96), f32], %s: Tensor[(96), f32], %b: Tensor[(96), f32]) -> Tensor[(n, 96), f32]
  where n in [0, 512] {
  %p = matmul(%x, %w)
  %y = layer_norm(%p, %s, %b) {axis = -1, epsilon = 1e-5}
  return %y
})");
  const auto backend = make_cuda_backend({.target = small_target("h200"),
                                          .output = CudaOutput::Ptx,
                                          .checked = false,
                                          .nvrtc_path = {}});
  EXPECT_FALSE(backend->joins_rows_to_products());
  const ir::Schedule schedule =
      ir::parse_schedule("matmul_simt bm=32 bn=32 bk=16 tm=4 tn=4 group=8");
  const std::vector<std::int64_t> keys{64};
  const auto refused = [&](const auto& ask) {
    try {
      ask();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Unsupported);
      EXPECT_EQ(
          std::string(error.what()),
          "the region " + region->region.name +
              " computes a product and what needs its rows whole (a layer norm, a softmax of "
              "the result) in one kernel, as CPUs do; on CUDA those are kernels of their own: "
              "compile the model, or a text of it from before the pass `fuse`, for the GPU");
      return true;
    }
    return false;
  };
  EXPECT_TRUE(refused([&] { backend->candidates(region->region, {}); }));
  EXPECT_TRUE(refused([&] { backend->space(region->region, {}); }));
  EXPECT_TRUE(refused([&] { backend->estimate(region->region, schedule, keys, 1); }));
  EXPECT_TRUE(refused([&] { backend->key_edges(region->region); }));
  EXPECT_TRUE(refused([&] { backend->compile(region->region, {}, schedule); }));
  EXPECT_TRUE(refused([&] { backend->library_schedule(region->region); }));
}

TEST(Compile, TargetsNameWhatKernelsDependOn) {
  const CudaTarget target = small_target("h200");
  const auto name = [&](CudaOutput output, bool checked) {
    return make_cuda_backend(
               {.target = target, .output = output, .checked = checked, .nvrtc_path = {}})
        ->target();
  };
  EXPECT_NE(name(CudaOutput::Cubin, false), name(CudaOutput::Ptx, false));
  EXPECT_NE(name(CudaOutput::Cubin, false), name(CudaOutput::Cubin, true));
}

}  // namespace
}  // namespace anydim::codegen_cuda::testing
