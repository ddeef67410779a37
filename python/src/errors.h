// Errors of the C++ side as exceptions of Python's, and warnings.
#pragma once

#include <nanobind/nanobind.h>

#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

namespace anydim::python {

// anydim::Error becomes the class of anydim.errors for its kind.
void translate_errors();

// What only a call from Python can be: the named class of anydim.errors.
class CallError : public std::runtime_error {
 public:
  CallError(const char* type, const std::string& message)
      : std::runtime_error(message), type_(type) {}
  const char* type() const { return type_; }

 private:
  const char* type_;
};

// Warnings of any thread, kept until one that holds the GIL issues them.
class WarningList {
 public:
  void add(std::string message);
  // With the GIL: as AnydimWarning, `level` frames of Python up. Throws what a filter makes of
  // them.
  void issue(int level);
  void drop_ending(const std::string& end);

 private:
  std::mutex mutex_;
  std::vector<std::string> messages_;
};
// Warns with the class `type` of anydim.errors.
void warn(const char* type, const std::string& message, int level);

}  // namespace anydim::python
