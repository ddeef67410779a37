// Calls on a caller's stream, with inputs and results that stay in device memory.
#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <vector>

#include "runtime/cpu_device.h"
#include "runtime/cuda_argument_buffer.h"
#include "runtime/cuda_device_memory.h"
#include "tests/runtime/cuda_fixture.h"

namespace anydim::runtime {
namespace {

using ir::DType;
using ir::Tensor;
using test::expect_scaled;
using test::failure;
using Kind = StreamCall::Place::Kind;

class CudaStreamTest : public test::CudaTest {
 protected:
  CudaStreamTest() { driver().stream_create(&stream_, cuda::stream_non_blocking); }
  ~CudaStreamTest() override {
    driver().stream_destroy(stream_);
    for (const cuda::Address address : allocated_) driver().memory_free(address);
  }

  const cuda::Driver& driver() { return device()->context().driver(); }
  cuda::Address allocate(std::size_t bytes) {
    cuda::Address address = 0;
    EXPECT_EQ(driver().memory_allocate(&address, bytes), cuda::success);
    allocated_.push_back(address);
    return address;
  }
  Tensor at(cuda::Address address, std::vector<std::int64_t> dims, DType dtype = DType::F32) {
    return device()->foreign(dtype, std::move(dims), reinterpret_cast<void*>(address), nullptr);
  }
  // Filled in the order of the caller's stream, without a wait: as late as the driver likes.
  Tensor filled(const Tensor& host, cuda::Address address) {
    EXPECT_EQ(driver().copy_to_device(address, host.bytes().data(), host.byte_size(), stream_),
              cuda::success);
    return at(address, host.dims(), host.dtype());
  }
  Tensor filled(const Tensor& host) { return filled(host, allocate(host.byte_size())); }
  Tensor downloaded(const Tensor& tensor) {
    Tensor host(tensor.dtype(), tensor.dims());
    device_memory_of(tensor)->download(host.mutable_bytes(), {stream_});
    return host;
  }
  StreamCall on_stream(std::vector<StreamCall::Place> results) {
    return {.stream = DeviceStream{stream_}, .results = std::move(results)};
  }
  static StreamCall::Place given(cuda::Address address, std::size_t bytes) {
    return {Kind::Given, reinterpret_cast<void*>(address), bytes};
  }
  static cuda::Address place_of(const Tensor& tensor) {
    return reinterpret_cast<cuda::Address>(device_memory_of(tensor)->address());
  }
  void wait() { EXPECT_EQ(driver().stream_synchronize(stream_), cuda::success); }

