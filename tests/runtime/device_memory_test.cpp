// Tensors in memory of a GPU.
#include "runtime/device_memory.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "runtime/cpu_device.h"
#include "runtime/cuda_device_memory.h"
#include "tests/runtime/cuda_fixture.h"

namespace anydim::runtime {
namespace {

using ir::DType;
using ir::Tensor;
using test::failure;

class DeviceMemoryTest : public test::CudaTest {
 protected:
  cuda::Address allocate(std::size_t bytes) {
    cuda::Address address = 0;
    EXPECT_EQ(device()->context().driver().memory_allocate(&address, bytes), cuda::success);
    return address;
  }
  Tensor tensor(cuda::Address address, std::vector<std::int64_t> dims) {
    return device()->foreign(DType::F32, std::move(dims), reinterpret_cast<void*>(address),
                             nullptr);
  }
  std::string refusal(cuda::Address address, const std::vector<std::int64_t>& dims) {
    return failure(ErrorKind::Inputs, [&] { tensor(address, dims); });
  }
  static std::string at(cuda::Address address, const std::string& shape) {
    return fmt::format("a tensor {} on GPU 0 at {:#x}: ", shape, address);
  }
};

TEST_F(DeviceMemoryTest, ATensorOverACallersMemoryIsCopiedFromAndTo) {
  const cuda::Address address = allocate(64);
  const Tensor on_device = tensor(address + 16, {2, 3});
  const DeviceMemory* memory = device_memory_of(on_device);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(memory->address(), reinterpret_cast<void*>(address + 16));
  EXPECT_EQ(memory->bytes(), 24);
  EXPECT_EQ(memory->device(), 0);
  const Tensor given = test::ramp(6);
  memory->upload(given.bytes(), {});
  Tensor back(DType::F32, {6});
  memory->download(back.mutable_bytes(), {});
  EXPECT_TRUE(back.same_bits(given));
  EXPECT_EQ(device_memory_of(given), nullptr);
}

TEST_F(DeviceMemoryTest, StreamsAreOrderedAndTheDeviceWaitedFor) {
  const Tensor on_device = tensor(allocate(64), {16});
  const DeviceMemory* memory = device_memory_of(on_device);
  const cuda::Driver& driver = device()->context().driver();
  cuda::Stream one = nullptr, other = nullptr;
  driver.stream_create(&one, cuda::stream_non_blocking);
  driver.stream_create(&other, cuda::stream_non_blocking);
  const Tensor given = test::ramp(16);
  driver.copy_to_device(reinterpret_cast<cuda::Address>(memory->address()), given.bytes().data(),
                        64, one);
  memory->order({one}, {other});
  Tensor back(DType::F32, {16});
  memory->download(back.mutable_bytes(), {other});
  EXPECT_TRUE(back.same_bits(given));
  Tensor later(DType::F32, {16});
  driver.copy_to_host(later.mutable_bytes().data(),
                      reinterpret_cast<cuda::Address>(memory->address()), 64, one);
  memory->wait_for_device();
  EXPECT_TRUE(later.same_bits(given));
  driver.stream_destroy(one);
  driver.stream_destroy(other);
}

TEST_F(DeviceMemoryTest, ReadingItOnTheHostIsRefused) {
  const Tensor on_device = tensor(allocate(64), {16});
  EXPECT_EQ(failure(ErrorKind::Inputs, [&] { static_cast<void>(on_device.bytes()); }),
            "a tensor in memory of GPU 0 was read on the host: expected a tensor in host memory; "
            "copy it there first, in the order of the stream that writes it");
  EXPECT_EQ(on_device.byte_size(), 64);
}

TEST_F(DeviceMemoryTest, AnOwnerIsKeptAsLongAsATensor) {
  auto owner = std::make_shared<int>(0);
  std::optional<Tensor> on_device =
      device()->foreign(DType::F32, {4}, reinterpret_cast<void*>(allocate(16)), owner);
  std::optional<Tensor> copy = on_device;
  on_device.reset();
  EXPECT_EQ(owner.use_count(), 2);
  copy.reset();
  EXPECT_EQ(owner.use_count(), 1);
}

TEST_F(DeviceMemoryTest, WhatIsNoMemoryOfTheDeviceIsRefused) {
  EXPECT_EQ(refusal(0, {4}), at(0, "f32 (4)") + "expected the address of 16 bytes, got null");
  EXPECT_EQ(tensor(0, {0, 4}).elements(), 0) << "no bytes lie anywhere";
  const cuda::Address address = allocate(64);
  EXPECT_EQ(refusal(address + 2, {4}),
            at(address + 2, "f32 (4)") + "expected a multiple of 4, the size of an element");
  EXPECT_EQ(refusal(address + 16, {13}),
            at(address + 16, "f32 (13)") +
                "48 bytes lie there: expected at least the 52 that the tensor takes");
  EXPECT_EQ(tensor(address + 16, {12}).elements(), 12);
  alignas(16) static float host[4];
  const auto on_host = reinterpret_cast<cuda::Address>(host);
  const std::string no_device_memory =
      "this is no device memory: expected what cuMemAlloc, cudaMalloc or the like gave";
  EXPECT_EQ(refusal(on_host, {4}), at(on_host, "f32 (4)") + no_device_memory);
  void* pinned = nullptr;
  ASSERT_EQ(device()->context().driver().host_allocate(&pinned, 64, 0), cuda::success);
  const auto of_pinned = reinterpret_cast<cuda::Address>(pinned);
  EXPECT_EQ(refusal(of_pinned, {4}), at(of_pinned, "f32 (4)") + no_device_memory);
  device()->context().driver().host_free(pinned);
}

TEST_F(DeviceMemoryTest, MemoryOfAnotherDeviceOrContextIsRefused) {
  const cuda::Address address = allocate(64);
  fake_.belongs_to(address, 1, nullptr);
  EXPECT_EQ(refusal(address, {4}),
            at(address, "f32 (4)") +
                "this is memory of GPU 1: expected memory of the GPU that the model runs on");
  fake_.belongs_to(address, 0, reinterpret_cast<cuda::Context>(&fake_));
  EXPECT_EQ(refusal(address, {4}), at(address, "f32 (4)") +
                                       "this is memory of another context of the GPU: expected its "
                                       "primary context, which the CUDA runtime uses");
  fake_.belongs_to(address, 0, nullptr);  // of a pool
  EXPECT_EQ(tensor(address, {4}).elements(), 4);
}

TEST_F(DeviceMemoryTest, TheCpuHasNone) {
  const auto cpu = make_cpu_device();
  EXPECT_EQ(failure(ErrorKind::Inputs, [&] { cpu->foreign(DType::F32, {2, 3}, &fake_, nullptr); }),
            "a tensor f32 (2, 3) in device memory was given to a model that runs on the CPU: "
            "expected a tensor in host memory");
}

TEST_F(DeviceMemoryTest, BlocksOfResultsServeOneStreamAgain) {
  cuda::ResultBlocks blocks(device()->shared_context(), 2);
  int streams[6];
  const std::byte* first = blocks.take(100, &streams[0]).get();
  EXPECT_EQ(blocks.take(80, &streams[0]).get(), first);
  EXPECT_NE(blocks.take(80, &streams[1]).get(), first);
  EXPECT_EQ(calls("memory_allocate"), 2);
  // The streams used longest ago give theirs back.
  for (int& stream : streams) blocks.take(80, &stream);
  EXPECT_EQ(calls("memory_allocate"), 6);
  EXPECT_EQ(calls("memory_free"), 2);
}

}  // namespace
}  // namespace anydim::runtime
