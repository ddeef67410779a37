// Launches of one executable's kernels apart from its calls, on memory of their own: how a device
// has kernels tried that nobody trusts yet (tuner/region_bench.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ir/program.h"
#include "ir/tensor.h"
#include "runtime/kernel_maker.h"

namespace anydim::runtime {

// An operand or a result, poisoned at first. A write beside it leaves a mark or ends the process.
class TrialMemory {
 public:
  virtual ~TrialMemory() = default;
  virtual void* address() const = 0;  // for kernels; a multiple of 64
  virtual std::size_t bytes() const = 0;
  virtual void poison() = 0;  // every byte 0xff: a NaN, or -1
  // As many bytes as there are, from an address that an observer is told of
  // (DeviceSession::observe).
  virtual void copy_from(const void* address) = 0;
  // Whatever writes to it ends the process from here on, where the device can see to that.
  virtual void forbid_writing() {}
  virtual bool unharmed() const = 0;  // nothing was written beside it
  // What it holds, which may back the tensor.
  virtual ir::Tensor tensor(ir::DType dtype, std::vector<std::int64_t> dims) const = 0;
};

// What stays as it is while it runs: extents of the region's symbols, and addresses of its
// parameters, then of its results.
struct TrialLaunch {
  const ir::Code::Launch* launch = nullptr;
  std::span<const std::int64_t> extents;
  std::span<void* const> buffers;
};

// A kernel's launches one behind the other, any number of times.
class TimedPass {
 public:
  virtual ~TimedPass() = default;
  // Seconds of one launch, the mean of all, by the device's own clock where it has one.
  virtual double seconds() = 0;
};

// Used by one thread, and outlives what it gives. Where a kernel harms the device or this process,
// that is lost: it is for a process that may be.
class LaunchBench {
 public:
  using Kernel = std::shared_ptr<const LoadedKernel>;

  virtual ~LaunchBench() = default;
  virtual std::unique_ptr<TrialMemory> allocate(std::size_t bytes) = 0;  // throws Error{Resource}
  // Runs a launch to its end. False where it is known to have written beside its scratch memory.
  // Throws Error{Inputs} with what a check reports, and Error{Internal} where the device is lost.
  virtual bool run(const Kernel& kernel, const TrialLaunch& launch) = 0;
  // All launches in order, `times` times over. A kernel that has not run yet may run once now.
  virtual std::unique_ptr<TimedPass> pass(const Kernel& kernel,
                                          std::span<const TrialLaunch> launches, int times) = 0;
  // Before a call is timed: what takes part in launches is ready for them, as it is amid calls.
  virtual void make_ready() {}
};

}  // namespace anydim::runtime
