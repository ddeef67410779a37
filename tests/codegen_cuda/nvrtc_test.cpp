#include "codegen_cuda/nvrtc.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "codegen_cuda/backend.h"
#include "ir/error.h"
#include "tests/codegen_cuda/kernel_case.h"

namespace anydim::codegen_cuda::testing {
namespace {

constexpr const char* empty_kernel = "extern \"C\" __global__ void nothing() {}\n";

template <typename Call>
Error error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return {ErrorKind::Internal, "no error"};
}

TEST(Nvrtc, ALibraryThatIsMissingIsNamedWithItsPackage) {
  const Error error = error_of([] { Nvrtc::open("/nowhere/libnvrtc.so.13"); });
  EXPECT_EQ(error.kind(), ErrorKind::Resource);
  EXPECT_STREQ(error.what(),
               "the CUDA compiler library libnvrtc.so.13 was not found; install the CUDA 13 "
               "toolkit (package cuda-nvrtc-13-0) or the Python wheel nvidia-cuda-nvrtc, and set "
               "CUDA_PATH or LD_LIBRARY_PATH to where it lies (looked at /nowhere/libnvrtc.so.13)");
}

TEST(Nvrtc, ABackendWithoutTheLibraryStillHasKeysAndEstimates) {
  const auto region = make_region(
      "fn @main(%x: Tensor[(n), f32]) -> Tensor[(n), f32]\n  where n in [0, 50] {\n  %y = "
      "exp(%x)\n  return %y\n}");
  const auto backend = make_cuda_backend({.target = small_target("h200"),
                                          .output = CudaOutput::Cubin,
                                          .checked = false,
                                          .nvrtc_path = "/nowhere/libnvrtc.so"});
  EXPECT_NE(backend->generator().find("NVRTC 13.0"), std::string::npos);
  const ir::Schedule schedule = backend->candidates(region->region, {}).front();
  EXPECT_GT(backend->estimate(region->region, schedule, std::vector<std::int64_t>{40}, 1), 0);
  EXPECT_EQ(error_of([&] { backend->compile(region->region, {}, schedule); }).kind(),
            ErrorKind::Resource);
}

TEST(Nvrtc, MistakesInASourceAreQuoted) {
  const Error error = error_of([] {
    Nvrtc::open()->compile("extern \"C\" __global__ void bad() { undeclared(); }\n", "bad", "sm_80",
                           CudaOutput::Ptx);
  });
  EXPECT_EQ(error.kind(), ErrorKind::Internal);
  EXPECT_NE(std::string(error.what()).find("identifier \"undeclared\" is undefined"),
            std::string::npos)
      << error.what();
}

TEST(Nvrtc, EveryArchitectureGivesMachineCodeAndText) {
  const auto nvrtc = Nvrtc::open();
  for (const char* architecture : {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100"}) {
    const NvrtcOutput cubin =
        nvrtc->compile(empty_kernel, "nothing", architecture, CudaOutput::Cubin);
    ASSERT_GT(cubin.code.size(), 4u);
    EXPECT_EQ(cubin.code[1], std::byte{'E'});
    EXPECT_NE(cubin.log.find("registers"), std::string::npos) << cubin.log;
    const NvrtcOutput ptx = nvrtc->compile(empty_kernel, "nothing", architecture, CudaOutput::Ptx);
    const std::string text(reinterpret_cast<const char*>(ptx.code.data()), ptx.code.size());
    EXPECT_NE(text.find(std::string(".target ") + architecture), std::string::npos) << text;
  }
}

TEST(Nvrtc, ThreadsCompileAtOnce) {
  const auto nvrtc = Nvrtc::open();
  std::vector<NvrtcOutput> outputs(4);
  std::vector<std::thread> threads;
  for (NvrtcOutput& output : outputs) {
    threads.emplace_back(
        [&] { output = nvrtc->compile(empty_kernel, "nothing", "sm_80", CudaOutput::Ptx); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const NvrtcOutput& output : outputs) EXPECT_EQ(output.code, outputs[0].code);
}

}  // namespace
}  // namespace anydim::codegen_cuda::testing
