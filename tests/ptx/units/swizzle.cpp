#include "tests/ptx/units/swizzle.h"

#include "ir/error.h"

namespace anydim::ptx {

namespace {

std::uint32_t chunk_mask(int span_bytes) {
  switch (span_bytes) {
    case 0: return 0;
    case 32: return 1;
    case 64: return 3;
    case 128: return 7;
    default: internal_error("a swizzle spans 0, 32, 64 or 128 bytes");
  }
}

}  // namespace

std::uint32_t swizzle_address(std::uint32_t address, int span_bytes) {
  return address ^ (((address >> 7) & chunk_mask(span_bytes)) << 4);
}

int swizzle_period(int span_bytes) { return chunk_mask(span_bytes) == 0 ? 16 : 8 * span_bytes; }

}  // namespace anydim::ptx
