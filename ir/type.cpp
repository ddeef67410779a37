#include "ir/type.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ir/error.h"

namespace anydim::ir {

namespace {

struct DTypeInfo {
  std::string_view name;
  std::uint8_t size;
  bool is_float;
  bool is_integer;
  bool is_signed;
};

constexpr DTypeInfo info_of(DType dtype) {
  switch (dtype) {
    case DType::F64: return {"f64", 8, true, false, true};
    case DType::F32: return {"f32", 4, true, false, true};
    case DType::F16: return {"f16", 2, true, false, true};
    case DType::BF16: return {"bf16", 2, true, false, true};
    case DType::I64: return {"i64", 8, false, true, true};
    case DType::I32: return {"i32", 4, false, true, true};
    case DType::I16: return {"i16", 2, false, true, true};
    case DType::I8: return {"i8", 1, false, true, true};
    case DType::U64: return {"u64", 8, false, true, false};
    case DType::U32: return {"u32", 4, false, true, false};
    case DType::U16: return {"u16", 2, false, true, false};
    case DType::U8: return {"u8", 1, false, true, false};
    case DType::Bool: return {"bool", 1, false, false, false};
  }
  internal_error("a dtype is one of the enumerators");
}

}  // namespace

std::string_view name_of(DType dtype) { return info_of(dtype).name; }
std::size_t size_of(DType dtype) { return info_of(dtype).size; }
bool is_float(DType dtype) { return info_of(dtype).is_float; }
bool is_half(DType dtype) { return dtype == DType::F16 || dtype == DType::BF16; }
bool is_integer(DType dtype) { return info_of(dtype).is_integer; }
bool is_signed(DType dtype) { return info_of(dtype).is_signed; }

std::optional<DType> dtype_named(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(DType::Bool); ++i) {
    if (name_of(static_cast<DType>(i)) == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

std::int64_t element_count(const std::vector<std::int64_t>& dims) {
  for (const std::int64_t dim : dims) {
    if (dim < 0)
      throw Error(ErrorKind::Inputs, "shape ({}) has a negative dim", fmt::join(dims, ", "));
  }
  if (std::ranges::find(dims, 0) != dims.end()) return 0;
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) {
    if (__builtin_mul_overflow(count, dim, &count)) {
      throw Error(ErrorKind::Inputs, "shape ({}) has more elements than 64 bits can count",
                  fmt::join(dims, ", "));
    }
  }
  return count;
}

std::int64_t byte_count(DType dtype, const std::vector<std::int64_t>& dims) {
  std::int64_t bytes = element_count(dims);
  if (__builtin_mul_overflow(bytes, static_cast<std::int64_t>(size_of(dtype)), &bytes)) {
    throw Error(ErrorKind::Inputs,
                "a {} tensor of shape ({}) has more bytes than 64 bits can count", name_of(dtype),
                fmt::join(dims, ", "));
  }
  return bytes;
}

Dim any_extent() { return Dim::symbol("?"); }

bool is_any_extent(const Dim& dim) {
  return dim.kind() == Dim::Kind::Symbol && dim.leaf().symbol == "?";
}

}  // namespace anydim::ir
