#include "tests/ptx/units/wgmma_descriptor.h"

#include <fmt/format.h>

#include "ir/error.h"
#include "tests/ptx/units/swizzle.h"

namespace anydim::ptx {

namespace {

constexpr int swizzle_of_mode[] = {0, 128, 64, 32};
constexpr std::uint32_t chunk_bytes = 16;

std::uint64_t field(std::uint32_t bytes, const char* name) {
  if (bytes % chunk_bytes != 0 || bytes >= (1u << 18)) {
    throw Error(ErrorKind::Inputs,
                fmt::format("a wgmma descriptor's {} must be a multiple of 16 below 262144, got {}",
                            name, bytes));
  }
  return bytes >> 4;
}

}  // namespace

WgmmaDescriptor decode_wgmma_descriptor(std::uint64_t word) {
  const auto bytes = [&](int shift) {
    return static_cast<std::uint32_t>((word >> shift) & 0x3fff) << 4;
  };
  return {.address = bytes(0),
          .leading_byte_offset = bytes(16),
          .stride_byte_offset = bytes(32),
          .base_offset = static_cast<int>((word >> 49) & 7),
          .swizzle_bytes = swizzle_of_mode[word >> 62]};
}

std::uint64_t encode_wgmma_descriptor(const WgmmaDescriptor& descriptor) {
  std::uint64_t mode = 0;
  while (swizzle_of_mode[mode] != descriptor.swizzle_bytes)
    internal_check(++mode < 4, "a swizzle spans 0, 32, 64 or 128 bytes");
  return field(descriptor.address, "address") |
         field(descriptor.leading_byte_offset, "leading byte offset") << 16 |
         field(descriptor.stride_byte_offset, "stride byte offset") << 32 |
         static_cast<std::uint64_t>(descriptor.base_offset & 7) << 49 | mode << 62;
}

std::uint32_t wgmma_element_address(const WgmmaDescriptor& descriptor, Major major,
                                    ElementFormat format, int mn, int k) {
  if (descriptor.base_offset != 0) {
    throw Error(
        ErrorKind::Unsupported,
        fmt::format(
            "wgmma descriptor with base offset {}: only 0 (aligned swizzle atoms) is understood",
            descriptor.base_offset));
  }
  const int bits = element_bits(format);
  if (major == Major::MN && bits != 16)
    throw Error(ErrorKind::Unsupported, "wgmma: MN-major operands exist for 16-bit elements only");
  const std::uint32_t row_bytes = descriptor.swizzle_bytes == 0
                                      ? chunk_bytes
                                      : static_cast<std::uint32_t>(descriptor.swizzle_bytes);
  const std::uint32_t leading = descriptor.leading_byte_offset;
  const std::uint32_t stride = descriptor.stride_byte_offset;
  std::uint32_t offset = 0;
  if (major == Major::K) {
    const std::uint32_t byte = static_cast<std::uint32_t>(k * bits / 8);
    const std::uint32_t chunk_stride = descriptor.swizzle_bytes == 0 ? leading : chunk_bytes;
    offset = mn % 8 * row_bytes + mn / 8 * stride + byte / chunk_bytes * chunk_stride +
             byte % chunk_bytes;
  } else {
    const std::uint32_t byte = static_cast<std::uint32_t>(mn * bits / 8);
    const bool plain = descriptor.swizzle_bytes == 0;
    offset = byte % row_bytes + byte / row_bytes * (plain ? stride : leading) + k % 8 * row_bytes +
             k / 8 * (plain ? leading : stride);
  }
  return swizzle_address(descriptor.address + offset, descriptor.swizzle_bytes);
}

}  // namespace anydim::ptx
