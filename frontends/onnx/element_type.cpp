#include "frontends/onnx/element_type.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "frontends/onnx/packed_numbers.h"
#include "ir/error.h"
#include "ir/tensor.h"

namespace anydim::frontends {

namespace {

using ir::DType;
using Special = NarrowFloat::Special;

constexpr NarrowType integer(DType held, int bits) { return {.held = held, .bits = bits}; }

constexpr NarrowType real(int exponent_bits, int mantissa_bits, int bias, Special special) {
  return {.held = DType::F16,
          .bits = 1 + exponent_bits + mantissa_bits,
          .real = NarrowFloat{exponent_bits, mantissa_bits, bias, special}};
}

// Powers of two, down to one that f16 has not.
constexpr NarrowType scale{
    .held = DType::F32, .bits = 8, .real = NarrowFloat{8, 0, 127, Special::HighestIsNan, false}};

// Indexed by ONNX's number. The later ones are not in the schema of every ONNX version, so they are
// written out here.
constexpr std::array<ElementType, 29> element_types = {{
    {"UNDEFINED"},
    {"FLOAT", DType::F32},
    {"UINT8", DType::U8},
    {"INT8", DType::I8},
    {"UINT16", DType::U16},
    {"INT16", DType::I16},
    {"INT32", DType::I32},
    {"INT64", DType::I64},
    {"STRING"},
    {"BOOL", DType::Bool},
    {"FLOAT16", DType::F16},
    {"DOUBLE", DType::F64},
    {"UINT32", DType::U32},
    {"UINT64", DType::U64},
    {"COMPLEX64"},
    {"COMPLEX128"},
    {"BFLOAT16", DType::BF16},
    {"FLOAT8E4M3FN", {}, real(4, 3, 7, Special::HighestIsNan)},
    {"FLOAT8E4M3FNUZ", {}, real(4, 3, 8, Special::NegativeZeroIsNan)},
    {"FLOAT8E5M2", {}, real(5, 2, 15, Special::Infinities)},
    {"FLOAT8E5M2FNUZ", {}, real(5, 2, 16, Special::NegativeZeroIsNan)},
    {"UINT4", {}, integer(DType::U8, 4)},
    {"INT4", {}, integer(DType::I8, 4)},
    {"FLOAT4E2M1", {}, real(2, 1, 1, Special::None)},
    {"FLOAT8E8M0", {}, scale},
    {"UINT2", {}, integer(DType::U8, 2)},
    {"INT2", {}, integer(DType::I8, 2)},
    {"FLOAT6E2M3"},
    {"FLOAT6E3M2"},
}};

template <typename Held>
void unpack_as(const NarrowType& type, std::span<const std::byte> packed, std::span<std::byte> to) {
  const unsigned sign = 1U << (type.bits - 1);
  const auto number = [&](unsigned bits) {
    if (type.real) {
      const float value = type.real->number(static_cast<std::uint8_t>(bits));
      if constexpr (std::is_same_v<Held, float>) return value;
      else return static_cast<Held>(ir::float_to_half(value));
    }
    // Where a sign is set, the number lies 2^bits lower.
    const bool below = type.held == DType::I8 && (bits & sign) != 0;
    return static_cast<Held>(static_cast<int>(bits) - (below ? 1 << type.bits : 0));
  };
  unpack_numbers<Held>(packed, type.bits, to, number);
}

}  // namespace

float NarrowFloat::number(std::uint8_t bits) const {
  const int all = exponent_bits + mantissa_bits;
  const int mantissa = bits & ((1 << mantissa_bits) - 1),
            exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const bool negative = has_sign && ((bits >> all) & 1) != 0;
  const float sign = negative ? -1.0F : 1.0F;
  const bool is_highest = exponent == (1 << exponent_bits) - 1;
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  switch (special) {
    case Special::None: break;
    case Special::Infinities:
      if (is_highest) return mantissa == 0 ? sign * std::numeric_limits<float>::infinity() : nan;
      break;
    case Special::HighestIsNan:
      if (is_highest && mantissa == (1 << mantissa_bits) - 1) return nan;
      break;
    case Special::NegativeZeroIsNan:
      if (negative && exponent == 0 && mantissa == 0) return nan;
      break;
  }
  // Without a mantissa there is no number below the lowest exponent, and it has a pattern of its
  // own.
  if (exponent == 0 && mantissa_bits > 0)
    return sign * std::ldexp(static_cast<float>(mantissa), lowest_exponent() - mantissa_bits);
  return sign * std::ldexp(static_cast<float>((1 << mantissa_bits) + mantissa),
                           exponent - bias - mantissa_bits);
}

float NarrowFloat::highest() const {
  int bits = (1 << (exponent_bits + mantissa_bits)) - 1;
  while (!std::isfinite(number(static_cast<std::uint8_t>(bits)))) --bits;
  return number(static_cast<std::uint8_t>(bits));
}

std::int64_t NarrowType::lowest() const {
  return held == DType::I8 ? -(std::int64_t{1} << (bits - 1)) : 0;
}

std::int64_t NarrowType::highest() const {
  return (std::int64_t{1} << (held == DType::I8 ? bits - 1 : bits)) - 1;
}

void NarrowType::unpack(std::span<const std::byte> packed, std::span<std::byte> to) const {
  const auto elements = static_cast<std::int64_t>(to.size() / ir::size_of(held));
  internal_check(static_cast<std::int64_t>(packed.size()) == packed_bytes(elements),
                 "packed bytes hold as many elements");
  if (held == DType::F32) return unpack_as<float>(*this, packed, to);
  if (held == DType::F16) return unpack_as<std::uint16_t>(*this, packed, to);
  return unpack_as<std::uint8_t>(*this, packed, to);
}

const ElementType& element_type_of(DType dtype) {
  const auto* found = std::ranges::find(element_types, std::optional(dtype), &ElementType::dtype);
  internal_check(found != element_types.end(), "each dtype is one of ONNX's element types");
  return *found;
}

const ElementType& element_type_numbered(std::int64_t number, const std::string& what) {
  if (number == 0) throw Error(ErrorKind::Malformed, what + " has no element type");
  if (number < 0 || number >= static_cast<std::int64_t>(element_types.size())) {
    throw Error(ErrorKind::Malformed,
                "{} has the element type number {}, which ONNX does not define", what, number);
  }
  const ElementType& type = element_types[static_cast<std::size_t>(number)];
  if (type.dtype || type.narrow) return type;
  throw Error(ErrorKind::Unsupported, "{} has the element type {}, which Anydim does not support",
              what, type.name);
}

ir::DType dtype_numbered(std::int64_t number, const std::string& what) {
  const ElementType& type = element_type_numbered(number, what);
  if (type.dtype) return *type.dtype;
  throw Error(ErrorKind::Unsupported,
              "{} has the element type {}, which Anydim does not support here", what, type.name);
}

}  // namespace anydim::frontends
