#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "ir/loop_form.h"
#include "tests/codegen_cuda/attention_cases.h"
#include "tests/codegen_cuda/cuda_harness.h"

namespace anydim::codegen_cuda::testing {
namespace {

// Weights and results are rounded to bf16: 2^-9 each.
constexpr double narrow_tolerance = 1.2e-2;

using Fill = std::function<void(std::vector<ir::Tensor>&)>;

std::vector<SymbolValues> lengths(const std::vector<std::int64_t>& values, std::int64_t batch = 2) {
  std::vector<SymbolValues> result;
  for (const std::int64_t value : values) result.push_back({{"b", batch}, {"s", value}});
  return result;
}

void expect_schedule(const TestRegion& region, const std::string& architecture, const std::string& schedule, const std::vector<SymbolValues>& shapes,
                     const Fill& fill = {}, double tolerance = narrow_tolerance) {
  const CudaTarget target = target_for(architecture);
  const PtxKernel kernel = compile_ptx(region, target, {}, ir::parse_schedule(schedule));
  for (const SymbolValues& symbols : shapes) {
    SCOPED_TRACE(architecture + " " + schedule + " b=" + std::to_string(symbols.at("b")) + " s=" + std::to_string(symbols.at("s")));
    auto inputs = random_inputs(region, symbols, 1);
    if (fill) fill(inputs);
    const auto expected = reference(region, inputs);
    RunOptions options;
    options.machine.architecture = architecture;
    const auto got = run(region, kernel, symbols, inputs, options);
    ASSERT_LE(difference(got[0], expected[0]), tolerance);
  }
}

// Text b has fewer tokens than the one before; a hole in each.
void fill_mask(std::vector<ir::Tensor>& inputs) {
  const std::int64_t batch = inputs[1].dims()[0], length = inputs[1].dims()[1];
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t j = 0; j < length; ++j) inputs[1].set_integer(b * length + j, j < length - 5 * b && (j % 7 != 3 || length < 4) ? 1 : 0);
}

TEST(CudaAttention, SchedulesOfMma) {
  const TestRegion region = make_region(merged_attention({.heads = 3, .depth = 32, .mask = AttentionMask::Padding}));
  for (const char* schedule : {"attention_mma warps=4 points=1 tiles=1 keys=64 stages=2", "attention_mma warps=1 points=4 tiles=1 keys=32 stages=1",
                               "attention_mma warps=2 points=2 tiles=1 keys=16 stages=1", "attention_mma warps=2 points=1 tiles=2 keys=32 stages=3"})
    expect_schedule(region, "sm_80", schedule, lengths({1, 17, 33, 70}), fill_mask);
  expect_schedule(region, "sm_80", "attention_mma warps=2 points=1 tiles=1 keys=32 stages=2", lengths({0, 16, 31, 32, 64, 65}), fill_mask);
}

TEST(CudaAttention, HeadDimsOfMma) {
  for (const int depth : {16, 48, 64, 80, 96, 128}) {
    SCOPED_TRACE(depth);
    const TestRegion region = make_region(merged_attention({.heads = 1, .depth = depth}));
    expect_schedule(region, "sm_80", "attention_mma warps=2 points=1 tiles=1 keys=32 stages=2", lengths({37}, 1));
  }
}

TEST(CudaAttention, MasksOfMma) {
  for (const AttentionMask mask : {AttentionMask::Causal, AttentionMask::CausalLowest, AttentionMask::Window, AttentionMask::Bias}) {
    SCOPED_TRACE(static_cast<int>(mask));
    const TestRegion region = make_region(merged_attention({.heads = 2, .depth = 16, .mask = mask}));
    expect_schedule(region, "sm_80", "attention_mma warps=1 points=2 tiles=1 keys=16 stages=2", lengths({1, 50}, 1));
  }
}

TEST(CudaAttention, ElementTypesOfMma) {
  for (const auto& [dtype, result] : std::vector<std::pair<std::string, std::string>>{{"f16", "f16"}, {"bf16", "f32"}, {"f16", "bf16"}}) {
    SCOPED_TRACE(dtype + " " + result);
    const TestRegion region = make_region(merged_attention({.heads = 2, .depth = 48, .dtype = dtype, .result = result}));
    expect_schedule(region, "sm_80", "attention_mma warps=1 points=1 tiles=1 keys=32 stages=2", lengths({20}, 1));
  }
}

TEST(CudaAttention, Wgmma) {
  const TestRegion region = make_region(merged_attention({.heads = 2, .depth = 64, .mask = AttentionMask::Padding}));
  expect_schedule(region, "sm_90a", "attention_wgmma groups=2 keys=64 stages=2", lengths({1, 64, 65, 200}, 2), fill_mask);
  expect_schedule(region, "sm_90a", "attention_wgmma groups=1 keys=32 stages=1", lengths({0, 31, 100}, 1), fill_mask);
  expect_schedule(region, "sm_90a", "attention_wgmma groups=3 keys=48 stages=3", lengths({250}, 1), fill_mask);
  for (const int depth : {32, 128}) {
    SCOPED_TRACE(depth);
    const TestRegion other = make_region(merged_attention({.heads = 2, .depth = depth, .mask = AttentionMask::Causal}));
    expect_schedule(other, "sm_90a", "attention_wgmma groups=1 keys=32 stages=2", lengths({90}, 1));
  }
}

TEST(CudaAttention, PlainArithmetic) {
  const TestRegion merged = make_region(merged_attention({.heads = 2, .depth = 20, .dtype = "f32", .result = "f32", .mask = AttentionMask::Padding}));
  expect_schedule(merged, "sm_80", "attention_simt columns=1", lengths({0, 1, 33, 50}), fill_mask, 2e-5);
  const TestRegion causal = make_region(merged_attention({.heads = 1, .depth = 70, .dtype = "f32", .result = "f32", .mask = AttentionMask::Window}));
  expect_schedule(causal, "sm_90a", "attention_simt columns=2", lengths({45}, 1), {}, 2e-5);
  const TestRegion doubles = make_region(R"(
fn @main(%q: Tensor[(b, s, d), f64], %k: Tensor[(b, 9, d), f64], %v: Tensor[(b, 9, 5), f64]) -> Tensor[(b, s, 5), f64]
  where b in [0, 8], s in [0, 64], d in [0, 64] {
  %y = attention(%q, %k, %v) {scale = 0.3}
  return %y
})");
  expect_schedule(doubles, "sm_80", "attention_simt columns=1", {{{"b", 2}, {"s", 3}, {"d", 40}}, {{"b", 1}, {"s", 17}, {"d", 0}}}, {}, 1e-12);
}

TEST(CudaAttention, InfiniteScores) {
  for (const char* dtype : {"bf16", "f32"}) {
    SCOPED_TRACE(dtype);
    const TestRegion region = make_region(merged_attention({.heads = 1, .depth = 16, .dtype = dtype, .result = "f32", .mask = AttentionMask::Bias}));
    const auto fill = [](std::vector<ir::Tensor>& inputs) {
      const std::int64_t length = inputs[1].dims()[2];
      const double infinity = std::numeric_limits<double>::infinity();
      for (std::int64_t i = 0; i < length; ++i) {
        for (std::int64_t j = 0; j < length; ++j) {
          if (j < i || i == 3) inputs[1].set_real(i * length + j, -infinity);
          if (i == 5 && j == 9) inputs[1].set_real(i * length + j, infinity);
          if (i == 6 && j == 8) inputs[1].set_real(i * length + j, std::numeric_limits<double>::quiet_NaN());
        }
      }
    };
    const bool narrow = std::string(dtype) == "bf16";
    expect_schedule(region, "sm_80", narrow ? "attention_mma warps=1 points=1 tiles=1 keys=16 stages=2" : "attention_simt columns=1", lengths({4, 40}, 1),
                    fill, narrow ? narrow_tolerance : 2e-5);
  }
}

std::vector<std::byte> bytes_of(const ir::Tensor& tensor, std::int64_t part, std::int64_t parts) {
  const auto bytes = tensor.bytes();
  const std::size_t size = bytes.size() / static_cast<std::size_t>(parts);
  const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(part) * size);
  return {first, first + static_cast<std::ptrdiff_t>(size)};
}

