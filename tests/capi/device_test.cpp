// Calls on a stream over a fake GPU: a driver that interprets PTX, found on the loader's path.
#include <cstring>

#include "runtime/cuda_driver.h"
#include "tests/capi/interface.h"

namespace anydim::capi {
namespace {

namespace cuda = runtime::cuda;

class CDevice : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    driver_ = cuda::open_driver();
    model_ = load(plus_one, {{"device", "cuda"}});
  }
  static void TearDownTestSuite() { EXPECT_OK(api().model_release(model_)); }
  void SetUp() override {
    context_ = context_of(model_);
    ASSERT_EQ(driver_->stream_create(&stream_, cuda::stream_non_blocking), cuda::success);
    call_.stream = stream_;
  }
  void TearDown() override {
    EXPECT_OK(api().context_release(context_));
    driver_->stream_destroy(stream_);
    for (const cuda::Address address : allocated_) driver_->memory_free(address);
  }

  void* allocate(std::size_t bytes) {
    cuda::Address address = 0;
    EXPECT_EQ(driver_->memory_allocate(&address, bytes), cuda::success);
    allocated_.push_back(address);
    return reinterpret_cast<void*>(address);
  }
  // In the order of the stream, without a wait.
  void fill(void* place, const std::vector<float>& elements) {
    driver_->copy_to_device(reinterpret_cast<cuda::Address>(place), elements.data(),
                            elements.size() * sizeof(float), stream_);
  }
  std::vector<float> read(const void* place, std::size_t count) {
    std::vector<float> elements(count);
    driver_->copy_to_host(elements.data(), reinterpret_cast<cuda::Address>(place),
                          count * sizeof(float), stream_);
    driver_->stream_synchronize(stream_);
    return elements;
  }
  anydim_input input(const void* data) { return {"x", dims_.data(), data, 24, ANYDIM_F32, 2}; }
  anydim_output output(void* data, std::size_t capacity) {
    return {"y", out_dims_.data(), data, capacity, 0, ANYDIM_F32, 2};
  }

  static inline std::shared_ptr<const cuda::Driver> driver_;
  static inline anydim_model* model_ = nullptr;
  anydim_context* context_ = nullptr;
  cuda::Stream stream_ = nullptr;
  anydim_stream_call call_ = answer<anydim_stream_call>();
  std::vector<cuda::Address> allocated_;
  std::vector<std::int64_t> dims_{2, 3}, out_dims_{0, 0};
};

const std::vector<float> six{1, 2, 3, 4, 5, 6}, plus{2, 3, 4, 5, 6, 7};
const std::uint8_t yes = 1;

TEST_F(CDevice, FromAndToTheCallersMemory) {
  void* const x = allocate(24);
  void* const y = allocate(24);
  call_.inputs_on_device = call_.outputs_on_device = &yes;
  for (int turn = 0; turn < 3; ++turn) {
    fill(x, six);
    const anydim_input in = input(x);
    anydim_output out = output(y, 24);
    ASSERT_OK(api().context_run_on_stream(context_, &call_, &in, 1, &out, 1));
    EXPECT_EQ(out.size, 24u);
    EXPECT_EQ(out_dims_, dims_);
    fill(x, {9, 9, 9, 9, 9, 9});  // behind the call
    EXPECT_EQ(read(y, 6), plus);
  }
  EXPECT_OK(api().context_synchronize(context_));
}

TEST_F(CDevice, IntoTheLibrarysMemory) {
  const anydim_input in = input(six.data());  // on the host, staged
  anydim_results* results = nullptr;
  ASSERT_OK(api().context_run_on_stream_owned(context_, &call_, &in, 1, &results));
  auto tensor = answer<anydim_tensor>();
  ASSERT_OK(api().results_tensor(results, 0, &tensor));
  std::int32_t device = -1;
  ASSERT_OK(api().results_device(results, 0, &device));
  EXPECT_EQ(device, 0);
  EXPECT_EQ(tensor.size, 24u);
  EXPECT_EQ(read(tensor.data, 6), plus);
  EXPECT_OK(api().results_release(results));
}

TEST_F(CDevice, OnTheHostAndUnwantedAlike) {
  void* const x = allocate(24);
  fill(x, six);
  const anydim_input in = input(x);
  call_.inputs_on_device = &yes;
  std::vector<float> y(6);
  anydim_output out = output(y.data(), 24);
  ASSERT_OK(api().context_run_on_stream(context_, &call_, &in, 1, &out, 1));
  EXPECT_EQ(y, plus) << "waited for";
  ASSERT_OK(api().context_run_on_stream(context_, &call_, &in, 1, nullptr, 0));
}

TEST_F(CDevice, WhatDoesNotFitIsRefused) {
  void* const x = allocate(24);
  fill(x, six);
  call_.inputs_on_device = call_.outputs_on_device = &yes;
  const auto run = [&](const void* from, void* to, std::size_t capacity) {
    const anydim_input in = input(from);
    anydim_output out = output(to, capacity);
    return said(api().context_run_on_stream(context_, &call_, &in, 1, &out, 1));
  };
  const Said small = run(x, allocate(20), 20);
  EXPECT_EQ(small.kind, anydim_kind{ANYDIM_BAD_INPUTS});
  EXPECT_EQ(small.message,
            "output 'y' has room for 20 bytes, and the result is f32 (2, 3), which takes 24: give "
            "it as many and call again");
  const Said host = run(six.data(), allocate(24), 24);
  EXPECT_EQ(host.kind, anydim_kind{ANYDIM_BAD_INPUTS});
  EXPECT_NE(host.message.find("this is no device memory"), std::string::npos) << host.message;
  const Said same = run(x, x, 24);
  EXPECT_EQ(same.message,
            "the place of result 'y' shares memory with an input: expected memory of its own");
  call_.struct_size = 8;
  EXPECT_EQ(run(x, allocate(24), 24), (Said{ANYDIM_BAD_ARGUMENT,
                                            "context_run_on_stream: call->struct_size is 8: "
                                            "expected sizeof(*call), which is at least 48"}));
}

}  // namespace
}  // namespace anydim::capi
