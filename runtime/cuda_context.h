// One GPU as this process uses it: its primary context, its properties, and what is left after a
// fault.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "runtime/cuda_driver.h"

namespace anydim::runtime::cuda {

struct Properties {
  std::string name;
  int capability = 0;      // 90 for 9.0
  int driver_version = 0;  // 12040 for 12.4
  int multiprocessors = 0;
  int threads_per_block = 0, threads_per_multiprocessor = 0, blocks_per_multiprocessor = 0;
  std::int64_t shared_per_multiprocessor = 0, shared_per_block = 0, registers_per_block = 0,
               registers_per_multiprocessor = 0, l2_bytes = 0, memory_bytes = 0;
  std::int64_t clock_khz = 0;
  // bytes a second, as the memory's clock and width give it; 0: not told
  double memory_bandwidth = 0;
};

// Any thread. Memory, kernels and graphs hold a share of it, so that they can always be freed.
class DeviceContext {
 public:
  // Throws Error{Resource}: an old driver, no device, a device without what is needed.
  static std::shared_ptr<DeviceContext> open(std::shared_ptr<const Driver> driver, int ordinal = 0);
  ~DeviceContext();
  DeviceContext(const DeviceContext&) = delete;
  DeviceContext& operator=(const DeviceContext&) = delete;

  const Driver& driver() const { return *driver_; }
  const Properties& properties() const { return properties_; }
  int ordinal() const { return ordinal_; }
  bool is(Context context) const { return context == context_; }

  // Makes the context current on this thread. Throws Error{Internal} once the context is lost.
  void enter() const;
  // The same for destructors. False where a kernel hangs: the driver would wait for it, so nothing
  // is freed.
  [[nodiscard]] bool enter_quietly() const noexcept;

  // Throws for anything but success: Error{Resource} where memory is short, Error{Internal} else; a
  // fault of a kernel also loses the context for good. `what`: what was being done, e.g. "copying
  // inputs to the GPU".
  void check(Result result, std::string_view what) const {
    if (result != success) fail(result, what);
  }
  [[noreturn]] void fail(Result result, std::string_view what) const;

  // Waits for a stream whose last launch may be one that hangs the device: not_ready where it has
  // not ended after the limit. To `fail` with that loses the context for good.
  Result wait_a_while(Stream stream) const;
  // Several times what the bounded waits of a checked kernel take (device/barriers.cuh).
  static constexpr std::chrono::milliseconds longest_trial{20'000};
  void limit_trials(std::chrono::milliseconds limit) { trial_limit_ = limit; }  // for tests

 private:
  DeviceContext() = default;

  std::shared_ptr<const Driver> driver_;
  int ordinal_ = 0;
  DeviceNumber device_ = 0;
  Context context_ = nullptr;
  Properties properties_;
  std::chrono::milliseconds trial_limit_ = longest_trial;
  mutable std::atomic<bool> lost_{false}, hangs_{false};
  mutable std::mutex mutex_;
  mutable std::string first_fault_;  // why it is lost
};

}  // namespace anydim::runtime::cuda
