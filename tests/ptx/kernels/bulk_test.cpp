// Bulk copies without a tensor map, between the blocks of a cluster, reductions, and tensors of
// three dims.
#include <gtest/gtest.h>

#include "tests/ptx/kernels/kernel_run.h"

namespace anydim::ptx {
namespace {

// 1024 floats in, doubled, out; then added to `sums` by a bulk reduction.
constexpr std::string_view plain_source = R"(
extern "C" __global__ void __launch_bounds__(128) plain(const float* input, float* output, float* sums) {
  __shared__ __align__(128) float data[1024];
  __shared__ __align__(8) u64 barrier;
  const u32 full = shared_address(&barrier), tile = shared_address(data);
  if (threadIdx.x == 0) {
    barrier_init(full, 1);
    fence_barrier_init();
    barrier_expect(full, 4096);
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(tile), "l"(input + 1024 * blockIdx.x), "r"(4096), "r"(full) : "memory");
  }
  __syncthreads();
  barrier_wait(full, 0);
  for (int i = threadIdx.x; i < 1024; i += 128) data[i] *= 2;
  fence_async_proxy();
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(output + 1024 * blockIdx.x), "r"(tile), "r"(4096) : "memory");
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(sums), "r"(tile), "r"(4096) : "memory");
    commit_stores();
    wait_stores_read();
  }
}
)";

TEST(Bulk, PlainCopiesAndReductions) {
  const Module module = parse_ptx(compile_to_ptx(plain_source));
  const int blocks = 3;
  const Matrix input = integer_matrix(blocks, 1024, 1);
  for (const TimedRun& run : timed_runs()) {
    MachineOptions options;
    options.timing = run.timing;
    options.seed = run.seed;
    Machine machine(options);
    const DeviceAddress source = upload(machine, input.values),
                        target = machine.allocate(blocks * 4096);
    const DeviceAddress sums = upload(machine, std::vector<float>(1024, 1));
    Parameters parameters;
    parameters.add(source).add(target).add(sums);
    const Report report = machine.launch(
        module, "plain",
        {.grid = {blocks, 1, 1}, .block = {128, 1, 1}, .cluster = {1, 1, 1}, .shared_bytes = 0},
        parameters.bytes());
    ASSERT_TRUE(report.ok()) << report.text();
    const std::vector<float> output = download<float>(machine, target, blocks * 1024),
                             total = download<float>(machine, sums, 1024);
    for (int i = 0; i < 1024; ++i) {
      float expected = 1;
      for (int block = 0; block < blocks; ++block) {
        expected += 2 * input.at(block, i);
        EXPECT_EQ(output[static_cast<std::size_t>(block * 1024 + i)], 2 * input.at(block, i));
      }
      EXPECT_EQ(total[static_cast<std::size_t>(i)], expected);
    }
  }
}

// Each block of a cluster of two sends its 64 numbers to the other's shared memory.
constexpr std::string_view exchange_source = R"(
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(64) exchange(const float* input, float* output) {
  __shared__ __align__(128) float own[64], received[64];
  __shared__ __align__(8) u64 barrier;
  const u32 full = shared_address(&barrier), rank = cluster_rank();
  own[threadIdx.x] = input[rank * 64 + threadIdx.x];
  if (threadIdx.x == 0) {
    barrier_init(full, 1);
    fence_barrier_init();
    barrier_expect(full, 256);
  }
  fence_async_proxy();
  cluster_sync();
  if (threadIdx.x == 0) {
    asm volatile("{\n.reg .b32 target, remote;\nmapa.shared::cluster.u32 target, %0, %3;\nmapa.shared::cluster.u32 remote, %1, %3;\n"
                 "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [target], [%2], 256, [remote];\n}"
                 ::"r"(shared_address(received)), "r"(full), "r"(shared_address(own)), "r"(rank ^ 1) : "memory");
  }
  barrier_wait(full, 0);
  output[rank * 64 + threadIdx.x] = received[threadIdx.x];
  cluster_sync();
}
)";

TEST(Bulk, BetweenBlocksOfACluster) {
  const Module module = parse_ptx(compile_to_ptx(exchange_source));
  const Matrix input = integer_matrix(2, 64, 1);
  for (const TimedRun& run : timed_runs()) {
    MachineOptions options;
    options.timing = run.timing;
    options.seed = run.seed;
    Machine machine(options);
    const DeviceAddress source = upload(machine, input.values), target = machine.allocate(512);
    Parameters parameters;
    parameters.add(source).add(target);
    const Report report = machine.launch(
        module, "exchange",
        {.grid = {2, 1, 1}, .block = {64, 1, 1}, .cluster = {2, 1, 1}, .shared_bytes = 0},
        parameters.bytes());
    ASSERT_TRUE(report.ok()) << report.text();
    const std::vector<float> output = download<float>(machine, target, 128);
    for (std::size_t i = 0; i < 128; ++i) EXPECT_EQ(output[i], input.values[(i + 64) % 128]);
  }
}

// A box of 2 planes x 3 rows x 8 columns of f32 out of (planes, rows, columns), partly outside.
constexpr std::string_view volume_source = R"(
extern "C" __global__ void __launch_bounds__(64) volume(const __grid_constant__ Map input, float* output, int x, int y, int z) {
  __shared__ __align__(128) float box[48];
  __shared__ __align__(8) u64 barrier;
  const u32 full = shared_address(&barrier);
  if (threadIdx.x == 0) {
    barrier_init(full, 1);
    fence_barrier_init();
    barrier_expect(full, 192);
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];"
                 ::"r"(shared_address(box)), "l"(&input), "r"(full), "r"(x), "r"(y), "r"(z) : "memory");
  }
  __syncthreads();
  barrier_wait(full, 0);
  if (threadIdx.x < 48) output[threadIdx.x] = box[threadIdx.x];
}
)";

TEST(Bulk, BoxesOfThreeDims) {
  const Module module = parse_ptx(compile_to_ptx(volume_source));
  const int planes = 3, rows = 5, columns = 12;
  const Matrix input = integer_matrix(planes * rows, columns, 1);
  Machine machine(MachineOptions{});
  const DeviceAddress source = upload(machine, input.values), target = machine.allocate(192);
  const TensorMapBytes map = encode_tensor_map({.dtype = ir::DType::F32,
                                                .address = source,
                                                .dims = {12, 5, 3},
                                                .strides = {48, 240},
                                                .box = {8, 3, 2},
                                                .swizzle_bytes = 0});
  for (const std::array<int, 3>& at :
       {std::array{0, 0, 0}, std::array{8, 3, 2}, std::array{-3, -1, 1}, std::array{12, 0, 0}}) {
    Parameters parameters;
    parameters.add(map).add(target).add(at[0]).add(at[1]).add(at[2]);
    const Report report = machine.launch(
        module, "volume",
        {.grid = {1, 1, 1}, .block = {64, 1, 1}, .cluster = {1, 1, 1}, .shared_bytes = 0},
        parameters.bytes());
    ASSERT_TRUE(report.ok()) << report.text();
    const std::vector<float> box = download<float>(machine, target, 48);
    for (int i = 0; i < 48; ++i) {
      const int x = at[0] + i % 8, y = at[1] + i / 8 % 3, z = at[2] + i / 24;
      const bool inside = x >= 0 && x < columns && y >= 0 && y < rows && z >= 0 && z < planes;
      EXPECT_EQ(box[static_cast<std::size_t>(i)], inside ? input.at(z * rows + y, x) : 0.0F) << i;
    }
  }
}

}  // namespace
}  // namespace anydim::ptx
