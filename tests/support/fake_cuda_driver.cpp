#include "tests/support/fake_cuda_driver.h"

#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>

namespace anydim::tests {

namespace cuda = runtime::cuda;

namespace {

using Operation = std::function<Result()>;

struct FakeStream {
  std::deque<Operation> waiting;
  bool capturing = false;
  std::vector<Operation> captured;
};
struct FakeEvent {
  double microseconds = 0;
};
struct FakeModule {
  std::shared_ptr<void> module;
};
struct FakeFunction {
  std::shared_ptr<void> module;
  std::string entry;
  std::vector<std::size_t> parameters;
  int shared_bytes = 48 * 1024;
  bool large_clusters = false;
};
struct FakeGraph {
  std::vector<Operation> operations;
};

template <typename Handle, typename Object>
Handle handle_of(Object* object) {
  return reinterpret_cast<Handle>(object);
}

}  // namespace

struct FakeCuda::State {
  std::recursive_mutex mutex;
  std::shared_ptr<FakeGpu> gpu;
  FakeCudaOptions options;
  std::map<std::string, int> calls;
  std::map<std::string, std::pair<int, Result>> failures;
  Result fault = cuda::success;
  Result planned_fault = cuda::success;
  int launches_to_fault = 0;
  std::int64_t kernels_run = 0, bytes_in_use = 0;
  double microseconds = 0;
  std::map<int, int> attributes;
  std::map<Address, std::size_t> allocations;
  std::map<const std::byte*, std::size_t> pinned;
  // of those, what kernels write to: their twins in the GPU's memory
  std::map<std::byte*, Address> mapped;
  std::vector<std::unique_ptr<FakeFunction>> functions;

  FakeStream default_stream;  // null

  FakeStream& stream_of(cuda::Stream stream) {
    return stream == nullptr ? default_stream : *reinterpret_cast<FakeStream*>(stream);
  }

  // What every call does first: counts, injected failures, and the fault that nothing survives.
  Result enter(const std::string& function) {
    ++calls[function];
    if (const auto found = failures.find(function);
        found != failures.end() && found->second.first-- == 0) {
      const Result result = found->second.second;
      failures.erase(found);
      if (cuda::ends_context(result)) fault = result;
      return result;
    }
    return fault;
  }

  void push(cuda::Stream handle, Operation operation) {
    FakeStream& stream = stream_of(handle);
    if (stream.capturing) stream.captured.push_back(std::move(operation));
    else stream.waiting.push_back(std::move(operation));
  }

  Result drain(cuda::Stream handle) {
    FakeStream& stream = stream_of(handle);
    while (!stream.waiting.empty() && fault == cuda::success) {
      const Operation operation = std::move(stream.waiting.front());
      stream.waiting.pop_front();
      const Result result = operation();
      if (result != cuda::success) fault = result;
    }
    return fault;
  }

  Result allocate(Address* address, std::size_t bytes) {
    if (bytes == 0) return cuda::invalid_value;
    if (bytes_in_use + static_cast<std::int64_t>(bytes) > options.memory_bytes)
      return cuda::out_of_memory;
    *address = gpu->allocate(bytes);
    allocations[*address] = bytes;
    bytes_in_use += static_cast<std::int64_t>(bytes);
    return cuda::success;
  }

  Result free(Address address) {
    const auto found = allocations.find(address);
    if (found == allocations.end()) return cuda::invalid_value;
    bytes_in_use -= static_cast<std::int64_t>(found->second);
    allocations.erase(found);
    gpu->free(address);
    return cuda::success;
  }

  bool is_pinned(const void* address) const {
    const auto* byte = static_cast<const std::byte*>(address);
    auto after = pinned.upper_bound(byte);
    return after != pinned.begin() && byte < std::prev(after)->first + std::prev(after)->second;
  }

  Result run_kernel(const FakeFunction& function, const FakeGpu::Shape& shape,
                    const std::vector<std::vector<std::byte>>& parameters) {
    ++kernels_run;
    microseconds += 1;
    if (planned_fault != cuda::success && launches_to_fault-- == 0)
      return std::exchange(planned_fault, cuda::success);
    const auto bytes = [&](std::byte* host) { return std::span(host, pinned.at(host)); };
    for (const auto& [host, address] : mapped) gpu->write(address, bytes(host));
    const Result result = gpu->launch(function.module, function.entry, shape, parameters);
    for (const auto& [host, address] : mapped) gpu->read(address, bytes(host));
    return result;
  }

