#include "python/src/arrays.h"

#include <fmt/format.h>
#include <nanobind/ndarray.h>
#include <numpy/arrayobject.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "python/src/interpreter.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace anydim::python {

namespace {

using ir::DType;

std::string text_of(nb::handle object) { return nb::str(object).c_str(); }
std::string class_name(nb::handle object) { return Py_TYPE(object.ptr())->tp_name; }

// ---- Element types ----

struct ElementType {
  DType dtype;
  const char* name;  // NumPy's, or ml_dtypes'
  char kind;         // NumPy's
  int number;        // NumPy's, of new arrays
  nb::dlpack::dtype_code code;
};

constexpr ElementType element_types[] = {
    {DType::F64, "float64", 'f', NPY_FLOAT64, nb::dlpack::dtype_code::Float},
    {DType::F32, "float32", 'f', NPY_FLOAT32, nb::dlpack::dtype_code::Float},
    {DType::F16, "float16", 'f', NPY_FLOAT16, nb::dlpack::dtype_code::Float},
    {DType::BF16, "bfloat16", 'V', NPY_UINT16, nb::dlpack::dtype_code::Bfloat},
    {DType::I64, "int64", 'i', NPY_INT64, nb::dlpack::dtype_code::Int},
    {DType::I32, "int32", 'i', NPY_INT32, nb::dlpack::dtype_code::Int},
    {DType::I16, "int16", 'i', NPY_INT16, nb::dlpack::dtype_code::Int},
    {DType::I8, "int8", 'i', NPY_INT8, nb::dlpack::dtype_code::Int},
    {DType::U64, "uint64", 'u', NPY_UINT64, nb::dlpack::dtype_code::UInt},
    {DType::U32, "uint32", 'u', NPY_UINT32, nb::dlpack::dtype_code::UInt},
    {DType::U16, "uint16", 'u', NPY_UINT16, nb::dlpack::dtype_code::UInt},
    {DType::U8, "uint8", 'u', NPY_UINT8, nb::dlpack::dtype_code::UInt},
    {DType::Bool, "bool", 'b', NPY_BOOL, nb::dlpack::dtype_code::Bool},
};

const ElementType& row_of(DType dtype) {
  return *std::ranges::find(element_types, dtype, &ElementType::dtype);
}

bool is_bfloat16(PyArray_Descr* type) {
  return PyDataType_ELSIZE(type) == 2 && PyTypeNum_ISUSERDEF(type->type_num) &&
         std::string_view(type->typeobj->tp_name).ends_with("bfloat16");
}

std::optional<DType> dtype_of(PyArray_Descr* type) {
  switch (type->type_num) {
    case NPY_FLOAT32: return DType::F32;
    case NPY_INT64: return DType::I64;
    default: break;
  }
  if (is_bfloat16(type)) return DType::BF16;
  for (const ElementType& row : element_types)
    if (type->kind == row.kind &&
        PyDataType_ELSIZE(type) == static_cast<npy_intp>(ir::size_of(row.dtype)) && row.kind != 'V')
      return row.dtype;
  return std::nullopt;
}

std::optional<DType> dtype_of(nb::dlpack::dtype type) {
  if (type.lanes != 1) return std::nullopt;
  for (const ElementType& row : element_types)
    if (static_cast<nb::dlpack::dtype_code>(type.code) == row.code &&
        type.bits == 8 * ir::size_of(row.dtype))
      return row.dtype;
  return std::nullopt;
}

[[noreturn]] void refuse_dtype(What what, std::string_view got) {
  throw Error(
      ErrorKind::Inputs,
      "{} has elements of dtype {}, which no element type of Anydim's stands for: expected one of "
      "float64, float32, float16, bfloat16, signed and unsigned integers and bool",
      what.text(), got);
}

// ---- NumPy ----

DType require_dtype(PyArrayObject* array, What what) {
  if (const auto dtype = dtype_of(PyArray_DESCR(array))) return *dtype;
  if (PyArray_TYPE(array) == NPY_OBJECT)
    throw Error(
        ErrorKind::Inputs,
        "{} is an array of Python objects: expected numbers or bools; give it a dtype, e.g. "
        "numpy.asarray(list, dtype='int64')",
        what.text());
  refuse_dtype(what, text_of(reinterpret_cast<PyObject*>(PyArray_DESCR(array))));
}

std::vector<std::int64_t> dims_of(PyArrayObject* array) {
  return {PyArray_DIMS(array), PyArray_DIMS(array) + PyArray_NDIM(array)};
}

GivenArray numpy_tensor(PyArrayObject* given, What what) {
  const DType dtype = require_dtype(given, what);
  GivenArray result{.tensor = {}, .kept = nb::borrow(reinterpret_cast<PyObject*>(given))};
  PyArrayObject* array = given;
  if (!PyArray_IS_C_CONTIGUOUS(given) || !PyArray_ISALIGNED(given) ||
      PyArray_ISBYTESWAPPED(given)) {
    PyArray_Descr* native = PyArray_DescrNewByteorder(PyArray_DESCR(given), NPY_NATIVE);
    if (native == nullptr) throw nb::python_error();
    result.kept =
        nb::steal(PyArray_FromArray(given, native, NPY_ARRAY_CARRAY | NPY_ARRAY_ENSURECOPY));
    if (!result.kept.is_valid()) throw nb::python_error();
    result.copied = true;
    array = reinterpret_cast<PyArrayObject*>(result.kept.ptr());
  }
  result.tensor = ir::Tensor(dtype, dims_of(array),
                             {static_cast<const std::byte*>(PyArray_DATA(array)),
                              static_cast<std::size_t>(PyArray_NBYTES(array))},
                             nullptr);
  return result;
}

// ---- DLPack ----

constexpr int cpu = 1, cuda = 2, cuda_host = 3;

// What the array's own method gives. Its exception, for a reason of its library's, is an input that
// does not fit.
template <typename... Arguments>
nb::object ask(nb::handle array, What what, const char* method, Arguments&&... arguments) {
  try {
    return array.attr(method)(std::forward<Arguments>(arguments)...);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_Exception) ||
        (sizeof...(arguments) > 0 && error.matches(PyExc_TypeError)))
      throw;
    throw Error(ErrorKind::Inputs, "{}, a {}, cannot be read through DLPack: {}", what.text(),
                class_name(array), text_of(error.value()));
  }
}

