// Errors that end a request. Three kinds are kept apart: the user's (a command, model, file or
// input that is wrong), the run's (a shape, bound or resource met at run time) and ours (a broken
// internal condition). The kind is the process's exit code.
#pragma once

#include <fmt/core.h>

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace anydim {

enum class ErrorKind {
  CommandLine = 2,  // bad command line or option
  Unsupported = 3,  // the model uses an op, opset, dtype or form that Anydim does not compile
  Malformed = 4,    // a model or file is missing, truncated or contradicts itself
  Inputs = 5,       // inputs of a call don't fit: name, type, shape, bound or a run-time check
  Resource = 6,     // memory, device, driver or compiler library is missing
  Write = 7,        // an output cannot be written
  Cancelled = 8,    // the caller asked for the work to end (ir/cancellation.h)
  Internal = 70,    // a bug here
};

// The message is complete: what happened, where, expected, got, what to do. Its first line is one
// clear sentence. Whatever names of others it quotes, what() is fit for a terminal and of bounded
// length (printable_message in ir/printable.h).
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, std::string_view message);
  // The message as fmt::format takes it, in parts.
  template <typename First, typename... Rest>
  Error(ErrorKind kind, fmt::format_string<First, Rest...> message, First&& first, Rest&&... rest)
      : Error(kind, fmt::format(message, std::forward<First>(first), std::forward<Rest>(rest)...)) {
  }
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

// Throws Error{Internal} naming the condition and the place. Never used for anything that a user
// can cause.
[[noreturn]] void internal_error(std::string_view condition,
                                 std::source_location place = std::source_location::current());
inline void internal_check(bool holds, std::string_view condition,
                           std::source_location place = std::source_location::current()) {
  if (!holds) internal_error(condition, place);
}

}  // namespace anydim
