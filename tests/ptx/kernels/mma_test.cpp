// mma.sync, ldmatrix, stmatrix and movmatrix in small kernels, each result computed by plain loops
// here.
#include <gtest/gtest.h>

#include "tests/ptx/kernels/kernel_run.h"

namespace anydim::ptx {
namespace {

// D (16 x 8) = A (16 x 16) * B (16 x 8), by way of shared memory: A by ldmatrix.x4, B (k x n,
// row-major) by ldmatrix.x2.trans, D packed in bf16 pairs by stmatrix.x2; `transposed` stores D^T
// by stmatrix.trans.
constexpr std::string_view bfloat_source = R"(
template <bool Transposed>
__device__ void product(const u16* a, const u16* b, u16* d) {
  __shared__ __align__(128) u16 left[16 * 16], right[16 * 8], result[16 * 8];
  const int lane = threadIdx.x;
  for (int i = lane; i < 256; i += 32) left[i] = a[i];
  for (int i = lane; i < 128; i += 32) right[i] = b[i];
  __syncwarp();
  u32 x[4], y[2];
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(shared_address(left + (lane & 15) * 16 + (lane >> 4) * 8)) : "memory");
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(y[0]), "=r"(y[1])
               : "r"(shared_address(right + (lane & 15) * 8)) : "memory");
  float c[4] = {1, 2, 3, 4};
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
  u32 low, high;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(low) : "f"(c[1]), "f"(c[0]));
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(high) : "f"(c[3]), "f"(c[2]));
  if (Transposed) {
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};"
                 ::"r"(shared_address(result + (lane & 7) * 16 + (lane >> 3 & 1) * 8)), "r"(low), "r"(high) : "memory");
  } else {
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};"
                 ::"r"(shared_address(result + (lane & 15) * 8)), "r"(low), "r"(high) : "memory");
  }
  __syncwarp();
  for (int i = lane; i < 128; i += 32) d[i] = result[i];
}
extern "C" __global__ void plain(const u16* a, const u16* b, u16* d) { product<false>(a, b, d); }
extern "C" __global__ void transposed(const u16* a, const u16* b, u16* d) { product<true>(a, b, d); }
)";

TEST(Mma, BfloatThroughSharedMemory) {
  const Module module = parse_ptx(compile_to_ptx(bfloat_source));
  const Matrix a = integer_matrix(16, 16, 1), b = integer_matrix(16, 8, 2);
  for (const bool transposed : {false, true}) {
    Machine machine(MachineOptions{});
    const DeviceAddress left = upload(machine, to_bfloat16(a)),
                        right = upload(machine, to_bfloat16(b)), target = machine.allocate(256);
    Parameters parameters;
    parameters.add(left).add(right).add(target);
    const Report report = machine.launch(
        module, transposed ? "transposed" : "plain",
        {.grid = {1, 1, 1}, .block = {32, 1, 1}, .cluster = {1, 1, 1}, .shared_bytes = 0},
        parameters.bytes());
    ASSERT_TRUE(report.ok()) << report.text();
    const std::vector<std::uint16_t> values = download<std::uint16_t>(machine, target, 128);
    for (int row = 0; row < 16; ++row) {
      for (int column = 0; column < 8; ++column) {
        float expected = static_cast<float>(1 + column % 2 + 2 * (row / 8));  // the addend
        for (int k = 0; k < 16; ++k) expected += a.at(row, k) * b.at(k, column);
        const std::size_t at =
            static_cast<std::size_t>(transposed ? column * 16 + row : row * 8 + column);
        EXPECT_EQ(ir::bfloat16_to_float(values[at]),
                  ir::bfloat16_to_float(ir::float_to_bfloat16(expected)))
            << row << "," << column;
      }
    }
  }
}