// True on the model's device, false on the host.
bool lies_on_device(nb::handle array, What what, OnDevice* on) {
  const nb::object device = ask(array, what, "__dlpack_device__");
  const int kind = nb::cast<int>(device[0]);
  if (kind == cpu || kind == cuda_host) return false;
  if (kind == cuda && on != nullptr && on->model->has_device_memory()) return on->met = true;
  const std::string name = nb::hasattr(array, "device") ? text_of(array.attr("device"))
                           : kind == cuda ? fmt::format("cuda:{}", nb::cast<int>(device[1]))
                                          : fmt::format("the device {} of DLPack", kind);
  throw Error(
      ErrorKind::Inputs,
      "{} lies on {}: expected this process's memory; move it there first, e.g. with .cpu()",
      what.text(), name);
}

// Asked for here, not by nanobind, which would try other ways where a library refuses.
nb::object capsule_from(nb::handle array, What what) {
  try {
    return ask(array, what, "__dlpack__", "max_version"_a = nb::make_tuple(1, 0));
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;
  }
  return ask(array, what, "__dlpack__");  // of before version 1
}

// Its library sees to it that what comes on the stream finds the array as it is now.
nb::object capsule_from(nb::handle array, What what, DeviceStream stream) {
  const auto handle = reinterpret_cast<std::uintptr_t>(stream.handle);
  const std::uintptr_t number = handle == 0 ? default_stream : handle;
  try {
    return ask(array, what, "__dlpack__", "stream"_a = number,
               "max_version"_a = nb::make_tuple(1, 0));
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;
  }
  return ask(array, what, "__dlpack__", "stream"_a = number);
}

template <typename Array>
struct Imported {
  Array array;
  bool on_device = false;
};

