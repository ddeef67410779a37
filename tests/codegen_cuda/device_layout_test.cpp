// What generated kernels build by themselves, descriptors, swizzles and fragments, beside the
// tables of docs/cuda.md that tests/ptx/units holds: a probe is added to the text of a generated
// kernel and calls its device functions.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "codegen_cuda/attention/attention_kinds.h"
#include "codegen_cuda/matmul/matmul_kinds.h"
#include "codegen_cuda/nvrtc.h"
#include "ir/schedule.h"
#include "tests/codegen_cuda/attention_cases.h"
#include "tests/codegen_cuda/kernel_case.h"
#include "tests/codegen_cuda/matmul_cases.h"
#include "tests/ptx/units/fragment.h"
#include "tests/ptx/units/swizzle.h"
#include "tests/ptx/units/wgmma_descriptor.h"

namespace anydim::codegen_cuda::testing {
namespace {

using ptx::ElementFormat;

std::string source_of(const std::string& part, const std::string& region, const KernelKind& kind,
                      const std::string& schedule, std::size_t keys) {
  CudaTarget target = small_target(part);
  target.tf32 = true;
  return build_case(make_region(region), target, kind,
                    bucket_of(std::vector<ir::BucketInterval>(keys)), ir::parse_schedule(schedule))
      .source;
}
std::string mma_source() {
  return source_of("a100", matmul_text({.columns = 64, .depth = 64}), *make_matmul_mma_kind(),
                   "matmul_mma bm=32 bn=32 bk=32 stages=2 down=1 across=1 group=1 split=1", 1);
}
std::string tf32_source() {
  return source_of("a100", matmul_text({.columns = 64, .depth = 64, .dtype = "f32"}),
                   *make_matmul_tf32_kind(),
                   "matmul_tf32 bm=32 bn=32 bk=32 stages=2 down=1 across=1 group=1 split=1", 1);
}

// Runs `body` in the 32 threads of a block behind the kernel's device functions; it writes `words`
// of 64 bits to `out`.
std::vector<std::uint64_t> probe(const std::string& source, const std::string& architecture,
                                 const std::string& body, std::size_t words) {
  const std::string text = fmt::format(
      "{}\nextern \"C\" __global__ void probe(unsigned long long* out) {{\n{}}}\n", source, body);
  const NvrtcOutput output = Nvrtc::open()->compile(text, "probe", architecture, CudaOutput::Ptx);
  ptx::Machine machine({.architecture = architecture});
  const ptx::DeviceAddress out = machine.allocate(words * 8);
  const ptx::Report report = machine.launch(
      ptx::parse_ptx(
          std::string(reinterpret_cast<const char*>(output.code.data()), output.code.size())),
      "probe", {.grid = {1, 1, 1}, .block = {32, 1, 1}, .cluster = {1, 1, 1}, .shared_bytes = 0},
      std::as_bytes(std::span(&out, 1)));
  EXPECT_TRUE(report.ok()) << report.text();
  std::vector<std::uint64_t> values(words);
  machine.read(out, std::as_writable_bytes(std::span(values)));
  return values;
}

std::uint64_t descriptor(std::uint32_t address, std::uint32_t leading, std::uint32_t stride,
                         int swizzle) {
  return ptx::encode_wgmma_descriptor({.address = address,
                                       .leading_byte_offset = leading,
                                       .stride_byte_offset = stride,
                                       .swizzle_bytes = swizzle});
}

TEST(DeviceLayout, DescriptorsOfMatmul) {
  const std::string source = source_of(
      "h200", matmul_text({.columns = 64, .depth = 64, .columns_major = true}),
      *make_matmul_wgmma_kind(),
      "matmul_wgmma bm=64 bn=32 stages=2 blocks=1 group=1 swap_ab=0 persistent=0 split=1", 1);
  const auto built = probe(source, "sm_90a", R"(
  if (threadIdx.x != 0) return;
  out[0] = operand_descriptor<false>(4096);
  out[1] = operand_descriptor<true>(4096);
  out[2] = operand_descriptor<false>(0x3fc00);  // the last tile that a descriptor can name
)",
                           3);
  EXPECT_EQ(built[0], descriptor(4096, 0, 1024, 128));         // K-major, 64 wide
  EXPECT_EQ(built[1], descriptor(4096, 64 * 128, 1024, 128));  // MN-major, chunks of 64
  EXPECT_EQ(built[2], descriptor(0x3fc00, 0, 1024, 128));
}

struct TileRow {
  int columns, rows;         // head dim, keys of a tile
  int swizzle;               // of a shared row
  std::uint32_t stride;      // between groups of eight rows
  std::uint32_t leading;     // between chunks, where the depth runs down the rows
  std::uint32_t next_along;  // next 16 of depth along a row, and down the rows
  std::uint32_t next_down;
};

TEST(DeviceLayout, DescriptorsOfAttention) {
  const std::string source =
      source_of("h200", merged_attention({.heads = 1, .depth = 64, .mask = AttentionMask::Padding}),
                *make_attention_wgmma_kind(), "attention_wgmma groups=1 keys=32 stages=2", 0);
  const TileRow table[] = {
      {.columns = 32,
       .rows = 64,
       .swizzle = 64,
       .stride = 512,
       .leading = 0,
       .next_along = 32,
       .next_down = 1024},
      {.columns = 64,
       .rows = 96,
       .swizzle = 128,
       .stride = 1024,
       .leading = 0,
       .next_along = 32,
       .next_down = 2048},
      {.columns = 128,
       .rows = 64,
       .swizzle = 128,
       .stride = 1024,
       .leading = 64 * 128,
       .next_along = 32,
       .next_down = 2048},
  };
  for (const TileRow& row : table) {
    SCOPED_TRACE(row.columns);
    const auto built = probe(source, "sm_90a",
                             fmt::format(R"(
  using Rows = SwizzledTile<{}, {}>;
  const int step = threadIdx.x;
  if (step < {}) out[step] = Rows::along_rows(8192, step);
  if (step < {}) out[32 + step] = Rows::down_rows(8192, step);
)",
                                         row.columns, row.rows, row.columns / 16, row.rows / 16),
                             64);
    for (int step = 0; step < row.columns / 16; ++step) {
      const int chunk = step * 16 / 64,
                within = step * 16 % 64 / 16;  // sub-tiles of 64 columns lie one after the other
      const auto address = 8192 + static_cast<std::uint32_t>(chunk * row.rows * row.swizzle) +
                           static_cast<std::uint32_t>(within) * row.next_along;
      EXPECT_EQ(built[static_cast<std::size_t>(step)],
                descriptor(address, 0, row.stride, row.swizzle))
          << step;
    }
    for (int step = 0; step < row.rows / 16; ++step) {
      const auto address = 8192 + static_cast<std::uint32_t>(step) * row.next_down;
      EXPECT_EQ(built[static_cast<std::size_t>(32 + step)],
                descriptor(address, row.leading, row.stride, row.swizzle))
          << step;
    }
  }
}

