// What loads, stores and atomics share: the order that strong accesses and fences make.
#pragma once

#include <bit>

#include "tests/ptx/execution.h"

namespace anydim::ptx {

// How an access takes part in ordering.
enum class Order : std::uint8_t { Weak, Relaxed, Acquire, Release, AcquireRelease };
inline bool acquires(Order order) {
  return order == Order::Acquire || order == Order::AcquireRelease;
}
inline bool releases(Order order) {
  return order == Order::Release || order == Order::AcquireRelease;
}

// A modifier such as .volatile or .acquire with its scope.
Order take_order(Decoder& decoder, Order otherwise);
void skip_cache_modifiers(Decoder& decoder);

// A strong read of the place has happened: what was published there becomes known, at once or at
// the next fence.
void order_after_read(Warp& warp, const std::byte* place, int lane, Order order);
// A strong write will happen. A read-modify-write keeps what was published before.
void order_before_write(Warp& warp, const std::byte* place, int lane, Order order,
                        bool keeps_earlier);

}  // namespace anydim::ptx