template <typename Array>
Imported<Array> imported(nb::handle array, What what, OnDevice* on) {
  if (!nb::hasattr(array, "__dlpack__") || !nb::hasattr(array, "__dlpack_device__")) {
    throw Error(
        ErrorKind::Inputs,
        "{} is a {}: expected a NumPy array or a tensor that DLPack can hand over; make one with "
        "numpy.asarray(..., dtype=...)",
        what.text(), class_name(array));
  }
  Imported<Array> result{.array = {}, .on_device = lies_on_device(array, what, on)};
  const nb::object capsule =
      result.on_device ? capsule_from(array, what, on->stream) : capsule_from(array, what);
  if (nb::try_cast(capsule, result.array)) return result;
  throw Error(
      ErrorKind::Inputs,
      "{}, a {}, cannot be read through DLPack: it is read-only, or of a form that is not known "
      "here",
      what.text(), class_name(array));
}

std::string name_of(nb::dlpack::dtype type) {
  return fmt::format("code {}, {} bits, {} lanes of DLPack", type.code, type.bits, type.lanes);
}

template <typename Array>
bool is_contiguous(const Array& array) {
  std::int64_t expected = 1;
  for (std::size_t axis = array.ndim(); axis-- > 0;) {
    if (array.shape(axis) == 0) return true;
    if (array.shape(axis) != 1 && array.stride(axis) != expected) return false;
    expected *= static_cast<std::int64_t>(array.shape(axis));
  }
  return true;
}

template <typename Array>
std::vector<std::int64_t> dims_of(const Array& array) {
  std::vector<std::int64_t> dims;
  for (std::size_t axis = 0; axis < array.ndim(); ++axis)
    dims.push_back(static_cast<std::int64_t>(array.shape(axis)));
  return dims;
}

bool is_aligned(const void* data, DType dtype) {
  return reinterpret_cast<std::uintptr_t>(data) % ir::size_of(dtype) == 0;
}

// Elements one after the other, row-major, of an array with any strides; `position` counts the axes
// before the last.
template <typename Array>
ir::Tensor copied(const Array& array, DType dtype) {
  ir::Tensor copy(dtype, dims_of(array));
  const std::size_t size = ir::size_of(dtype), rank = array.ndim();
  const auto* from = static_cast<const std::byte*>(array.data());
  std::byte* to = copy.mutable_bytes().data();
  std::vector<std::int64_t> position(rank, 0);
  for (std::int64_t left = copy.elements(); left > 0; --left) {
    std::memcpy(to, from, size);
    to += size;
    for (std::size_t axis = rank; axis-- > 0;) {
      const std::int64_t step = array.stride(axis) * static_cast<std::int64_t>(size);
      from += step;
      if (++position[axis] < static_cast<std::int64_t>(array.shape(axis))) break;
      from -= step * position[axis];
      position[axis] = 0;
    }
  }
  return copy;
}

// A call under way keeps the array after it has returned: the last to let go may be any thread,
// without the GIL.
template <typename Array>
std::shared_ptr<Array> kept_anywhere(Array array) {
  return {new Array(std::move(array)), [](Array* last) {
            if (interpreter_ends()) return;
            const nb::gil_scoped_acquire acquired;
            delete last;
          }};
}

template <typename Array>
ir::Tensor tensor_on_device(const std::shared_ptr<Array>& array, DType dtype, const Model& model,
                            What what) {
  if (!is_contiguous(*array))
    throw Error(ErrorKind::Inputs,
                "{} is not contiguous on its device: make it so first, e.g. with .contiguous()",
                what.text());
  try {
    return model.device_tensor(dtype, dims_of(*array), const_cast<void*>(array->data()), array);
  } catch (const Error& error) {
    throw Error(error.kind(), "{}: {}", what.text(), error.what());
  }
}