// Rows of up to 128 bytes are swizzled as tensor memory access would swizzle them; in longer ones
// chunks trade places within their 128 bytes.
TEST(DeviceLayout, SwizzlesOfMma) {
  const std::string source = mma_source();
  for (const int chunks : {2, 4, 8, 16}) {
    const auto built =
        probe(source, "sm_80",
              fmt::format("  for (int chunk = 0; chunk < {0}; ++chunk) out[threadIdx.x * {0} + "
                          "chunk] = swizzled<{0}>(threadIdx.x, chunk);\n",
                          chunks),
              static_cast<std::size_t>(32 * chunks));
    for (std::uint32_t row = 0; row < 32; ++row) {
      for (std::uint32_t chunk = 0; chunk < static_cast<std::uint32_t>(chunks); ++chunk) {
        const std::uint32_t plain = (row * static_cast<std::uint32_t>(chunks) + chunk) * 16;
        const std::uint32_t expected =
            chunks <= 8 ? ptx::swizzle_address(plain, chunks * 16) : plain ^ (row & 7) * 16;
        EXPECT_EQ(built[row * static_cast<std::uint32_t>(chunks) + chunk], expected)
            << chunks << " chunks, row " << row << ", chunk " << chunk;
      }
    }
  }
}

// A tile of 32 x 32 elements that know their row and depth; each lane's words of the fragments at
// row, column and depth 16 (8 where an instruction takes 8).
struct Fragments {
  std::string source, type, store;  // of an element `value`, to the tile
  ElementFormat format;
  bool tf32, transposed;
  int depth;
};

