// The policy `library`: products by a fake cuBLASLt beside generated kernels on the PTX
// interpreter, through runtime's CUDA path, graphs and all.
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "api/anydim.h"
#include "codegen_cuda/backend.h"
#include "ir/random_tensor.h"
#include "ir/text/parse.h"
#include "runtime/cuda_device.h"
#include "tests/support/fake_cublaslt.h"
#include "tests/support/ptx_gpu.h"

namespace anydim {
namespace {

using ir::Tensor;

// Two products that the library computes and, between them, one whose epilogue it lacks.
constexpr const char* layers = R"(
fn @main(%x: Tensor[(b, s, 16), f32], %bias: Tensor[(24), f32]) -> Tensor[(b, s, 8), f32]
  where b in [1, 8], s in [1, 64] {
  %w1 = constant(f32 (16, 24) @random(1))
  %p = matmul(%x, %w1)
  %q = add(%p, %bias)
  %g = gelu_tanh(%q)
  %w2 = constant(f32 (24, 16) @random(2))
  %u = matmul(%g, %w2)
  %e = gelu(%u)
  %w3 = constant(f32 (16, 8) @random(3))
  %r = matmul(%e, %w3)
  return %r
})";

class LibraryPolicy : public testing::Test {
 protected:
  std::shared_ptr<const runtime::Executable> make(const std::vector<PolicyChoice>& policies) {
    options.device = DeviceKind::Cuda;
    options.policies = policies;
    options.background = false;
    codegen_cuda::CudaOptions cuda;
    cuda.target = codegen_cuda::target_named("h200").value();
    cuda.target.multiprocessors = 2;
    cuda.output = codegen_cuda::CudaOutput::Ptx;
    return compile_for({codegen_cuda::make_cuda_backend(cuda), device}, ir::parse(layers), options);
  }

  void expect_right(runtime::Context& context, std::int64_t batch, std::int64_t length,
                    std::uint64_t seed) {
    const std::vector<Tensor> inputs{
        ir::random_tensor(ir::DType::F32, {batch, length, 16}, seed, "x"),
        ir::random_tensor(ir::DType::F32, {24}, seed, "bias")};
    const Tensor want = evaluate_reference(ir::parse(layers), inputs)[0],
                 got = context.run(inputs)[0];
    ASSERT_EQ(got.dims(), want.dims());
    for (std::int64_t i = 0; i < want.elements(); ++i)
      ASSERT_NEAR(got.real_at(i), want.real_at(i), 2e-4) << i;
  }

  static std::vector<std::string> schedules(const runtime::Executable& executable) {
    std::vector<std::string> names;
    for (const auto& kernel : executable.program().kernels)
      names.push_back(kernel.table.entries.back().schedule.name);
    return names;
  }

