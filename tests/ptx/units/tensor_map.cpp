#include "tests/ptx/units/tensor_map.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "ir/error.h"
#include "tests/ptx/units/swizzle.h"

namespace anydim::ptx {

namespace {

constexpr std::uint64_t magic = 0x50414d58'4d494441;
constexpr std::size_t maximum_rank = 5;

struct Encoded {
  std::uint64_t magic = 0;
  std::uint64_t address = 0;
  std::uint64_t dims[maximum_rank] = {};
  std::uint64_t strides[maximum_rank - 1] = {};
  std::uint16_t box[maximum_rank] = {};
  std::uint8_t rank = 0;
  std::uint8_t dtype = 0;
  std::uint8_t swizzle_bytes = 0;
  std::uint8_t unused[27] = {};
};
static_assert(sizeof(Encoded) == tensor_map_bytes);

void require(bool holds, const std::string& message) {
  if (!holds) throw Error(ErrorKind::Inputs, "tensor map: " + message);
}

void check(const TensorMapLayout& layout) {
  const std::size_t rank = layout.rank();
  require(rank >= 1 && rank <= maximum_rank, fmt::format("the rank must be 1 to 5, got {}", rank));
  require(layout.strides.size() == rank - 1, fmt::format("{} strides for rank {}, expected {}",
                                                         layout.strides.size(), rank, rank - 1));
  require(layout.box.size() == rank,
          fmt::format("{} box extents for rank {}", layout.box.size(), rank));
  require(layout.address % 16 == 0,
          fmt::format("the address must be a multiple of 16, got {:#x}", layout.address));
  for (std::size_t i = 0; i < rank; ++i) {
    require(layout.dims[i] >= 1 && layout.dims[i] <= (std::uint64_t{1} << 32),
            fmt::format("dim {} must be within 1..2^32, got {}", i, layout.dims[i]));
    require(layout.box[i] >= 1 && layout.box[i] <= 256,
            fmt::format("box extent {} must be within 1..256, got {}", i, layout.box[i]));
  }
  for (std::size_t i = 0; i + 1 < rank; ++i) {
    require(layout.strides[i] % 16 == 0 && layout.strides[i] < (std::uint64_t{1} << 40),
            fmt::format("the stride of dim {} must be a multiple of 16 below 2^40 bytes, got {}",
                        i + 1, layout.strides[i]));
  }
  const std::size_t inner_bytes = layout.box[0] * ir::size_of(layout.dtype);
  require(inner_bytes % 16 == 0,
          fmt::format("the box's innermost extent must span a multiple of 16 bytes, got {}",
                      inner_bytes));
  const int swizzle = layout.swizzle_bytes;
  require(swizzle == 0 || swizzle == 32 || swizzle == 64 || swizzle == 128,
          fmt::format("the swizzle must span 0, 32, 64 or 128 bytes, got {}", swizzle));
  require(swizzle == 0 || inner_bytes <= static_cast<std::size_t>(swizzle),
          fmt::format("the box's innermost extent spans {} bytes, more than the swizzle's {}",
                      inner_bytes, swizzle));
}

}  // namespace

std::uint32_t TensorMapLayout::box_bytes() const {
  auto bytes = static_cast<std::uint32_t>(ir::size_of(dtype));
  for (const std::uint32_t extent : box) bytes *= extent;
  return bytes;
}

TensorMapBytes encode_tensor_map(const TensorMapLayout& layout) {
  check(layout);
  Encoded encoded;
  encoded.magic = magic;
  encoded.address = layout.address;
  std::copy(layout.dims.begin(), layout.dims.end(), encoded.dims);
  std::copy(layout.strides.begin(), layout.strides.end(), encoded.strides);
  std::copy(layout.box.begin(), layout.box.end(), encoded.box);
  encoded.rank = static_cast<std::uint8_t>(layout.rank());
  encoded.dtype = static_cast<std::uint8_t>(layout.dtype);
  encoded.swizzle_bytes = static_cast<std::uint8_t>(layout.swizzle_bytes);
  TensorMapBytes bytes;
  std::memcpy(bytes.data(), &encoded, sizeof encoded);
  return bytes;
}

TensorMapLayout decode_tensor_map(std::span<const std::byte, tensor_map_bytes> bytes) {
  Encoded encoded;
  std::memcpy(&encoded, bytes.data(), sizeof encoded);
  require(encoded.magic == magic, "these 128 bytes were not made by encode_tensor_map");
  require(encoded.rank >= 1 && encoded.rank <= maximum_rank,
          fmt::format("damaged: its rank is {}", encoded.rank));
  TensorMapLayout layout;
  layout.dtype = static_cast<ir::DType>(encoded.dtype);
  layout.address = encoded.address;
  layout.dims.assign(encoded.dims, encoded.dims + encoded.rank);
  layout.strides.assign(encoded.strides, encoded.strides + encoded.rank - 1);
  layout.box.assign(encoded.box, encoded.box + encoded.rank);
  layout.swizzle_bytes = encoded.swizzle_bytes;
  check(layout);
  return layout;
}

std::vector<BoxPiece> box_pieces(const TensorMapLayout& layout,
                                 std::span<const std::int32_t> coordinates,
                                 std::uint32_t shared_address) {
  internal_check(coordinates.size() == layout.rank(),
                 "a coordinate for each dim of the tensor map");
  const auto element = static_cast<std::int64_t>(ir::size_of(layout.dtype));
  const std::int64_t row_bytes = layout.box[0] * element;
  // Bytes of a box row that lie inside the innermost dim, as a half-open range.
  const std::int64_t first_inside =
      std::clamp<std::int64_t>(-std::int64_t{coordinates[0]} * element, 0, row_bytes);
  const std::int64_t end_inside = std::clamp<std::int64_t>(
      (static_cast<std::int64_t>(layout.dims[0]) - coordinates[0]) * element, first_inside,
      row_bytes);
  std::vector<BoxPiece> pieces;
  std::vector<std::uint32_t> index(layout.rank(), 0);  // within the box; index[0] stays 0
  for (std::int64_t row_offset = 0;; row_offset += row_bytes) {
    bool row_inside = true;
    std::uint64_t global =
        layout.address + static_cast<std::uint64_t>(std::int64_t{coordinates[0]} * element);
    for (std::size_t dim = 1; dim < layout.rank(); ++dim) {
      const std::int64_t at = std::int64_t{coordinates[dim]} + index[dim];
      row_inside = row_inside && at >= 0 && at < static_cast<std::int64_t>(layout.dims[dim]);
      global += static_cast<std::uint64_t>(at) * layout.strides[dim - 1];
    }
    for (std::int64_t byte = 0; byte < row_bytes;) {
      const bool inside = row_inside && byte >= first_inside && byte < end_inside;
      std::int64_t end = byte / 16 * 16 + 16;
      if (row_inside && byte < first_inside) end = std::min(end, first_inside);
      if (inside) end = std::min(end, end_inside);
      pieces.push_back({.shared_address = swizzle_address(
                            shared_address + static_cast<std::uint32_t>(row_offset + byte),
                            layout.swizzle_bytes),
                        .global_address = global + static_cast<std::uint64_t>(byte),
                        .bytes = static_cast<std::uint32_t>(end - byte),
                        .inside = inside});
      byte = end;
    }
    std::size_t dim = 1;
    while (dim < layout.rank() && ++index[dim] == layout.box[dim]) index[dim++] = 0;
    if (dim >= layout.rank()) return pieces;
  }
}

}  // namespace anydim::ptx