GivenArray dlpack_tensor(nb::handle given, What what, OnDevice* on) {
  using Array = nb::ndarray<nb::ro>;
  auto [found, on_device] = imported<Array>(given, what, on);
  const auto array = kept_anywhere(std::move(found));
  const auto dtype = dtype_of(array->dtype());
  if (!dtype) refuse_dtype(what, name_of(array->dtype()));
  if (on_device) return {.tensor = tensor_on_device(array, *dtype, *on->model, what), .kept = {}};
  if (!is_contiguous(*array) || !is_aligned(array->data(), *dtype))
    return {.tensor = copied(*array, *dtype), .kept = {}, .copied = true};
  const auto* data = static_cast<const std::byte*>(array->data());
  const std::size_t bytes = array->size() * ir::size_of(*dtype);
  std::vector<std::int64_t> dims = dims_of(*array);
  return {.tensor = ir::Tensor(*dtype, std::move(dims), {data, bytes}, array), .kept = {}};
}

}  // namespace

std::string What::text() const {
  return name.empty() ? std::string(kind) : fmt::format("{} '{}'", kind, ir::printable(name));
}

void need_numpy() {
  if (PyArray_API == nullptr && _import_array() < 0) throw nb::python_error();
}

GivenArray tensor_of(nb::handle array, What what, OnDevice* device) {
  if (PyArray_Check(array.ptr()))
    return numpy_tensor(reinterpret_cast<PyArrayObject*>(array.ptr()), what);
  if (PyArray_CheckScalar(array.ptr())) {
    const nb::object made = nb::steal(PyArray_FromScalar(array.ptr(), nullptr));
    if (!made.is_valid()) throw nb::python_error();
    GivenArray result = numpy_tensor(reinterpret_cast<PyArrayObject*>(made.ptr()), what);
    result.copied = true;
    return result;
  }
  return dlpack_tensor(array, what, device);
}

std::optional<DeviceStream> stream_of(nb::handle stream) {
  if (stream.is_none()) return std::nullopt;
  nb::object number = nb::borrow(stream);
  if (nb::hasattr(stream, "__cuda_stream__"))
    number = nb::object(stream.attr("__cuda_stream__")())[1];
  else if (nb::hasattr(stream, "cuda_stream")) number = stream.attr("cuda_stream");
  else if (nb::hasattr(stream, "ptr")) number = stream.attr("ptr");
  std::uintptr_t handle = 0;
  if (PyBool_Check(number.ptr()) || !nb::try_cast(number, handle))
    throw Error(ErrorKind::CommandLine,
                "a stream is the address of a CUDA stream or an object that has one "
                "(torch.cuda.Stream, cupy.cuda.Stream), not {}",
                text_of(nb::repr(stream)));
  return DeviceStream{reinterpret_cast<void*>(handle)};
}

GivenPlace place_of(nb::handle given, What what, OnDevice* on) {
  const auto require = [&](bool writable, bool contiguous, bool aligned) {
    if (!writable)
      throw Error(ErrorKind::Inputs, "{} is read-only: expected an array to write results to",
                  what.text());
    if (!contiguous || !aligned)
      throw Error(
          ErrorKind::Inputs,
          "{} is not contiguous: results are written row by row, one after the other; give an "
          "array of its own",
          what.text());
  };
  if (PyArray_Check(given.ptr())) {
    auto* array = reinterpret_cast<PyArrayObject*>(given.ptr());
    const DType dtype = require_dtype(array, what);
    require(PyArray_ISWRITEABLE(array), PyArray_IS_C_CONTIGUOUS(array),
            PyArray_ISALIGNED(array) && !PyArray_ISBYTESWAPPED(array));
    return {.dtype = dtype,
            .dims = dims_of(array),
            .data = static_cast<std::byte*>(PyArray_DATA(array)),
            .bytes = static_cast<std::size_t>(PyArray_NBYTES(array)),
            .kept = nb::borrow(given)};
  }
  using Array = nb::ndarray<>;
  auto [array, on_device] = imported<Array>(given, what, on);
  const auto dtype = dtype_of(array.dtype());
  if (!dtype) refuse_dtype(what, name_of(array.dtype()));
  require(true, is_contiguous(array), is_aligned(array.data(), *dtype));
  if (on_device)  // refused where it is no memory of the model's device
    static_cast<void>(tensor_on_device(std::make_shared<Array>(array), *dtype, *on->model, what));
  return {.dtype = *dtype,
          .dims = dims_of(array),
          .data = static_cast<std::byte*>(array.data()),
          .bytes = array.size() * ir::size_of(*dtype),
          .on_device = on_device,
          .kept = nb::borrow(given)};
}

