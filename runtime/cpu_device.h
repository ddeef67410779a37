// This machine's processors: kernels are machine code called by the worker pool, buffers are memory
// of this process.
#pragma once

#include <functional>
#include <memory>

#include "runtime/cpu_code.h"
#include "runtime/device.h"
#include "runtime/frame_memory.h"

namespace anydim::runtime {

struct CpuKernel : DeviceKernel {
  CpuKernel(const ir::Region& region, const ir::CompiledKernel& kernel) : code(region, kernel) {}
  CpuCode code;
};

// `memory`: where each session's activations and outputs lie; null: blocks of this process, kept
// for the next call.
std::shared_ptr<Device> make_cpu_device(
    std::function<std::unique_ptr<FrameMemory>()> memory = nullptr);

}  // namespace anydim::runtime
