// The 64-bit matrix descriptor of wgmma: where in shared memory each element of an operand lies.
// Source: PTX ISA (wgmma shared-memory matrix layouts); the canonical layouts are restated in
// docs/cuda.md.
#pragma once

#include <cstdint>

#include "tests/ptx/units/fragment.h"

namespace anydim::ptx {

enum class Major { K, MN };

struct WgmmaDescriptor {
  std::uint32_t address = 0;              // bytes, bits 0-13 of the word x 16
  std::uint32_t leading_byte_offset = 0;  // bits 16-29 x 16
  std::uint32_t stride_byte_offset = 0;   // bits 32-45 x 16
  int base_offset = 0;                    // bits 49-51
  int swizzle_bytes = 0;                  // bits 62-63: 0 none, 1: 128, 2: 64, 3: 32
};

WgmmaDescriptor decode_wgmma_descriptor(std::uint64_t word);
// Addresses and offsets must be multiples of 16 below 2^18 (throws anydim::Error otherwise).
std::uint64_t encode_wgmma_descriptor(const WgmmaDescriptor& descriptor);

// Byte address of element (mn, k) of one instruction's operand: mn counts rows of A or columns of
// B, k runs to 256 bits worth of elements. In units of 16-byte chunks the canonical layouts are,
// with W = span / 16 chunks a row of the swizzled tile:
//   K-major:  (8 rows, n groups) x 2 chunks of k: strides ((W, SBO), 1);
//             without swizzle ((1, SBO), LBO)
//   MN-major: (W chunks, n groups) x (8 k, groups of 8 k): strides ((1, LBO), (W, SBO));
//             without swizzle ((-, SBO), (1, LBO))
// and the swizzle is applied to the final address. MN-major exists for 16-bit elements only. A base
// offset other than 0 is refused (anydim::Error): nothing the project generates needs one and its
// effect is not confirmed.
std::uint32_t wgmma_element_address(const WgmmaDescriptor& descriptor, Major major,
                                    ElementFormat format, int mn, int k);

}  // namespace anydim::ptx
