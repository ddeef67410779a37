#include "python/src/errors.h"

#include <exception>
#include <utility>

#include "api/anydim.h"

namespace nb = nanobind;

namespace anydim::python {

namespace {

const char* class_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::CommandLine: return "OptionError";
    case ErrorKind::Unsupported: return "UnsupportedError";
    case ErrorKind::Malformed: return "MalformedError";
    case ErrorKind::Inputs: return "InputError";
    case ErrorKind::Resource: return "ResourceError";
    case ErrorKind::Write: return "WriteError";
    case ErrorKind::Cancelled: return "CancelledError";
    case ErrorKind::Internal: return "InternalError";
  }
  return "InternalError";
}

nb::object named_class(const char* name) {
  return nb::module_::import_("anydim.errors").attr(name);
}

void raise(const char* type, const char* message) {
  const nb::object text = nb::steal(PyUnicode_DecodeUTF8(
      message, static_cast<Py_ssize_t>(std::char_traits<char>::length(message)), "replace"));
  PyErr_SetObject(named_class(type).ptr(), text.ptr());
}

}  // namespace

void translate_errors() {
  nb::register_exception_translator(
      [](const std::exception_ptr& thrown, void*) {
        try {
          std::rethrow_exception(thrown);
        } catch (const Error& error) {
          raise(class_of(error.kind()), error.what());
        } catch (const CallError& error) {
          raise(error.type(), error.what());
        }
      },
      nullptr);
}

void warn(const char* type, const std::string& message, int level) {
  if (PyErr_WarnEx(named_class(type).ptr(), message.c_str(), level) < 0) throw nb::python_error();
}

void WarningList::add(std::string message) {
  const std::lock_guard lock(mutex_);
  messages_.push_back(std::move(message));
}

void WarningList::issue(int level) {
  std::vector<std::string> messages;
  {
    const std::lock_guard lock(mutex_);
    messages = std::exchange(messages_, {});
  }
  for (const std::string& message : messages) warn("AnydimWarning", message, level);
}

void WarningList::drop_ending(const std::string& end) {
  const std::lock_guard lock(mutex_);
  std::erase_if(messages_, [&](const std::string& one) { return one.ends_with(end); });
}

}  // namespace anydim::python
