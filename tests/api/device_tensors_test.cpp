// A model's calls with inputs and results in device memory, on a caller's stream: the very bits of
// the same calls on the host.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "api/anydim.h"
#include "runtime/cuda_device.h"
#include "tests/api/small_encoder.h"
#include "tests/support/host_kernels_gpu.h"

namespace anydim {
namespace {

using ir::DType;
using ir::Tensor;
using runtime::cuda::Address;

std::string failure(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Inputs) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

CompileOptions options() {
  CompileOptions options;
  options.threads = 1;
  options.keep_kernels = false;
  options.background = false;
  options.masked_rows = MaskedRows::Zero;  // rows are results, and packed all the same
  return options;
}

class DeviceTensors : public testing::Test {
 protected:
  DeviceTensors() {
    device_ = std::make_shared<runtime::cuda::CudaDevice>(
        runtime::cuda::DeviceContext::open(fake_.driver()));
    const CompileTarget host = make_target(options());
    model_ = Model::compile({tests::host_kernel_backend(host.backend), device_}, ir::parse(encoder),
                            options());
    driver().stream_create(&stream_, runtime::cuda::stream_non_blocking);
  }
  ~DeviceTensors() override {
    driver().stream_destroy(stream_);
    for (const Address address : allocated_) driver().memory_free(address);
  }

  // The same on the processor, compiled once.
  static const std::shared_ptr<const Model>& cpu() {
    static const auto model = Model::compile(ir::parse(encoder), options());
    return model;
  }
  const runtime::cuda::Driver& driver() const { return device_->context().driver(); }
  DeviceStream stream() const { return {stream_}; }
  Tensor room(DType dtype, std::vector<std::int64_t> dims) {
    Address address = 0;
    const auto bytes = static_cast<std::size_t>(ir::byte_count(dtype, dims));
    EXPECT_EQ(driver().memory_allocate(&address, bytes), runtime::cuda::success);
    allocated_.push_back(address);
    return model_->device_tensor(dtype, std::move(dims), reinterpret_cast<void*>(address));
  }
  // Filled on the stream, as late as the driver likes.
  Tensor on_device(const Tensor& host) {
    const Tensor tensor = room(host.dtype(), host.dims());
    driver().copy_to_device(reinterpret_cast<Address>(runtime::device_memory_of(tensor)->address()),
                            host.bytes().data(), host.byte_size(), stream_);
    return tensor;
  }
  void expect_same(const std::vector<Tensor>& results, const std::vector<Tensor>& wanted) {
    ASSERT_EQ(results.size(), wanted.size());
    for (std::size_t i = 0; i < results.size(); ++i) {
      Tensor host(results[i].dtype(), results[i].dims());
      runtime::device_memory_of(results[i])->download(host.mutable_bytes(), stream());
      EXPECT_TRUE(host.same_bits(wanted[i])) << "result " << i;
    }
  }

