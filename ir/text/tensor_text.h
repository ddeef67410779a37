// Tensors as text: `f32 (2, 3) [1, 2, 3, 4, 5, 6]`, and references for large ones.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/tensor.h"

namespace anydim::ir {

class TokenStream;

// Gives the bytes [offset, offset + length) of a file that a text names, as a tensor of that dtype
// and those dims.
using FileResolver =
    std::function<Tensor(const std::string& file, std::int64_t offset, std::int64_t length,
                         DType dtype, std::vector<std::int64_t> dims)>;

inline constexpr std::int64_t largest_inline_tensor = 64;  // elements

// Appends the literal. Elements are exact (shortest decimals, nan with its bits where they are not
// the usual ones). Above largest_inline_tensor elements: @file("name", offset, length) or
// @random(seed, "name") where the origin says so, else @bytes("base64"). `name` is the binding's
// result, which @random(seed) need not repeat.
void append_tensor(std::string& out, const Tensor& tensor, std::string_view name);
// The same without references: equal bits give equal text wherever they come from.
void append_tensor_bits(std::string& out, const Tensor& tensor);

// A 64-bit number as an element of an f64 tensor is written, and read back.
void append_real(std::string& out, double value);
double read_real(TokenStream& tokens);

// Reads a literal; `name` is the key of @random(seed). Throws Error{Malformed} at the place.
Tensor read_tensor(TokenStream& tokens, std::string_view name, const FileResolver& files);
DType read_dtype(TokenStream& tokens);

}  // namespace anydim::ir
