#include "tests/ptx/units/tensor_map.h"

#include <functional>

#include <gtest/gtest.h>

#include "ir/error.h"

namespace anydim::ptx {
namespace {

TensorMapLayout matrix() {
  return {.dtype = ir::DType::BF16,
          .address = 0x1000,
          .dims = {100, 50},
          .strides = {256},
          .box = {64, 32},
          .swizzle_bytes = 128};
}

std::uint32_t bytes_where(const std::vector<BoxPiece>& pieces, bool inside) {
  std::uint32_t bytes = 0;
  for (const BoxPiece& piece : pieces) bytes += piece.inside == inside ? piece.bytes : 0;
  return bytes;
}

TEST(TensorMap, BytesKeepTheLayout) {
  const TensorMapLayout layout = decode_tensor_map(encode_tensor_map(matrix()));
  EXPECT_EQ(layout.dtype, ir::DType::BF16);
  EXPECT_EQ(layout.address, 0x1000u);
  EXPECT_EQ(layout.dims, matrix().dims);
  EXPECT_EQ(layout.strides, matrix().strides);
  EXPECT_EQ(layout.box, matrix().box);
  EXPECT_EQ(layout.swizzle_bytes, 128);
  EXPECT_EQ(layout.box_bytes(), 4096u);
}

TEST(TensorMap, WholeBoxInside) {
  const std::vector<BoxPiece> pieces = box_pieces(matrix(), std::vector<std::int32_t>{8, 3}, 2048);
  ASSERT_EQ(pieces.size(), 32u * 8);
  EXPECT_EQ(bytes_where(pieces, true), 4096u);
  // Row 1, chunk 2: the tensor's row 4, column 24; in shared memory chunk 2 ^ 1.
  EXPECT_EQ(pieces[8 + 2].global_address, 0x1000u + 4 * 256 + 24 * 2);
  EXPECT_EQ(pieces[8 + 2].shared_address, 2048u + 128 + 3 * 16);
}

// The full box counts even where it lies outside; the inside is what the tensor covers.
TEST(TensorMap, BoxesOverEveryEdge) {
  const TensorMapLayout layout = matrix();
  const auto inside = [&](int x, int y) {
    const std::vector<BoxPiece> pieces = box_pieces(layout, std::vector<std::int32_t>{x, y}, 0);
    EXPECT_EQ(bytes_where(pieces, true) + bytes_where(pieces, false), layout.box_bytes());
    return bytes_where(pieces, true);
  };
  EXPECT_EQ(inside(64, 0), 36u * 2 * 32);   // columns 64..99
  EXPECT_EQ(inside(0, 32), 64u * 2 * 18);   // rows 32..49
  EXPECT_EQ(inside(-3, -2), 61u * 2 * 30);  // a partial first chunk
  EXPECT_EQ(inside(100, 0), 0u);
  EXPECT_EQ(inside(0, 50), 0u);
  EXPECT_EQ(inside(-64, 0), 0u);
}

TEST(TensorMap, PartialChunksKeepTheirPlace) {
  const std::vector<BoxPiece> pieces = box_pieces(matrix(), std::vector<std::int32_t>{-3, 0}, 1024);
  ASSERT_GE(pieces.size(), 2u);
  EXPECT_FALSE(pieces[0].inside);
  EXPECT_EQ(pieces[0].bytes, 6u);
  EXPECT_TRUE(pieces[1].inside);
  EXPECT_EQ(pieces[1].bytes, 10u);
  EXPECT_EQ(pieces[1].shared_address, 1024u + 6);
  EXPECT_EQ(pieces[1].global_address, 0x1000u);
}

TEST(TensorMap, OneAndFiveDims) {
  const TensorMapLayout line{
      .dtype = ir::DType::F32, .address = 0, .dims = {10}, .strides = {}, .box = {16}};
  EXPECT_EQ(bytes_where(box_pieces(line, std::vector<std::int32_t>{0}, 0), true), 40u);
  const TensorMapLayout five{.dtype = ir::DType::U8,
                             .address = 0,
                             .dims = {16, 3, 4, 5, 6},
                             .strides = {16, 48, 192, 960},
                             .box = {16, 2, 2, 2, 2}};
  const std::vector<BoxPiece> pieces =
      box_pieces(five, std::vector<std::int32_t>{0, 1, 2, 3, 4}, 0);
  ASSERT_EQ(pieces.size(), 16u);
  EXPECT_EQ(pieces[15].global_address, 2u * 16 + 3 * 48 + 4 * 192 + 5 * 960);
  EXPECT_EQ(pieces[15].shared_address, 15u * 16);
  EXPECT_EQ(pieces[5].global_address,
            2u * 16 + 2 * 48 + 4 * 192 + 4 * 960);  // box index 1, 0, 1, 0
}

// Ragged stores: the base lies 2^30 rows before the data, an extra dim of the same stride shifts
// back, and the hardware clips at the end.
TEST(TensorMap, RaggedTrickWrapsAddresses) {
  const std::uint64_t data = 0x10000, stride = 128, rows = std::uint64_t{1} << 30;
  const TensorMapLayout layout{.dtype = ir::DType::BF16,
                               .address = data - rows * stride,
                               .dims = {64, rows, std::uint64_t{1} << 31},
                               .strides = {stride, stride},
                               .box = {64, 32, 1},
                               .swizzle_bytes = 128};
  const int length = 20, offset = 7;
  const std::vector<std::int32_t> at{0, static_cast<std::int32_t>(rows) - length + 5,
                                     offset + length};
  const std::vector<BoxPiece> pieces = box_pieces(layout, at, 0);
  EXPECT_EQ(bytes_where(pieces, true), 15u * 128);  // rows 5..19 of the sequence
  EXPECT_EQ(pieces[0].global_address, data + (offset + 5) * stride);
}

TEST(TensorMap, Limits) {
  const auto message = [](const std::function<void(TensorMapLayout&)>& change) -> std::string {
    TensorMapLayout layout = matrix();
    change(layout);
    try {
      encode_tensor_map(layout);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(message([](auto&) {}), "accepted");
  EXPECT_EQ(message([](auto& map) { map.dims.clear(); }),
            "tensor map: the rank must be 1 to 5, got 0");
  EXPECT_EQ(message([](auto& map) { map.strides = {}; }),
            "tensor map: 0 strides for rank 2, expected 1");
  EXPECT_EQ(message([](auto& map) { map.box = {64}; }), "tensor map: 1 box extents for rank 2");
  EXPECT_EQ(message([](auto& map) { map.address = 0x1008; }),
            "tensor map: the address must be a multiple of 16, got 0x1008");
  EXPECT_EQ(message([](auto& map) { map.dims[1] = 0; }),
            "tensor map: dim 1 must be within 1..2^32, got 0");
  EXPECT_EQ(message([](auto& map) { map.box[1] = 257; }),
            "tensor map: box extent 1 must be within 1..256, got 257");
  EXPECT_EQ(message([](auto& map) { map.strides[0] = 200; }),
            "tensor map: the stride of dim 1 must be a multiple of 16 below 2^40 bytes, got 200");
  EXPECT_EQ(message([](auto& map) { map.box[0] = 60; }),
            "tensor map: the box's innermost extent must span a multiple of 16 bytes, got 120");
  EXPECT_EQ(message([](auto& map) { map.box[0] = 128; }),
            "tensor map: the box's innermost extent spans 256 bytes, more than the swizzle's 128");
  EXPECT_EQ(message([](auto& map) { map.swizzle_bytes = 16; }),
            "tensor map: the swizzle must span 0, 32, 64 or 128 bytes, got 16");
}

TEST(TensorMap, ForeignBytes) {
  TensorMapBytes bytes{};
  try {
    decode_tensor_map(bytes);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "tensor map: these 128 bytes were not made by encode_tensor_map");
  }
}

}  // namespace
}  // namespace anydim::ptx
