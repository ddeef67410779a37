// What a kind of device gives the virtual machine: a home for constants and kernels, and a session
// for each context that places buffers, launches kernels and hands results over. The CPU's is
// runtime/cpu_device.h, CUDA's runtime/cuda_device.h; nothing else in runtime tells them apart.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/backend.h"
#include "ir/program.h"
#include "ir/tensor.h"
#include "runtime/device_memory.h"

namespace anydim::runtime {

class Executable;
class LaunchBench;    // runtime/launch_bench.h
class Frames;         // runtime/frames.h
class NvtxTool;       // runtime/nvtx.h
struct LoadedKernel;  // runtime/kernel_maker.h

// A compiled kernel, brought to where it can be launched; only its device looks inside.
class DeviceKernel {
 public:
  virtual ~DeviceKernel() = default;
};

// Constants of one executable as its kernels read them; freed with the store.
class ConstantStore {
 public:
  virtual ~ConstantStore() = default;
  // Writable zeros on the host, for a constant that is made before it is kept. Any thread. Throws
  // Error{Resource}.
  virtual ir::Tensor allocate(ir::DType dtype, std::vector<std::int64_t> dims) {
    return {dtype, std::move(dims)};
  }
  // Address for kernels of a constant. `tensor` becomes what stays on the host: bytes that kernels
  // read there, or a tensor without elements. Any thread. Throws Error{Resource}.
  virtual void* keep(ir::Tensor& tensor) = 0;
};

// Memory of the last call, in bytes: the most of each kind that was held at once.
struct CallMemory {
  std::int64_t arena = 0;
  // values that outlive the block or call that computes them; frames of calls
  std::int64_t pool = 0;
  std::int64_t scratch = 0;
  std::int64_t outputs = 0;
};

// What a launch came to; kept only while recording.
struct LaunchTiming {
  std::int64_t tasks = 0;  // thread blocks on CUDA; 0: nothing to do, not launched
  double seconds = 0;
};

// One launch of a call. `extents` is read before launch() returns.
struct LaunchWork {
  const ir::Code::Launch* launch = nullptr;
  const std::shared_ptr<const LoadedKernel>* kernel = nullptr;
  // of the row of the dispatch table whose kernel runs; lives until the call ends
  const ir::Bucket* bucket = nullptr;
  std::span<const std::int64_t> extents;
};

// A call whose tensors may stay on the device.
struct StreamCall {
  // Where a result is to lie.
  struct Place {
    enum class Kind : std::uint8_t {
      Host,
      Given,  // memory of the caller's, where it fits; else the model's
      Owned,  // memory of the model's, which goes back to it with the result's last tensor
    };
    Kind kind = Kind::Host;
    void* address = nullptr;  // Given: of the device
    std::size_t bytes = 0;
  };
  // The call begins once all that is on the stream has ended, and what comes on the stream later
  // begins once the call has: the host waits for neither, unless a result is to lie there. Nothing:
  // all that the caller's tensors take part in has ended, and the call's end is waited for. What
  // reads a result in the model's memory is on this stream before its last tensor is dropped.
  std::optional<DeviceStream> stream{};
  std::vector<Place> results{};  // fewer leave the rest on the host
};

// One context's side of the device; used by one thread at a time. A call is begin(), then place(),
// launch() and fetch() in the program's order, then finish(). After an exception from any of them
// the next begin() starts anew. `slots` of one call are one table that lives until finish()
// returns.
class DeviceSession {
 public:
  virtual ~DeviceSession() = default;
  // `call`: null where the results lie on the host. It lives until finish() returns. Throws what a
  // call on a stream before it has come to since, as collect() does.
  virtual void begin(const std::vector<ir::Tensor>& inputs, const StreamCall* call) = 0;
  // After begin(): memory of the caller's for the call's results, by output, which lives until
  // finish(); an empty span: none. A result may be computed there where it fits, and is then handed
  // over without an owner; a device is free to ignore it.
  virtual void offer(std::span<const std::span<std::byte>>) {}
  // A stage has run and its checks hold: buffers and outputs that became known get memory. Throws
  // Error{Resource}.
  virtual void place(std::size_t stage, std::span<const std::int64_t> slots) = 0;
  // May be carried out as late as the next fetch() or finish(), which then also throw what a device
  // check found (Error{Inputs}).
  virtual void launch(const LaunchWork& work) = 0;
  std::int64_t fetch(const ir::Code::Fetch& fetch) {
    return element(fetch.buffer, fetch.dtype, fetch.element).integer_at(0);
  }
  // One element of a buffer as a tensor of rank 0, which the buffer's memory may back: for use at
  // once.
  virtual ir::Tensor element(std::int32_t buffer, ir::DType dtype, std::int64_t element) = 0;
  virtual std::vector<ir::Tensor> finish(std::span<const std::int64_t> slots) = 0;
  // After an exception from any of them: when this returns, the device has done with the caller's
  // memory.
  virtual void break_off() noexcept {}
  // Throws what calls on a stream that have ended since came to: what a device check found
  // (Error{Inputs}), or a fault (Error{Internal}). `wait`: for all that are under way.
  virtual void collect(bool wait) { static_cast<void>(wait); }

