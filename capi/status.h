// The border that no exception crosses: what a function throws becomes a status.
#pragma once

#include <string>
#include <string_view>

#include "capi/handles.h"
#include "ir/error.h"

namespace anydim::capi {

struct StatusObject {
  ErrorKind kind = ErrorKind::Internal;
  std::string message;
};

template <>
struct HandleTraits<anydim_status> : HandleOf<HandleKind::Status, StatusObject> {};

// Tells the exception at work, in `function`. Where there is no memory for it, it is a status that
// stands ready and is never released.
anydim_status* status_of_exception(std::string_view function) noexcept;

template <typename Body>
anydim_status* guarded(std::string_view function, Body&& body) noexcept {
  try {
    body();
    return nullptr;
  } catch (...) {
    return status_of_exception(function);
  }
}

// Throws Error{CommandLine} where the pointer that an answer goes to, or that the function reads,
// is NULL.
void require_pointer(const void* pointer, std::string_view argument);

}  // namespace anydim::capi
