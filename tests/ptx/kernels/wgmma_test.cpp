// One wgmma tile in each arrangement of its operands, and a persistent matmul with a TMA ring,
// register reallocation and TMA stores.
#include <gtest/gtest.h>

#include "tests/ptx/kernels/kernel_run.h"
#include "tests/ptx/kernels/persistent_matmul.h"

namespace anydim::ptx {
namespace {

// D (64 x 32) = A (64 x 64) * B (64 x 32). Arrangement 0: A and B^T stored with K contiguous; 1: B
// stored with N contiguous; 2: A from registers; 3: A stored with M contiguous.
constexpr std::string_view tile_source = R"(
template <int Arrangement>
__device__ void tile(const Map* a, const Map* b, float* output) {
  extern __shared__ __align__(1024) unsigned char memory[];
  const u32 base = shared_address(memory), tile_a = base, tile_b = base + 8192, full = base + 8192 + 4096;
  if (threadIdx.x == 0) {
    barrier_init(full, 1);
    fence_barrier_init();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    barrier_expect(full, 8192 + 4096);
    load_box(tile_a, a, full, 0, 0);
    load_box(tile_b, b, full, 0, 0);
  }
  barrier_wait(full, 0);
  __syncwarp();
  float d[16];
  for (int i = 0; i < 16; i++) d[i] = 0;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  u32 fragments[4][4];
  if (Arrangement == 2) {
    for (int k = 0; k < 4; k++) {
      const int row = 16 * warp + (lane & 15), chunk = 2 * k + (lane >> 4) ^ row & 7;
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(fragments[k][0]), "=r"(fragments[k][1]), "=r"(fragments[k][2]), "=r"(fragments[k][3])
                   : "r"(tile_a + row * 128 + chunk * 16) : "memory");
    }
  }
  keep(d);
  wgmma_fence();
  #pragma unroll
  for (int k = 0; k < 4; k++) {
    const u64 descriptor_a = Arrangement == 3 ? descriptor(tile_a + 2048 * k, 0, 1024, 1) : descriptor(tile_a + 32 * k, 0, 1024, 1);
    const u64 descriptor_b = Arrangement == 1 ? descriptor(tile_b + 1024 * k, 0, 512, 2) : descriptor(tile_b + 32 * k, 0, 1024, 1);
    if (Arrangement == 2) wgmma_64_32_registers<0>(d, fragments[k], descriptor_b);
    else wgmma_64_32<Arrangement == 3, Arrangement == 1>(d, descriptor_a, descriptor_b);
  }
  wgmma_commit();
  wgmma_wait();
  keep(d);
  for (int i = 0; i < 16; i++) output[(16 * warp + lane / 4 + 8 * (i >> 1 & 1)) * 32 + 8 * (i >> 2) + 2 * (lane & 3) + (i & 1)] = d[i];
}
#define ENTRY(n) extern "C" __global__ void __launch_bounds__(128) tile##n(const __grid_constant__ Map a, const __grid_constant__ Map b, float* output) { tile<n>(&a, &b, output); }
ENTRY(0) ENTRY(1) ENTRY(2) ENTRY(3)
)";

Matrix transposed(const Matrix& matrix) {
  Matrix result(matrix.columns, matrix.rows);
  for (int row = 0; row < matrix.rows; ++row) {
    for (int column = 0; column < matrix.columns; ++column)
      result.at(column, row) = matrix.at(row, column);
  }
  return result;
}

TEST(Wgmma, OneTileInEveryArrangement) {
  const Module module = parse_ptx(compile_to_ptx(tile_source));
  const Matrix a = integer_matrix(64, 64, 1), b = integer_matrix(32, 64, 2);  // b: N x K
  const Matrix expected = product_of_rows(a, b);
  for (int arrangement = 0; arrangement < 4; ++arrangement) {
    for (const TimedRun& run : timed_runs()) {
      MachineOptions options;
      options.timing = run.timing;
      options.seed = run.seed;
      Machine machine(options);
      const Matrix stored_a = arrangement == 3 ? transposed(a) : a,
                   stored_b = arrangement == 1 ? transposed(b) : b;
      const DeviceAddress left = upload(machine, to_bfloat16(stored_a)),
                          right = upload(machine, to_bfloat16(stored_b));
      const DeviceAddress target = machine.allocate(64 * 32 * 4);
      Parameters parameters;
      parameters.add(matrix_map(left, stored_a, 64, 64, 128));
      parameters.add(arrangement == 1 ? matrix_map(right, stored_b, 64, 32, 64)
                                      : matrix_map(right, stored_b, 32, 64, 128));
      parameters.add(target);
      const Report report = machine.launch(module, "tile" + std::to_string(arrangement),
                                           {.grid = {1, 1, 1},
                                            .block = {128, 1, 1},
                                            .cluster = {1, 1, 1},
                                            .shared_bytes = 8192 + 4096 + 8},
                                           parameters.bytes());
      ASSERT_TRUE(report.ok()) << "arrangement " << arrangement << "\n" << report.text();
      EXPECT_EQ(download<float>(machine, target, 64 * 32), expected.values)
          << "arrangement " << arrangement;
    }
  }
}

TEST(Wgmma, PersistentMatmulWithEveryNumberOfTiles) {
  const Module module = parse_ptx(persistent_matmul_ptx());
  for (const int k_tiles : {1, 2, 3, 7}) {
    for (const TimedRun& run : timed_runs()) {
      MachineOptions options;
      options.timing = run.timing;
      options.seed = run.seed;
      EXPECT_EQ(run_persistent_matmul(module, options, {.m = 150, .n = 64, .k = 64 * k_tiles - 8}),
                "")
          << k_tiles << " k-tiles, timing " << static_cast<int>(run.timing) << ", seed "
          << run.seed;
    }
  }
}

}  // namespace
}  // namespace anydim::ptx
