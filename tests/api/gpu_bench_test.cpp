// Operators timed on a fake GPU, against a fake cuBLASLt: a kernel takes 1 us there, a fill 1000,
// products of the library's algorithms 3, 2 and 2.5.
#include <gtest/gtest.h>

#include <cmath>

#include "api/anydim.h"
#include "api/gpu_check.h"
#include "ir/random_tensor.h"
#include "ir/text/parse.h"
#include "tests/support/fake_cublaslt.h"
#include "tests/support/fake_part.h"

namespace anydim {
namespace {

using ir::Tensor;

class GpuBench : public testing::Test {
 protected:
  tests::FakePart gpu{"h200"};
  tests::FakeCublasLt library{*gpu.fake};
  CompileOptions options = [] {
    CompileOptions made{.threads = 1, .keep_kernels = false};
    made.policies = {{"", Policy::Symbolic}};
    made.background = false;
    return made;
  }();
};

void expect_samples(const GpuComparison& times, double ours, double heuristic, double best) {
  EXPECT_NEAR(1e6 * times.ours.median, ours, 1e-3);
  EXPECT_NEAR(1e6 * times.heuristic.median, heuristic, 1e-3);
  EXPECT_NEAR(1e6 * times.best.median, best, 1e-3);
}

TEST_F(GpuBench, ProductsInARingOfWeightsWithAWarmAndWithAColdCache) {
  gpu.device->use(runtime::cuda::CublasLt::make(gpu.device->shared_context(), library.functions()));
  const std::int64_t before = gpu.fake->bytes_in_use();
  const GpuMatmul shape{.m = 24, .n = 32, .k = 64, .copies = 3};
  const auto times = time_matmul(gpu.target, {shape, {.m = 5, .n = 32, .k = 64, .copies = 3}},
                                 options, {.cache_extremes = true, .repetitions = 3});
  ASSERT_EQ(times.size(), 2u);
  for (const GpuMatmulTimes& one : times) {
    EXPECT_EQ(one.algorithms, 3);  // one of the four that are offered does not run
    expect_samples(one.ring, 1, 3, 2);
    expect_samples(one.warm, 1, 3, 2);
    expect_samples(one.cold, 1, 3, 2);  // what empties the cache is not part of the time
    EXPECT_LT(one.largest_difference, 0.01);
    EXPECT_GT(one.largest_difference, 0);
    EXPECT_TRUE(one.schedule.starts_with("matmul_")) << one.schedule;
  }
  // Every cold call finds an empty cache: three engines, warm-ups and repetitions, two shapes.
  EXPECT_EQ(gpu.fake->calls("fill_bytes"), 2 * 3 * (3 + 3));
  EXPECT_EQ(gpu.gpu->findings(), "");
  EXPECT_EQ(gpu.fake->bytes_in_use(), before);
  // Bias on both sides.
  for (const auto& product : library.asked())
    EXPECT_EQ(product.epilogue, runtime::cuda::epilogue_bias);
}

TEST_F(GpuBench, AFirstChoiceThatDoesNotRunIsNotReplacedByAnother) {
  gpu.device->use(runtime::cuda::CublasLt::make(gpu.device->shared_context(), library.functions()));
  library.prefer_the_broken();
  try {
    time_matmul(gpu.target, {{.m = 3, .n = 32, .k = 64}}, options, {.repetitions = 1});
    FAIL() << "it was compared with another";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Resource);
    EXPECT_EQ(std::string(error.what()),
              "cuBLASLt's first choice for 3 x 32 x 64 does not run (cuBLASLt: a product failed "
              "with status 15); bench without --vs cublas");
  }
}

TEST_F(GpuBench, WithoutALibraryResultsAreChecked) {
  const auto times = time_matmul(gpu.target, {{.m = 3, .n = 32, .k = 64, .copies = 2}}, options,
                                 {.library = false, .repetitions = 3});
  expect_samples(times.at(0).ring, 1, 0, 0);
  EXPECT_EQ(times[0].cold.ours.median, 0);
  EXPECT_LT(times[0].largest_difference, 0.01);
  EXPECT_GT(times[0].largest_difference, 0);
  const std::vector<GpuAttention> shapes{{.batch = 2, .heads = 3, .length = 19, .head = 32},
                                         {.heads = 2, .head = 32, .lengths = {3, 40, 17}}};
  for (const GpuAttentionTimes& one : time_attention(gpu.target, shapes, options, 3)) {
    EXPECT_NEAR(1e6 * one.ours.median, 1, 1e-3);
    EXPECT_LT(one.largest_difference, 0.01);
    EXPECT_GT(one.largest_difference, 0);
  }
}

TEST_F(GpuBench, ALibraryThatIsMissingIsNamed) {
  EXPECT_NE(library_missing(gpu.target, "/nowhere/libcublasLt.so").find("/nowhere/libcublasLt.so"),
            std::string::npos);
  gpu.device->use(runtime::cuda::CublasLt::make(gpu.device->shared_context(), library.functions()));
  EXPECT_EQ(library_missing(gpu.target, ""), "");
}

// A plain copy shares its memory.
Tensor of_its_own(const Tensor& tensor) {
  Tensor copy(tensor.dtype(), tensor.dims());
  for (std::int64_t i = 0; i < tensor.elements(); ++i) copy.set_real(i, tensor.real_at(i));
  return copy;
}

// One element that is wrong by a tenth of the largest shows.
TEST(GpuCheck, FindsWrongElements) {
  const Tensor x = ir::random_tensor(ir::DType::BF16, std::vector<std::int64_t>{4, 32}, 1, "x"),
               w = ir::random_tensor(ir::DType::BF16, std::vector<std::int64_t>{32, 16}, 1, "w"),
               bias = ir::random_tensor(ir::DType::BF16, std::vector<std::int64_t>{16}, 1, "b");
  Tensor y(ir::DType::F32, {4, 16});
  double largest = 0;
  for (std::int64_t i = 0; i < 4; ++i) {
    for (std::int64_t j = 0; j < 16; ++j) {
      double sum = bias.real_at(j);
      for (std::int64_t k = 0; k < 32; ++k) sum += x.real_at(i * 32 + k) * w.real_at(k * 16 + j);
      y.set_real(i * 16 + j, sum);
      largest = std::max(largest, std::abs(sum));
    }
  }
  EXPECT_LT(product_difference(x, w, bias, y), 1e-6);
  Tensor wrong = of_its_own(y);
  wrong.set_real(63, y.real_at(63) + largest / 10);
  EXPECT_NEAR(product_difference(x, w, bias, wrong), 0.1, 1e-3);
  EXPECT_NEAR(largest_difference(wrong, y), 0.1, 1e-3);
  wrong.set_real(63, NAN);
  EXPECT_EQ(product_difference(x, w, bias, wrong), INFINITY);
  EXPECT_EQ(largest_difference(wrong, y), INFINITY);
  EXPECT_EQ(largest_difference(wrong, wrong), 0);
  EXPECT_EQ(largest_difference(Tensor(ir::DType::F32, {64}), y), INFINITY);
}

// Equal and ragged layouts, against the reference evaluator; a row of another sequence is wrong.
TEST(GpuCheck, FindsWrongRowsOfAttention) {
  const GpuAttention ragged{.heads = 2, .head = 4, .lengths = {3, 1, 5}},
      equal{.batch = 1, .heads = 2, .length = 5, .head = 4};
  for (const GpuAttention& shape : {ragged, equal}) {
    const bool is_ragged = !shape.lengths.empty();
    const std::vector<std::int64_t> dims =
        is_ragged ? std::vector<std::int64_t>{9, 8} : std::vector<std::int64_t>{1, 2, 5, 4};
    std::vector<Tensor> inputs;
    for (const char* name : {"q", "k", "v"})
      inputs.push_back(ir::random_tensor(ir::DType::F32, dims, 3, name));
    const std::string text = is_ragged ? R"(
fn @main(%q: Tensor[(9, 8), f32], %k: Tensor[(9, 8), f32], %v: Tensor[(9, 8), f32]) {
  %qs = reshape(%q) {shape = (9, 2, 4)}
  %ks = reshape(%k) {shape = (9, 2, 4)}
  %vs = reshape(%v) {shape = (9, 2, 4)}
  %qt = transpose(%qs) {perm = (1, 0, 2)}
  %kt = transpose(%ks) {perm = (1, 0, 2)}
  %vt = transpose(%vs) {perm = (1, 0, 2)}
  %a = attention(%qt, %kt, %vt, none, constant(i64 (4) [0, 3, 4, 9])) {scale = 512}
  %t = transpose(%a) {perm = (1, 0, 2)}
  %y = reshape(%t) {shape = (9, 8)}
  return %y
})"
                                       : R"(
fn @main(%q: Tensor[(1, 2, 5, 4), f32], %k: Tensor[(1, 2, 5, 4), f32], %v: Tensor[(1, 2, 5, 4), f32]) {
  %y = attention(%q, %k, %v) {scale = 512}
  return %y
})";
    Tensor result = of_its_own(evaluate_reference(ir::parse(text), inputs)[0]);
    EXPECT_LT(attention_difference(shape, inputs, result), 1e-5);
    result.set_real(result.elements() - 1, result.real_at(result.elements() - 1) + 0.01);
    EXPECT_GT(attention_difference(shape, inputs, result), 0.05);
  }
}

}  // namespace
}  // namespace anydim
