// TMA rings, stores and reductions as small kernels, under every timing.
#include <gtest/gtest.h>

#include "tests/ptx/kernels/kernel_run.h"

namespace anydim::ptx {
namespace {

// One thread loads boxes of 16 rows x 64 columns through a ring of three stages; the 64 other
// threads copy them out as f32.
constexpr std::string_view ring_source = R"(
extern "C" __global__ void __launch_bounds__(96) ring(const __grid_constant__ Map input, float* output, int tiles) {
  extern __shared__ __align__(1024) unsigned char memory[];
  const int stages = 3, box_bytes = 16 * 128;
  const u32 base = shared_address(memory), full = base + stages * box_bytes, empty = full + 8 * stages;
  if (threadIdx.x == 0) {
    for (int i = 0; i < stages; i++) { barrier_init(full + 8 * i, 1); barrier_init(empty + 8 * i, 2); }
    fence_barrier_init();
  }
  __syncthreads();
  if (threadIdx.x >= 64) {
    if (threadIdx.x == 64) {
      for (int t = 0; t < tiles; t++) {
        const int stage = t % stages, phase = t / stages & 1;
        barrier_wait(empty + 8 * stage, phase ^ 1);
        barrier_expect(full + 8 * stage, box_bytes);
        load_box(base + stage * box_bytes, &input, full + 8 * stage, 0, 16 * t);
      }
    }
    return;
  }
  const int column = threadIdx.x;
  for (int t = 0; t < tiles; t++) {
    const int stage = t % stages, phase = t / stages & 1;
    barrier_wait(full + 8 * stage, phase);
    for (int row = 0; row < 16; row++) {
      const unsigned char* p = memory + stage * box_bytes + row * 128 + ((column >> 3 ^ row & 7) << 4) + (column & 7) * 2;
      output[(16 * t + row) * 64 + column] = __uint_as_float((u32)*(const u16*)p << 16);
    }
    __syncwarp();
    if ((threadIdx.x & 31) == 0) barrier_arrive(empty + 8 * stage);
  }
}
)";

std::string run_ring(const Module& module, int tiles, const TimedRun& run) {
  MachineOptions options;
  options.timing = run.timing;
  options.seed = run.seed;
  Machine machine(options);
  const int rows = 16 * tiles - 5;  // the last box hangs over the edge
  const Matrix input = integer_matrix(rows, 60, 3, 72);
  const DeviceAddress source = upload(machine, to_bfloat16(input));
  const DeviceAddress target = machine.allocate(static_cast<std::uint64_t>(16 * tiles) * 64 * 4);
  Parameters parameters;
  parameters.add(matrix_map(source, input, 16, 64, 128)).add(target).add(tiles);
  const Report report = machine.launch(
      module, "ring",
      {.grid = {1, 1, 1}, .block = {96, 1, 1}, .cluster = {1, 1, 1}, .shared_bytes = 3 * 2048 + 48},
      parameters.bytes());
  if (!report.ok()) return report.text();
  const std::vector<float> output =
      download<float>(machine, target, static_cast<std::size_t>(16 * tiles) * 64);
  for (int row = 0; row < 16 * tiles; ++row) {
    for (int column = 0; column < 64; ++column) {
      const float expected = row < rows && column < 60 ? input.at(row, column) : 0;
      if (output[static_cast<std::size_t>(row * 64 + column)] != expected)
        return "a wrong value in row " + std::to_string(row);
    }
  }
  return {};
}

TEST(Tma, RingOfEveryLength) {
  const Module module = parse_ptx(compile_to_ptx(ring_source));
  for (const int tiles : {1, 2, 3, 7}) {
    for (const TimedRun& run : timed_runs())
      EXPECT_EQ(run_ring(module, tiles, run), "")
          << tiles << " tiles, timing " << static_cast<int>(run.timing);
  }
}

// A block writes a tile by ordinary stores, a thread stores or adds it by TMA; the tensor clips
// rows and columns.
constexpr std::string_view store_source = R"(
extern "C" __global__ void __launch_bounds__(64) store(const __grid_constant__ Map output, int y, int times) {
  __shared__ __align__(1024) u16 tile[16 * 64];
  for (int row = 0; row < 16; row++) {
    const int chunk = threadIdx.x >> 3 ^ row & 7;
    tile[row * 64 + chunk * 8 + (threadIdx.x & 7)] = (u16)(__float_as_uint((float)(row + 1)) >> 16);
  }
  fence_async_proxy();
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 0; i < times; i++) {
      if (times == 1) store_box(&output, shared_address(tile), 0, y);
      else reduce_box(&output, shared_address(tile), 0, y);
      commit_stores();
    }
    wait_stores_read();
  }
}
)";

