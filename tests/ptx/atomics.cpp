// atom and red.
#include <algorithm>
#include <array>
#include <cstring>

#include "tests/ptx/half.h"
#include "tests/ptx/lanes.h"
#include "tests/ptx/memory_operations.h"
#include "tests/ptx/opcodes.h"

namespace anydim::ptx {
namespace {

using Combine = std::uint64_t (*)(std::uint64_t old, std::uint64_t operand, std::uint64_t second);

struct AtomicOperand {
  Space space = Space::Generic;
  AddressOperand address;
  std::size_t bytes = 4;
  Order order = Order::Relaxed;
  Combine combine = nullptr;
  std::vector<std::int32_t> results;  // empty: red
  std::vector<std::int32_t> values;
  std::int32_t second = -1;  // the value that cas stores
  bool wide = false;
};

Outcome execute_atomic(Warp& warp, const Instruction& instruction, LaneMask mask) {
  const auto& operand = instruction.get<AtomicOperand>();
  const std::size_t total = operand.bytes * operand.values.size();
  const auto value_of = [&](std::int32_t offset, int lane) -> std::uint64_t {
    return operand.wide ? warp.lanes<std::uint64_t>(offset)[lane]
                        : warp.lanes<std::uint32_t>(offset)[lane];
  };
  for_each_lane(mask, [&](int lane) {
    std::byte* data = warp.access(AccessKind::Atomic, operand.space,
                                  warp.address(operand.address, lane), total, total, lane, true);
    order_after_read(warp, data, lane, operand.order);
    order_before_write(warp, data, lane, operand.order, true);
    for (std::size_t i = 0; i < operand.values.size(); ++i, data += operand.bytes) {
      std::uint64_t old = 0;
      std::memcpy(&old, data, operand.bytes);
      const std::uint64_t second = operand.second >= 0 ? value_of(operand.second, lane) : 0;
      const std::uint64_t result = operand.combine(old, value_of(operand.values[i], lane), second);
      std::memcpy(data, &result, operand.bytes);
      if (operand.results.empty() || operand.results[i] < 0) continue;
      if (operand.wide) warp.lanes<std::uint64_t>(operand.results[i])[lane] = old;
      else warp.lanes<std::uint32_t>(operand.results[i])[lane] = static_cast<std::uint32_t>(old);
    }
  });
  return Outcome::Next;
}

template <class T, auto f>
std::uint64_t on_integers(std::uint64_t old, std::uint64_t operand, std::uint64_t) {
  return static_cast<std::make_unsigned_t<T>>(f(static_cast<T>(old), static_cast<T>(operand)));
}

template <class T>
std::uint64_t add_reals(std::uint64_t old, std::uint64_t operand, std::uint64_t) {
  return put_lane<T>(get_lane<T>(static_cast<Stored<T>>(old)) +
                     get_lane<T>(static_cast<Stored<T>>(operand)));
}

template <class Format, int parts>
std::uint64_t add_halves(std::uint64_t old, std::uint64_t operand, std::uint64_t) {
  std::uint64_t result = 0;
  for (int i = 0; i < parts; ++i) {
    const double sum = Format::widen(static_cast<std::uint16_t>(old >> 16 * i)) +
                       Format::widen(static_cast<std::uint16_t>(operand >> 16 * i));
    result |= std::uint64_t{Format::narrow(sum)} << 16 * i;
  }
  return result;
}

template <class T>
Combine integer_combine(std::string_view name) {
  if (name == "add")
    return on_integers<T, [](T a, T b) {
      return static_cast<std::make_unsigned_t<T>>(a) + static_cast<std::make_unsigned_t<T>>(b);
    }>;
  if (name == "min") return on_integers<T, [](T a, T b) { return std::min(a, b); }>;
  if (name == "max") return on_integers<T, [](T a, T b) { return std::max(a, b); }>;
  if (name == "inc")
    return on_integers<T, [](T a, T b) { return a >= b ? T{0} : static_cast<T>(a + 1); }>;
  if (name == "dec")
    return on_integers<T, [](T a, T b) { return a == 0 || a > b ? b : static_cast<T>(a - 1); }>;
  return nullptr;
}

Combine combine_of(std::string_view name, Type type) {
  if (name == "and") return [](std::uint64_t a, std::uint64_t b, std::uint64_t) { return a & b; };
  if (name == "or") return [](std::uint64_t a, std::uint64_t b, std::uint64_t) { return a | b; };
  if (name == "xor") return [](std::uint64_t a, std::uint64_t b, std::uint64_t) { return a ^ b; };
  if (name == "exch") return [](std::uint64_t, std::uint64_t b, std::uint64_t) { return b; };
  if (name == "add" && type == Type::f32) return add_reals<float>;
  if (name == "add" && type == Type::f64) return add_reals<double>;
  if (name == "add" && type == Type::f16) return add_halves<HalfFormat, 1>;
  if (name == "add" && type == Type::f16x2) return add_halves<HalfFormat, 2>;
  if (name == "add" && type == Type::bf16) return add_halves<BfloatFormat, 1>;
  if (name == "add" && type == Type::bf16x2) return add_halves<BfloatFormat, 2>;
  switch (type) {
    case Type::u32: return integer_combine<std::uint32_t>(name);
    case Type::s32: return integer_combine<std::int32_t>(name);
    case Type::u64: return integer_combine<std::uint64_t>(name);
    case Type::s64: return integer_combine<std::int64_t>(name);
    default: return nullptr;
  }
}

void decode_atomic(Decoder& decoder) {
  const bool returns = decoder.text().opcode == "atom";
  auto operand = std::make_shared<AtomicOperand>();
  operand->order = take_order(decoder, Order::Relaxed);
  operand->space = decoder.take_space(Space::Generic);
  const std::string_view name =
      decoder.take_any({"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"});
  decoder.take("noftz");
  skip_cache_modifiers(decoder);
  decoder.take_any({"v2", "v4", "v8"});
  const Type type = decoder.take_type();
  operand->bytes = static_cast<std::size_t>(type_bytes(type));
  operand->wide = operand->bytes == 8;
  std::size_t next = 0;
  if (returns) operand->results = decoder.destinations(next++, type);
  operand->address = decoder.address(next++, operand->space);
  operand->values = decoder.sources(next++, type);
  if (name == "cas") {
    operand->second = decoder.source(next++, type);
    const bool is_short = operand->bytes == 2;
    operand->combine =
        is_short ? Combine([](std::uint64_t old, std::uint64_t compare, std::uint64_t value) {
          return (old & 0xffff) == (compare & 0xffff) ? value : old;
        })
                 : Combine([](std::uint64_t old, std::uint64_t compare, std::uint64_t value) {
                     return old == compare ? value : old;
                   });
  } else {
    operand->combine = combine_of(name, type);
  }
  if (operand->combine == nullptr) decoder.unknown("the operation does not go with the type");
  decoder.instruction.execute = execute_atomic;
  decoder.instruction.detail = operand;
}

}  // namespace

void add_atomic_opcodes(OpcodeTable& table) {
  table["atom"] = decode_atomic;
  table["red"] = [](Decoder& decoder) {
    decoder.take("async") ? decoder.unknown("red.async is not supported") : decode_atomic(decoder);
  };
}

}  // namespace anydim::ptx
