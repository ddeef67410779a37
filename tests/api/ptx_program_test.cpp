// A whole model from ONNX to results: compiled by NVRTC, its PTX run on the interpreter through
// runtime's CUDA path, graphs and all.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "api/anydim.h"
#include "bench/campaign/worker/schedule_choice.h"
#include "ir/text/parse.h"
#include "tests/runtime/temporary_folder.h"
#include "tests/support/fake_part.h"
#include "tests/support/forwarding_backend.h"
#include "tests/support/random_tensors.h"

namespace anydim {
namespace {

using ir::Tensor;
using tests::FakePart;
using tests::random_texts;

class PtxProgram : public testing::TestWithParam<const char*> {};

// What `compile` gives; null where compilation fails because there is no NVRTC here.
auto with_nvrtc(const auto& compile) -> decltype(compile()) {
  try {
    return compile();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::Resource &&
        std::string_view(error.what()).find("NVRTC") != std::string_view::npos)
      return nullptr;
    throw;
  }
}

TEST_P(PtxProgram, TinyBertAgreesWithTheReferenceOnTheStreamAndInGraphs) {
  const std::string model = "../models/tiny_bert.onnx";
  FakePart part(GetParam());
  const auto executable =
      with_nvrtc([&] { return compile_for(part.target, load_model(model), part.options); });
  if (executable == nullptr) GTEST_SKIP() << "there is no NVRTC";

  const ir::Module reference = load_model(model);
  runtime::Context context(executable);
  const auto expect_right = [&](std::int64_t batch, std::int64_t length, unsigned seed) {
    const std::vector<Tensor> inputs =
        random_texts(inputs_of(executable->program()), batch, length, seed);
    const std::vector<Tensor> want = evaluate_reference(reference, inputs);
    const std::vector<Tensor> got = part.reporting([&] { return context.run(inputs); });
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t o = 0; o < want.size(); ++o) {
      ASSERT_EQ(got[o].dims(), want[o].dims());
      for (std::int64_t i = 0; i < want[o].elements(); ++i)
        ASSERT_NEAR(got[o].real_at(i), want[o].real_at(i), 2e-4)
            << "output " << o << ", element " << i;
    }
  };
  // On the stream, captured, then replayed for a smaller size of the capacity; another capacity in
  // between.
  expect_right(2, 10, 1);
  expect_right(1, 3, 2);
  expect_right(2, 9, 3);
  expect_right(2, 9, 4);
  EXPECT_GE(part.fake->calls("graph_launch"), 2);
  EXPECT_EQ(part.gpu->findings(), "");
}

TEST_P(PtxProgram, PaddingIsRemovedAsOnTheProcessor) {
  const std::string file = "../models/tiny_bert.onnx";
  FakePart part(GetParam());
  part.options.masked_rows = MaskedRows::Zero;
  const auto model =
      with_nvrtc([&] { return Model::compile(part.target, load_model(file), part.options); });
  if (model == nullptr) GTEST_SKIP() << "there is no NVRTC";
  ASSERT_TRUE(model->packing()) << model->padded_because();
  const ir::Module reference = load_model(file);
  ModelContext context(model);
  // On the stream, captured, replayed for fewer rows.
  for (const auto& [batch, length] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{3, 10}, {3, 10}, {3, 9}}) {
    const std::vector<Tensor> inputs = random_texts(model->inputs(), batch, length, 7);
    const std::vector<Tensor> want = evaluate_reference(reference, inputs);
    const std::vector<Tensor> got = part.reporting([&] { return context.run(inputs); });
    EXPECT_EQ(context.packed_rows(), batch * (length / 2 + 1));
    for (std::size_t o = 0; o < want.size(); ++o) {
      ASSERT_EQ(got[o].dims(), want[o].dims());
      const bool has_rows = want[o].rank() == 3;
      const std::int64_t row = has_rows ? want[o].elements() / (batch * length) : 1;
      for (std::int64_t i = 0; i < want[o].elements(); ++i) {
        const bool hidden = has_rows && i / row % length > length / 2;
        ASSERT_NEAR(got[o].real_at(i), hidden ? 0 : want[o].real_at(i), 2e-4)
            << "output " << o << ", element " << i;
      }
    }
  }
  EXPECT_GE(part.fake->calls("graph_launch"), 1);
  EXPECT_EQ(part.gpu->findings(), "");
}