TEST(Tma, StoresAndAddsAreClipped) {
  const Module module = parse_ptx(compile_to_ptx(store_source));
  for (const int times : {1, 3}) {
    for (const TimedRun& run : timed_runs()) {
      MachineOptions options;
      options.timing = run.timing;
      options.seed = run.seed;
      Machine machine(options);
      Matrix output(20, 56, 64);
      const DeviceAddress target = upload(machine, to_bfloat16(output));
      Parameters parameters;
      parameters.add(matrix_map(target, output, 16, 64, 128)).add(10).add(times);
      const Report report = machine.launch(
          module, "store",
          {.grid = {1, 1, 1}, .block = {64, 1, 1}, .cluster = {1, 1, 1}, .shared_bytes = 0},
          parameters.bytes());
      ASSERT_TRUE(report.ok()) << report.text();
      const std::vector<std::uint16_t> values = download<std::uint16_t>(machine, target, 20 * 64);
      for (int row = 0; row < 20; ++row) {
        for (int column = 0; column < 64; ++column) {
          const float expected =
              row >= 10 && column < 56 ? static_cast<float>(times * (row - 9)) : 0;
          ASSERT_EQ(ir::bfloat16_to_float(values[static_cast<std::size_t>(row * 64 + column)]),
                    expected)
              << row << "," << column;
        }
      }
    }
  }
}

// Two blocks of a cluster each load half of a tile into both; every thread adds what both halves
// hold.
constexpr std::string_view multicast_source = R"(
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(64) multicast(const __grid_constant__ Map input, float* output, int tiles) {
  __shared__ __align__(1024) u16 tile[32 * 64];
  __shared__ __align__(8) u64 barriers[2];
  const u32 full = shared_address(&barriers[0]), empty = shared_address(&barriers[1]), rank = cluster_rank();
  if (threadIdx.x == 0) {
    barrier_init(full, 1);
    barrier_init(empty, 4);
    fence_barrier_init();
  }
  cluster_sync();
  float sum = 0;
  for (int t = 0; t < tiles; t++) {
    if (threadIdx.x == 0) {
      barrier_wait(empty, t & 1 ^ 1);
      barrier_expect(full, 32 * 128);
      load_box_multicast(shared_address(tile) + rank * 16 * 128, &input, full, 0, 32 * t + 16 * rank, 3);
    }
    barrier_wait(full, t & 1);
    for (int row = 0; row < 32; row++) {
      const int chunk = threadIdx.x >> 3 ^ row & 7;
      sum += __uint_as_float((u32)tile[row * 64 + chunk * 8 + (threadIdx.x & 7)] << 16);
    }
    __syncwarp();
    if ((threadIdx.x & 31) < 2) barrier_arrive_at(empty, threadIdx.x & 31);
  }
  output[rank * 64 + threadIdx.x] = sum;
  cluster_sync();
}
)";

TEST(Tma, MulticastInAClusterOfTwo) {
  const Module module = parse_ptx(compile_to_ptx(multicast_source));
  const int tiles = 3;
  for (const TimedRun& run : timed_runs()) {
    MachineOptions options;
    options.timing = run.timing;
    options.seed = run.seed;
    Machine machine(options);
    const Matrix input = integer_matrix(32 * tiles, 64, 5);
    const DeviceAddress source = upload(machine, to_bfloat16(input));
    const DeviceAddress target = machine.allocate(2 * 64 * 4);
    Parameters parameters;
    parameters.add(matrix_map(source, input, 16, 64, 128)).add(target).add(tiles);
    const Report report = machine.launch(
        module, "multicast",
        {.grid = {2, 1, 1}, .block = {64, 1, 1}, .cluster = {2, 1, 1}, .shared_bytes = 0},
        parameters.bytes());
    ASSERT_TRUE(report.ok()) << report.text();
    const std::vector<float> output = download<float>(machine, target, 128);
    for (int column = 0; column < 64; ++column) {
      float expected = 0;
      for (int row = 0; row < 32 * tiles; ++row) expected += input.at(row, column);
      EXPECT_EQ(output[static_cast<std::size_t>(column)], expected);
      EXPECT_EQ(output[static_cast<std::size_t>(64 + column)], expected);
    }
  }
}

}  // namespace
}  // namespace anydim::ptx