  // The buffers of the functions at work, for blocks, calls and values that outlive them. Whatever
  // was launched so far finds its buffers as they were when it was launched.
  virtual Frames& frames() = 0;

  // Told what every launch is about to read and write: the addresses of the region's parameters,
  // then of its results.
  using LaunchObserver =
      std::function<void(const LaunchWork& work, std::span<void* const> buffers)>;
  // From the next call on, of launches that have work; empty: nobody is told. What is ahead of a
  // launch has ended when it is told of, so a device may run calls more slowly meanwhile. The
  // work's bucket may be null.
  virtual void observe(LaunchObserver observer) = 0;
  // Bytes from an address that an observer is being told of.
  virtual void read(const void* address, std::span<std::byte> to) = 0;

  virtual void record(bool wanted) = 0;
  virtual const std::vector<LaunchTiming>& timings()
      const = 0;  // of the last call's launches in order, where recorded
  virtual CallMemory memory() const = 0;
};

// What runs in a kernel's place on a machine where that has not run yet.
struct KernelTrial {
  ir::CompiledKernel checked_form;
  std::function<void()> passed;  // to be told when the checked form has run to its end; any thread
};

// Shared by executables and threads.
class Device {
 public:
  virtual ~Device() = default;
  // Throws Error{Resource} for a kernel that this device cannot run. Any thread. `entry` is the one
  // of the table that the kernel was made for; with a `trial` the kernel does not run before its
  // checked form has.
  virtual std::shared_ptr<const DeviceKernel> load(const ir::Region& region,
                                                   const ir::DispatchTable::Entry& entry,
                                                   const ir::CompiledKernel& kernel,
                                                   std::optional<KernelTrial> trial) = 0;
  // Name of what a trial holds for: the part and its driver. Empty: kernels are not tried here.
  virtual std::string machine() const { return {}; }
  // Who is told what each call and launch is; null: nobody.
  virtual const NvtxTool* watching() const { return nullptr; }
  virtual std::unique_ptr<ConstantStore> constants() = 0;
  // Whether tensors may lie in memory of the device's own.
  virtual bool has_memory() const { return false; }
  // A tensor over memory of this device that is the caller's and stays so: it is valid while
  // `owner` lives (null: as long as any such tensor). Throws Error{Inputs} for null, what is no
  // device memory, another device's or context's, fewer bytes than the shape takes, and an address
  // that is no multiple of an element's size; and on a device without memory of its own.
  virtual ir::Tensor foreign(ir::DType dtype, std::vector<std::int64_t> dims, void* address,
                             std::shared_ptr<const void> owner);
  virtual std::unique_ptr<DeviceSession> open_session(const Executable& executable) = 0;
  virtual std::unique_ptr<LaunchBench> open_bench(const Executable& executable) = 0;
};

// ---- For the devices ----

// Counts memory of a call against its limit before it is taken.
class MemoryBudget {
 public:
  explicit MemoryBudget(std::optional<std::int64_t> limit) : limit_(limit) {}
  void reset() { used_ = most_ = {}; }
  // Throws Error{Inputs} for a negative size and Error{Resource} over the limit.
  void spend(std::int64_t CallMemory::* part, std::int64_t bytes);
  void give_back(std::int64_t CallMemory::* part, std::int64_t bytes) { used_.*part -= bytes; }
  const CallMemory& used() const { return used_; }  // now
  const CallMemory& most() const { return most_; }  // of each kind, since reset()

 private:
  std::optional<std::int64_t> limit_;
  CallMemory used_, most_;
};

// A dim over the region's symbols, whose values `extents` are, in their order.
std::int64_t value_in_region(const ir::Dim& dim, const ir::Region& region,
                             std::span<const std::int64_t> extents);

// Throws Error{Inputs} with the check's message, completed with the value and the range.
[[noreturn]] void report_check(const ir::Program& program, const ir::Code::Launch& launch,
                               std::span<const std::int64_t> extents, const ir::KernelError& error);

// Whether a launch with these extents can have reported the error: false where the value it names
// fits its check.
bool may_report(const ir::Program& program, const ir::Code::Launch& launch,
                std::span<const std::int64_t> extents, const ir::KernelError& error);

// What a scanned result holds, in bytes, once the element is appended. Notes the first element's
// extents, and throws Error{Inputs} where a later one has others, Error{Resource} where the bytes
// can't be counted.
std::int64_t appended_bytes(const ir::Code::Append& append, std::span<std::int64_t> slots);
// Bytes to take for it where those held are too few: all at once where the count is known, else
// twice as much as there was, so that copies stay few.
std::int64_t appended_room(const ir::Code::Append& append, std::span<const std::int64_t> slots,
                           std::int64_t needed, std::int64_t held);

std::vector<std::int64_t> output_dims(const ir::Code::Output& output,
                                      std::span<const std::int64_t> slots);

}  // namespace anydim::runtime
