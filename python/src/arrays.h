// Arrays of Python's as tensors, and tensors as arrays. Everything here wants the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/anydim.h"

namespace anydim::python {

// Before anything else here; imports NumPy the first time.
void need_numpy();

// How messages name an array: "input 'x'".
struct What {
  std::string_view kind, name{};
  std::string text() const;
};

// Where arrays may lie beside the host: on the device of the model that they are for, in the order
// of the stream of its call.
struct OnDevice {
  const Model* model = nullptr;
  DeviceStream stream{};
  bool met = false;  // one does
};
// The legacy default stream, which DLPack means where none is named.
inline constexpr std::uintptr_t default_stream = 1;
// A stream as users name it: the address of a CUstream or cudaStream_t, or an object that has one
// (`__cuda_stream__`, torch's `cuda_stream`, CuPy's `ptr`); None: nothing. Throws
// Error{CommandLine}.
std::optional<DeviceStream> stream_of(nanobind::handle stream);

struct GivenArray {
  ir::Tensor tensor;
  nanobind::object kept;  // what holds the memory where the tensor does not
  bool copied = false;
};
// A NumPy array or anything that DLPack can hand over, read where it lies if it is C-contiguous,
// aligned and in this machine's byte order, and copied else. NumPy's bfloat16 is that of ml_dtypes.
// On the device it is what its library makes ready for the call's stream, and is never copied.
// Throws Error{Inputs} for what is no array, elements that no dtype stands for, strides on the
// device, and memory of another device.
GivenArray tensor_of(nanobind::handle array, What what, OnDevice* device = nullptr);

// An array to be written to. Throws Error{Inputs} also where it is read-only, strided or not
// aligned: nothing is copied.
struct GivenPlace {
  ir::DType dtype = ir::DType::F32;
  std::vector<std::int64_t> dims;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  bool on_device = false;
  nanobind::object kept;
};
GivenPlace place_of(nanobind::handle array, What what, OnDevice* device = nullptr);

enum class Framework { Numpy, Torch, DLPack };
// "numpy", "torch", "dlpack"; throws Error{CommandLine}
Framework parse_framework(std::string_view text);
// The caller's own, writable: the tensor's memory where nobody else holds it, else a copy. NumPy
// has bfloat16 where ml_dtypes is installed, else its bits as uint16.
nanobind::object array_of(ir::Tensor tensor, Framework framework);

// An nb::ndarray over memory of a GPU, which `owner` keeps, as an object with __dlpack__.
nanobind::object dlpack_of_device(const ir::Tensor& tensor, const runtime::DeviceMemory& memory,
                                  nanobind::object owner);

// "float32", "int64", "bfloat16": as NumPy and ml_dtypes name them.
std::string_view numpy_name(ir::DType dtype);

}  // namespace anydim::python
