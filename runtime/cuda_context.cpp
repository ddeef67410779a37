#include "runtime/cuda_context.h"

#include <fmt/format.h>

#include <thread>
#include <utility>

#include "ir/error.h"

namespace anydim::runtime::cuda {

namespace {

constexpr int oldest_capability = 80;

Properties read_properties(const Driver& driver, DeviceNumber device) {
  const auto attribute = [&](DeviceAttribute name) {
    int value = 0;
    if (const Result result = driver.device_attribute(&value, name, device); result != success) {
      throw Error(ErrorKind::Resource, "the GPU does not tell its attribute {}: {}",
                  static_cast<int>(name), describe(driver, result));
    }
    return value;
  };
  // What newer drivers may stop telling.
  const auto told = [&](DeviceAttribute name) {
    int value = 0;
    return driver.device_attribute(&value, name, device) == success && value > 0 ? value : 0;
  };
  Properties properties;
  char name[256] = {};
  if (driver.device_name(name, sizeof name - 1, device) == success) properties.name = name;
  driver.driver_version(&properties.driver_version);
  properties.capability =
      10 * attribute(compute_capability_major) + attribute(compute_capability_minor);
  properties.multiprocessors = attribute(multiprocessor_count);
  properties.threads_per_block = attribute(max_threads_per_block);
  properties.shared_per_multiprocessor = attribute(max_shared_bytes_per_multiprocessor);
  properties.shared_per_block = attribute(max_shared_bytes_per_block);
  properties.registers_per_block = attribute(max_registers_per_block);
  properties.l2_bytes = attribute(l2_cache_bytes);
  properties.threads_per_multiprocessor = attribute(max_threads_per_multiprocessor);
  properties.blocks_per_multiprocessor = attribute(max_blocks_per_multiprocessor);
  properties.registers_per_multiprocessor = attribute(max_registers_per_multiprocessor);
  properties.clock_khz = told(clock_rate_khz);
  // Two transfers a clock.
  properties.memory_bandwidth = 2e3 * told(memory_clock_rate_khz) * told(memory_bus_width_bits) / 8;
  std::size_t bytes = 0;
  if (driver.device_memory(&bytes, device) == success)
    properties.memory_bytes = static_cast<std::int64_t>(bytes);
  if (properties.capability < oldest_capability) {
    throw Error(
        ErrorKind::Resource,
        "the GPU ({}) has compute capability {}.{}; kernels need 8.0 or newer; use --device cpu",
        properties.name, properties.capability / 10, properties.capability % 10);
  }
  if (attribute(memory_pools_supported) == 0) {
    throw Error(ErrorKind::Resource,
                "the GPU ({}) has no stream-ordered memory as it is set up here; use --device cpu",
                properties.name);
  }
  return properties;
}

}  // namespace

std::shared_ptr<DeviceContext> DeviceContext::open(std::shared_ptr<const Driver> driver,
                                                   int ordinal) {
  const auto refuse = [&](Result result, std::string_view what) {
    if (result == success) return;
    throw Error(ErrorKind::Resource, "{}: {}; use --device cpu", what, describe(*driver, result));
  };
  int version = 0;
  refuse(driver->driver_version(&version), "the CUDA driver does not tell its version");
  if (version < oldest_driver) {
    throw Error(ErrorKind::Resource,
                "the CUDA driver offers version {}, but {} is needed; install a newer "
                "driver (525 or newer)",
                version_text(version), version_text(oldest_driver));
  }
  if (const Result result = driver->initialise(0); result == no_device) {
    throw Error(ErrorKind::Resource, "the CUDA driver finds no GPU; use --device cpu");
  } else {
    refuse(result, "the CUDA driver does not start");
  }
  int count = 0;
  refuse(driver->device_count(&count), "the CUDA driver does not count its devices");
  if (ordinal >= count)
    throw Error(ErrorKind::Resource, "the CUDA driver finds no GPU; use --device cpu");

  std::shared_ptr<DeviceContext> context(new DeviceContext);
  context->driver_ = std::move(driver);
  context->ordinal_ = ordinal;
  const Driver& functions = *context->driver_;
  refuse(functions.device_get(&context->device_, ordinal), "the GPU cannot be opened");
  context->properties_ = read_properties(functions, context->device_);
  refuse(functions.context_retain(&context->context_, context->device_), "the GPU cannot be used");
  return context;
}

DeviceContext::~DeviceContext() {
  if (context_ != nullptr && !hangs_) driver_->context_release(device_);
}

void DeviceContext::enter() const {
  if (lost_.load(std::memory_order_acquire)) {
    const std::lock_guard lock(mutex_);
    throw Error(ErrorKind::Internal,
                "the GPU cannot be used by this process any more, a kernel failed "
                "earlier ({}); start the process again",
                first_fault_);
  }
  check(driver_->context_set(context_), "entering the GPU's context");
}

bool DeviceContext::enter_quietly() const noexcept {
  if (hangs_.load(std::memory_order_acquire)) return false;
  driver_->context_set(context_);
  return true;
}

Result DeviceContext::wait_a_while(Stream stream) const {
  constexpr std::chrono::microseconds between_looks{20};
  const auto end = std::chrono::steady_clock::now() + trial_limit_;
  for (;;) {
    const Result result = driver_->stream_query(stream);
    if (result != not_ready || std::chrono::steady_clock::now() > end) return result;
    std::this_thread::sleep_for(between_looks);
  }
}

void DeviceContext::fail(Result result, std::string_view what) const {
  if (result == out_of_memory) {
    std::size_t free = 0, total = 0;
    driver_->memory_information(&free, &total);
    throw Error(ErrorKind::Resource,
                "the GPU's memory is too small for {}: {} of {} bytes are free; give smaller "
                "inputs or end other programs that use it",
                what, free, total);
  }
  const bool hangs = result == not_ready;
  const std::string message =
      hangs ? fmt::format("{}: it has not ended after {} s; the GPU hangs until this process ends",
                          what, std::chrono::duration<double>(trial_limit_).count())
            : fmt::format("{}: {}", what, describe(*driver_, result));
  if (hangs) hangs_.store(true, std::memory_order_release);
  if (hangs || ends_context(result)) {
    const std::lock_guard lock(mutex_);
    if (!lost_.load(std::memory_order_relaxed)) first_fault_ = message;
    lost_.store(true, std::memory_order_release);
  }
  throw Error(ErrorKind::Internal, message);
}

}  // namespace anydim::runtime::cuda
