// This machine's processors: kernels are machine code called by the worker pool, buffers are memory of this process.
#pragma once

#include <memory>

#include "runtime/device.h"

namespace anydim::runtime {

std::shared_ptr<Device> make_cpu_device();

}  // namespace anydim::runtime
