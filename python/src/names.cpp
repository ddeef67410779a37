#include "python/src/names.h"

#include "api/anydim.h"

namespace nb = nanobind;

namespace anydim::python {

std::string name_from(nb::handle key, const char* of_what) {
  if (!PyUnicode_Check(key.ptr()))
    throw Error(ErrorKind::Inputs, "{} are named by strings, not by a {}", of_what,
                Py_TYPE(key.ptr())->tp_name);
  const nb::object bytes =
      nb::steal(PyUnicode_AsEncodedString(key.ptr(), "utf-8", "surrogateescape"));
  if (!bytes.is_valid()) throw nb::python_error();
  return {PyBytes_AS_STRING(bytes.ptr()), static_cast<std::size_t>(PyBytes_GET_SIZE(bytes.ptr()))};
}

nb::object dict_of(nb::handle mapping, const char* what) {
  if (PyDict_CheckExact(mapping.ptr())) return nb::borrow(mapping);
  if (PyMapping_Check(mapping.ptr()) && PyObject_HasAttrString(mapping.ptr(), "keys")) {
    nb::object dict = nb::steal(PyDict_New());
    if (!dict.is_valid() || PyDict_Update(dict.ptr(), mapping.ptr()) < 0) throw nb::python_error();
    return dict;
  }
  throw Error(ErrorKind::Inputs, "{} come as a mapping of names to arrays, not as a {}", what,
              Py_TYPE(mapping.ptr())->tp_name);
}

std::vector<std::pair<std::string, nb::object>> named_arrays(nb::handle mapping, const char* what) {
  const nb::object copy = nb::steal(PyDict_Copy(dict_of(mapping, what).ptr()));
  if (!copy.is_valid()) throw nb::python_error();
  std::vector<std::pair<std::string, nb::object>> arrays;
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t position = 0; PyDict_Next(copy.ptr(), &position, &key, &value) != 0;)
    arrays.emplace_back(name_from(key, what), nb::borrow(value));
  return arrays;
}

}  // namespace anydim::python
