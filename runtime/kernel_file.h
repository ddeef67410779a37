// The bytes of one cached kernel: self-checking, independent of where they lie.
//
// Layout, little-endian: magic "anydimk\n", u32 version, u32 zero, key (16 bytes), u64 payload
// length, XXH3-128 of everything before it and of the payload (16 bytes), payload. The payload
// holds a CompiledKernel.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/backend.h"

namespace anydim::runtime {

// Hash of everything that a kernel depends on; also names its file.
struct KernelKey {
  std::array<std::uint8_t, 16> bytes{};
  auto operator<=>(const KernelKey&) const = default;
};
std::string to_string(const KernelKey& key);  // 32 hexadecimal digits

// `kind` tells kernels from shape programs; `identity` is the region's, or the printed shape
// program.
KernelKey kernel_key(std::string_view kind, std::string_view identity, std::string_view bucket,
                     std::string_view schedule, std::string_view target,
                     std::string_view generator);

std::vector<std::byte> encode_kernel(const KernelKey& key, const ir::CompiledKernel& kernel);
// The file around a payload, whatever that holds.
std::vector<std::byte> seal_payload(const KernelKey& key, std::span<const std::byte> payload);

struct DecodedKernel {
  std::optional<ir::CompiledKernel> kernel;
  std::string fault;  // why there is none, e.g. "it is truncated"
};
// Accepts any bytes.
DecodedKernel decode_kernel(const KernelKey& key, std::span<const std::byte> bytes);

}  // namespace anydim::runtime
