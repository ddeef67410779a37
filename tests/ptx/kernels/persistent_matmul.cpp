#include "tests/ptx/kernels/persistent_matmul.h"

#include <fmt/format.h>

#include "tests/ptx/kernels/kernel_run.h"

namespace anydim::ptx {

namespace {

constexpr std::string_view source = R"(
const int TILE_M = 64, TILE_N = 32, TILE_K = 64, STAGES = 3;
const int A_BYTES = TILE_M * 128, B_BYTES = TILE_N * 128, STAGE_BYTES = A_BYTES + B_BYTES, C_BYTES = TILE_M * 64;

extern "C" __global__ void __launch_bounds__(256, 1) matmul(const __grid_constant__ Map a, const __grid_constant__ Map b,
                                                            const __grid_constant__ Map c, int m, int n, int k) {
  extern __shared__ __align__(1024) unsigned char memory[];
  const u32 base = shared_address(memory), tile_c = base + STAGES * STAGE_BYTES, full = tile_c + C_BYTES, empty = full + 8 * STAGES;
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; i++) { barrier_init(full + 8 * i, 1); barrier_init(empty + 8 * i, 1); }
    fence_barrier_init();
  }
  __syncthreads();
  const int columns = (n + TILE_N - 1) / TILE_N, tiles = (m + TILE_M - 1) / TILE_M * columns, steps = (k + TILE_K - 1) / TILE_K;
  int iteration = 0;
  if (threadIdx.x >= 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == 128) {
      for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        #pragma unroll 1
        for (int step = 0; step < steps; step++, iteration++) {
          const int stage = iteration % STAGES, phase = iteration / STAGES & 1;
          const u32 data = base + stage * STAGE_BYTES;
          barrier_wait(empty + 8 * stage, phase ^ 1);
          barrier_expect(full + 8 * stage, STAGE_BYTES);
          load_box(data, &a, full + 8 * stage, step * TILE_K, tile / columns * TILE_M);
          load_box(data + A_BYTES, &b, full + 8 * stage, step * TILE_K, tile % columns * TILE_N);
        }
      }
    }
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, row = 16 * warp + (lane & 15);
  for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    float d[16];
    #pragma unroll
    for (int i = 0; i < 16; i++) d[i] = 0;
    #pragma unroll 1
    for (int step = 0; step < steps; step++, iteration++) {
      const int stage = iteration % STAGES, phase = iteration / STAGES & 1;
      const u32 data = base + stage * STAGE_BYTES;
      barrier_wait(full + 8 * stage, phase);
      keep(d);
      wgmma_fence();
      #pragma unroll
      for (int i = 0; i < 4; i++) wgmma_64_32<0, 0>(d, descriptor(data + 32 * i, 0, 1024, 1), descriptor(data + A_BYTES + 32 * i, 0, 1024, 1));
      wgmma_commit();
      wgmma_wait();
      keep(d);
      asm volatile("bar.sync 1, 128;" ::: "memory");
      if (threadIdx.x == 0) barrier_arrive(empty + 8 * stage);
    }
    if (threadIdx.x == 0) wait_stores_read();
    asm volatile("bar.sync 1, 128;" ::: "memory");
    #pragma unroll
    for (int j = 0; j < 2; j++) {
      u32 packed[4];
      #pragma unroll
      for (int q = 0; q < 4; q++) asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed[q]) : "f"(d[8 * j + 2 * q + 1]), "f"(d[8 * j + 2 * q]));
      const int chunk = 2 * j + (lane >> 4) ^ row >> 1 & 3;
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                   ::"r"(tile_c + row * 64 + chunk * 16), "r"(packed[0]), "r"(packed[1]), "r"(packed[2]), "r"(packed[3]) : "memory");
    }
    fence_async_proxy();
    asm volatile("bar.sync 1, 128;" ::: "memory");
    if (threadIdx.x == 0) {
      store_box(&c, tile_c, tile % columns * TILE_N, tile / columns * TILE_M);
      commit_stores();
    }
  }
  if (threadIdx.x == 0) wait_stores_read();
}
)";

}  // namespace

std::string persistent_matmul_ptx() { return compile_to_ptx(source); }

std::string run_persistent_matmul(const Module& module, const MachineOptions& options,
                                  const MatmulSize& size) {
  Machine machine(options);
  const int stride = (size.k + 7) / 8 * 8;  // rows of whole 16 bytes
  const Matrix a = integer_matrix(size.m, size.k, 1, stride),
               b = integer_matrix(size.n, size.k, 2, stride);
  const Matrix expected = product_of_rows(a, b);
  const Matrix target(size.m, size.n);
  const DeviceAddress left = upload(machine, to_bfloat16(a)),
                      right = upload(machine, to_bfloat16(b));
  const DeviceAddress result = machine.allocate(static_cast<std::uint64_t>(size.m * size.n) * 2);
  Parameters parameters;
  parameters.add(matrix_map(left, a, 64, 64, 128))
      .add(matrix_map(right, b, 32, 64, 128))
      .add(matrix_map(result, target, 64, 32, 64));
  parameters.add(size.m).add(size.n).add(size.k);
  const Report report = machine.launch(module, "matmul",
                                       {.grid = {2, 1, 1},
                                        .block = {256, 1, 1},
                                        .cluster = {1, 1, 1},
                                        .shared_bytes = 3 * 12288 + 4096 + 48},
                                       parameters.bytes());
  if (!report.ok()) return report.text();
  const std::vector<std::uint16_t> values =
      download<std::uint16_t>(machine, result, static_cast<std::size_t>(size.m * size.n));
  for (int row = 0; row < size.m; ++row) {
    for (int column = 0; column < size.n; ++column) {
      const float got =
          ir::bfloat16_to_float(values[static_cast<std::size_t>(row * size.n + column)]);
      const float want = ir::bfloat16_to_float(ir::float_to_bfloat16(expected.at(row, column)));
      if (got != want)
        return fmt::format("element {}, {} is {}, expected {}", row, column, got, want);
    }
  }
  return {};
}

}  // namespace anydim::ptx
