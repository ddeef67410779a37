// Integer arithmetic; results wrap.
#include <algorithm>
#include <type_traits>

#include "tests/ptx/lanes.h"
#include "tests/ptx/opcodes.h"

namespace anydim::ptx {
namespace {

template <class T>
using Unsigned = std::make_unsigned_t<T>;
template <class T>
using Twice = std::conditional_t<
    sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, std::int32_t, std::uint32_t>,
    std::conditional_t<sizeof(T) == 4,
                       std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>,
                       std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>>>;

// Products of small types are formed in 64 bits, so that nothing overflows as a signed int.
template <class T>
T wrapped_product(T a, T b) {
  return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}
template <class T>
T high_product(T a, T b) {
  return static_cast<T>((static_cast<Twice<T>>(a) * static_cast<Twice<T>>(b)) >> (8 * sizeof(T)));
}
template <class T>
T wrapped_sum(T a, T b) {
  return static_cast<T>(static_cast<Unsigned<T>>(a) + static_cast<Unsigned<T>>(b));
}
template <class T>
T wrapped_difference(T a, T b) {
  return static_cast<T>(static_cast<Unsigned<T>>(a) - static_cast<Unsigned<T>>(b));
}
// Division by zero gives all ones, and the remainder the dividend, as the hardware's sequence does;
// the overflowing quotient wraps.
template <class T>
T quotient(T a, T b) {
  if (b == 0) return static_cast<T>(-1);
  if constexpr (std::is_signed_v<T>)
    if (b == -1) return wrapped_difference(T{0}, a);
  return static_cast<T>(a / b);
}
template <class T>
T remainder(T a, T b) {
  if (b == 0) return a;
  if constexpr (std::is_signed_v<T>)
    if (b == -1) return 0;
  return static_cast<T>(a % b);
}
template <class T>
T saturated_sum(T a, T b) {
  return static_cast<T>(std::clamp<std::int64_t>(std::int64_t{a} + std::int64_t{b},
                                                 std::numeric_limits<T>::min(),
                                                 std::numeric_limits<T>::max()));
}
template <class T>
T saturated_difference(T a, T b) {
  return static_cast<T>(std::clamp<std::int64_t>(std::int64_t{a} - std::int64_t{b},
                                                 std::numeric_limits<T>::min(),
                                                 std::numeric_limits<T>::max()));
}

template <class T>
Execute plain(Decoder& decoder) {
  const std::string& opcode = decoder.text().opcode;
  if (opcode == "add") return binary<T, T, T, wrapped_sum<T>>;
  if (opcode == "sub") return binary<T, T, T, wrapped_difference<T>>;
  if (opcode == "div") return binary<T, T, T, quotient<T>>;
  if (opcode == "rem") return binary<T, T, T, remainder<T>>;
  if (opcode == "min") return binary<T, T, T, [](T a, T b) { return std::min(a, b); }>;
  if (opcode == "max") return binary<T, T, T, [](T a, T b) { return std::max(a, b); }>;
  if (opcode == "abs")
    return unary<T, T, [](T a) { return a < 0 ? wrapped_difference(T{0}, a) : a; }>;
  if (opcode == "neg") return unary<T, T, [](T a) { return wrapped_difference(T{0}, a); }>;
  if (opcode == "sad")
    return ternary<T, T, T, T, [](T a, T b, T c) {
      return wrapped_sum(c, a < b ? wrapped_difference(b, a) : wrapped_difference(a, b));
    }>;
  decoder.unknown("not with an integer type");
}

template <class T>
Execute product(Decoder& decoder, std::string_view half) {
  const bool adds = decoder.text().opcode == "mad";
  if (half == "lo" && adds)
    return ternary<T, T, T, T, [](T a, T b, T c) { return wrapped_sum(wrapped_product(a, b), c); }>;
  if (half == "lo") return binary<T, T, T, wrapped_product<T>>;
  if (half == "hi" && adds)
    return ternary<T, T, T, T, [](T a, T b, T c) { return wrapped_sum(high_product(a, b), c); }>;
  if (half == "hi") return binary<T, T, T, high_product<T>>;
  if constexpr (sizeof(T) < 8) {
    using Wide = Twice<T>;
    if (half == "wide" && adds)
      return ternary<Wide, T, T, Wide, [](T a, T b, Wide c) {
        return wrapped_sum(static_cast<Wide>(static_cast<Wide>(a) * static_cast<Wide>(b)), c);
      }>;
    if (half == "wide")
      return binary<Wide, T, T,
                    [](T a, T b) { return static_cast<Wide>(a) * static_cast<Wide>(b); }>;
  }
  decoder.unknown("it lacks .lo, .hi or .wide");
}

template <template <class> class Pick, class... More>
Execute by_type(Decoder& decoder, Type type, More... more) {
  switch (type) {
    case Type::u16: return Pick<std::uint16_t>::get(decoder, more...);
    case Type::s16: return Pick<std::int16_t>::get(decoder, more...);
    case Type::u32: return Pick<std::uint32_t>::get(decoder, more...);
    case Type::s32: return Pick<std::int32_t>::get(decoder, more...);
    case Type::u64: return Pick<std::uint64_t>::get(decoder, more...);
    case Type::s64: return Pick<std::int64_t>::get(decoder, more...);
    default: decoder.unknown("the type is no integer");
  }
}

template <class T>
struct PickPlain {
  static Execute get(Decoder& decoder) { return plain<T>(decoder); }
};
template <class T>
struct PickProduct {
  static Execute get(Decoder& decoder, std::string_view half) { return product<T>(decoder, half); }
};

void decode_operands(Decoder& decoder, Type result, Type source, Type last) {
  decoder.instruction.slot[0] = decoder.destination(0, result);
  for (std::size_t i = 1; i < decoder.operands(); ++i)
    decoder.instruction.slot.at(i) = decoder.source(i, i == 3 ? last : source);
}

}  // namespace

Execute integer_arithmetic(Decoder& decoder, Type type) {
  const std::string& opcode = decoder.text().opcode;
  if (opcode == "mul" || opcode == "mad" || opcode == "madc") {
    const std::string_view half = decoder.take_any({"lo", "hi", "wide"});
    const bool leaves = opcode != "mul" && decoder.take("cc");
    if (opcode == "madc" || leaves) {
      if (half == "wide") decoder.unknown(".wide leaves no carry");
      decode_operands(decoder, type, type, type);
      return carried_arithmetic(decoder, type, half, leaves);
    }
    const Type wide = type == Type::u16   ? Type::u32
                      : type == Type::s16 ? Type::s32
                      : type == Type::u32 ? Type::u64
                                          : Type::s64;
    const Type result = half == "wide" ? wide : type;
    decode_operands(decoder, result, type, result);
    return by_type<PickProduct>(decoder, type, half);
  }
  decode_operands(decoder, type, type, type);
  const bool leaves =
      (opcode.starts_with("add") || opcode.starts_with("sub")) && decoder.take("cc");
  if (opcode == "addc" || opcode == "subc" || leaves)
    return carried_arithmetic(decoder, type, {}, leaves);
  if (decoder.take("sat")) {
    if (type == Type::s32 && opcode == "add")
      return binary<std::int32_t, std::int32_t, std::int32_t, saturated_sum<std::int32_t>>;
    if (type == Type::s32 && opcode == "sub")
      return binary<std::int32_t, std::int32_t, std::int32_t, saturated_difference<std::int32_t>>;
    decoder.unknown(".sat goes with add and sub of s32");
  }
  return by_type<PickPlain>(decoder, type);
}

// c and the products of the halves of a with two bytes of b.
template <class Half, class Byte, int first_byte>
Execute two_products() {
  return ternary<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t,
                 [](std::uint32_t a, std::uint32_t b, std::uint32_t c) {
                   for (int i = 0; i < 2; ++i) {
                     const int half = static_cast<Half>(a >> (16 * i)),
                               byte = static_cast<Byte>(b >> (8 * (first_byte + i)));
                     c += static_cast<std::uint32_t>(half) * static_cast<std::uint32_t>(byte);
                   }
                   return c;
                 }>;
}

template <class Half, class Byte>
Execute two_products(std::string_view half) {
  return half == "lo" ? two_products<Half, Byte, 0>() : two_products<Half, Byte, 2>();
}

Execute two_products(Decoder& decoder) {
  const std::string_view half = decoder.take_any({"lo", "hi"});
  const Type of_a = decoder.take_type(), of_b = decoder.take_type();
  decode_operands(decoder, Type::u32, Type::u32, Type::u32);
  if (of_a == Type::u32 && of_b == Type::u32)
    return two_products<std::uint16_t, std::uint8_t>(half);
  if (of_a == Type::u32 && of_b == Type::s32) return two_products<std::uint16_t, std::int8_t>(half);
  if (of_a == Type::s32 && of_b == Type::u32) return two_products<std::int16_t, std::uint8_t>(half);
  if (of_a == Type::s32 && of_b == Type::s32) return two_products<std::int16_t, std::int8_t>(half);
  decoder.unknown("its operands are .u32 or .s32");
}

void add_integer_opcodes(OpcodeTable& table) {
  for (const char* opcode : {"rem", "sad", "addc", "subc", "madc"})
    table[opcode] = [](Decoder& decoder) {
      decoder.instruction.execute = integer_arithmetic(decoder, decoder.take_type());
    };
  table["dp2a"] = [](Decoder& decoder) { decoder.instruction.execute = two_products(decoder); };
  table["mul24"] = [](Decoder& decoder) {
    decoder.demand("lo");
    const Type type = decoder.take_type();
    decode_operands(decoder, type, type, type);
    if (type == Type::u32)
      decoder.instruction.execute =
          binary<std::uint32_t, std::uint32_t, std::uint32_t, [](std::uint32_t a, std::uint32_t b) {
            return (a & 0xffffffU) * (b & 0xffffffU);
          }>;
    else decoder.unknown("only .u32 is supported");
  };
}

}  // namespace anydim::ptx
