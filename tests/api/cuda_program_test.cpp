// Whole models through runtime's CUDA path, with the CPU's kernels standing in for the GPU's: what
// comes out has the very bits of the CPU path.
#include <gtest/gtest.h>

#include <random>

#include "api/anydim.h"
#include "runtime/cuda_device.h"
#include "tests/support/host_kernels_gpu.h"
#include "tests/support/random_tensors.h"

namespace anydim {
namespace {

using ir::DType;
using ir::Tensor;
using tests::random_texts;

CompileOptions options() {
  CompileOptions options;
  options.threads = 1;  // one order of summation
  options.keep_kernels = false;
  return options;
}

struct Pair {
  explicit Pair(const std::string& model) {
    cpu = compile(load_model(model), options());
    const CompileTarget host = make_target(options());
    const auto device = std::make_shared<runtime::cuda::CudaDevice>(
        runtime::cuda::DeviceContext::open(fake.driver()));
    gpu = compile_for({tests::host_kernel_backend(host.backend), device}, load_model(model),
                      options());
    cpu->kernels().complete();
    gpu->kernels().complete();
  }
  tests::FakeCuda fake{tests::host_kernel_gpu()};
  std::shared_ptr<const runtime::Executable> cpu, gpu;
};

void expect_same(Pair& pair, runtime::Context& cpu, runtime::Context& gpu, std::int64_t batch,
                 std::int64_t length, unsigned seed) {
  const std::vector<Tensor> inputs =
      random_texts(inputs_of(pair.cpu->program()), batch, length, seed);
  const std::vector<Tensor> want = cpu.run(inputs), got = gpu.run(inputs);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t o = 0; o < want.size(); ++o)
    EXPECT_TRUE(got[o].same_bits(want[o])) << "output " << o << " at " << batch << " x " << length;
}

TEST(CudaProgram, TinyBertReplaysItsGraphsAtEverySize) {
  Pair pair("../models/tiny_bert.onnx");
  runtime::Context cpu(pair.cpu), gpu(pair.gpu);
  // Each capacity on the stream, captured, and replayed for smaller sizes; the first again once
  // others have moved the memory.
  for (const auto& [batch, length] : std::vector<std::pair<int, int>>{
           {2, 12}, {2, 11}, {2, 12}, {2, 11}, {1, 1}, {7, 30}, {7, 31}, {7, 29}, {2, 11}, {2, 12}})
    expect_same(pair, cpu, gpu, batch, length, static_cast<unsigned>(100 * batch + length));
  EXPECT_GT(pair.fake.calls("graph_launch"), 3);
  const std::int64_t captured = pair.fake.calls("graph_instantiate");
  pair.fake.forget_calls();
  for (int turn = 0; turn < 3; ++turn)
    expect_same(pair, cpu, gpu, 2, 11 + turn % 2, static_cast<unsigned>(turn));
  EXPECT_GE(captured, 3);
  EXPECT_EQ(pair.fake.calls("graph_launch"), 3);
  EXPECT_EQ(pair.fake.calls("copy_to_device"), 3);
  EXPECT_EQ(pair.fake.calls("stream_synchronize"), 3);
}

}  // namespace
}  // namespace anydim
