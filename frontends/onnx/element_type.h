// The element types of ONNX, of which some have no DType: integers of fewer than 8 bits and floats
// of at most 8. Tensors of those are held in a DType that has all of their numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ir/type.h"

namespace anydim::frontends {

// A float of a sign, where `has_sign`, of `exponent_bits` and of `mantissa_bits`; its exponents
// count from -`bias`. The schemes of ONNX's Cast, which are OCP's (8-bit Floating Point
// Specification, Microscaling Formats) and Graphcore's (Noune et al. 2022, "8-bit Numerical Formats
// for Deep Neural Networks", the UZ ones).
struct NarrowFloat {
  enum class Special {
    None,          // every pattern is a number
    Infinities,    // as IEEE: infinities and NaNs have the highest exponent
    HighestIsNan,  // all bits set but the sign
    NegativeZeroIsNan,
  };
  int exponent_bits = 0, mantissa_bits = 0, bias = 0;
  Special special = Special::None;
  bool has_sign = true;

  float number(std::uint8_t bits) const;
  float highest() const;                            // the largest finite number
  int lowest_exponent() const { return 1 - bias; }  // of numbers with all of their mantissa
};

struct NarrowType {
  ir::DType held{};
  int bits = 0;                       // of one element; the first lies in the lowest bits of a byte
  std::optional<NarrowFloat> real{};  // nullopt: an integer, signed as `held` is

  std::int64_t lowest() const;  // of integers, as the next
  std::int64_t highest() const;
  std::int64_t in_a_byte() const { return 8 / bits; }
  std::int64_t packed_bytes(std::int64_t elements) const {
    return elements / in_a_byte() + (elements % in_a_byte() == 0 ? 0 : 1);
  }
  // Elements of `held` from bytes that hold as many.
  void unpack(std::span<const std::byte> packed, std::span<std::byte> to) const;
};

struct ElementType {
  std::string_view name;  // as the ONNX schema spells it
  std::optional<ir::DType> dtype{};
  std::optional<NarrowType> narrow{};  // where there is no dtype and Anydim reads it

  ir::DType held() const { return narrow ? narrow->held : *dtype; }
  std::string_view text() const { return dtype ? ir::name_of(*dtype) : name; }  // in messages
};

// Rows of one table: they outlive all, and each stands once.
const ElementType& element_type_of(ir::DType dtype);

// The element type with ONNX's number `number`. `what` starts the message of an error:
// Error{Malformed} where the number means no type, Error{Unsupported} where Anydim does not read
// it.
const ElementType& element_type_numbered(std::int64_t number, const std::string& what);
// The same where narrow types are not supported.
ir::DType dtype_numbered(std::int64_t number, const std::string& what);

}  // namespace anydim::frontends
