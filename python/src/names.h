// Names and mappings as Python gives them.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <utility>
#include <vector>

namespace anydim::python {

// A str, whose lone surrogates stand for bytes that are no UTF-8. Throws Error{Inputs} for anything
// else.
std::string name_from(nanobind::handle key, const char* of_what);
// Any mapping as a dict; throws Error{Inputs} for what is none.
nanobind::object dict_of(nanobind::handle mapping, const char* what);
// The mapping's items, which stay as they are while code of others runs.
std::vector<std::pair<std::string, nanobind::object>> named_arrays(nanobind::handle mapping,
                                                                   const char* what);

}  // namespace anydim::python
