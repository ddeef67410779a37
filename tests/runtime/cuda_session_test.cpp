// Programs through runtime's CUDA path, on a driver for tests.
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>

#include "runtime/cuda_replayed_session.h"
#include "tests/runtime/cuda_fixture.h"

namespace anydim::runtime {
namespace {

using ir::DType;
using ir::Tensor;

using test::expect_scaled;
using test::failure;
using CudaSessionTest = test::CudaTest;

TEST_F(CudaSessionTest, ProgramsOfOneStageThatFetchNothingAreReplayed) {
  const auto replayed = [&](ir::Program program, std::shared_ptr<test::FakeBackend> backend) {
    Context context(make(std::move(program), std::move(backend)));
    return dynamic_cast<const cuda::ReplayedSession*>(&context.session()) != nullptr;
  };
  EXPECT_TRUE(replayed(test::scale_program(), test::scale_backend()));
  EXPECT_TRUE(replayed(test::gather_program(), test::gather_backend()));
  EXPECT_FALSE(replayed(test::fetch_program(), test::fetch_backend())) << "it has two stages";
  EXPECT_FALSE(replayed(test::device_fetch_program(), test::device_fetch_backend()));
}

TEST_F(CudaSessionTest, RunsEveryShape) {
  Context context(scale());
  for (int pass = 0; pass < 3; ++pass)
    for (const std::int64_t n : {1, 15, 16, 17, 1000, 4096, 0, 3})
      expect_scaled(context.run({test::ramp(n)})[0], n);
}

TEST_F(CudaSessionTest, OneGraphServesEverySmallerSizeOfItsCapacity) {
  Context context(scale());
  for (const std::int64_t n : {120, 113})
    expect_scaled(context.run({test::ramp(n)})[0], n);  // on the stream, then captured
  EXPECT_EQ(calls("graph_instantiate"), 1);
  fake_.forget_calls();
  for (const std::int64_t n : {128, 127, 114, 113})
    expect_scaled(context.run({test::ramp(n)})[0], n);
  EXPECT_EQ(calls("graph_launch"), 4);
  EXPECT_EQ(calls("graph_instantiate"), 0);
  EXPECT_EQ(calls("launch"), 0);
}

TEST_F(CudaSessionTest, AReplayedCallCopiesOnceEachWayAndWaitsOnce) {
  Context context(scale());
  for (int i = 0; i < 2; ++i) context.run({test::ramp(100)});
  fake_.forget_calls();
  context.run({test::ramp(100)});
  EXPECT_EQ(calls("copy_to_device"), 1);
  EXPECT_EQ(calls("copy_to_host"), 1);  // the output; no kernel checks anything
  EXPECT_EQ(calls("stream_synchronize"), 1);
  EXPECT_EQ(calls("graph_launch"), 1);
  EXPECT_EQ(calls("memory_allocate_async"), 0);
  EXPECT_EQ(calls("launch"), 0);
}

TEST_F(CudaSessionTest, LaterLaunchesMayStartEarlyWhereTheyWait) {
  Context context(scale());
  for (int i = 0; i < 2; ++i) context.run({test::ramp(100)});
  // Captured once: the second of two launches follows a kernel, the first follows copies.
  EXPECT_EQ(fake_.launches_with(cuda::programmatic_stream_serialization), 1);
}

TEST_F(CudaSessionTest, BucketsHaveGraphsOfTheirOwn) {
  Context context(scale());
  context.record_launches(true);
  context.run({test::ramp(16)});
  EXPECT_EQ(context.launches()[0].met, 0);
  EXPECT_EQ(context.launches()[0].tasks, 1);
  context.run({test::ramp(17)});
  EXPECT_EQ(context.launches()[0].met, 1);
  EXPECT_EQ(context.launches()[0].tasks, 2);  // of the capacity, 20
  EXPECT_NEAR(context.launches()[0].seconds, 1e-6, 1e-9);
  EXPECT_EQ(*context.launches()[1].source, "identity 'Copy_2'");
  context.record_launches(false);
  for (const std::int64_t n : {15, 16, 17, 18, 15, 18})
    expect_scaled(context.run({test::ramp(n)})[0], n);
  EXPECT_EQ(calls("graph_instantiate"), 2);
}

TEST_F(CudaSessionTest, AKernelForOneShapeServesNoLargerOne) {
  const auto executable = scale({.exact = {true, false}});
  Context context(executable);
  context.run({test::ramp(113)});
  executable->kernels().complete();
  for (int i = 0; i < 3; ++i) expect_scaled(context.run({test::ramp(113)})[0], 113);
  EXPECT_EQ(context.memory().outputs, 4 * 113)
      << "prepared for its own sizes, not for a capacity of 128";
  expect_scaled(context.run({test::ramp(114)})[0], 114);
  EXPECT_EQ(context.memory().outputs, 4 * 128);
}

TEST_F(CudaSessionTest, ArrivingKernelsReplaceTheGeneralOnes) {
  const auto executable = make(test::scale_program(), test::scale_backend(), {.background = false});
  Context context(executable);
  for (int i = 0; i < 3; ++i) expect_scaled(context.run({test::ramp(5)})[0], 5);
  executable->kernels().complete();
  for (int i = 0; i < 3; ++i) expect_scaled(context.run({test::ramp(5)})[0], 5);
  EXPECT_EQ(calls("graph_instantiate"), 2);
}

TEST_F(CudaSessionTest, SizesFromInputsAreReadOnTheHost) {
  Context context(make(test::fetch_program(), test::fetch_backend()));
  for (int i = 0; i < 3; ++i) {
    const auto outputs = context.run({Tensor::of<int>(DType::I64, {2}, {3, 8 + i})});
    ASSERT_EQ(outputs[0].dims(), std::vector<std::int64_t>{11 + i});
    for (std::int64_t e = 0; e < 11 + i; ++e) EXPECT_EQ(outputs[0].real_at(e), 7);
  }
  EXPECT_EQ(
      failure(ErrorKind::Inputs, [&] { context.run({Tensor::of<int>(DType::I64, {2}, {-3, 1})}); }),
      "reshape 'Reshape_5' (%y): dimension 0: expected at most -8, got -2");
  EXPECT_EQ(context.run({Tensor::of<int>(DType::I64, {2}, {1, 1})})[0].elements(), 2);
}

TEST_F(CudaSessionTest, SizesFromTheDeviceAreFetched) {
  const auto executable = make(test::device_fetch_program(), test::device_fetch_backend());
  executable->kernels().complete();  // a kernel that arrives later is waited for once
  Context context(executable);
  for (const float first : {3.0F, 0.0F, 20.0F}) {
    const auto outputs = context.run({Tensor::of<float>(DType::F32, {3}, {first, 2, 1})});
    EXPECT_EQ(outputs[0].real_at(0), 6 * first);
    ASSERT_EQ(outputs[1].dims(), std::vector<std::int64_t>{static_cast<std::int64_t>(first) + 2});
    for (std::int64_t e = 0; e < outputs[1].elements(); ++e) EXPECT_EQ(outputs[1].real_at(e), 7);
  }
  fake_.forget_calls();
  context.run({test::ramp(3)});
  EXPECT_EQ(calls("stream_synchronize"), 2);  // the fetch and the end
}

TEST_F(CudaSessionTest, DeviceCheckNamesNodeValueAndRange) {
  Context context(make(test::gather_program(), test::gather_backend()));
  const auto good = Tensor::of<int>(DType::I64, {3}, {9, 0, 4});
  for (int pass = 0; pass < 3; ++pass) {
    EXPECT_EQ(context.run({good})[0].real_at(0), 9);
    EXPECT_EQ(failure(ErrorKind::Inputs,
                      [&] { context.run({Tensor::of<int>(DType::I64, {3}, {1, 30522, 2})}); }),
              "gather index of '/embeddings/Gather': expected from -10 to 9, got 30522");
    EXPECT_EQ(context.run({good})[0].real_at(2), 4);
  }
}

TEST_F(CudaSessionTest, WrongInputsLeaveTheContextUsable) {
  Context context(scale());
  failure(ErrorKind::Inputs, [&] { context.run({test::ramp(4097)}); });
  failure(ErrorKind::Inputs, [&] { context.run({Tensor(DType::F32, {3, 1})}); });
  expect_scaled(context.run({test::ramp(7)})[0], 7);
}

TEST_F(CudaSessionTest, MemoryLimitIsKeptAndTheCallItselfMayFit) {
  Context context(scale({.memory_limit = 1300}));
  failure(ErrorKind::Resource, [&] { context.run({test::ramp(1024)}); });
  // At the capacity of 160 the call would need 1408 bytes; it runs at its own size.
  expect_scaled(context.run({test::ramp(141)})[0], 141);
  EXPECT_EQ(context.memory().arena, 4 * 141 + 64);
  EXPECT_EQ(context.memory().outputs, 4 * 141);
}

TEST_F(CudaSessionTest, OutputsBelongToTheCaller) {
  std::vector<Tensor> kept;
  {
    Context context(scale());
    kept.push_back(context.run({test::ramp(50)})[0]);
    kept.push_back(context.run({test::ramp(40)})[0]);
  }
  expect_scaled(kept[0], 50);
  expect_scaled(kept[1], 40);
}

TEST_F(CudaSessionTest, ExhaustedDeviceMemoryIsASentenceAndTheNextCallRuns) {
  Context context(scale());
  expect_scaled(context.run({test::ramp(10)})[0], 10);
  // The capacity is tried first, then the call's own size.
  fake_.fail("memory_allocate_async", cuda::out_of_memory);
  expect_scaled(context.run({test::ramp(2000)})[0], 2000);
  fake_.fail("host_allocate", cuda::out_of_memory);
  EXPECT_EQ(failure(ErrorKind::Resource, [&] { context.run({test::ramp(4096)}); }),
            "out of memory: the system gives no more pages that the GPU can copy to; give smaller "
            "inputs");
  expect_scaled(context.run({test::ramp(4096)})[0], 4096);
}

class SmallCudaSessionTest : public CudaSessionTest {
 protected:
  SmallCudaSessionTest() : CudaSessionTest({.memory_bytes = 20'000}) {}
};

TEST_F(SmallCudaSessionTest, ExhaustedDeviceMemoryNamesWhatIsFree) {
  Context context(scale());
  expect_scaled(context.run({test::ramp(100)})[0], 100);
  const std::string message =
      failure(ErrorKind::Resource, [&] { context.run({test::ramp(4096)}); });
  EXPECT_TRUE(message.starts_with("the GPU's memory is too small for ")) << message;
  EXPECT_TRUE(message.ends_with(
      " of 20000 bytes are free; give smaller inputs or end other programs that use it"))
      << message;
  for (int i = 0; i < 3; ++i) expect_scaled(context.run({test::ramp(100)})[0], 100);
}

TEST_F(CudaSessionTest, FaultNamesRegionScheduleAndShapeAndEndsTheContext) {
  const auto executable = scale();
  Context context(executable), of_another_program(scale());
  expect_scaled(of_another_program.run({test::ramp(33)})[0], 33);
  fake_.fault(cuda::illegal_address, 1);
  EXPECT_EQ(failure(ErrorKind::Internal, [&] { context.run({test::ramp(33)}); }),
            "running region copy, schedule plain, s0 = 33: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal "
            "memory access was encountered)");
  const std::string later =
      "the GPU cannot be used by this process any more, a kernel failed earlier (running region "
      "copy, schedule plain, s0 = 33: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was "
      "encountered)); start the process again";
  EXPECT_EQ(failure(ErrorKind::Internal, [&] { context.run({test::ramp(33)}); }), later);
  EXPECT_EQ(failure(ErrorKind::Internal, [&] { Context another(executable); }), later);
  for (const std::int64_t n : {33, 1})
    EXPECT_EQ(failure(ErrorKind::Internal, [&] { of_another_program.run({test::ramp(n)}); }),
              later);
}

TEST_F(CudaSessionTest, FaultOfAReplayedGraphNamesAllThatRan) {
  Context context(scale());
  for (int i = 0; i < 3; ++i) context.run({test::ramp(33)});
  fake_.fault(cuda::illegal_address, 1);
  EXPECT_EQ(failure(ErrorKind::Internal, [&] { context.run({test::ramp(33)}); }),
            "running a call with n = 33 on the GPU, one of its launches failed (region scale, "
            "schedule plain, s0 = 33; region copy, schedule plain, s0 = 33): "
            "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)");
}

TEST_F(CudaSessionTest, RefusedLaunchNamesItAndTheNextCallRuns) {
  Context context(scale());
  fake_.fail("launch", cuda::launch_out_of_resources);
  EXPECT_EQ(failure(ErrorKind::Internal, [&] { context.run({test::ramp(33)}); }),
            "launching region scale, schedule plain, s0 = 33: CUDA error 701");
  expect_scaled(context.run({test::ramp(33)})[0], 33);
}

TEST_F(CudaSessionTest, KernelsThatDoNotFitTheDeviceAreRefusedAndCallsGoOn) {
  const auto executable = scale();
  Context context(executable);
  const ir::Region& region = executable->program().kernels[0].region;
  const auto refusal = [&](const std::function<void(ir::DeviceLaunch&)>& change) {
    const ir::Schedule plain{.name = "plain", .fields = {}};
    ir::CompiledKernel kernel =
        tests::host_kernel_backend(test::scale_backend())->compile(region, {}, plain);
    change(std::get<ir::CudaLaunches>(kernel.device).launches.front());
    return failure(ErrorKind::Resource, [&] {
      device_->load(region, {.bucket = {}, .schedule = plain}, kernel, std::nullopt);
    });
  };
  EXPECT_EQ(refusal([](ir::DeviceLaunch& launch) { launch.block = {512, 4, 1}; }),
            "region scale, schedule plain: the schedule wants 2048 threads a block, the GPU has at "
            "most 1024 (Fake GPU)");
  EXPECT_EQ(refusal([](ir::DeviceLaunch& launch) { launch.shared_bytes = 300'000; }),
            "region scale, schedule plain: the schedule wants 300000 bytes of shared memory a "
            "block, the GPU has at most 232448 (Fake GPU)");
  const std::string foreign =
      refusal([&](ir::DeviceLaunch&) { fake_.fail("module_load", cuda::no_binary_for_device); });
  EXPECT_TRUE(foreign.starts_with(
      "region scale, schedule plain: the driver (CUDA 13.0) does not accept the compiled kernel, "))
      << foreign;
  EXPECT_TRUE(foreign.ends_with(
      "; a driver as new as the NVRTC library, or an older NVRTC library, helps (Fake GPU)"))
      << foreign;
  expect_scaled(context.run({test::ramp(33)})[0], 33);
}

TEST_F(CudaSessionTest, WhereNothingCanBeCapturedLaunchesServe) {
  Context context(scale());
  context.run({test::ramp(33)});
  fake_.fail("graph_instantiate", cuda::out_of_memory);
  for (int i = 0; i < 3; ++i) expect_scaled(context.run({test::ramp(33)})[0], 33);
  EXPECT_EQ(calls("graph_launch"), 0);
}

TEST_F(CudaSessionTest, MemoryStaysFlatUnderRandomShapes) {
  const auto executable = scale();
  Context context(executable);
  std::mt19937 random(7);
  const auto call = [&] {
    const auto n = static_cast<std::int64_t>(random() % 4097);
    expect_scaled(context.run({test::ramp(n)})[0], n);
  };
  for (int i = 0; i < 500; ++i) call();
  context.run({test::ramp(4096)});
  const std::int64_t before = fake_.bytes_in_use();
  for (int i = 0; i < 500; ++i) call();
  EXPECT_EQ(fake_.bytes_in_use(), before);
  // One block a stage, one for inputs and the plan, one for the workspace, and the constants.
  EXPECT_LT(before, 2 * (4 * 4096 + 64) + 4 * 4096 + 4096);
}

TEST_F(CudaSessionTest, EverythingIsFreed) {
  {
    Context context(scale());
    for (int i = 0; i < 3; ++i) context.run({test::ramp(100)});
  }
  device_ = nullptr;
  EXPECT_EQ(fake_.bytes_in_use(), 0);
  EXPECT_EQ(calls("module_load"), calls("module_unload"));
  EXPECT_EQ(calls("graph_instantiate"), calls("graph_executable_destroy"));
  EXPECT_EQ(calls("host_allocate"), calls("host_free"));
  EXPECT_EQ(calls("context_retain"), calls("context_release"));
}

}  // namespace
}  // namespace anydim::runtime
