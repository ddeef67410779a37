#include "python/src/device_array.h"

#include <cstdint>
#include <memory>
#include <utility>

#include "python/src/interpreter.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace anydim::python {

namespace {

// The default stream has two names.
std::uintptr_t number_of(DeviceStream stream) {
  const auto handle = reinterpret_cast<std::uintptr_t>(stream.handle);
  return handle == 0 ? default_stream : handle;
}

// What a consumer holds.
struct Lent {
  ir::Tensor tensor;
  bool read_elsewhere = false;  // on another stream than the call's
};

// A later call may fill the memory again once it has waited for its own stream. Of others it knows
// nothing: what reads there ends before the memory is given back.
void take_back(PyObject* capsule) {
  const std::unique_ptr<Lent> lent(static_cast<Lent*>(PyCapsule_GetPointer(capsule, nullptr)));
  if (!lent->read_elsewhere || interpreter_ends()) return;
  const nb::gil_scoped_release released;
  try {
    runtime::device_memory_of(lent->tensor)->wait_for_device();
  } catch (const Error&) {
    // The device is lost: the next call says so.
  }
}

}  // namespace

nb::tuple DeviceArray::dlpack_device() const {
  constexpr int cuda = 2;
  return nb::make_tuple(cuda, memory().device());
}

nb::object DeviceArray::dlpack(nb::handle stream, nb::handle max_version, nb::handle dl_device,
                               nb::handle copy) const {
  const auto number =
      stream.is_none() ? static_cast<std::int64_t>(default_stream) : nb::cast<std::int64_t>(stream);
  if (number == 0 || number < -1)
    throw Error(ErrorKind::Inputs,
                "__dlpack__(stream={}): expected None, -1, 1, 2 or the address of a "
                "CUDA stream",
                number);
  const bool elsewhere = number != static_cast<std::int64_t>(number_of(stream_));
  auto lent = std::make_unique<Lent>(Lent{tensor_, elsewhere});
  PyObject* owner = PyCapsule_New(lent.get(), nullptr, take_back);
  if (owner == nullptr) throw nb::python_error();
  static_cast<void>(lent.release());  // the capsule's
  const nb::object array = dlpack_of_device(tensor_, memory(), nb::steal(owner));
  const nb::object capsule = array.attr("__dlpack__")("max_version"_a = max_version,
                                                      "dl_device"_a = dl_device, "copy"_a = copy);
  if (elsewhere && number != -1)
    memory().order(stream_, {reinterpret_cast<void*>(static_cast<std::uintptr_t>(number))});
  return capsule;
}

void add_device_array(nb::module_& module) {
  nb::class_<DeviceArray>(module, "DeviceArray",
                          "A result of a call on a stream, in memory of the GPU: any library's "
                          "from_dlpack reads it where it lies.")
      .def_prop_ro("shape",
                   [](const DeviceArray& array) {
                     nb::list dims;
                     for (const std::int64_t dim : array.tensor().dims()) dims.append(dim);
                     return nb::tuple(dims);
                   })
      .def_prop_ro("dtype",
                   [](const DeviceArray& array) {
                     return nb::str(numpy_name(array.tensor().dtype()).data());
                   })
      .def("__dlpack_device__", &DeviceArray::dlpack_device)
      .def("__dlpack__", &DeviceArray::dlpack, nb::kw_only(), "stream"_a = nb::none(),
           "max_version"_a = nb::none(), "dl_device"_a = nb::none(), "copy"_a = nb::none());
}

nb::object device_array_of(ir::Tensor tensor, DeviceStream stream, Framework framework) {
  nb::object array = nb::cast(DeviceArray(std::move(tensor), stream));
  if (framework != Framework::Torch) return array;
  return nb::module_::import_("torch").attr("from_dlpack")(array);
}

}  // namespace anydim::python