void expect_fragments(const Fragments& fragments) {
  const int width = fragments.tf32 ? 4 : 2, chunks = 32 * width / 16;
  const std::string flags = fmt::format("{}, {}, {}", fragments.tf32, chunks, fragments.transposed);
  const auto built = probe(fragments.source, "sm_80",
                           fmt::format(R"(
  __shared__ __align__(1024) unsigned char tile[32 * 32 * {1}];
  for (int row = 0; row < 32; ++row) {{
    const int depth = threadIdx.x, value = row * 32 + depth;
    const int line = {2} ? depth : row, place = {2} ? row : depth;
    *({3}*)(tile + swizzled<{4}>(line, place * {1} / 16) + place * {1} % 16) = {5};
  }}
  __syncthreads();
  const unsigned memory = (unsigned)__cvta_generic_to_shared(tile);
  unsigned left[4], right[4];
  load_left<{0}>(left, memory, 16, {6});
  load_right<{0}>(right, memory, {6}, 16);
  for (int i = 0; i < 4; ++i) {{
    out[threadIdx.x * 8 + i] = left[i];
    out[threadIdx.x * 8 + 4 + i] = right[i];
  }}
)",
                                       flags, width, fragments.transposed, fragments.type, chunks,
                                       fragments.store, fragments.depth),
                           32 * 8);
  const int parts = fragments.tf32 ? 1 : 2;
  const auto value = [&](std::uint64_t word, int part) {
    const auto bits =
        static_cast<std::uint32_t>(fragments.tf32 ? word : word >> (16 * part) & 0xffff);
    return fragments.tf32 ? static_cast<int>(ptx::element_value(ElementFormat::TF32, bits))
                          : static_cast<int>(bits);
  };
  for (int lane = 0; lane < 32; ++lane) {
    for (int word = 0; word < 4; ++word) {
      for (int part = 0; part < parts; ++part) {
        const ptx::Coordinates a = ptx::operand_a_element(fragments.format, lane, word, part);
        EXPECT_EQ(value(built[static_cast<std::size_t>(lane * 8 + word)], part),
                  (16 + a.row) * 32 + fragments.depth + a.column)
            << "left, lane " << lane << ", word " << word << ", part " << part;
        // Words 2 and 3 are those of the next eight columns.
        const ptx::Coordinates b = ptx::operand_b_element(fragments.format, lane, word % 2, part);
        EXPECT_EQ(value(built[static_cast<std::size_t>(lane * 8 + 4 + word)], part),
                  (16 + word / 2 * 8 + b.column) * 32 + fragments.depth + b.row)
            << "right, lane " << lane << ", word " << word << ", part " << part;
      }
    }
  }
}

TEST(DeviceLayout, FragmentsOf16Bits) {
  for (const bool transposed : {false, true}) {
    SCOPED_TRACE(transposed);
    expect_fragments({.source = mma_source(),
                      .type = "unsigned short",
                      .store = "(unsigned short)value",
                      .format = ElementFormat::BF16,
                      .tf32 = false,
                      .transposed = transposed,
                      .depth = 16});
  }
}

TEST(DeviceLayout, FragmentsOfTf32) {
  for (const bool transposed : {false, true}) {
    SCOPED_TRACE(transposed);
    expect_fragments({.source = tf32_source(),
                      .type = "float",
                      .store = "(float)value",
                      .format = ElementFormat::TF32,
                      .tf32 = true,
                      .transposed = transposed,
                      .depth = 8});
  }
}

}  // namespace
}  // namespace anydim::codegen_cuda::testing
