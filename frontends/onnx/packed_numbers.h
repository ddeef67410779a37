// Numbers of 8 bits or fewer in bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>

namespace anydim::frontends {

// Writes number(bits), a Held, for as many patterns of `bits` bits (1, 2, 4 or 8) as `to` has room
// for: each byte's lowest bits come first. `packed` holds at least as many.
template <typename Held, typename Number>
void unpack_numbers(std::span<const std::byte> packed, int bits, std::span<std::byte> to,
                    const Number& number) {
  const auto each = static_cast<std::size_t>(8 / bits), step = each * sizeof(Held);
  // All that a byte can hold, so that most bytes are one copy.
  std::array<std::array<Held, 8>, 256> numbers{};
  for (unsigned byte = 0; byte < numbers.size(); ++byte)
    for (std::size_t i = 0; i < each; ++i)
      numbers[byte][i] = number((byte >> (static_cast<int>(i) * bits)) & ((1U << bits) - 1));
  const std::size_t whole = to.size() / step, rest = to.size() % step;
  const auto of = [&](std::size_t byte) {
    return numbers[std::to_integer<std::size_t>(packed[byte])].data();
  };
  const auto copy = [&]<std::size_t bytes>(std::integral_constant<std::size_t, bytes>) {
    for (std::size_t byte = 0; byte < whole; ++byte)
      std::memcpy(to.data() + byte * bytes, of(byte), bytes);
  };
  switch (step) {
    case 2: copy(std::integral_constant<std::size_t, 2>{}); break;
    case 4: copy(std::integral_constant<std::size_t, 4>{}); break;
    default:
      for (std::size_t byte = 0; byte < whole; ++byte)
        std::memcpy(to.data() + byte * step, of(byte), step);
  }
  if (rest != 0) std::memcpy(to.data() + whole * step, of(whole), rest);
}

}  // namespace anydim::frontends