// Texts end to end, without a mask: rows as those of the padded reference. On the stream, captured,
// and replayed for fewer rows and texts.
TEST_P(PtxProgram, RaggedCallsAreThePaddedOnesWithoutPadding) {
  const std::string file = "../models/tiny_bert.onnx";
  FakePart part(GetParam());
  const auto model =
      with_nvrtc([&] { return Model::compile(part.target, load_model(file), part.options); });
  if (model == nullptr) GTEST_SKIP() << "there is no NVRTC";
  ASSERT_NE(model->ragged(), nullptr);
  const ir::Module reference = load_model(file);
  ModelContext context(model);
  for (const std::vector<std::int64_t>& lengths :
       std::vector<std::vector<std::int64_t>>{{4, 1, 9}, {9, 4, 1}, {3, 8}, {1}}) {
    std::vector<std::int64_t> offsets{0};
    for (const std::int64_t length : lengths) offsets.push_back(offsets.back() + length);
    const auto count = static_cast<std::int64_t>(lengths.size()),
               longest = *std::max_element(lengths.begin(), lengths.end());
    const std::int64_t tokens = offsets.back();
    const Tensor begins = Tensor::of<std::int64_t>(ir::DType::I64, {count + 1}, offsets);
    // Padded inputs, and the rows of them that are texts.
    std::vector<Tensor> padded, ragged;
    for (Tensor& input : random_texts(model->inputs(), count, longest, 3)) {
      const bool mask = model->inputs()[padded.size()].name == "attention_mask";
      Tensor rows(input.dtype(), {tokens});
      for (std::int64_t t = 0; t < count; ++t) {
        for (std::int64_t s = 0; s < longest; ++s) {
          const bool there = s < lengths[static_cast<std::size_t>(t)];
          if (mask) input.set_integer(t * longest + s, there ? 1 : 0);
          else if (there)
            rows.set_integer(offsets[static_cast<std::size_t>(t)] + s,
                             input.integer_at(t * longest + s));
        }
      }
      if (!mask) ragged.push_back(std::move(rows));
      padded.push_back(std::move(input));
    }
    const std::vector<Tensor> want = evaluate_reference(reference, padded);
    const std::vector<Tensor> got =
        part.reporting([&] { return context.run_ragged(ragged, begins); });
    EXPECT_EQ(context.packed_rows(), tokens);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t o = 0; o < want.size(); ++o) {
      const bool has_rows = model->ragged()->output_rows[o];
      ASSERT_EQ(got[o].dims().front(), has_rows ? tokens : count);
      const std::int64_t row = want[o].elements() / (has_rows ? count * longest : count);
      for (std::int64_t t = 0; t < count; ++t) {
        const std::int64_t rows = has_rows ? lengths[static_cast<std::size_t>(t)] : 1;
        const std::int64_t from = has_rows ? offsets[static_cast<std::size_t>(t)] : t,
                           at = has_rows ? t * longest : t;
        for (std::int64_t i = 0; i < rows * row; ++i)
          ASSERT_NEAR(got[o].real_at(from * row + i), want[o].real_at(at * row + i), 2e-4)
              << "output " << o << ", text " << t;
      }
    }
  }
  EXPECT_GE(part.fake->calls("graph_launch"), 1);
  EXPECT_EQ(part.gpu->findings(), "");
}