// m16n8k8 of tf32 and m16n8k32 of bytes, registers loaded as the layouts say; movmatrix transposes
// what lanes hold.
constexpr std::string_view register_source = R"(
extern "C" __global__ void registers(const float* a, const float* b, float* d, const signed char* p, const signed char* q, int* s, u32* moved) {
  const int lane = threadIdx.x, g = lane / 4, t = lane % 4;
  const u32 x0 = __float_as_uint(a[g * 8 + t]), x1 = __float_as_uint(a[(g + 8) * 8 + t]);
  const u32 x2 = __float_as_uint(a[g * 8 + t + 4]), x3 = __float_as_uint(a[(g + 8) * 8 + t + 4]);
  const u32 y0 = __float_as_uint(b[t * 8 + g]), y1 = __float_as_uint(b[(t + 4) * 8 + g]);
  float c[4] = {0, 0, 0, 0};
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(x0), "r"(x1), "r"(x2), "r"(x3), "r"(y0), "r"(y1));
  d[g * 8 + 2 * t] = c[0]; d[g * 8 + 2 * t + 1] = c[1]; d[(g + 8) * 8 + 2 * t] = c[2]; d[(g + 8) * 8 + 2 * t + 1] = c[3];
  const u32* rows = (const u32*)p;  // 16 rows of 32 bytes
  const u32* columns = (const u32*)q;  // 8 columns of 32 bytes
  int e[4] = {0, 0, 0, 0};
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+r"(e[0]), "+r"(e[1]), "+r"(e[2]), "+r"(e[3])
               : "r"(rows[g * 8 + t]), "r"(rows[(g + 8) * 8 + t]), "r"(rows[g * 8 + t + 4]), "r"(rows[(g + 8) * 8 + t + 4]),
                 "r"(columns[g * 8 + t]), "r"(columns[g * 8 + t + 4]));
  s[g * 8 + 2 * t] = e[0]; s[g * 8 + 2 * t + 1] = e[1]; s[(g + 8) * 8 + 2 * t] = e[2]; s[(g + 8) * 8 + 2 * t + 1] = e[3];
  u32 m = (u32)(16 * g + 2 * t) | (u32)(16 * g + 2 * t + 1) << 16;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(m) : "r"(m));
  moved[lane] = m;
}
)";

TEST(Mma, RegistersOfOtherTypes) {
  const Module module = parse_ptx(compile_to_ptx(register_source, "sm_80"));
  MachineOptions options;
  options.architecture = "sm_80";
  Machine machine(options);
  const Matrix a = integer_matrix(16, 8, 1), b = integer_matrix(8, 8, 2),
               p = integer_matrix(16, 32, 3), q = integer_matrix(8, 32, 4);
  const auto bytes = [](const Matrix& matrix) {
    return std::vector<std::int8_t>(matrix.values.begin(), matrix.values.end());
  };
  const DeviceAddress reals = machine.allocate(512), integers = machine.allocate(512),
                      moved = machine.allocate(128);
  Parameters parameters;
  parameters.add(upload(machine, a.values)).add(upload(machine, b.values)).add(reals);
  parameters.add(upload(machine, bytes(p))).add(upload(machine, bytes(q))).add(integers).add(moved);
  const Report report = machine.launch(
      module, "registers",
      {.grid = {1, 1, 1}, .block = {32, 1, 1}, .cluster = {1, 1, 1}, .shared_bytes = 0},
      parameters.bytes());
  ASSERT_TRUE(report.ok()) << report.text();
  Matrix expected(16, 8);
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 8; ++column) {
      for (int k = 0; k < 8; ++k) expected.at(row, column) += a.at(row, k) * b.at(k, column);
    }
  }
  EXPECT_EQ(download<float>(machine, reals, 128), expected.values);
  const Matrix sums = product_of_rows(p, q);
  EXPECT_EQ(download<std::int32_t>(machine, integers, 128),
            std::vector<std::int32_t>(sums.values.begin(), sums.values.end()));
  const std::vector<std::uint32_t> lanes = download<std::uint32_t>(machine, moved, 32);
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    const std::uint32_t row = lane / 4, column = 2 * (lane % 4);  // of the transposed matrix
    EXPECT_EQ(lanes[lane], (16 * column + row) | (16 * (column + 1) + row) << 16);
  }
}

}  // namespace
}  // namespace anydim::ptx