  std::shared_ptr<tests::PtxGpu> gpu =
      std::make_shared<tests::PtxGpu>(ptx::MachineOptions{.architecture = "sm_90a"});
  tests::FakeCuda fake{gpu};
  tests::FakeCublasLt library{fake};
  std::shared_ptr<runtime::cuda::DeviceContext> context =
      runtime::cuda::DeviceContext::open(fake.driver());
  std::shared_ptr<runtime::cuda::CudaDevice> device = [this] {
    auto made = std::make_shared<runtime::cuda::CudaDevice>(context);
    made->use(runtime::cuda::CublasLt::make(context, library.functions()));
    return made;
  }();
  CompileOptions options{.threads = 2, .keep_kernels = false};
};

TEST_F(LibraryPolicy, ProductsThatItComputesAndKernelsForTheRest) {
  const auto executable = make({{"", Policy::Library}});
  const std::vector<std::string> names = schedules(*executable);
  EXPECT_EQ(std::count(names.begin(), names.end(), "cublaslt"), 2);
  EXPECT_GE(names.size(), 3u);
  runtime::Context runs(executable);
  // On the stream, captured, replayed for a smaller size, and another capacity.
  expect_right(runs, 2, 10, 1);
  expect_right(runs, 2, 10, 2);
  const std::size_t enqueued = library.asked().size();
  expect_right(runs, 2, 10, 3);
  expect_right(runs, 1, 3, 4);
  expect_right(runs, 1, 3, 5);
  expect_right(runs, 2, 9, 6);
  EXPECT_GE(fake.calls("graph_launch"), 3);
  EXPECT_EQ(gpu->findings(), "");
  ASSERT_GE(library.asked().size(), 2u);
  EXPECT_EQ(library.asked()[0].epilogue,
            runtime::cuda::epilogue_gelu | runtime::cuda::epilogue_bias);
  EXPECT_EQ(library.asked()[0].n, 24u);
  EXPECT_EQ(library.asked()[0].k, 16u);
  EXPECT_EQ(library.asked()[0].m, 20u);
  EXPECT_EQ(library.asked()[1].epilogue, runtime::cuda::epilogue_default);
  // Each ran at every call; a replayed call enqueues none, and asks for no algorithm.
  EXPECT_EQ(library.run(), 12);
  EXPECT_GE(enqueued, 4u);
  EXPECT_LT(library.asked().size(), 12u);
  EXPECT_LE(library.heuristics(), static_cast<int>(library.asked().size()));
}

TEST_F(LibraryPolicy, TensorsOnTheDeviceThatTheLibraryReadsAreCopiedToItsPlaces) {
  const auto executable = make({{"", Policy::Library}});
  runtime::Context runs(executable);
  const std::vector<Tensor> inputs{ir::random_tensor(ir::DType::F32, {2, 10, 16}, 7, "x"),
                                   ir::random_tensor(ir::DType::F32, {24}, 7, "bias")};
  std::vector<Tensor> on_device;
  std::vector<runtime::cuda::Address> addresses;
  for (const Tensor& input : inputs) {
    runtime::cuda::Address& address = addresses.emplace_back();
    ASSERT_EQ(context->driver().memory_allocate(&address, input.byte_size()),
              runtime::cuda::success);
    on_device.push_back(
        device->foreign(input.dtype(), input.dims(), reinterpret_cast<void*>(address), nullptr));
    runtime::device_memory_of(on_device.back())->upload(input.bytes(), {});
  }
  const runtime::StreamCall call{.stream = runtime::DeviceStream{},
                                 .results = {{.kind = runtime::StreamCall::Place::Kind::Owned}}};
  const Tensor want = evaluate_reference(ir::parse(layers), inputs)[0];
  for (int turn = 0; turn < 3; ++turn) {
    fake.forget_calls();
    const Tensor got = runs.run(on_device, {}, &call)[0];
    Tensor host(got.dtype(), got.dims());
    runtime::device_memory_of(got)->download(host.mutable_bytes(), {});
    for (std::int64_t i = 0; i < want.elements(); ++i)
      ASSERT_NEAR(host.real_at(i), want.real_at(i), 2e-4) << i;
  }
  EXPECT_EQ(fake.calls("graph_launch"), 1);
  EXPECT_EQ(fake.calls("graph_set_kernel"), 0);
  EXPECT_EQ(fake.calls("copy_on_device"), 3) << "x, the bias and the result";
  for (const runtime::cuda::Address address : addresses) context->driver().memory_free(address);
}

TEST_F(LibraryPolicy, EmptyCallsAskTheLibraryForNothing) {
  const auto executable = compile_for(
      {codegen_cuda::make_cuda_backend({.target = codegen_cuda::target_named("h200").value(),
                                        .output = codegen_cuda::CudaOutput::Ptx}),
       device},
      ir::parse(R"(
fn @main(%x: Tensor[(n, 16), f32], %w: Tensor[(16, 8), f32]) -> Tensor[(n, 8), f32]
  where n in [0, 64] {
  %p = matmul(%x, %w)
  return %p
})"),
      {.device = DeviceKind::Cuda, .policies = {{"", Policy::Library}}, .keep_kernels = false});
  runtime::Context runs(executable);
  EXPECT_EQ(
      runs.run({Tensor(ir::DType::F32, {0, 16}), Tensor(ir::DType::F32, {16, 8})})[0].elements(),
      0);
  EXPECT_EQ(library.run(), 0);
}

TEST_F(LibraryPolicy, ARegionThatItDoesNotComputeIsRefusedByName) {
  const auto all = make({});
  std::string without;
  for (const auto& kernel : all->program().kernels) {
    const auto backend =
        codegen_cuda::make_cuda_backend({.target = codegen_cuda::target_named("h200").value()});
    if (!backend->library_schedule(kernel.region).schedule) without = kernel.region.name;
  }
  ASSERT_NE(without, "");
  try {
    make({{without, Policy::Library}});
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::CommandLine);
    EXPECT_EQ(std::string(error.what()),
              "the policy library was chosen for the region " + without +
                  ", which no library computes: its epilogue has gelu; the library's has a bias, "
                  "ReLU and the tanh form of GELU; leave its policy out, or ask for symbolic, "
                  "bucketed or exact");
  }
}

TEST_F(LibraryPolicy, CachedProductsServeTheNextStart) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("anydim_library_" + std::to_string(::getpid()));
  options.keep_kernels = true;
  options.cache_folder = folder;
  const auto first = make({{"", Policy::Library}});
  EXPECT_EQ(first->kernels().progress().from_cache, 0);
  const auto second = make({{"", Policy::Library}});
  EXPECT_EQ(second->kernels().progress().from_cache, first->kernels().progress().compiled);
  EXPECT_EQ(second->kernels().progress().compiled, 0);
  runtime::Context runs(second);
  expect_right(runs, 1, 5, 1);
  EXPECT_EQ(library.run(), 2);
  std::filesystem::remove_all(folder);
}

TEST_F(LibraryPolicy, NoAlgorithmIsAnErrorAndTheNextCallWorks) {
  const auto executable = make({{"", Policy::Library}});
  library.offer_nothing(true);
  runtime::Context runs(executable);
  const std::vector<Tensor> inputs{Tensor(ir::DType::F32, {1, 5, 16}),
                                   Tensor(ir::DType::F32, {24})};
  try {
    runs.run(inputs);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Resource);
    EXPECT_EQ(std::string(error.what()), "cuBLASLt offers no algorithm for 5 x 24 x 16 in f32");
  }
  library.offer_nothing(false);
  expect_right(runs, 1, 5, 2);
}

TEST(LibraryPolicyOnTheCpu, IsRefused) {
  try {
    compile(ir::parse(layers), {.policies = {{"", Policy::Library}}});
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::CommandLine);
    EXPECT_EQ(std::string(error.what()),
              "the policy library needs --device cuda; use symbolic or bucketed");
  }
}

// Everything made is given back: descriptions and layouts at once, the handle with the library.
TEST(FakeLibrary, NothingIsLeft) {
  tests::FakeCuda fake(std::make_shared<tests::PtxGpu>(ptx::MachineOptions{}));
  tests::FakeCublasLt library(fake);
  {
    const auto made = runtime::cuda::CublasLt::make(
        runtime::cuda::DeviceContext::open(fake.driver()), library.functions());
    EXPECT_EQ(made->algorithms({.m = 3, .n = 4, .k = 5, .dtype = ir::DType::F16}, 8).size(), 4u);
    EXPECT_EQ(library.objects(), 1);
  }
  EXPECT_EQ(library.objects(), 0);
}

}  // namespace
}  // namespace anydim
