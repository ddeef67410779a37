// Ordinary CUDA C++ as NVRTC compiles it: mathematics, local arrays, device functions, integer
// division, warp and block reductions.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/ptx/kernels/kernel_run.h"

namespace anydim::ptx {
namespace {

constexpr std::string_view source = R"(
struct Choice { int which; float scale[3]; };
__constant__ float table[4] = {1.0f, 2.5f, -3.0f, 4.0f};
__device__ __noinline__ float pick(Choice choice, float x) {
  if (x < 0) return choice.scale[choice.which];
  return x * table[choice.which];
}
extern "C" __global__ void mathematics(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float v = x[i];
  float* out = y + i * 8;
  out[0] = erff(v);
  out[1] = expf(v);
  out[2] = tanhf(v);
  out[3] = logf(fabsf(v) + 0.5f);
  out[4] = powf(fabsf(v), 1.7f);
  out[5] = sinf(v * 50.0f);
  out[6] = rsqrtf(fabsf(v) + 1.0f) / 3.1f;
  out[7] = (float)sqrt((double)fabsf(v));
}
extern "C" __global__ void structure(const long long* a, const long long* b, long long* y, Choice choice) {
  const int i = threadIdx.x;
  int history[16];
  for (int k = 0; k < 16; ++k) history[k] = k * k + i;
  long long result = a[i] / b[i] * 1000 + a[i] % b[i];
  switch (i & 7) {
    case 0: result += 1; break;
    case 1: result *= 3; break;
    case 2: result -= history[b[i] & 15]; break;
    case 3: result ^= 0x55; break;
    case 4: result = -result; break;
    case 5: result += (int)a[i] / 7; break;
    default: result += (long long)pick(choice, (float)(i - 15));
  }
  y[i] = result;
}
extern "C" __global__ void sum(const float* x, float* y, int n) {
  __shared__ float partial[8];
  float total = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) total += x[i];
  for (int step = 16; step > 0; step /= 2) total += __shfl_xor_sync(0xffffffffu, total, step);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = total;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < 8; ++i) total += partial[i];
    atomicAdd(y, total);
  }
}
)";

const LaunchShape one_block{
    .grid = {1, 1, 1}, .block = {32, 1, 1}, .cluster = {1, 1, 1}, .shared_bytes = 0};

TEST(General, Mathematics) {
  const Module module = parse_ptx(compile_to_ptx(source));
  Machine machine(MachineOptions{});
  constexpr int count = 150;
  std::vector<float> x(count);
  for (int i = 0; i < count; ++i)
    x[static_cast<std::size_t>(i)] = 0.07F * static_cast<float>(i - 75) + 0.003F;
  const DeviceAddress in = upload(machine, x), out = machine.allocate(count * 32);
  LaunchShape shape = one_block;
  shape.grid[0] = 5;
  const Report report = machine.launch(module, "mathematics", shape,
                                       Parameters().add(in).add(out).add(count).bytes());
  ASSERT_TRUE(report.ok()) << report.text();
  const std::vector<float> y = download<float>(machine, out, count * 8);
  for (std::size_t i = 0; i < count; ++i) {
    const double v = static_cast<double>(x[i]);
    const double wanted[8] = {std::erf(v),
                              std::exp(v),
                              std::tanh(v),
                              std::log(std::fabs(v) + 0.5),
                              std::pow(std::fabs(v), 1.7),
                              std::sin(static_cast<double>(x[i] * 50.0F)),
                              1 / std::sqrt(std::fabs(v) + 1) / 3.1,
                              std::sqrt(std::fabs(v))};
    for (std::size_t k = 0; k < 8; ++k)
      EXPECT_NEAR(y[8 * i + k], wanted[k], 4e-6 * std::fabs(wanted[k]) + 1e-6)
          << "x " << v << " function " << k;
  }
}

TEST(General, Structure) {
  const Module module = parse_ptx(compile_to_ptx(source));
  struct Choice {
    std::int32_t which;
    float scale[3];
  };
  const Choice choice{2, {10, 20, 30}};
  const float table[4] = {1, 2.5F, -3, 4};
  std::vector<std::int64_t> a(32), b(32);
  for (std::size_t i = 0; i < 32; ++i) {
    a[i] = (static_cast<std::int64_t>(i) - 16) * (i % 2 == 0 ? 1'000'003 : 77'777'777'777);
    b[i] = static_cast<std::int64_t>(i) * 13 - 200;
  }
  Machine machine(MachineOptions{});
  const DeviceAddress out = machine.allocate(32 * 8);
  const DeviceAddress left = upload(machine, a), right = upload(machine, b);
  const Report report =
      machine.launch(module, "structure", one_block,
                     Parameters().add(left).add(right).add(out).add(choice).bytes());
  ASSERT_TRUE(report.ok()) << report.text();
  const std::vector<std::int64_t> y = download<std::int64_t>(machine, out, 32);
  for (int lane = 0; lane < 32; ++lane) {
    const auto i = static_cast<std::size_t>(lane);
    const auto history = [&](std::int64_t k) { return k * k + lane; };
    std::int64_t wanted = a[i] / b[i] * 1000 + a[i] % b[i];
    switch (lane & 7) {
      case 0: wanted += 1; break;
      case 1: wanted *= 3; break;
      case 2: wanted -= history(b[i] & 15); break;
      case 3: wanted ^= 0x55; break;
      case 4: wanted = -wanted; break;
      case 5: wanted += static_cast<std::int32_t>(a[i]) / 7; break;
      default:
        wanted +=
            lane < 15 ? 30 : static_cast<std::int64_t>(static_cast<float>(lane - 15) * table[2]);
    }
    EXPECT_EQ(y[i], wanted) << "lane " << lane;
  }
}

TEST(General, SumOverBlockAndGrid) {
  std::string text = compile_to_ptx(source);
  constexpr int count = 1000;
  std::vector<float> x(count);
  float wanted = 0;
  for (int i = 0; i < count; ++i)
    wanted += x[static_cast<std::size_t>(i)] = static_cast<float>(i % 17 - 8);
  const auto run = [&](const Module& module, float& result) {
    Machine machine(MachineOptions{});
    const DeviceAddress in = upload(machine, x), out = upload(machine, std::vector<float>{0});
    LaunchShape shape = one_block;
    shape.grid[0] = 3;
    shape.block[0] = 256;
    const Report report =
        machine.launch(module, "sum", shape, Parameters().add(in).add(out).add(count).bytes());
    result = download<float>(machine, out, 1)[0];
    return report;
  };
  float result = 0;
  const Report report = run(parse_ptx(text), result);
  EXPECT_TRUE(report.ok()) << report.text();
  EXPECT_EQ(result, 3 * wanted);
  // The same without its __syncthreads.
  const std::size_t entry = text.find(".entry sum");
  const std::size_t barrier = text.find("bar.sync", entry);
  ASSERT_NE(barrier, std::string::npos);
  text.replace(barrier, 2, "//");
  EXPECT_TRUE(run(parse_ptx(text), result).has(FindingKind::Race));
}

}  // namespace
}  // namespace anydim::ptx
