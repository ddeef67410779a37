// Element types, tensor types and the other types of values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/dims/dim.h"

namespace anydim::ir {

enum class DType : std::uint8_t { F64, F32, F16, BF16, I64, I32, I16, I8, U64, U32, U16, U8, Bool };

std::string_view name_of(DType dtype);  // "f32", "i64", "bool", ...
std::optional<DType> dtype_named(std::string_view name);
std::size_t size_of(DType dtype);  // bytes an element; bool takes one
bool is_float(DType dtype);
bool is_half(DType dtype);     // f16 or bf16
bool is_integer(DType dtype);  // signed or unsigned, not bool
bool is_signed(DType dtype);   // signed integers and floats

struct TensorType {
  DType dtype = DType::F32;
  std::vector<Dim> dims;
  std::size_t rank() const { return dims.size(); }
  bool operator==(const TensorType&) const = default;
};

struct Type {
  // Unknown is the type of a value before inference.
  enum class Kind : std::uint8_t { Unknown, Tensor, Tuple, List, Function };
  Kind kind = Kind::Unknown;
  TensorType tensor;           // Tensor
  std::vector<Type> elements;  // Tuple: its members; List: one element type; Function: parameters
  std::vector<Type> results;   // Function

  Type() = default;
  Type(TensorType type)  // NOLINT: implicit on purpose
      : kind(Kind::Tensor), tensor(std::move(type)) {}
  bool is_tensor() const { return kind == Kind::Tensor; }
  bool operator==(const Type&) const = default;
};

// `?` inside the type of a tuple, list or function: an extent that opens a symbol where it is taken
// out or called.
Dim any_extent();
bool is_any_extent(const Dim& dim);

// Elements (product of dims, 1 for rank 0) and bytes of a concrete shape; a negative dim or int64
// overflow throws Error{Inputs}.
std::int64_t element_count(const std::vector<std::int64_t>& dims);
std::int64_t byte_count(DType dtype, const std::vector<std::int64_t>& dims);

}  // namespace anydim::ir
