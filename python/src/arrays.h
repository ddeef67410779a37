// Arrays of Python's as tensors, and tensors as arrays. Everything here wants the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
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

struct GivenArray {
  ir::Tensor tensor;
  nanobind::object kept;  // what holds the memory where the tensor does not
  bool copied = false;
};
// A NumPy array or anything that DLPack can hand over, read where it lies if it is C-contiguous,
// aligned and in this machine's byte order, and copied else. NumPy's bfloat16 is that of ml_dtypes.
// Throws Error{Inputs} for what is no array, elements that no dtype stands for, and memory of
// another device.
GivenArray tensor_of(nanobind::handle array, What what);

// An array to be written to. Throws Error{Inputs} also where it is read-only, strided or not
// aligned: nothing is copied.
struct GivenPlace {
  ir::DType dtype = ir::DType::F32;
  std::vector<std::int64_t> dims;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  nanobind::object kept;
};
GivenPlace place_of(nanobind::handle array, What what);

enum class Framework { Numpy, Torch, DLPack };
// "numpy", "torch", "dlpack"; throws Error{CommandLine}
Framework parse_framework(std::string_view text);
// The caller's own, writable: the tensor's memory where nobody else holds it, else a copy. NumPy
// has bfloat16 where ml_dtypes is installed, else its bits as uint16.
nanobind::object array_of(ir::Tensor tensor, Framework framework);

// "float32", "int64", "bfloat16": as NumPy and ml_dtypes name them.
std::string_view numpy_name(ir::DType dtype);

}  // namespace anydim::python
