// From an ELF object in memory to a position-independent blob: code and constants at fixed
// distances, nothing left to resolve.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace anydim::codegen_cpu {

struct Blob {
  std::vector<std::byte> bytes;  // to be mapped readable and executable at a multiple of 64
  std::vector<std::int64_t> entry_offsets;  // as asked for
  std::int64_t code_bytes = 0;              // of it, machine code
};

// Lays out the allocated sections of the relocatable object `object` (x86-64 ELF) and applies the
// PC-relative relocations among them. Throws Error{Internal} for an undefined symbol (naming it),
// writable data, any other relocation, a malformed object or a missing entry.
Blob link_blob(std::span<const std::byte> object, std::span<const std::string> entries);

}  // namespace anydim::codegen_cpu