// Sizes that only the data tells: what comes behind them runs at the size that the device counted.
TEST_P(PtxProgram, SizesThatOnlyTheDataTells) {
  const std::string file = "../models/data_dependent.onnx";
  FakePart part(GetParam());
  const auto executable =
      with_nvrtc([&] { return compile_for(part.target, load_model(file), part.options); });
  if (executable == nullptr) GTEST_SKIP() << "there is no NVRTC";
  const ir::Module reference = load_model(file);
  runtime::Context context(executable);
  std::mt19937 random(11);
  for (const auto& [rows, columns, share] : std::vector<std::array<unsigned, 3>>{
           {3, 4, 2}, {1, 1, 2}, {7, 13, 2}, {2, 3, 0}, {9, 40, 3}, {3, 4, 2}}) {
    Tensor x(ir::DType::F32, {rows, columns}), mask(ir::DType::Bool, {rows, columns});
    for (std::int64_t i = 0; i < x.elements(); ++i) {
      x.set_real(i, share == 0 ? -1 : static_cast<double>(random() % 9) - 4);
      mask.set_integer(i, random() % 4 < share ? 1 : 0);
    }
    const std::vector<Tensor> want = evaluate_reference(reference, {x, mask});
    const std::vector<Tensor> got = part.reporting([&] { return context.run({x, mask}); });
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t o = 0; o < want.size(); ++o) {
      ASSERT_EQ(got[o].dims(), want[o].dims()) << "output " << o;
      ASSERT_TRUE(got[o].same_bits(want[o])) << "output " << o;
    }
  }
  EXPECT_EQ(part.gpu->findings(), "");
}

// A product of a Hopper part reads and writes through tensor maps, which hold addresses.
TEST(PtxDeviceTensors, WhatATensorMapDescribesIsCopiedToItsPlace) {
  const char* product = R"(
fn @main(%x: Tensor[(m, 64), bf16]) -> Tensor[(m, 64), bf16] where m in [1, 256] {
  %w = constant(bf16 (64, 64) @random(1))
  %y = matmul(%x, %w)
  return %y
})";
  FakePart part("h200");
  part.target.backend = std::make_shared<const campaign::ChosenSchedules>(
      part.target.backend, campaign::parse_schedule_filter("matmul_wgmma"));
  const auto model =
      with_nvrtc([&] { return Model::compile(part.target, ir::parse(product), part.options); });
  if (model == nullptr) GTEST_SKIP() << "there is no NVRTC";
  const runtime::cuda::Driver& driver = part.device->context().driver();
  const Tensor host = ir::random_tensor(ir::DType::BF16, {100, 64}, 3, "x");
  const Tensor want = evaluate_reference(ir::parse(product), {host})[0];
  runtime::cuda::Address address = 0;
  ASSERT_EQ(driver.memory_allocate(&address, host.byte_size()), runtime::cuda::success);
  const Tensor x =
      model->device_tensor(host.dtype(), host.dims(), reinterpret_cast<void*>(address));
  runtime::device_memory_of(x)->upload(host.bytes(), {});
  const std::vector<ResultPlace> places{ResultPlace::on_device()};
  ModelContext context(model);
  for (int turn = 0; turn < 3; ++turn) {
    part.fake->forget_calls();
    const Tensor got = part.reporting([&] { return context.run({x}, places, DeviceStream{}); })[0];
    Tensor copy(got.dtype(), got.dims());
    runtime::device_memory_of(got)->download(copy.mutable_bytes(), {});
    for (std::int64_t i = 0; i < want.elements(); ++i)
      ASSERT_NEAR(copy.real_at(i), want.real_at(i), 2e-2 * std::abs(want.real_at(i)) + 2e-2) << i;
    EXPECT_EQ(part.fake->calls("graph_launch"), turn > 0 ? 1 : 0);
    EXPECT_EQ(part.fake->calls("copy_on_device"), 2) << "x, and the result";
    EXPECT_EQ(part.fake->calls("graph_set_kernel"), 0);
    EXPECT_EQ(part.fake->calls("encode_tensor_map") > 0, turn == 0);
  }
  driver.memory_free(address);
  EXPECT_EQ(part.gpu->findings(), "");
}