  Result launch(const cuda::LaunchConfiguration& launch, FakeFunction& function,
                void** parameters) {
    FakeGpu::Shape shape{{launch.grid_x, launch.grid_y, launch.grid_z},
                         {launch.block_x, launch.block_y, launch.block_z}};
    shape.shared_bytes = launch.shared_bytes;
    if (launch.grid_x == 0 || launch.grid_y == 0 || launch.grid_z == 0) return cuda::invalid_value;
    if (launch.shared_bytes > static_cast<unsigned>(function.shared_bytes))
      return cuda::invalid_value;
    for (unsigned i = 0; i < launch.attribute_count; ++i) {
      const cuda::LaunchAttribute& attribute = launch.attributes[i];
      ++attributes[attribute.name];
      if (attribute.name != cuda::cluster_dimension) continue;
      shape.cluster = {attribute.value.cluster.x, attribute.value.cluster.y,
                       attribute.value.cluster.z};
      if (shape.cluster[0] * shape.cluster[1] * shape.cluster[2] > 8 && !function.large_clusters)
        return cuda::invalid_value;
    }
    std::vector<std::vector<std::byte>> values;
    for (std::size_t i = 0; i < function.parameters.size(); ++i) {
      const auto* bytes = static_cast<const std::byte*>(parameters[i]);
      values.emplace_back(bytes, bytes + function.parameters[i]);
    }
    push(launch.stream,
         [this, &function, shape, values] { return run_kernel(function, shape, values); });
    return cuda::success;
  }
};

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
      case cuda::multiprocessor_count: *value = 2; break;
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

void add_kernels(cuda::Driver& driver, const std::shared_ptr<State>& state) {
  driver.module_load = [state](cuda::Module* module, const void* image) {
    const Result result = state->enter("module_load");
    if (result != cuda::success) return result;
    auto loaded = state->gpu->load(image);
    if (loaded == nullptr) return cuda::invalid_image;
    *module = handle_of<cuda::Module>(new FakeModule{std::move(loaded)});
    return cuda::success;
  };
  driver.module_unload = [state](cuda::Module module) {
    state->enter("module_unload");
    delete reinterpret_cast<FakeModule*>(module);
    return cuda::success;
  };
  driver.module_function = [state](cuda::Function* function, cuda::Module module,
                                   const char* name) {
    const Result result = state->enter("module_function");
    if (result != cuda::success) return result;
    const auto& loaded = reinterpret_cast<FakeModule*>(module)->module;
    std::vector<std::size_t> parameters = state->gpu->parameters(loaded, name);
    if (parameters.empty()) return cuda::not_found;
    state->functions.push_back(
        std::make_unique<FakeFunction>(FakeFunction{loaded, name, std::move(parameters)}));
    *function = handle_of<cuda::Function>(state->functions.back().get());
    return cuda::success;
  };
  driver.function_attribute = [state](int* value, cuda::FunctionAttribute attribute,
                                      cuda::Function) {
    *value = attribute == cuda::registers              ? state->options.registers_per_thread
             : attribute == cuda::function_max_threads ? 1024
                                                       : 0;
    return state->enter("function_attribute");
  };
  driver.set_function_attribute = [state](cuda::Function handle, cuda::FunctionAttribute attribute,
                                          int value) {
    auto& function = *reinterpret_cast<FakeFunction*>(handle);
    if (attribute == cuda::dynamic_shared_bytes) {
      if (value > state->options.shared_per_block) return cuda::invalid_value;
      function.shared_bytes = value;
    }
    if (attribute == cuda::non_portable_cluster_size) function.large_clusters = value != 0;
    return state->enter("set_function_attribute");
  };
  driver.launch = [state](const cuda::LaunchConfiguration* configuration, cuda::Function function,
                          void** parameters, void**) {
    const Result result = state->enter("launch");
    return result != cuda::success
               ? result
               : state->launch(*configuration, *reinterpret_cast<FakeFunction*>(function),
                               parameters);
  };
  driver.encode_tensor_map = [state](cuda::TensorMapBytes* map, int type, unsigned rank,
                                     void* address, const std::uint64_t* dims,
                                     const std::uint64_t* strides, const unsigned* box,
                                     const unsigned*, int, int swizzle, int, int) {
    const Result result = state->enter("encode_tensor_map");
    if (result != cuda::success) return result;
    return state->gpu->encode(*map, type, reinterpret_cast<Address>(address), {dims, rank},
                              {strides, rank - 1}, {box, rank}, swizzle);
  };
}

void add_streams(cuda::Driver& driver, const std::shared_ptr<State>& state) {
  driver.stream_create = [state](cuda::Stream* stream, unsigned) {
    const Result result = state->enter("stream_create");
    if (result == cuda::success) *stream = handle_of<cuda::Stream>(new FakeStream);
    return result;
  };
  driver.stream_destroy = [state](cuda::Stream stream) {
    state->enter("stream_destroy");
    state->drain(stream);
    delete reinterpret_cast<FakeStream*>(stream);
    return cuda::success;
  };
  driver.stream_synchronize = [state](cuda::Stream stream) {
    const Result result = state->enter("stream_synchronize");
    if (result != cuda::success) return result;
    return state->stream_of(stream).capturing ? Result{900} : state->drain(stream);
  };
  driver.capture_begin = [state](cuda::Stream stream, int) {
    const Result result = state->enter("capture_begin");
    if (result == cuda::success) state->stream_of(stream).capturing = true;
    return result;
  };
  driver.capture_end = [state](cuda::Stream handle, cuda::Graph* graph) {
    FakeStream& stream = state->stream_of(handle);
    stream.capturing = false;
    std::vector<Operation> captured = std::exchange(stream.captured, {});
    const Result result = state->enter("capture_end");
    if (result == cuda::success)
      *graph = handle_of<cuda::Graph>(new FakeGraph{std::move(captured)});
    return result;
  };
  driver.graph_instantiate = [state](cuda::GraphExecutable* executable, cuda::Graph graph,
                                     unsigned long long) {
    const Result result = state->enter("graph_instantiate");
    if (result == cuda::success)
      *executable =
          handle_of<cuda::GraphExecutable>(new FakeGraph(*reinterpret_cast<FakeGraph*>(graph)));
    return result;
  };
  driver.graph_launch = [state](cuda::GraphExecutable executable, cuda::Stream stream) {
    const Result result = state->enter("graph_launch");
    if (result != cuda::success) return result;
    for (const Operation& operation : reinterpret_cast<FakeGraph*>(executable)->operations)
      state->push(stream, operation);
    return cuda::success;
  };
  driver.graph_destroy = [state](cuda::Graph graph) {
    state->enter("graph_destroy");
    delete reinterpret_cast<FakeGraph*>(graph);
    return cuda::success;
  };
  driver.graph_executable_destroy = [state](cuda::GraphExecutable executable) {
    state->enter("graph_executable_destroy");
    delete reinterpret_cast<FakeGraph*>(executable);
    return cuda::success;
  };
  driver.event_create = [state](cuda::Event* event, unsigned) {
    *event = handle_of<cuda::Event>(new FakeEvent);
    return state->enter("event_create");
  };
  driver.event_destroy = [](cuda::Event event) {
    delete reinterpret_cast<FakeEvent*>(event);
    return cuda::success;
  };
  driver.event_record = [state](cuda::Event event, cuda::Stream stream) {
    state->push(stream, [state = state.get(), event] {
      reinterpret_cast<FakeEvent*>(event)->microseconds = state->microseconds;
      return cuda::success;
    });
    return state->enter("event_record");
  };
  driver.event_synchronize = [state](cuda::Event) { return state->enter("event_synchronize"); };
  driver.event_elapsed = [state](float* milliseconds, cuda::Event begin, cuda::Event end) {
    *milliseconds = static_cast<float>(1e-3 * (reinterpret_cast<FakeEvent*>(end)->microseconds -
                                               reinterpret_cast<FakeEvent*>(begin)->microseconds));
    return state->enter("event_elapsed");
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
