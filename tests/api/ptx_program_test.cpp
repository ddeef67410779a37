// A whole model from ONNX to results: compiled by NVRTC, its PTX run on the interpreter through runtime's CUDA path, graphs and all.
#include <gtest/gtest.h>

#include <random>

#include "api/anydim.h"
#include "codegen_cuda/backend.h"
#include "runtime/cuda_device.h"
#include "tests/support/ptx_gpu.h"

namespace anydim {
namespace {

using ir::Tensor;

class PtxProgram : public testing::TestWithParam<const char*> {};

std::vector<Tensor> texts(const std::vector<InputInfo>& inputs, std::int64_t batch, std::int64_t length, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Tensor> tensors;
  for (const InputInfo& input : inputs) {
    Tensor tensor(input.dtype, {batch, length});
    const bool mask = input.name == "attention_mask";
    for (std::int64_t i = 0; i < tensor.elements(); ++i)
      tensor.set_integer(i, mask ? (i % length <= length / 2 ? 1 : 0) : static_cast<std::int64_t>(random() % 90));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

// A pretended GPU of a part and what compiles for it.
struct PretendedPart {
  explicit PretendedPart(const char* part) {
    codegen_cuda::CudaOptions cuda;
    cuda.target = codegen_cuda::target_named(part).value();
    cuda.target.multiprocessors = 2;
    cuda.output = codegen_cuda::CudaOutput::Ptx;
    ptx::MachineOptions machine;
    machine.architecture = cuda.target.architecture;
    gpu = std::make_shared<tests::PtxGpu>(machine);
    fake = std::make_unique<tests::FakeCuda>(
        gpu, tests::FakeCudaOptions{.capability = cuda.target.capability(), .shared_per_block = cuda.target.shared_per_block});
    const auto device = std::make_shared<runtime::cuda::CudaDevice>(runtime::cuda::DeviceContext::open(fake->driver()));
    target = {codegen_cuda::make_cuda_backend(cuda), device};
    options.threads = 2;
    options.keep_kernels = false;
    options.background = false;  // one general kernel a region: what every shape can fall back to
  }
  std::shared_ptr<tests::PtxGpu> gpu;
  std::unique_ptr<tests::FakeCuda> fake;
  CompileTarget target;
  CompileOptions options;
};

// Whether compilation failed because there is no NVRTC here.
bool lacks_compiler(const Error& error) {
  return error.kind() == ErrorKind::Resource && std::string_view(error.what()).find("NVRTC") != std::string_view::npos;
}

TEST_P(PtxProgram, TinyBertAgreesWithTheReferenceOnTheStreamAndInGraphs) {
  const std::string model = "../models/tiny_bert.onnx";
  PretendedPart part(GetParam());
  std::shared_ptr<const runtime::Executable> executable;
  try {
    executable = compile_for(part.target, load_model(model), part.options);
  } catch (const Error& error) {
    if (lacks_compiler(error)) GTEST_SKIP() << error.what();
    throw;
  }

  const ir::Module reference = load_model(model);
  runtime::Context context(executable);
  const auto expect_right = [&](std::int64_t batch, std::int64_t length, unsigned seed) {
    const std::vector<Tensor> inputs = texts(inputs_of(executable->program()), batch, length, seed);
    const std::vector<Tensor> want = evaluate_reference(reference, inputs);
    std::vector<Tensor> got;
    try {
      got = context.run(inputs);
    } catch (const Error& error) {
      FAIL() << error.what() << "\n" << part.gpu->findings();
    }
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t o = 0; o < want.size(); ++o) {
      ASSERT_EQ(got[o].dims(), want[o].dims());
      for (std::int64_t i = 0; i < want[o].elements(); ++i)
        ASSERT_NEAR(got[o].real_at(i), want[o].real_at(i), 2e-4) << "output " << o << ", element " << i;
    }
  };
  // On the stream, captured, then replayed for a smaller size of the capacity; another capacity in between.
  expect_right(2, 10, 1);
  expect_right(1, 3, 2);
  expect_right(2, 9, 3);
  expect_right(2, 9, 4);
  EXPECT_GE(part.fake->calls("graph_launch"), 2);
  EXPECT_EQ(part.gpu->findings(), "");
}

TEST_P(PtxProgram, PaddingIsRemovedAsOnTheProcessor) {
  const std::string file = "../models/tiny_bert.onnx";
  PretendedPart part(GetParam());
  part.options.masked_rows = MaskedRows::Zero;
  std::shared_ptr<const Model> model;
  try {
    model = Model::compile(part.target, load_model(file), part.options);
  } catch (const Error& error) {
    if (lacks_compiler(error)) GTEST_SKIP() << error.what();
    throw;
  }
  ASSERT_TRUE(model->packing()) << model->padded_because();
  const ir::Module reference = load_model(file);
  ModelContext context(model);
  // On the stream, captured, replayed for fewer rows.
  for (const auto& [batch, length] : std::vector<std::pair<std::int64_t, std::int64_t>>{{3, 10}, {3, 10}, {3, 9}}) {
    const std::vector<Tensor> inputs = texts(model->inputs(), batch, length, 7);
    const std::vector<Tensor> want = evaluate_reference(reference, inputs);
    std::vector<Tensor> got;
    try {
      got = context.run(inputs);
    } catch (const Error& error) {
      FAIL() << error.what() << "\n" << part.gpu->findings();
    }
    EXPECT_EQ(context.packed_rows(), batch * (length / 2 + 1));
    for (std::size_t o = 0; o < want.size(); ++o) {
      ASSERT_EQ(got[o].dims(), want[o].dims());
      const bool has_rows = want[o].rank() == 3;
      const std::int64_t row = has_rows ? want[o].elements() / (batch * length) : 1;
      for (std::int64_t i = 0; i < want[o].elements(); ++i) {
        const bool hidden = has_rows && i / row % length > length / 2;
        ASSERT_NEAR(got[o].real_at(i), hidden ? 0 : want[o].real_at(i), 2e-4) << "output " << o << ", element " << i;
      }
    }
  }
  EXPECT_GE(part.fake->calls("graph_launch"), 1);
  EXPECT_EQ(part.gpu->findings(), "");
}

INSTANTIATE_TEST_SUITE_P(Parts, PtxProgram, testing::Values("a100", "h200"));

}  // namespace
}  // namespace anydim