// Kernels that wait run first as their checked forms; what has passed is kept with the kernels.
TEST(PtxTrials, WaitingKernelsRunAsTheirTwinsOnce) {
  const char* text = R"(
fn @main(%x: Tensor[(m, 128), bf16]) where m in [1, 4096] {
  %w = constant(bf16 (128, 64) @random(1))
  %y = matmul(%x, %w)
  return %y
})";
  const test::TemporaryFolder folder;
  std::mt19937 random(5);
  const std::vector<Tensor> given{tests::random_numbers(ir::DType::BF16, {200, 128}, random, 3)};
  const std::vector<Tensor> want = evaluate_reference(ir::parse(text), given);
  const int modules[] = {2, 1};  // the kernel's, and in the first process its checked form's
  for (const int wanted : modules) {
    FakePart part("h200");
    part.options.keep_kernels = true;
    part.options.cache_folder = folder.path();
    part.target.backend = std::make_shared<const campaign::ChosenSchedules>(
        part.target.backend, campaign::parse_schedule_filter("matmul_wgmma"));
    const auto executable =
        with_nvrtc([&] { return compile_for(part.target, ir::parse(text), part.options); });
    if (executable == nullptr) GTEST_SKIP() << "there is no NVRTC";
    runtime::Context context(executable);
    for (int call = 0; call < 3; ++call) {
      const Tensor got = part.reporting([&] { return context.run(given); })[0];
      for (std::int64_t i = 0; i < got.elements(); ++i)
        ASSERT_NEAR(got.real_at(i), want[0].real_at(i), 0.02 * (1 + std::abs(want[0].real_at(i))));
    }
    EXPECT_EQ(part.fake->calls("module_load"), wanted);
    EXPECT_EQ(part.gpu->findings(), "");
  }
}

// Kernels whose code does not wait for the launch ahead, though they say that they do.
class WithoutGridWait : public ir::ForwardingBackend {
 public:
  explicit WithoutGridWait(std::shared_ptr<const ir::Backend> inner)
      : ForwardingBackend(std::move(inner)) {}
  ir::CompiledKernel compile(const ir::Region& region, const ir::Bucket& bucket,
                             const ir::Schedule& schedule) const override {
    ir::CompiledKernel kernel = ForwardingBackend::compile(region, bucket, schedule);
    std::string text(reinterpret_cast<const char*>(kernel.code.data()), kernel.code.size());
    const std::string wait = "griddepcontrol.wait;";
    for (std::size_t at = 0; (at = text.find(wait, at)) != std::string::npos;)
      text.erase(at, wait.size());
    const auto bytes = std::as_bytes(std::span(text));
    kernel.code.assign(bytes.begin(), bytes.end());
    return kernel;
  }
};

// The interpreter carries launches out one after the other, so results are right without the wait;
// a GPU's need not be.
TEST(PtxOverlap, ALaunchThatBeginsEarlyAndDoesNotWaitIsFound) {
  const char* text = R"(
fn @main(%x: Tensor[(m, 40), f32]) where m in [1, 64] {
  %y = softmax(%x) {axis = 1}
  %z = softmax(%y) {axis = 0}
  return %z
})";
  std::mt19937 random(5);
  const std::vector<Tensor> given{tests::random_numbers(ir::DType::F32, {30, 40}, random, 3)};
  for (const bool waits : {true, false}) {
    FakePart part("h200");
    if (!waits) part.target.backend = std::make_shared<const WithoutGridWait>(part.target.backend);
    const auto executable =
        with_nvrtc([&] { return compile_for(part.target, ir::parse(text), part.options); });
    if (executable == nullptr) GTEST_SKIP() << "there is no NVRTC";
    runtime::Context context(executable);
    context.run(given);  // each kernel alone, as nobody has run it before
    if (waits) {
      context.run(given);
      EXPECT_GT(part.fake->launches_with(runtime::cuda::programmatic_stream_serialization), 0);
      EXPECT_EQ(part.gpu->findings(), "");
    } else {
      EXPECT_THROW(context.run(given), Error);
      EXPECT_NE(
          part.gpu->findings().find("which a launch ahead writes, before griddepcontrol.wait"),
          std::string::npos)
          << part.gpu->findings();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Parts, PtxProgram, testing::Values("a100", "h200"));

}  // namespace
}  // namespace anydim
