// NumPy's .npy files.
#pragma once

#include <filesystem>
#include <string>

#include "api/anydim.h"

namespace anydim {

// Versions 1 to 3, little-endian, C or Fortran order (converted). The file must have exactly the
// size that its header says. Throws Error{Malformed} naming the file and what is wrong.
ir::Tensor read_npy(const std::filesystem::path& file);

// The header that goes before the tensor's bytes. bf16, which NumPy lacks, is written as its 16-bit
// patterns in uint16.
std::string npy_header(const ir::Tensor& tensor);

}  // namespace anydim