// What lies beside a sequence, other sequences or memory that was never written, leaves its result as it is to the last bit.
TEST(CudaAttention, NeighboursDoNotMatter) {
  const TestRegion region = make_region(merged_attention({.heads = 2, .depth = 64}));
  for (const auto& [architecture, schedule] : std::vector<std::pair<std::string, std::string>>{
           {"sm_80", "attention_mma warps=2 points=1 tiles=1 keys=32 stages=2"},
           {"sm_80", "attention_mma warps=1 points=4 tiles=1 keys=16 stages=1"},
           {"sm_90a", "attention_wgmma groups=1 keys=32 stages=2"},
           {"sm_90a", "attention_simt columns=2"}}) {
    SCOPED_TRACE(schedule);
    const PtxKernel kernel = compile_ptx(region, target_for(architecture), {}, ir::parse_schedule(schedule));
    const SymbolValues symbols{{"b", 3}, {"s", 21}};
    RunOptions options;
    options.machine.architecture = architecture;
    auto inputs = random_inputs(region, symbols, 1);
    const ir::Tensor before = run(region, kernel, symbols, inputs, options)[0];
    const std::int64_t text = inputs[0].elements() / 3;
    for (std::int64_t i = text; i < 2 * text; ++i) inputs[0].set_real(i, std::numeric_limits<double>::quiet_NaN());
    options.capacity = {{"b", 5}, {"s", 40}};  // slack holds NaN patterns
    const ir::Tensor after = run(region, kernel, symbols, inputs, options)[0];
    for (const std::int64_t part : {0, 2}) EXPECT_EQ(bytes_of(before, part, 3), bytes_of(after, part, 3)) << "text " << part;
    EXPECT_TRUE(std::isnan(after.real_at(text / 3)));
  }
}

TEST(CudaAttention, AcceptsAndOrdersSchedules) {
  const TestRegion narrow = make_region(merged_attention({.heads = 2, .depth = 64}));
  const TestRegion wide = make_region(merged_attention({.heads = 2, .depth = 64, .dtype = "f32", .result = "f32"}));
  const TestRegion odd = make_region(merged_attention({.heads = 3, .depth = 20}));
  const auto first = [](const TestRegion& region, const char* architecture) {
    return candidates(region, target_for(architecture), {}).front().name;
  };
  EXPECT_EQ(first(narrow, "sm_80"), "attention_mma");
  EXPECT_EQ(first(narrow, "sm_90a"), "attention_wgmma");
  EXPECT_EQ(first(wide, "sm_90a"), "attention_simt");
  EXPECT_EQ(first(odd, "sm_90a"), "attention_simt");
}

}  // namespace
}  // namespace anydim::codegen_cuda::testing
