#include "tests/ptx/units/wgmma_descriptor.h"

#include <map>

#include <gtest/gtest.h>

#include "ir/error.h"
#include "tests/ptx/units/swizzle.h"
#include "tests/ptx/units/tensor_map.h"

namespace anydim::ptx {
namespace {

// A tile that TMA placed in shared memory: which element (its row and column in the tensor) lies at
// each address.
std::map<std::uint32_t, Coordinates> place_by_tma(int rows, int columns, int swizzle,
                                                  std::uint32_t shared) {
  TensorMapLayout layout{
      .dtype = ir::DType::BF16,
      .address = 1 << 20,
      .dims = {static_cast<std::uint64_t>(columns), static_cast<std::uint64_t>(rows)},
      .strides = {static_cast<std::uint64_t>(2 * columns)},
      .box = {static_cast<std::uint32_t>(columns), static_cast<std::uint32_t>(rows)},
      .swizzle_bytes = swizzle};
  std::map<std::uint32_t, Coordinates> places;
  for (const BoxPiece& piece : box_pieces(layout, std::vector<std::int32_t>{0, 0}, shared)) {
    for (std::uint32_t byte = 0; byte < piece.bytes; byte += 2) {
      const auto element = static_cast<int>((piece.global_address + byte - layout.address) / 2);
      places[piece.shared_address + byte] = {element / columns, element % columns};
    }
  }
  return places;
}

constexpr std::uint32_t base = 4096;

struct Row {
  const char* name;
  Major major;
  int swizzle;
  int mn;     // extent of the operand
  int inner;  // elements of a shared row: K or MN
  int k;      // K of the whole tile
  std::uint32_t leading, stride, next_k16;
};

// The rows of docs/cuda.md's table. MN-major tiles wider than a swizzle span are chunks of `inner`
// columns, one after the other.
TEST(WgmmaDescriptor, TableOfTiles) {
  const Row rows[] = {
      {"K-major, 64 wide, 128 B", Major::K, 128, 64, 64, 64, 0, 1024, 32},
      {"K-major, 32 wide, 64 B", Major::K, 64, 128, 32, 32, 0, 512, 32},
      {"K-major, 16 wide, 32 B", Major::K, 32, 64, 16, 16, 0, 256, 32},
      {"MN-major, 64, 128 B", Major::MN, 128, 64, 64, 64, 0, 1024, 2048},
      {"MN-major, 128 as two chunks, 128 B", Major::MN, 128, 128, 64, 32, 32 * 128, 1024, 2048},
      {"MN-major, 256 as four chunks, 128 B", Major::MN, 128, 256, 64, 48, 48 * 128, 1024, 2048},
      {"MN-major, 32, 64 B", Major::MN, 64, 32, 32, 64, 0, 512, 1024},
      {"MN-major, 16, 32 B", Major::MN, 32, 16, 16, 32, 0, 256, 512},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    std::map<std::uint32_t, Coordinates> tile;  // address -> (mn, k)
    if (row.major == Major::K) {
      tile = place_by_tma(row.mn, row.inner, row.swizzle, base);
    } else {
      for (int chunk = 0; chunk < row.mn / row.inner; ++chunk) {
        const auto shared = static_cast<std::uint32_t>(base + chunk * row.k * row.inner * 2);
        for (const auto& [address, at] : place_by_tma(row.k, row.inner, row.swizzle, shared)) {
          tile[address] = {chunk * row.inner + at.column, at.row};
        }
      }
    }
    ASSERT_EQ(tile.size(), std::size_t(row.mn) * row.k);
    for (int block = 0; block < row.k / 16; ++block) {
      const WgmmaDescriptor descriptor =
          decode_wgmma_descriptor(encode_wgmma_descriptor({.address = base + block * row.next_k16,
                                                           .leading_byte_offset = row.leading,
                                                           .stride_byte_offset = row.stride,
                                                           .swizzle_bytes = row.swizzle}));
      for (int mn = 0; mn < row.mn; ++mn) {
        for (int k = 0; k < 16; ++k) {
          const std::uint32_t address =
              wgmma_element_address(descriptor, row.major, ElementFormat::BF16, mn, k);
          ASSERT_TRUE(tile.contains(address)) << mn << "," << k;
          ASSERT_EQ(tile[address], (Coordinates{mn, 16 * block + k}));
        }
      }
    }
  }
}

// Without swizzle an operand is 8 x 16-byte core matrices, placed freely by the two offsets.
TEST(WgmmaDescriptor, PlainCoreMatrices) {
  const WgmmaDescriptor descriptor{
      .address = base, .leading_byte_offset = 128, .stride_byte_offset = 256};
  const auto k_major = [&](int mn, int k) {
    return wgmma_element_address(descriptor, Major::K, ElementFormat::BF16, mn, k);
  };
  EXPECT_EQ(k_major(0, 1), base + 2);
  EXPECT_EQ(k_major(1, 0), base + 16);
  EXPECT_EQ(k_major(8, 0), base + 256);
  EXPECT_EQ(k_major(0, 8), base + 128);
  const auto mn_major = [&](int mn, int k) {
    return wgmma_element_address(descriptor, Major::MN, ElementFormat::BF16, mn, k);
  };
  EXPECT_EQ(mn_major(1, 0), base + 2);
  EXPECT_EQ(mn_major(0, 1), base + 16);
  EXPECT_EQ(mn_major(8, 0), base + 256);
  EXPECT_EQ(mn_major(0, 8), base + 128);
}

// One instruction always takes 32 bytes of k: 16 elements of 16 bits, 8 of tf32, 32 bytes.
TEST(WgmmaDescriptor, OtherElementWidths) {
  const WgmmaDescriptor descriptor{
      .address = base, .stride_byte_offset = 1024, .swizzle_bytes = 128};
  EXPECT_EQ(wgmma_element_address(descriptor, Major::K, ElementFormat::TF32, 1, 7),
            base + 128 + (16 ^ 16) + 12);
  EXPECT_EQ(wgmma_element_address(descriptor, Major::K, ElementFormat::S8, 3, 31),
            base + 3 * 128 + (16 ^ 48) + 15);
}

TEST(WgmmaDescriptor, Word) {
  const std::uint64_t word = encode_wgmma_descriptor({.address = 0x12340,
                                                      .leading_byte_offset = 0x400,
                                                      .stride_byte_offset = 0x200,
                                                      .base_offset = 5,
                                                      .swizzle_bytes = 64});
  EXPECT_EQ(word, 0x1234ull | 0x40ull << 16 | 0x20ull << 32 | 5ull << 49 | 2ull << 62);
  const WgmmaDescriptor back = decode_wgmma_descriptor(word);
  EXPECT_EQ(back.address, 0x12340u);
  EXPECT_EQ(back.base_offset, 5);
  EXPECT_EQ(back.swizzle_bytes, 64);
}

std::string message_of(auto call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(WgmmaDescriptor, Refusals) {
  EXPECT_EQ(message_of([] { encode_wgmma_descriptor({.address = 8}); }),
            "a wgmma descriptor's address must be a multiple of 16 below 262144, got 8");
  EXPECT_EQ(message_of([] {
              wgmma_element_address({.base_offset = 1}, Major::K, ElementFormat::BF16, 0, 0);
            }),
            "wgmma descriptor with base offset 1: only 0 (aligned swizzle atoms) is understood");
  EXPECT_EQ(message_of([] { wgmma_element_address({}, Major::MN, ElementFormat::TF32, 0, 0); }),
            "wgmma: MN-major operands exist for 16-bit elements only");
}

TEST(Swizzle, ChunksOfARow) {
  for (std::uint32_t row = 0; row < 16; ++row) {
    for (std::uint32_t chunk = 0; chunk < 8; ++chunk) {
      EXPECT_EQ(swizzle_address(row * 128 + chunk * 16 + 5, 128),
                row * 128 + (chunk ^ row % 8) * 16 + 5);
    }
    for (std::uint32_t chunk = 0; chunk < 4; ++chunk) {
      EXPECT_EQ(swizzle_address(row * 64 + chunk * 16, 64), row * 64 + (chunk ^ row / 2 % 4) * 16);
    }
    for (std::uint32_t chunk = 0; chunk < 2; ++chunk) {
      EXPECT_EQ(swizzle_address(row * 32 + chunk * 16, 32), row * 32 + (chunk ^ row / 4 % 2) * 16);
    }
  }
  EXPECT_EQ(swizzle_address(12345, 0), 12345u);
  EXPECT_EQ(swizzle_period(128), 1024);
  EXPECT_EQ(swizzle_period(32), 256);
  EXPECT_EQ(swizzle_period(0), 16);
}

}  // namespace
}  // namespace anydim::ptx
