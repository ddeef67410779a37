#include "capi/status.h"

#include <fmt/format.h>

#include <new>

#include "capi/functions.h"

namespace anydim::capi {

namespace {

// No address and no token: its kind is none of HandleKind.
anydim_status* const no_memory = reinterpret_cast<anydim_status*>(std::uintptr_t{0xff});

anydim_status* make_status(ErrorKind kind, std::string message) noexcept {
  try {
    return make_handle<anydim_status>(
        std::make_shared<StatusObject>(StatusObject{kind, std::move(message)}));
  } catch (...) {
    return no_memory;
  }
}

std::shared_ptr<StatusObject> found(const anydim_status* status) noexcept {
  return std::static_pointer_cast<StatusObject>(
      Registry::get().find(token_of(status), HandleKind::Status));
}

}  // namespace

anydim_status* status_of_exception(std::string_view function) noexcept {
  try {
    try {
      throw;
    } catch (const Error& error) {
      // Faults of arguments are the caller's, who wants to know of which call; the others name
      // their model, node or tensor.
      const bool argument = error.kind() == ErrorKind::CommandLine;
      return make_status(error.kind(), argument ? fmt::format("{}: {}", function, error.what())
                                                : std::string(error.what()));
    } catch (const std::bad_alloc&) {
      return make_status(ErrorKind::Resource,
                         fmt::format("{}: there is not enough memory", function));
    } catch (const std::exception& error) {
      return make_status(ErrorKind::Internal,
                         fmt::format("{}: internal error: {}; please report this as a bug",
                                     function, error.what()));
    } catch (...) {
      return make_status(
          ErrorKind::Internal,
          fmt::format(
              "{}: internal error: an exception of no known type; please report this as a bug",
              function));
    }
  } catch (...) {
    return no_memory;
  }
}

void require_pointer(const void* pointer, std::string_view argument) {
  if (pointer == nullptr)
    throw Error(ErrorKind::CommandLine, "argument '{}' is NULL: expected the address of one",
                argument);
}

anydim_kind status_kind(const anydim_status* status) noexcept {
  if (status == nullptr) return ANYDIM_OK;
  if (status == no_memory) return ANYDIM_NO_RESOURCE;
  const auto object = found(status);
  return object == nullptr ? static_cast<anydim_kind>(ANYDIM_BAD_ARGUMENT)
                           : static_cast<anydim_kind>(object->kind);
}

const char* status_message(const anydim_status* status) noexcept {
  if (status == nullptr) return "";
  if (status == no_memory) return "there is not enough memory, not even to say for what";
  const auto object = found(status);
  return object == nullptr ? "this status is no handle that is alive: it was released, or is no "
                             "handle of this library"
                           : object->message.c_str();
}

void status_release(anydim_status* status) noexcept {
  if (status != nullptr && status != no_memory)
    Registry::get().remove(token_of(status), HandleKind::Status);
}

static_assert(ANYDIM_BAD_ARGUMENT == static_cast<int>(ErrorKind::CommandLine) &&
              ANYDIM_UNSUPPORTED == static_cast<int>(ErrorKind::Unsupported) &&
              ANYDIM_MALFORMED == static_cast<int>(ErrorKind::Malformed) &&
              ANYDIM_BAD_INPUTS == static_cast<int>(ErrorKind::Inputs) &&
              ANYDIM_NO_RESOURCE == static_cast<int>(ErrorKind::Resource) &&
              ANYDIM_NOT_WRITTEN == static_cast<int>(ErrorKind::Write) &&
              ANYDIM_CANCELLED == static_cast<int>(ErrorKind::Cancelled) &&
              ANYDIM_INTERNAL == static_cast<int>(ErrorKind::Internal));

}  // namespace anydim::capi
