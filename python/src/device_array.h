// A result that stays on the GPU, as an array of Python's.
#pragma once

#include <nanobind/nanobind.h>

#include "api/anydim.h"
#include "python/src/arrays.h"

namespace anydim::python {

// Hands itself over through DLPack, whose consumer says on which stream it will read: that comes
// behind the call. With the GIL.
class DeviceArray {
 public:
  // `stream`: of the call that fills the tensor.
  DeviceArray(ir::Tensor tensor, DeviceStream stream)
      : tensor_(std::move(tensor)), stream_(stream) {}

  const ir::Tensor& tensor() const { return tensor_; }
  nanobind::tuple dlpack_device() const;
  // `stream`: None is the legacy default stream, -1 asks for no order. Throws Error{Inputs} for 0,
  // which DLPack leaves open, and as nanobind does for the others.
  nanobind::object dlpack(nanobind::handle stream, nanobind::handle max_version,
                          nanobind::handle dl_device, nanobind::handle copy) const;

 private:
  const runtime::DeviceMemory& memory() const { return *runtime::device_memory_of(tensor_); }

  ir::Tensor tensor_;
  DeviceStream stream_;
};

void add_device_array(nanobind::module_& module);
// A DeviceArray, or torch's tensor of one.
nanobind::object device_array_of(ir::Tensor tensor, DeviceStream stream, Framework framework);

}  // namespace anydim::python