Framework parse_framework(std::string_view text) {
  if (text == "numpy") return Framework::Numpy;
  if (text == "torch") return Framework::Torch;
  if (text == "dlpack") return Framework::DLPack;
  throw Error(ErrorKind::CommandLine, "arrays can be 'numpy', 'torch' or 'dlpack', not '{}'", text);
}

std::string_view numpy_name(DType dtype) { return row_of(dtype).name; }

namespace {

using Owner = std::shared_ptr<const void>;

nb::object capsule_of(const Owner& owner) {
  PyObject* capsule = PyCapsule_New(new Owner(owner), nullptr, [](PyObject* self) {
    delete static_cast<Owner*>(PyCapsule_GetPointer(self, nullptr));
  });
  if (capsule == nullptr) throw nb::python_error();
  return nb::steal(capsule);
}

nb::object numpy_array(const ir::Tensor& tensor) {
  std::vector<npy_intp> dims(tensor.dims().begin(), tensor.dims().end());
  auto* data = const_cast<std::byte*>(tensor.bytes().data());
  nb::object array = nb::steal(PyArray_New(&PyArray_Type, static_cast<int>(dims.size()),
                                           dims.data(), row_of(tensor.dtype()).number, nullptr,
                                           data, 0, NPY_ARRAY_CARRAY, nullptr));
  if (!array.is_valid()) throw nb::python_error();
  if (PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(array.ptr()),
                            capsule_of(tensor.owner()).release().ptr()) < 0)
    throw nb::python_error();
  if (tensor.dtype() != DType::BF16) return array;
  try {
    return array.attr("view")(nb::module_::import_("ml_dtypes").attr("bfloat16"));
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_ImportError)) throw;
    return array;
  }
}

nb::dlpack::dtype dlpack_type(DType dtype) {
  return {static_cast<std::uint8_t>(row_of(dtype).code),
          static_cast<std::uint8_t>(8 * ir::size_of(dtype)), 1};
}

template <typename Kind>
nb::object dlpack_array(const ir::Tensor& tensor) {
  std::vector<std::size_t> dims(tensor.dims().begin(), tensor.dims().end());
  const nb::dlpack::dtype dtype = dlpack_type(tensor.dtype());
  const nb::ndarray<Kind> array(const_cast<std::byte*>(tensor.bytes().data()), dims.size(),
                                dims.data(), capsule_of(tensor.owner()), nullptr, dtype);
  return nb::cast(array);
}

}  // namespace

nb::object dlpack_of_device(const ir::Tensor& tensor, const runtime::DeviceMemory& memory,
                            nb::object owner) {
  const std::vector<std::size_t> dims(tensor.dims().begin(), tensor.dims().end());
  const nb::ndarray<nb::array_api> array(memory.address(), dims.size(), dims.data(),
                                         std::move(owner), nullptr, dlpack_type(tensor.dtype()),
                                         cuda, memory.device());
  return nb::cast(array);
}

nb::object array_of(ir::Tensor tensor, Framework framework) {
  // Memory of others: an input's, a constant's, that of a result with two names.
  if (tensor.owner().use_count() != 1) {
    ir::Tensor copy(tensor.dtype(), tensor.dims());
    std::ranges::copy(tensor.bytes(), copy.mutable_bytes().begin());
    tensor = std::move(copy);
  }
  switch (framework) {
    case Framework::Numpy: return numpy_array(tensor);
    case Framework::Torch: return dlpack_array<nb::pytorch>(tensor);
    case Framework::DLPack: return dlpack_array<nb::array_api>(tensor);
  }
  internal_error("a framework is one of the enumerators");
}

}  // namespace anydim::python
