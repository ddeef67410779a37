// The bank swizzle of TMA and of wgmma operands: within rows of 32, 64 or 128 bytes, 16-byte chunks
// are exchanged by the row's number. It works on shared addresses, so a tile whose rows start at
// multiples of the span needs no other knowledge than its address.
#pragma once

#include <cstdint>

namespace anydim::ptx {

// The address at which the byte of `address` really lies: address bits 4.. are xored with bits 7..
// of the same address, one bit for a span of 32 bytes, two for 64, three for 128. A span of 0
// changes nothing; other spans throw anydim::Error.
std::uint32_t swizzle_address(std::uint32_t address, int span_bytes);

// Bytes after which the pattern repeats, which is also the alignment of a tile: 16 for no swizzle,
// else 8 x span.
int swizzle_period(int span_bytes);

}  // namespace anydim::ptx
