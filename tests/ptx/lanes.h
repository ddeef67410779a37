// Loops over lanes for handlers that compute each lane by itself. A value of type T of up to 4
// bytes lies in the low bytes of 4.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tests/ptx/execution.h"

namespace anydim::ptx {

template <class T>
using Stored = std::conditional_t<(sizeof(T) > 4), std::uint64_t, std::uint32_t>;

template <class T>
T get_lane(Stored<T> stored) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(stored);
  } else {
    T value;
    std::memcpy(&value, &stored, sizeof(T));
    return value;
  }
}

template <class T>
Stored<T> put_lane(T value) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<Stored<T>>(static_cast<std::make_unsigned_t<T>>(value));
  } else {
    Stored<T> stored = 0;
    std::memcpy(&stored, &value, sizeof(T));
    return stored;
  }
}

template <class Visit>
void for_each_lane(LaneMask mask, Visit&& visit) {
  if (mask == 0xffff'ffffU) {
    for (int lane = 0; lane < 32; ++lane) visit(lane);
  } else {
    for (; mask != 0; mask &= mask - 1) visit(std::countr_zero(mask));
  }
}

// slot[0] = f(slot[1], ...)
template <class Out, class A, auto f>
Outcome unary(Warp& warp, const Instruction& instruction, LaneMask mask) {
  auto* out = warp.lanes<Stored<Out>>(instruction.slot[0]);
  const auto* a = warp.lanes<Stored<A>>(instruction.slot[1]);
  for_each_lane(mask, [&](int lane) {
    out[lane] = put_lane<Out>(static_cast<Out>(f(get_lane<A>(a[lane]))));
  });
  return Outcome::Next;
}

template <class Out, class A, class B, auto f>
Outcome binary(Warp& warp, const Instruction& instruction, LaneMask mask) {
  auto* out = warp.lanes<Stored<Out>>(instruction.slot[0]);
  const auto* a = warp.lanes<Stored<A>>(instruction.slot[1]);
  const auto* b = warp.lanes<Stored<B>>(instruction.slot[2]);
  for_each_lane(mask, [&](int lane) {
    out[lane] = put_lane<Out>(static_cast<Out>(f(get_lane<A>(a[lane]), get_lane<B>(b[lane]))));
  });
  return Outcome::Next;
}

template <class Out, class A, class B, class C, auto f>
Outcome ternary(Warp& warp, const Instruction& instruction, LaneMask mask) {
  auto* out = warp.lanes<Stored<Out>>(instruction.slot[0]);
  const auto* a = warp.lanes<Stored<A>>(instruction.slot[1]);
  const auto* b = warp.lanes<Stored<B>>(instruction.slot[2]);
  const auto* c = warp.lanes<Stored<C>>(instruction.slot[3]);
  for_each_lane(mask, [&](int lane) {
    out[lane] = put_lane<Out>(
        static_cast<Out>(f(get_lane<A>(a[lane]), get_lane<B>(b[lane]), get_lane<C>(c[lane]))));
  });
  return Outcome::Next;
}

}  // namespace anydim::ptx
