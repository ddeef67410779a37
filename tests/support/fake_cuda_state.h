// What the fake driver holds, for the files that carry out its functions.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/fake_cuda_driver.h"

namespace anydim::tests {

namespace cuda = runtime::cuda;

using Operation = std::function<Result()>;

struct FakeFunction;
// A node of a graph: a kernel with its parameters, or any other operation.
struct FakeNode {
  Operation operation{};
  FakeFunction* function = nullptr;  // of a kernel
  FakeGpu::Shape shape{};
  std::vector<std::vector<std::byte>> parameters{};
};
struct FakeStream {
  std::deque<Operation> waiting;
  bool capturing = false;
  std::vector<std::shared_ptr<FakeNode>> captured;
  cuda::GraphNode last = nullptr;  // of those
};
// One recording of an event; it outlives the event, which may be recorded again before it is met.
struct FakeRecord {
  cuda::Stream stream = nullptr;
  bool met = true;
  double microseconds = 0;
};
struct FakeEvent {
  std::shared_ptr<FakeRecord> record = std::make_shared<FakeRecord>();
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
  std::vector<std::shared_ptr<FakeNode>> nodes;
  std::vector<const FakeNode*> made_from;  // of an executable one
};

template <typename Handle, typename Object>
Handle handle_of(Object* object) {
  return reinterpret_cast<Handle>(object);
}

struct FakeCuda::State {
  std::recursive_mutex mutex;
  std::shared_ptr<FakeGpu> gpu;
  FakeCudaOptions options;
  std::map<std::string, int> calls;
  std::map<std::string, std::pair<int, Result>> failures;
  Result fault = cuda::success;
  Result planned_fault = cuda::success;
  int launches_to_fault = 0;
  bool hang_planned = false, hangs = false, eager = false;
  int hung_calls = 0;
  std::int64_t kernels_run = 0, bytes_in_use = 0;
  double microseconds = 0;
  std::map<int, int> attributes;
  std::map<Address, std::size_t> allocations;
  std::map<const std::byte*, std::size_t> pinned;
  // of those, what kernels write to: their twins in the GPU's memory
  std::map<std::byte*, Address> mapped;
  std::vector<std::unique_ptr<FakeFunction>> functions;

  FakeStream default_stream;       // null, and the handles 1 and 2
  std::vector<cuda::Stream> made;  // streams
  // what the driver says of memory other than its own device's and context's
  std::map<Address, std::pair<int, cuda::Context>> foreign;

  FakeStream& stream_of(cuda::Stream stream) {
    return reinterpret_cast<std::uintptr_t>(stream) <= 2 ? default_stream
                                                         : *reinterpret_cast<FakeStream*>(stream);
  }

  // What every call does first: counts, injected failures, and the fault that nothing survives.
  Result enter(const std::string& function) {
    ++calls[function];
    constexpr std::string_view that_wait[] = {
        "stream_synchronize", "memory_free",    "host_free",        "module_unload",
        "context_release",    "stream_destroy", "event_synchronize"};
    if (hangs && std::ranges::find(that_wait, function) != std::end(that_wait)) ++hung_calls;
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
    push(handle, FakeNode{.operation = std::move(operation)});
  }
  void push(cuda::Stream handle, FakeNode node) {
    FakeStream& stream = stream_of(handle);
    if (stream.capturing) {
      stream.captured.push_back(std::make_shared<FakeNode>(std::move(node)));
      stream.last = handle_of<cuda::GraphNode>(stream.captured.back().get());
      return;
    }
    if (node.function != nullptr)
      node.operation = [this, kernel = node] {
        return run_kernel(*kernel.function, kernel.shape, kernel.parameters);
      };
    stream.waiting.push_back(std::move(node.operation));
    if (eager) drain(handle);
  }

  Result drain(cuda::Stream handle) {
    return drain_until(handle, [] { return false; });
  }
  Result drain_until(const FakeRecord& record) {
    return record.met ? fault : drain_until(record.stream, [&] { return record.met; });
  }
  Result drain_until(cuda::Stream handle, const std::function<bool()>& far_enough) {
    FakeStream& stream = stream_of(handle);
    while (!stream.waiting.empty() && fault == cuda::success && !hangs && !far_enough()) {
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
    microseconds += options.kernel_microseconds;
    if (planned_fault != cuda::success && launches_to_fault-- == 0)
      return std::exchange(planned_fault, cuda::success);
    if (std::exchange(hang_planned, false)) {
      hangs = true;
      return cuda::success;
    }
    // Host memory that the kernel is told of: other threads may be writing to theirs.
    std::vector<std::pair<Address, std::span<std::byte>>> shared;
    for (const auto& [host, address] : mapped) {
      const std::span bytes(host, pinned.at(host));
      const Address first = address;
      const bool told = std::ranges::any_of(parameters, [&](const std::vector<std::byte>& value) {
        Address word = 0;
        if (value.size() == sizeof word) std::memcpy(&word, value.data(), sizeof word);
        return word >= first && word < first + bytes.size();
      });
      if (told) shared.emplace_back(address, bytes);
    }
    for (const auto& [address, bytes] : shared) gpu->write(address, bytes);
    const Result result = gpu->launch(function.module, function.entry, shape, parameters);
    for (const auto& [address, bytes] : shared) gpu->read(address, bytes);
    return result;
  }

  static std::vector<std::vector<std::byte>> values_of(const FakeFunction& function,
                                                       void** parameters) {
    std::vector<std::vector<std::byte>> values;
    for (std::size_t i = 0; i < function.parameters.size(); ++i) {
      const auto* bytes = static_cast<const std::byte*>(parameters[i]);
      values.emplace_back(bytes, bytes + function.parameters[i]);
    }
    return values;
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
      if (attribute.name == cuda::programmatic_stream_serialization)
        shape.early = attribute.value.programmatic_serialization != 0;
      if (attribute.name != cuda::cluster_dimension) continue;
      shape.cluster = {attribute.value.cluster.x, attribute.value.cluster.y,
                       attribute.value.cluster.z};
      if (shape.cluster[0] * shape.cluster[1] * shape.cluster[2] > 8 && !function.large_clusters)
        return cuda::invalid_value;
    }
    const auto values = values_of(function, parameters);
    push(launch.stream, FakeNode{.function = &function, .shape = shape, .parameters = values});
    return cuda::success;
  }
};

// The functions of the table, by what they are about.
void add_kernels(cuda::Driver& driver, const std::shared_ptr<FakeCuda::State>& state);
void add_streams(cuda::Driver& driver, const std::shared_ptr<FakeCuda::State>& state);

}  // namespace anydim::tests
