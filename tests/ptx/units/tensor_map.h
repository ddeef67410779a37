// Tensor maps (TMA descriptors) in a 128-byte form of our own, used in place of
// cuTensorMapEncodeTiled, and what one box transfer touches. Source of the limits: CUDA driver API,
// cuTensorMapEncodeTiled; restated in docs/cuda.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ir/type.h"

namespace anydim::ptx {

inline constexpr std::size_t tensor_map_bytes = 128;
inline constexpr std::size_t tensor_map_alignment = 64;
using TensorMapBytes = std::array<std::byte, tensor_map_bytes>;

struct TensorMapLayout {
  ir::DType dtype = ir::DType::F32;
  std::uint64_t address = 0;           // device memory, multiple of 16
  std::vector<std::uint64_t> dims;     // elements, innermost first, 1 to 5 of them, each 1..2^32
  std::vector<std::uint64_t> strides;  // bytes, of dims 1..: multiples of 16 below 2^40
  std::vector<std::uint32_t> box;  // elements, each 1..256; the innermost spans a multiple of 16
                                   // bytes, at most the swizzle's span
  int swizzle_bytes = 0;           // 0, 32, 64, 128

  std::size_t rank() const { return dims.size(); }
  // Bytes of a whole box: what a load adds to the mbarrier's transactions, also where the box lies
  // outside the tensor.
  std::uint32_t box_bytes() const;
};

// Element strides are 1, elements outside the tensor are filled with zeros. Throws
// anydim::Error{Inputs} naming the limit that is broken.
TensorMapBytes encode_tensor_map(const TensorMapLayout& layout);

// Throws anydim::Error{Inputs} when the bytes are no tensor map.
TensorMapLayout decode_tensor_map(std::span<const std::byte, tensor_map_bytes> bytes);

// A piece of at most 16 bytes of a box.
struct BoxPiece {
  std::uint32_t shared_address = 0;  // swizzled
  std::uint64_t global_address = 0;  // of no meaning when outside
  std::uint32_t bytes = 0;
  bool inside = false;  // false: a load writes zeros, a store skips it
};

// The pieces of the box whose first element is at `coordinates` (innermost first; may be negative
// or beyond the tensor) and which lies packed from `shared_address`. Global addresses wrap at 64
// bits.
std::vector<BoxPiece> box_pieces(const TensorMapLayout& layout,
                                 std::span<const std::int32_t> coordinates,
                                 std::uint32_t shared_address);

}  // namespace anydim::ptx