  cuda::Stream stream_ = nullptr;
  std::vector<cuda::Address> allocated_;
};

const StreamCall::Place owned{.kind = Kind::Owned};

TEST_F(CudaStreamTest, AReplayedCallIsOneGraphLaunchBetweenTwoEdges) {
  Context context(scale());
  const Tensor x = filled(test::ramp(100));
  const cuda::Address y = allocate(400);
  const StreamCall call = on_stream({given(y, 400)});
  for (int i = 0; i < 2; ++i) context.run({x}, {}, &call);
  wait();
  fake_.forget_calls();
  const std::vector<Tensor> results = context.run({x}, {}, &call);
  EXPECT_EQ(calls("graph_launch"), 1);
  EXPECT_EQ(calls("copy_to_device"), 1) << "the sizes";
  EXPECT_EQ(calls("event_record"), 2);
  EXPECT_EQ(calls("stream_wait"), 2);
  for (const char* other :
       {"copy_to_host", "copy_on_device", "launch", "graph_set_kernel", "graph_instantiate",
        "stream_synchronize", "event_synchronize", "memory_allocate", "memory_allocate_async",
        "memory_free", "memory_free_async", "host_allocate", "pointer_attribute"})
    EXPECT_EQ(calls(other), 0) << other;
  EXPECT_EQ(place_of(results.at(0)), y);
  EXPECT_EQ(fake_.kernels_run(), 4) << "of the calls before: nothing has waited for this one";
  expect_scaled(downloaded(results[0]), 100);
}

TEST_F(CudaStreamTest, CallsComeBetweenWhatTheCallerPutsOnItsStream) {
  Context context(scale());
  const cuda::Address x = allocate(400), y = allocate(400);
  const StreamCall call = on_stream({given(y, 400)});
  std::vector<Tensor> given, seen;
  for (int i = 0; i < 6; ++i) {
    given.push_back(Tensor(DType::F32, {100}));
    for (int e = 0; e < 100; ++e) given.back().set_real(e, e + i);
    seen.push_back(Tensor(DType::F32, {100}));
  }
  // The input is overwritten and the result read from call to call, in the stream's order alone.
  for (std::size_t i = 0; i < given.size(); ++i) {
    context.run({filled(given[i], x)}, {}, &call);
    driver().copy_to_host(seen[i].mutable_bytes().data(), y, 400, stream_);
  }
  wait();
  for (std::size_t i = 0; i < given.size(); ++i)
    for (int e = 0; e < 100; ++e)
      ASSERT_EQ(seen[i].real_at(e), 6.0 * (e + static_cast<double>(i))) << i << ", " << e;
}

TEST_F(CudaStreamTest, OtherAddressesChangeTheGraphsLaunchesThatNameThem) {
  Context context(scale());
  const Tensor host = test::ramp(100);
  for (int i = 0; i < 2; ++i) {
    const StreamCall call = on_stream({given(allocate(400), 400)});
    expect_scaled(downloaded(context.run({filled(host)}, {}, &call)[0]), 100);
  }
  EXPECT_EQ(calls("graph_instantiate"), 1);
  fake_.forget_calls();
  const Tensor x = filled(host);
  const cuda::Address y = allocate(400);
  StreamCall call = on_stream({given(y, 400)});
  expect_scaled(downloaded(context.run({x}, {}, &call)[0]), 100);
  EXPECT_EQ(calls("graph_set_kernel"), 2) << "scale reads the one, copy writes the other";
  call = on_stream({given(allocate(400), 400)});
  expect_scaled(downloaded(context.run({x}, {}, &call)[0]), 100);
  EXPECT_EQ(calls("graph_set_kernel"), 3);
  // On the host again: at the session's own places.
  expect_scaled(context.run({host})[0], 100);
  EXPECT_EQ(calls("graph_set_kernel"), 5);
  EXPECT_EQ(calls("graph_launch"), 3);
  EXPECT_EQ(calls("graph_instantiate"), 0);
  EXPECT_EQ(calls("copy_on_device"), 0);
}

TEST_F(CudaStreamTest, AGraphThatTakesNoOtherAddressesIsLeftAlone) {
  Context context(scale());
  const Tensor host = test::ramp(100);
  for (int i = 0; i < 2; ++i) context.run({host});
  fake_.fail("graph_set_kernel", cuda::invalid_value);
  const StreamCall call = on_stream({owned});
  fake_.forget_calls();
  for (int i = 0; i < 2; ++i)
    expect_scaled(downloaded(context.run({filled(host)}, {}, &call)[0]), 100);
  EXPECT_EQ(calls("graph_launch"), 0);
  EXPECT_EQ(calls("launch"), 4);
}

TEST_F(CudaStreamTest, WhatIsNotAlignedForKernelsIsCopied) {
  Context context(scale());
  const Tensor host = test::ramp(100);
  for (int i = 0; i < 2; ++i) context.run({host});
  fake_.forget_calls();
  const cuda::Address x = allocate(512), y = allocate(512);
  const StreamCall call = on_stream({given(y + 4, 400)});
  expect_scaled(downloaded(context.run({filled(host, x + 16)}, {}, &call)[0]), 100);
  EXPECT_EQ(calls("copy_on_device"), 2);
  EXPECT_EQ(calls("graph_set_kernel"), 0);
  EXPECT_EQ(calls("graph_launch"), 1);
}

TEST_F(CudaStreamTest, ResultsOfTheModelsOwnMemoryTakeTurns) {
  Context context(scale());
  const Tensor x = filled(test::ramp(100));
  const StreamCall call = on_stream({owned});
  std::vector<Tensor> kept;
  for (int i = 0; i < 3; ++i) kept.push_back(context.run({x}, {}, &call)[0]);
  EXPECT_NE(place_of(kept[0]), place_of(kept[1]));
  for (const Tensor& one : kept) expect_scaled(downloaded(one), 100);
  kept.clear();
  fake_.forget_calls();
  for (int i = 0; i < 6; ++i) context.run({x}, {}, &call);
  EXPECT_EQ(calls("memory_allocate"), 0) << "memory of dropped results serves again";
  EXPECT_EQ(calls("memory_free"), 0);
}

TEST_F(CudaStreamTest, ResultsOutliveTheirContext) {
  std::vector<Tensor> kept;
  const Tensor x = filled(test::ramp(50));
  {
    Context context(scale());
    const StreamCall call = on_stream({owned});
    for (int i = 0; i < 3; ++i) kept.push_back(context.run({x}, {}, &call)[0]);
  }
  for (const Tensor& one : kept) expect_scaled(downloaded(one), 50);
}

TEST_F(CudaStreamTest, APlaceThatIsTooSmallIsLeftAlone) {
  Context context(scale());
  const cuda::Address y = allocate(396);
  const StreamCall call = on_stream({given(y, 396)});
  const Tensor result = context.run({filled(test::ramp(100))}, {}, &call)[0];
  EXPECT_NE(place_of(result), y);
  expect_scaled(downloaded(result), 100);
}

TEST_F(CudaStreamTest, FourCallsAreUnderWayAtOnce) {
  Context context(scale());
  const Tensor x = filled(test::ramp(128));
  for (int i = 0; i < 2; ++i) context.run({test::ramp(128)});
  fake_.forget_calls();
  const StreamCall call = on_stream({owned});
  const std::vector<std::int64_t> sizes{128, 120, 127, 113, 115, 126, 114};
  std::vector<Tensor> results;
  for (const std::int64_t n : sizes) {
    results.push_back(context.run({at(place_of(x), {n})}, {}, &call)[0]);
    const auto under_way = static_cast<int>(results.size());
    EXPECT_EQ(calls("event_synchronize"), std::max(0, under_way - 4))
        << "the first waits for the device once four are ahead";
  }
  EXPECT_EQ(calls("stream_synchronize"), 0);
  EXPECT_EQ(calls("graph_launch"), 7);
  // Each had its own sizes, whenever the device came to read them.
  for (std::size_t i = 0; i < sizes.size(); ++i) expect_scaled(downloaded(results[i]), sizes[i]);
}

TEST_F(CudaStreamTest, InputsOnTheHostAreStagedWhateverTheirSize) {
  const auto executable = scale();
  Context context(executable);
  const StreamCall call = on_stream({owned});
  void* pinned = nullptr;
  ASSERT_EQ(driver().host_allocate(&pinned, 400, 0), cuda::success);
  const std::span<std::byte> bytes(static_cast<std::byte*>(pinned), 400);
  std::vector<Tensor> results;
  for (int i = 0; i < 3; ++i) {
    std::ranges::copy(test::ramp(100).bytes(), bytes.begin());
    results.push_back(context.run({Tensor(DType::F32, {100}, bytes, nullptr)}, {}, &call)[0]);
    std::ranges::fill(bytes, std::byte{0x11});  // the caller's again
  }
  for (const Tensor& one : results) expect_scaled(downloaded(one), 100);
  driver().host_free(pinned);
}

TEST_F(CudaStreamTest, ArgumentsAreCopiedAroundLargeInputsOfTheDevice) {
  cuda::ArgumentBuffer arguments(device()->shared_context(), stream_, 2, 1);
  for (const std::int64_t elements : {100, 100'000}) {
    const std::vector<Tensor> tensors{test::ramp(3), at(allocate(400'000), {elements}),
                                      test::ramp(5)};
    std::vector<cuda::ArgumentBuffer::Input> inputs{{.input = 0}, {.input = 1}, {.input = 2}};
    arguments.place(inputs, std::vector<std::int64_t>{12, 4 * elements, 20});
    fake_.forget_calls();
    arguments.begin_call(0);
    arguments.add(std::vector<std::int64_t>{7});
    EXPECT_EQ(arguments.send(inputs, tensors, true), cuda::success);
    EXPECT_EQ(calls("copy_to_device"), elements == 100 ? 1 : 2);
    std::int64_t extent = 0;
    driver().copy_to_host(&extent, arguments.extents_address(0), 8, stream_);
    wait();
    EXPECT_EQ(extent, 7);
    for (const std::size_t i : {0, 2}) {
      Tensor back(DType::F32, tensors[i].dims());
      driver().copy_to_host(back.mutable_bytes().data(), arguments.address(inputs[i]),
                            back.byte_size(), stream_);
      wait();
      EXPECT_TRUE(back.same_bits(tensors[i])) << i;
    }
  }
}

TEST_F(CudaStreamTest, AResultOnTheHostIsWaitedFor) {
  Context context(scale());
  const Tensor x = filled(test::ramp(100));
  const StreamCall call = on_stream({});
  expect_scaled(context.run({x}, {}, &call)[0], 100);
}

TEST_F(CudaStreamTest, InputsAreKeptUntilTheirCallHasEnded) {
  Context context(scale());
  const auto owner = std::make_shared<int>(0);
  const cuda::Address x = allocate(400);
  filled(test::ramp(100), x);
  const auto run = [&](const StreamCall& call) {
    context.run({device()->foreign(DType::F32, {100}, reinterpret_cast<void*>(x), owner)}, {},
                &call);
  };
  run(on_stream({owned}));
  EXPECT_EQ(owner.use_count(), 2);
  context.collect(true);
  EXPECT_EQ(owner.use_count(), 1);
  run(on_stream({}));
  EXPECT_EQ(owner.use_count(), 1) << "the call was waited for";
  fake_.fail("copy_to_device", cuda::invalid_value);
  failure(ErrorKind::Internal, [&] { run(on_stream({owned})); });
  EXPECT_EQ(owner.use_count(), 1) << "the call has failed";
}

TEST_F(CudaStreamTest, WithoutAStreamTheCallWaits) {
  Context context(scale());
  const Tensor x = filled(test::ramp(100));
  wait();
  const cuda::Address y = allocate(400);
  const StreamCall call{.stream = std::nullopt, .results = {given(y, 400)}};
  for (int i = 0; i < 3; ++i) {
    const Tensor result = context.run({x}, {}, &call)[0];
    Tensor host(DType::F32, {100});
    device_memory_of(result)->download(host.mutable_bytes(), {});  // on a stream of no one
    expect_scaled(host, 100);
    expect_scaled(context.run({x})[0], 100);
  }
  EXPECT_EQ(calls("event_record"), 0);
}

TEST_F(CudaStreamTest, WhatADeviceCheckFoundIsThrownByTheNextCall) {
  Context context(make(test::gather_program(), test::gather_backend()));
  const auto good = filled(Tensor::of<int>(DType::I64, {3}, {9, 0, 4}));
  const auto bad = filled(Tensor::of<int>(DType::I64, {3}, {1, 30522, 2}));
  const StreamCall call = on_stream({owned});
  const std::string message =
      "gather index of '/embeddings/Gather': expected from -10 to 9, got 30522";
  for (int i = 0; i < 3; ++i) context.run({good}, {}, &call);
  context.run({bad}, {}, &call);
  context.run({good}, {}, &call);
  wait();
  EXPECT_EQ(failure(ErrorKind::Inputs, [&] { context.run({good}, {}, &call); }), message);
  EXPECT_EQ(downloaded(context.run({good}, {}, &call)[0]).real_at(2), 4);

  context.run({bad}, {}, &call);
  context.collect(false);  // it has not ended
  EXPECT_EQ(failure(ErrorKind::Inputs, [&] { context.collect(true); }), message);
  context.collect(true);
  // A call that waits is told of those before it first.
  context.run({bad}, {}, &call);
  EXPECT_EQ(failure(ErrorKind::Inputs, [&] { context.run({good}); }), message);
  EXPECT_EQ(context.run({good})[0].real_at(0), 9);
}

TEST_F(CudaStreamTest, AFaultIsToldByTheNextCallAndEndsTheContext) {
  Context context(scale());
  const Tensor x = filled(test::ramp(33)), longer = filled(test::ramp(35));
  const StreamCall call = on_stream({owned});
  for (int i = 0; i < 3; ++i) context.run({x}, {}, &call);
  wait();
  context.collect(true);
  fake_.fault(cuda::illegal_address, 1);
  context.run({x}, {}, &call);
  context.run({longer}, {}, &call);
  EXPECT_EQ(failure(ErrorKind::Internal, [&] { context.collect(true); }),
            "running a call with n = 33 or n = 35 on the GPU, one of its launches failed (region "
            "scale, schedule plain, s0 = 33; region copy, schedule plain, s0 = 33; region scale, "
            "schedule plain, s0 = 35; region copy, schedule plain, s0 = 35): "
            "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)");
  const std::string later = failure(ErrorKind::Internal, [&] { context.run({x}, {}, &call); });
  EXPECT_TRUE(later.starts_with("the GPU cannot be used by this process any more")) << later;
}

TEST_F(CudaStreamTest, ACallThatFailsOnItsWayIsDoneWithTheCallersMemory) {
  Context context(scale());
  const Tensor host = test::ramp(100), x = filled(host);
  const StreamCall call = on_stream({owned});
  for (int i = 0; i < 3; ++i) context.run({x}, {}, &call);
  context.collect(true);
  fake_.fail("graph_launch", cuda::launch_out_of_resources);
  fake_.forget_calls();
  failure(ErrorKind::Internal, [&] { context.run({x}, {}, &call); });
  EXPECT_EQ(calls("stream_synchronize"), 1);
  expect_scaled(downloaded(context.run({x}, {}, &call)[0]), 100);
}

TEST_F(CudaStreamTest, AStreamThatIsBeingCapturedIsRefused) {
  Context context(scale());
  const Tensor x = filled(test::ramp(100));
  const StreamCall call = on_stream({owned});
  driver().capture_begin(stream_, cuda::capture_thread_local);
  EXPECT_EQ(failure(ErrorKind::Inputs, [&] { context.run({x}, {}, &call); }),
            "the stream of a call is being captured: expected a stream that runs what it is given; "
            "call the model before or after the capture");
  cuda::Graph graph = nullptr;
  driver().capture_end(stream_, &graph);
  driver().graph_destroy(graph);
  expect_scaled(downloaded(context.run({x}, {}, &call)[0]), 100);
}

TEST_F(CudaStreamTest, TensorsOfAnotherModelsDeviceAreRefused) {
  tests::FakeCuda other(tests::host_kernel_gpu());
  const auto device = std::make_shared<cuda::CudaDevice>(cuda::DeviceContext::open(other.driver()));
  cuda::Address address = 0;
  device->context().driver().memory_allocate(&address, 400);
  const Tensor x = device->foreign(DType::F32, {100}, reinterpret_cast<void*>(address), nullptr);
  Context context(scale());
  EXPECT_EQ(failure(ErrorKind::Inputs, [&] { context.run({x}); }),
            "input 'x' lies in memory of GPU 0 that was made a tensor of for another model: "
            "expected a tensor of this model's device (GPU 0), or one in host memory");
  device->context().driver().memory_free(address);
}

TEST_F(CudaStreamTest, ProgramsThatWaitForNumbersTakeThemToo) {
  const auto executable = make(test::device_fetch_program(), test::device_fetch_backend());
  executable->kernels().complete();
  Context context(executable);
  const StreamCall call = on_stream({given(allocate(64), 64), owned});
  for (const float first : {3.0F, 0.0F, 20.0F}) {
    const Tensor host = Tensor::of<float>(DType::F32, {3}, {first, 2, 1});
    const cuda::Address x = allocate(64);
    for (const cuda::Address where : {x, x + 4}) {
      const auto results = context.run({filled(host, where)}, {}, &call);
      EXPECT_EQ(downloaded(results[0]).real_at(0), 6 * first);
      const Tensor sevens = downloaded(results[1]);
      ASSERT_EQ(sevens.elements(), static_cast<std::int64_t>(first) + 2);
      for (std::int64_t e = 0; e < sevens.elements(); ++e) EXPECT_EQ(sevens.real_at(e), 7);
    }
  }
  // Sizes that an input tells are fetched where it lies on the device.
  Context of_input(make(test::fetch_program(), test::fetch_backend()));
  const Tensor counts = filled(Tensor::of<int>(DType::I64, {2}, {3, 8}));
  const StreamCall one = on_stream({owned});
  EXPECT_EQ(downloaded(of_input.run({counts}, {}, &one)[0]).elements(), 11);
}

TEST_F(CudaStreamTest, TheCpuHasNoStreams) {
  const auto executable =
      std::make_shared<const Executable>(test::scale_program(), test::scale_backend(),
                                         std::make_shared<WorkerPool>(1), ExecutableOptions{});
  Context context(executable);
  const StreamCall call = on_stream({owned});
  EXPECT_EQ(failure(ErrorKind::Inputs, [&] { context.run({test::ramp(3)}, {}, &call); }),
            "a call of a model that runs on the CPU was given a stream or a place on a device: "
            "expected neither");
  failure(ErrorKind::Inputs, [&] { context.run({at(allocate(12), {3})}); });
  EXPECT_EQ(context.run({test::ramp(3)})[0].real_at(1), 6);
}

TEST_F(CudaStreamTest, EverythingIsFreedWithCallsUnderWay) {
  {
    Context context(scale());
    const Tensor x = filled(test::ramp(100));
    const StreamCall call = on_stream({owned});
    for (int i = 0; i < 5; ++i) context.run({x}, {}, &call);
    context.run({test::ramp(4000)}, {}, &call);  // graphs of addresses that move are given up
    context.run({x}, {}, &call);
  }
  wait();
  const auto held = [&] {
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < allocated_.size(); ++i) bytes += 400;
    return bytes;
  };
  EXPECT_EQ(fake_.bytes_in_use(), held());
  EXPECT_EQ(calls("graph_instantiate"), calls("graph_executable_destroy"));
  EXPECT_EQ(calls("host_allocate"), calls("host_free"));
  EXPECT_EQ(calls("event_create"), calls("event_destroy"));
}

}  // namespace
}  // namespace anydim::runtime
