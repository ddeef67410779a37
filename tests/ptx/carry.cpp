// Extended-precision integer arithmetic: sums that leave a carry in the condition code, and sums
// that take it up.
#include <type_traits>

#include "tests/ptx/lanes.h"
#include "tests/ptx/opcodes.h"

namespace anydim::ptx {
namespace {

enum class Sum { Add, Subtract, LowProduct, HighProduct };

// Both sums of T and a carry bit in unsigned arithmetic; borrow for differences.
template <class T, Sum sum, bool takes, bool leaves>
Outcome carried(Warp& warp, const Instruction& instruction, LaneMask mask) {
  constexpr bool product = sum == Sum::LowProduct || sum == Sum::HighProduct;
  using Wide =
      std::conditional_t<sizeof(T) == 4,
                         std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>,
                         std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>>;
  using Bits = std::make_unsigned_t<T>;
  auto* out = warp.lanes<Stored<T>>(instruction.slot[0]);
  const auto* a = warp.lanes<Stored<T>>(instruction.slot[1]);
  const auto* b = warp.lanes<Stored<T>>(instruction.slot[2]);
  const auto* c = product ? warp.lanes<Stored<T>>(instruction.slot[3]) : nullptr;
  for_each_lane(mask, [&](int lane) {
    const LaneMask bit = LaneMask{1} << lane;
    const Bits carry = takes && (warp.carry & bit) != 0 ? 1 : 0;
    const T left = get_lane<T>(a[lane]), right = get_lane<T>(b[lane]);
    Bits first = static_cast<Bits>(left), second = static_cast<Bits>(right);
    if constexpr (product) {
      const Wide whole = static_cast<Wide>(left) * static_cast<Wide>(right);
      first = static_cast<Bits>(sum == Sum::HighProduct ? whole >> (8 * sizeof(T)) : whole);
      second = static_cast<Bits>(get_lane<T>(c[lane]));
    }
    Bits partial = 0, result = 0;
    const auto combine = [](Bits x, Bits y, Bits& to) {
      return sum == Sum::Subtract ? __builtin_sub_overflow(x, y, &to)
                                  : __builtin_add_overflow(x, y, &to);
    };
    const bool over = combine(first, second, partial), again = combine(partial, carry, result);
    if constexpr (leaves) warp.carry = over || again ? warp.carry | bit : warp.carry & ~bit;
    out[lane] = put_lane<T>(static_cast<T>(result));
  });
  return Outcome::Next;
}

template <class T, Sum sum>
Execute by_carry(bool takes, bool leaves) {
  if (takes) return leaves ? carried<T, sum, true, true> : carried<T, sum, true, false>;
  return carried<T, sum, false, true>;
}

template <class T>
Execute by_sum(Sum sum, bool takes, bool leaves) {
  switch (sum) {
    case Sum::Add: return by_carry<T, Sum::Add>(takes, leaves);
    case Sum::Subtract: return by_carry<T, Sum::Subtract>(takes, leaves);
    case Sum::LowProduct: return by_carry<T, Sum::LowProduct>(takes, leaves);
    case Sum::HighProduct: return by_carry<T, Sum::HighProduct>(takes, leaves);
  }
  return nullptr;
}

}  // namespace

Execute carried_arithmetic(Decoder& decoder, Type type, std::string_view half, bool leaves) {
  const std::string& opcode = decoder.text().opcode;
  const bool takes = opcode.ends_with('c');
  const Sum sum = half == "lo"                ? Sum::LowProduct
                  : half == "hi"              ? Sum::HighProduct
                  : opcode.starts_with("sub") ? Sum::Subtract
                                              : Sum::Add;
  switch (type) {
    case Type::u32: return by_sum<std::uint32_t>(sum, takes, leaves);
    case Type::s32: return by_sum<std::int32_t>(sum, takes, leaves);
    case Type::u64: return by_sum<std::uint64_t>(sum, takes, leaves);
    case Type::s64: return by_sum<std::int64_t>(sum, takes, leaves);
    default: decoder.unknown("a carry goes with 32 and 64 bits");
  }
}

}  // namespace anydim::ptx
