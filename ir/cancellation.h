// A request to end work that is under way, made on another thread or found by asking.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>

namespace anydim {

// Work that was given one asks it at its safe points: between passes, kernels that are compiled,
// candidates of a tuning run and launches of a call. It then throws Error{Cancelled}; what was
// shared (a model, a cache, a database) stays whole.
class Cancellation {
 public:
  Cancellation() = default;
  // `poll`: asked at safe points too, on the thread that has come to one, about every `poll_pause`;
  // true: cancel. Must not throw.
  explicit Cancellation(std::function<bool()> poll) : poll_(std::move(poll)) {}
  Cancellation(const Cancellation&) = delete;
  Cancellation& operator=(const Cancellation&) = delete;

  static constexpr std::chrono::milliseconds poll_pause{20};

  // Any thread; also within a signal handler.
  void cancel() noexcept { cancelled_.store(true, std::memory_order_relaxed); }
  // For the next piece of work; none may be under way.
  void reset() noexcept { cancelled_.store(false, std::memory_order_relaxed); }

  // About a nanosecond.
  bool cancelled() const {
    if (cancelled_.load(std::memory_order_relaxed)) return true;
    return poll_ && poll_due() && poll_now();
  }
  void check() const {
    if (cancelled()) stop();
  }

 private:
  // The clock is read at few of the safe points.
  static constexpr std::uint32_t points_a_reading = 32;
  bool poll_due() const {
    const std::uint32_t point = points_.load(std::memory_order_relaxed);
    points_.store(point + 1, std::memory_order_relaxed);
    return point % points_a_reading == points_a_reading - 1;
  }
  bool poll_now() const;
  [[noreturn]] static void stop();

  mutable std::atomic<bool> cancelled_{false};
  mutable std::atomic<std::uint32_t> points_{0};
  mutable std::atomic<std::chrono::steady_clock::rep> polled_{0};
  std::function<bool()> poll_;
};

// For work that may have been given none.
inline void check_cancelled(const Cancellation* cancellation) {
  if (cancellation != nullptr) cancellation->check();
}

}  // namespace anydim
