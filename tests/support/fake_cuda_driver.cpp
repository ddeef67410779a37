#include "tests/support/fake_cuda_driver.h"

#include <cstdlib>
#include <cstring>

#include "tests/support/fake_cuda_state.h"

namespace anydim::tests {

namespace {

using State = FakeCuda::State;

void add_device(cuda::Driver& driver, const std::shared_ptr<State>& state) {
  driver.initialise = [state](unsigned) {
    if (const Result result = state->enter("initialise"); result != cuda::success) return result;
    return state->options.devices == 0 ? cuda::no_device : cuda::success;
  };
  driver.driver_version = [state](int* version) {
    *version = state->options.driver_version;
    return cuda::success;
  };
  driver.error_name = [](Result error, const char** name) {
    switch (error) {
      case cuda::out_of_memory: *name = "CUDA_ERROR_OUT_OF_MEMORY"; break;
      case cuda::no_device: *name = "CUDA_ERROR_NO_DEVICE"; break;
      case cuda::illegal_address: *name = "CUDA_ERROR_ILLEGAL_ADDRESS"; break;
      case cuda::launch_failed: *name = "CUDA_ERROR_LAUNCH_FAILED"; break;
      default: return cuda::invalid_value;
    }
    return cuda::success;
  };
  driver.error_text = [](Result error, const char** text) {
    *text =
        error == cuda::illegal_address ? "an illegal memory access was encountered" : "as injected";
    return cuda::success;
  };
  driver.device_count = [state](int* count) {
    *count = state->options.devices;
    return state->enter("device_count");
  };
  driver.device_get = [state](cuda::DeviceNumber* device, int ordinal) {
    *device = ordinal;
    return state->enter("device_get");
  };
  driver.device_name = [](char* name, int length, cuda::DeviceNumber) {
    std::strncpy(name, "Fake GPU", static_cast<std::size_t>(length));
    return cuda::success;
  };
  driver.device_attribute = [state](int* value, cuda::DeviceAttribute attribute,
                                    cuda::DeviceNumber) {
    const FakeCudaOptions& options = state->options;
    switch (attribute) {
      case cuda::max_threads_per_block: *value = 1024; break;
      case cuda::max_registers_per_block: *value = 65536; break;
      case cuda::clock_rate_khz: *value = 1'000'000; break;
      case cuda::multiprocessor_count: *value = options.multiprocessors; break;
      case cuda::memory_clock_rate_khz: *value = 1'000'000; break;
      case cuda::memory_bus_width_bits: *value = 512; break;
      case cuda::l2_cache_bytes: *value = 1 << 20; break;
      case cuda::max_threads_per_multiprocessor: *value = 2048; break;
      case cuda::max_blocks_per_multiprocessor: *value = 32; break;
      case cuda::max_registers_per_multiprocessor: *value = 65536; break;
      case cuda::compute_capability_major: *value = options.capability / 10; break;
      case cuda::compute_capability_minor: *value = options.capability % 10; break;
      case cuda::max_shared_bytes_per_multiprocessor:
        *value = static_cast<int>(options.shared_per_block + 1024);
        break;
      case cuda::max_shared_bytes_per_block:
        *value = static_cast<int>(options.shared_per_block);
        break;
      case cuda::memory_pools_supported: *value = 1; break;
    }
    return state->enter("device_attribute");
  };
  driver.device_memory = [state](std::size_t* bytes, cuda::DeviceNumber) {
    *bytes = static_cast<std::size_t>(state->options.memory_bytes);
    return cuda::success;
  };
  driver.context_retain = [state](cuda::Context* context, cuda::DeviceNumber) {
    *context = handle_of<cuda::Context>(state.get());
    return state->enter("context_retain");
  };
  driver.context_release = [state](cuda::DeviceNumber) { return state->enter("context_release"); };
  driver.context_synchronize = [state] {
    if (const Result result = state->enter("context_synchronize"); result != cuda::success)
      return result;
    for (const cuda::Stream stream : state->made) state->drain(stream);
    return state->drain(nullptr);
  };
  driver.context_set = [state](cuda::Context) { return state->enter("context_set"); };
}

void add_memory(cuda::Driver& driver, const std::shared_ptr<State>& state) {
  driver.memory_information = [state](std::size_t* free, std::size_t* total) {
    *total = static_cast<std::size_t>(state->options.memory_bytes);
    *free = *total - static_cast<std::size_t>(state->bytes_in_use);
    return cuda::success;
  };
  driver.memory_allocate = [state](Address* address, std::size_t bytes) {
    const Result result = state->enter("memory_allocate");
    return result != cuda::success ? result : state->allocate(address, bytes);
  };
  driver.memory_free = [state](Address address) {
    state->enter("memory_free");
    // This waits for all that is under way.
    for (const cuda::Stream stream : state->made) state->drain(stream);
    return state->free(address);
  };
  driver.memory_allocate_async = [state](Address* address, std::size_t bytes, cuda::Stream stream) {
    const Result result = state->enter("memory_allocate_async");
    if (result != cuda::success) return result;
    if (state->stream_of(stream).capturing) return Result{900};
    // What this stream freed before can be taken again.
    if (const Result drained = state->drain(stream); drained != cuda::success) return drained;
    return state->allocate(address, bytes);
  };
  driver.memory_free_async = [state](Address address, cuda::Stream stream) {
    state->enter("memory_free_async");
    if (state->fault != cuda::success) return state->free(address);
    state->push(stream, [state = state.get(), address] { return state->free(address); });
    return cuda::success;
  };
  driver.host_allocate = [state](void** address, std::size_t bytes, unsigned) {
    const Result result = state->enter("host_allocate");
    if (result != cuda::success) return result;
    *address = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    std::memset(*address, 0x7f, bytes);
    state->pinned[static_cast<const std::byte*>(*address)] = bytes;
    return cuda::success;
  };
  driver.host_device_address = [state](Address* address, void* host, unsigned) {
    const Result result = state->enter("host_device_address");
    if (result != cuda::success) return result;
    if (!state->is_pinned(host)) return cuda::invalid_value;
    const auto& [start, bytes] =
        *std::prev(state->pinned.upper_bound(static_cast<const std::byte*>(host)));
    Address& base = state->mapped[const_cast<std::byte*>(start)];
    if (base == 0) base = state->gpu->allocate(bytes);
    *address = base + static_cast<Address>(static_cast<const std::byte*>(host) - start);
    return cuda::success;
  };
  driver.host_free = [state](void* address) {
    state->enter("host_free");
    if (const auto found = state->mapped.find(static_cast<std::byte*>(address));
        found != state->mapped.end()) {
      state->gpu->free(found->second);
      state->mapped.erase(found);
    }
    state->pinned.erase(static_cast<const std::byte*>(address));
    std::free(address);
    return cuda::success;
  };
  driver.pointer_attribute = [state](void* value, cuda::PointerAttribute attribute,
                                     Address address) {
    const Result result = state->enter("pointer_attribute");
    if (result != cuda::success) return result;
    const bool pinned = state->is_pinned(reinterpret_cast<const void*>(address));
    if (attribute == cuda::pointer_memory_kind && pinned) {
      *static_cast<unsigned*>(value) = cuda::host_memory_kind;
      return cuda::success;
    }
    const auto after = state->allocations.upper_bound(address);
    if (after == state->allocations.begin()) return cuda::invalid_value;
    const auto& [start, bytes] = *std::prev(after);
    if (address >= start + bytes) return cuda::invalid_value;
    const auto foreign = state->foreign.find(start);
    const bool ours = foreign == state->foreign.end();
    switch (attribute) {
      case cuda::pointer_memory_kind:
        *static_cast<unsigned*>(value) = cuda::device_memory_kind;
        break;
      case cuda::pointer_device:
        *static_cast<int*>(value) = ours ? 0 : foreign->second.first;
        break;
      case cuda::pointer_context:
        *static_cast<cuda::Context*>(value) =
            ours ? handle_of<cuda::Context>(state.get()) : foreign->second.second;
        break;
      case cuda::pointer_range_start: *static_cast<Address*>(value) = start; break;
      case cuda::pointer_range_bytes: *static_cast<std::size_t*>(value) = bytes; break;
    }
    return cuda::success;
  };
  driver.copy_to_device = [state](Address target, const void* source, std::size_t bytes,
                                  cuda::Stream stream) {
    const Result result = state->enter("copy_to_device");
    if (result != cuda::success) return result;
    const auto* from = static_cast<const std::byte*>(source);
    // Pageable memory is read before the call returns.
    std::vector<std::byte> copy;
    if (!state->is_pinned(source)) copy.assign(from, from + bytes);
    state->push(stream, [state = state.get(), target, from, bytes, copy] {
      const std::span<const std::byte> data =
          copy.empty() ? std::span(from, bytes) : std::span(copy);
      return state->gpu->write(target, data) ? cuda::success : cuda::illegal_address;
    });
    return cuda::success;
  };
  driver.copy_to_host = [state](void* target, Address source, std::size_t bytes,
                                cuda::Stream stream) {
    const Result result = state->enter("copy_to_host");
    if (result != cuda::success) return result;
    state->push(stream, [state = state.get(), target, source, bytes] {
      return state->gpu->read(source, {static_cast<std::byte*>(target), bytes})
                 ? cuda::success
                 : cuda::illegal_address;
    });
    return cuda::success;
  };
  driver.copy_on_device = [state](Address target, Address source, std::size_t bytes,
                                  cuda::Stream stream) {
    const Result result = state->enter("copy_on_device");
    if (result != cuda::success) return result;
    state->push(stream, [state = state.get(), target, source, bytes] {
      std::vector<std::byte> copy(bytes);
      return state->gpu->read(source, copy) && state->gpu->write(target, copy)
                 ? cuda::success
                 : cuda::illegal_address;
    });
    return cuda::success;
  };
  driver.copy_rows = [state](const cuda::RowCopy* copy, cuda::Stream stream) {
    const Result result = state->enter("copy_rows");
    if (result != cuda::success) return result;
    if (copy->target_stride < copy->bytes || copy->source_stride < copy->bytes)
      return cuda::invalid_value;
    state->push(stream, [state = state.get(), rows = *copy] {
      std::vector<std::byte> row(rows.bytes);
      for (std::size_t i = 0; i < rows.rows; ++i)
        if (!state->gpu->read(rows.source + i * rows.source_stride, row) ||
            !state->gpu->write(rows.target + i * rows.target_stride, row))
          return cuda::illegal_address;
      return cuda::success;
    });
    return cuda::success;
  };
  driver.fill_bytes = [state](Address target, unsigned char value, std::size_t bytes,
                              cuda::Stream stream) {
    const Result result = state->enter("fill_bytes");
    if (result != cuda::success) return result;
    state->push(stream, [state = state.get(), target, value, bytes] {
      state->microseconds += 1000;
      return state->gpu->write(target, std::vector<std::byte>(bytes, std::byte{value}))
                 ? cuda::success
                 : cuda::illegal_address;
    });
    return cuda::success;
  };
}

}  // namespace

FakeCuda::FakeCuda(std::shared_ptr<FakeGpu> gpu, FakeCudaOptions options)
    : state_(std::make_shared<State>()) {
  state_->gpu = std::move(gpu);
  state_->options = options;
}

FakeCuda::~FakeCuda() = default;

namespace {

template <typename Outcome, typename... Arguments>
std::function<Outcome(Arguments...)> one_at_a_time(std::function<Outcome(Arguments...)> function,
                                                   const std::shared_ptr<State>& state) {
  return [function = std::move(function), state](Arguments... arguments) {
    const std::lock_guard lock(state->mutex);
    return function(arguments...);
  };
}

}  // namespace

std::shared_ptr<const cuda::Driver> FakeCuda::driver() const {
  auto driver = std::make_shared<cuda::Driver>();
  add_device(*driver, state_);
  add_memory(*driver, state_);
  add_kernels(*driver, state_);
  add_streams(*driver, state_);
  // A driver may be called from several threads.
#define ANYDIM_CUDA(member, symbol, ...) \
  driver->member = one_at_a_time(std::move(driver->member), state_);
#include "runtime/cuda_driver.def"
#undef ANYDIM_CUDA
  driver->file = "a driver for tests";
  return driver;
}

void FakeCuda::fail(const std::string& function, Result result, int calls) {
  state_->failures[function] = {calls, result};
}

void FakeCuda::fault(Result result, int launches) {
  state_->planned_fault = result;
  state_->launches_to_fault = launches;
}

void FakeCuda::belongs_to(Address address, int device, cuda::Context context) {
  state_->foreign[address] = {device, context};
}

void FakeCuda::work_at_once() { state_->eager = true; }
void FakeCuda::hang() { state_->hang_planned = true; }
int FakeCuda::hung_calls() const { return state_->hung_calls; }

bool FakeCuda::is_capturing(cuda::Stream stream) const {
  const std::lock_guard lock(state_->mutex);
  return state_->stream_of(stream).capturing;
}

void FakeCuda::push(cuda::Stream stream, std::function<Result(FakeGpu&)> work,
                    double microseconds) {
  const std::lock_guard lock(state_->mutex);
  state_->push(stream, [state = state_.get(), work = std::move(work), microseconds] {
    state->microseconds += microseconds;
    return work(*state->gpu);
  });
}

int FakeCuda::calls(const std::string& function) const {
  const auto found = state_->calls.find(function);
  return found == state_->calls.end() ? 0 : found->second;
}

void FakeCuda::forget_calls() { state_->calls.clear(); }
std::int64_t FakeCuda::kernels_run() const { return state_->kernels_run; }
std::int64_t FakeCuda::bytes_in_use() const { return state_->bytes_in_use; }

int FakeCuda::launches_with(int attribute) const {
  const auto found = state_->attributes.find(attribute);
  return found == state_->attributes.end() ? 0 : found->second;
}

}  // namespace anydim::tests
