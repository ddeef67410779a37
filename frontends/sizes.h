// Checks of tensors that a file describes, and names as messages quote them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/printable.h"
#include "ir/tensor.h"

namespace anydim::frontends {

using ir::printable;
std::string quoted_name(std::string_view name);  // printable, in single quotes

// "[2, 3]"
std::string dims_text(const std::vector<std::int64_t>& dims);

// Throws Error{Malformed} where a bool tensor has a byte that is neither 0 nor 1: such a bool has
// no meaning in C++, and code is compiled on the assumption that there is none. `what` names the
// tensor, e.g. "initialiser 'w'".
void check_bools(const ir::Tensor& tensor, const std::string& what);

// Bytes that the dims need. Throws Error{Malformed} naming the tensor where a dim is negative or
// the size overflows 64 bits.
std::int64_t tensor_bytes(std::string_view tensor_name, ir::DType dtype,
                          const std::vector<std::int64_t>& dims);

}  // namespace anydim::frontends
