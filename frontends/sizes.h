// Checked sizes of tensors that a file describes, and names as messages quote them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/type.h"

namespace anydim::frontends {

// In single quotes, with bytes that would disturb a terminal as \xHH; very long names are cut.
std::string quoted_name(std::string_view name);

// "[2, 3]"
std::string dims_text(const std::vector<std::int64_t>& dims);

// Bytes that the dims need. Throws Error{Malformed} naming the tensor where a dim is negative or the size overflows 64 bits.
std::int64_t tensor_bytes(std::string_view tensor_name, ir::DType dtype, const std::vector<std::int64_t>& dims);

}  // namespace anydim::frontends