  tests::FakeCuda fake_{tests::host_kernel_gpu()};
  std::shared_ptr<runtime::cuda::CudaDevice> device_;
  std::shared_ptr<const Model> model_;
  runtime::cuda::Stream stream_ = nullptr;
  std::vector<Address> allocated_;
};

// Two texts of 3 rows, of which the last one's last is hidden.
std::vector<Tensor> two_texts(std::int64_t shift = 0) {
  return {Tensor::of<std::int64_t>(DType::I64, {2, 3}, {4, 5, 6, 7, 8 + shift, 9}),
          Tensor::of<int>(DType::Bool, {2, 3}, {0, 0, 0, 0, 0, 1})};
}

std::vector<ResultPlace> all_owned() { return std::vector(3, ResultPlace::on_device()); }

TEST_F(DeviceTensors, APackedCallInSteadyStateIsOneGraphLaunch) {
  ModelContext host(cpu()), context(model_);
  const std::vector<Tensor> texts = two_texts();
  const std::vector<Tensor> wanted = host.run(texts);
  std::vector<ResultPlace> places = all_owned();
  places[0] = ResultPlace::on_device(room(DType::F32, {2, 3, 16}));
  // What packing reads is the mask alone.
  const std::vector<Tensor> inputs{on_device(texts[0]), texts[1]};
  for (int i = 0; i < 3; ++i) {
    const auto results = context.run(inputs, places, stream());
    EXPECT_EQ(runtime::device_memory_of(results[0])->address(), places[0].bytes.data());
    expect_same(results, wanted);
  }
  EXPECT_EQ(context.packed_rows(), 5);
  fake_.forget_calls();
  const auto results = context.run(inputs, places, stream());
  EXPECT_EQ(fake_.calls("graph_launch"), 1);
  EXPECT_EQ(fake_.calls("copy_to_device"), 1);
  EXPECT_EQ(fake_.calls("event_record"), 2);
  EXPECT_EQ(fake_.calls("stream_wait"), 2);
  for (const char* other : {"copy_to_host", "copy_on_device", "launch", "graph_set_kernel",
                            "stream_synchronize", "event_synchronize", "memory_allocate"})
    EXPECT_EQ(fake_.calls(other), 0) << other;
  expect_same(results, wanted);
}

TEST_F(DeviceTensors, AMaskOnTheDeviceMakesTheCallPadded) {
  ModelContext host(cpu()), context(model_);
  const std::vector<Tensor> texts = two_texts();
  const auto wanted = host.run(texts);
  EXPECT_EQ(host.packed_rows(), 5);
  const auto results =
      context.run({on_device(texts[0]), on_device(texts[1])}, all_owned(), stream());
  EXPECT_EQ(context.packed_rows(), std::nullopt);
  EXPECT_EQ(results[0].dims(), wanted[0].dims());
  Tensor first(DType::F32, results[2].dims());
  runtime::device_memory_of(results[2])->download(first.mutable_bytes(), stream());
  for (std::int64_t i = 0; i < first.elements(); ++i)
    EXPECT_NEAR(first.real_at(i), wanted[2].real_at(i), 1e-5);
}

TEST_F(DeviceTensors, RaggedCallsTakeThemToo) {
  ModelContext host(cpu()), context(model_);
  const Tensor ids = Tensor::of<std::int64_t>(DType::I64, {5}, {4, 5, 6, 7, 8});
  const Tensor offsets = Tensor::of<std::int64_t>(DType::I64, {3}, {0, 3, 5});
  const auto wanted = host.run_ragged({ids}, offsets);
  const Tensor given = on_device(ids);
  for (int i = 0; i < 3; ++i)
    expect_same(context.run_ragged({given}, offsets, all_owned(), stream()), wanted);
  EXPECT_GE(fake_.calls("graph_launch"), 1);
}

TEST_F(DeviceTensors, WithoutAStreamTheCallHasEnded) {
  ModelContext host(cpu()), context(model_);
  const std::vector<Tensor> texts = two_texts();
  const auto wanted = host.run(texts);
  std::vector<ResultPlace> places(2);
  places[1] = ResultPlace::on_device();
  const std::vector<Tensor> results = context.run(texts, places);
  EXPECT_TRUE(results[0].same_bits(wanted[0])) << "on the host";
  EXPECT_TRUE(results[2].same_bits(wanted[2]));
  expect_same({results[1]}, {wanted[1]});
}

TEST_F(DeviceTensors, WhatFailsOnTheStreamIsToldBySynchronizeOrTheNextCall) {
  ModelContext context(model_);
  const auto message = [&](const std::function<void()>& action) {
    const std::string text = failure(action);
    EXPECT_NE(text.find("expected from -50 to 49, got 1008"), std::string::npos) << text;
  };
  const std::vector<Tensor> good = two_texts(), bad = two_texts(1000);
  for (int i = 0; i < 2; ++i) context.run(good, all_owned(), stream());
  context.run(bad, all_owned(), stream());
  message([&] { context.synchronize(); });
  context.synchronize();
  context.run(bad, all_owned(), stream());
  driver().stream_synchronize(stream_);
  // The next call is of another program: it is ragged.
  const Tensor ids = Tensor::of<std::int64_t>(DType::I64, {1}, {4}),
               offsets = Tensor::of<std::int64_t>(DType::I64, {2}, {0, 1});
  message([&] { context.run_ragged({ids}, offsets); });
  EXPECT_EQ(context.run_ragged({ids}, offsets)[1].dims(), (std::vector<std::int64_t>{1, 16}));
}

TEST_F(DeviceTensors, PlacesThatDoNotFitAreRefused) {
  ModelContext context(model_);
  const std::vector<Tensor> texts = two_texts();
  const Tensor ids = on_device(texts[0]);
  const auto refusal = [&](const ResultPlace& first, const ResultPlace& second) {
    const std::vector<ResultPlace> places{first, second, ResultPlace::on_device()};
    return failure([&] { context.run({ids, texts[1]}, places, stream()); });
  };
  const Tensor rows = room(DType::F32, {2, 3, 16});
  const std::string first = model_->output_names().at(0), second = model_->output_names().at(1);
  EXPECT_EQ(refusal(ResultPlace::on_device(rows), ResultPlace::on_device(rows)),
            "the places of results '" + first + "' and '" + second +
                "' share memory: expected memory of their own");
  EXPECT_EQ(refusal(ResultPlace::on_device(ids, true), ResultPlace::on_device()),
            "the place of result '" + first +
                "' shares memory with an input: expected memory of its own");
  EXPECT_EQ(refusal(ResultPlace::on_device(room(DType::F32, {3, 2, 16})), ResultPlace::on_device()),
            "result '" + first +
                "' is f32 (2, 3, 16) in this call, and the place for it f32 (3, "
                "2, 16)");
  // Where there is only room, what does not fit comes in the model's memory.
  const std::vector<ResultPlace> places{ResultPlace::on_device(room(DType::F32, {1}), true),
                                        ResultPlace::on_device(), ResultPlace::on_device()};
  const auto results = context.run({ids, texts[1]}, places, stream());
  EXPECT_NE(runtime::device_memory_of(results[0])->address(), places[0].bytes.data());
  EXPECT_EQ(
      failure([&] { ResultPlace::on_device(texts[0]); }),
      "a place on the device was given as a tensor i64 (2, 3) in host memory: expected one of "
      "Model::device_tensor()");
}

TEST_F(DeviceTensors, AModelOnTheCpuRefusesThem) {
  ModelContext context(cpu());
  EXPECT_EQ(failure([&] { cpu()->device_tensor(DType::F32, {2}, this); }),
            "a tensor f32 (2) in device memory was given to a model that runs on the CPU: expected "
            "a tensor in host memory");
  const std::string expected =
      "a call of a model that runs on the CPU was given a stream or a place on a device: expected "
      "neither";
  EXPECT_EQ(failure([&] { context.run(two_texts(), {}, stream()); }), expected);
  EXPECT_EQ(failure([&] { context.run(two_texts(), all_owned()); }), expected);
  const std::vector<Tensor> texts = two_texts();
  EXPECT_EQ(failure([&] { context.run({on_device(texts[0]), texts[1]}); }),
            "a tensor in memory of GPU 0 was read on the host: expected a tensor in host memory; "
            "copy it there first, in the order of the stream that writes it");
}

TEST_F(DeviceTensors, NothingIsAppendedInPlaceOnAGpu) {
  CompileOptions wanted = options();
  wanted.append_in_place = true;
  const CompileTarget target{tests::host_kernel_backend(make_target(options()).backend), device_};
  try {
    Model::compile(target,
                   ir::parse("fn @main(%x: Tensor[(s, 4), f32], %past: Tensor[(p, 4), f32]) {\n"
                             "  %all = concat(%past, %x) {axis = 0}\n  return %all\n}\n"),
                   wanted);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Unsupported);
    EXPECT_STREQ(error.what(),
                 "append_in_place is for the CPU: results are not appended in a GPU's memory");
  }
}

}  // namespace
}  // namespace anydim
