// A CUDA driver for tests: the table of functions that runtime opens with dlopen, over a fake GPU.
// Work on a stream is carried out as late as the driver allows (when something waits for it), so
// host memory that is read or reused too early shows; faults can be injected.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/cuda_driver.h"

namespace anydim::tests {

using runtime::cuda::Address;
using runtime::cuda::Result;

// What carries out kernels and holds memory. Addresses are whatever it likes.
class FakeGpu {
 public:
  struct Shape {
    std::array<std::uint32_t, 3> grid{}, block{}, cluster{1, 1, 1};
    std::uint32_t shared_bytes = 0;
    bool early = false;  // may begin before the launch ahead of it ends
  };
  virtual ~FakeGpu() = default;
  virtual Address allocate(std::size_t bytes) = 0;
  virtual void free(Address address) = 0;
  // False where the range lies in no allocation.
  virtual bool write(Address address, std::span<const std::byte> bytes) = 0;
  virtual bool read(Address address, std::span<std::byte> bytes) = 0;
  // A module from what cuModuleLoadData is given; null: not accepted.
  virtual std::shared_ptr<void> load(const void* image) = 0;
  // Bytes of each parameter of an entry; empty: there is no such entry.
  virtual std::vector<std::size_t> parameters(const std::shared_ptr<void>& module,
                                              const std::string& entry) = 0;
  // Runs a kernel to its end; the result is what the next wait reports.
  virtual Result launch(const std::shared_ptr<void>& module, const std::string& entry,
                        const Shape& shape,
                        const std::vector<std::vector<std::byte>>& parameters) = 0;
  // As cuTensorMapEncodeTiled.
  virtual Result encode(runtime::cuda::TensorMapBytes& map, int type, Address base,
                        std::span<const std::uint64_t> dims, std::span<const std::uint64_t> strides,
                        std::span<const unsigned> box, int swizzle) = 0;
};

struct FakeCudaOptions {
  int driver_version = 13000;
  int devices = 1;
  int capability = 90, multiprocessors = 2;
  std::int64_t memory_bytes = std::int64_t{1} << 30;
  std::int64_t shared_per_block = 232448;
  int registers_per_thread = 32;   // of every kernel
  double kernel_microseconds = 1;  // that every kernel takes by its events
};

class FakeCuda {
 public:
  explicit FakeCuda(std::shared_ptr<FakeGpu> gpu, FakeCudaOptions options = {});
  ~FakeCuda();

  // The table; it may outlive this object.
  std::shared_ptr<const runtime::cuda::Driver> driver() const;

  // The call of `function` (its name in cuda_driver.def, e.g. "memory_allocate_async") after
  // `calls` more fails with `result`, once.
  void fail(const std::string& function, Result result, int calls = 0);
  // The launch after `launches` more (replayed ones included) faults when it runs.
  void fault(Result result, int launches = 0);
  // From now on the driver says that an allocation belongs to another device or context.
  void belongs_to(Address address, int device, runtime::cuda::Context context);
  // From now on work is carried out when it is given: a fault meets the call behind it.
  void work_at_once();
  // The next launch never ends. From then on calls that would wait for it for ever are counted.
  void hang();
  int hung_calls() const;
  bool is_capturing(runtime::cuda::Stream stream) const;
  // Work of a library on a stream, and what it takes; captured where the stream captures. A fill
  // takes 1000 us.
  void push(runtime::cuda::Stream stream, std::function<Result(FakeGpu&)> work,
            double microseconds = 1);
  int calls(const std::string& function) const;  // so far
  void forget_calls();
  std::int64_t kernels_run() const;
  std::int64_t bytes_in_use() const;  // of device memory
  // Attributes that launches had, by number: runtime::cuda::LaunchAttributeName.
  int launches_with(int attribute) const;

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace anydim::tests
