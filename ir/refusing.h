// Errors that name the thing they are about: a node of a model, a binding.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "ir/error.h"

namespace anydim {

// A reason may be given as fmt::format takes it, in parts.
class Refusing {
 public:
  [[noreturn]] void malformed(std::string_view reason) const {
    refuse(ErrorKind::Malformed, reason);
  }
  [[noreturn]] void unsupported(std::string_view reason) const {
    refuse(ErrorKind::Unsupported, reason);
  }
  template <typename First, typename... Rest>
  [[noreturn]] void malformed(fmt::format_string<First, Rest...> reason, First&& first,
                              Rest&&... rest) const {
    malformed(fmt::format(reason, std::forward<First>(first), std::forward<Rest>(rest)...));
  }
  template <typename First, typename... Rest>
  [[noreturn]] void unsupported(fmt::format_string<First, Rest...> reason, First&& first,
                                Rest&&... rest) const {
    unsupported(fmt::format(reason, std::forward<First>(first), std::forward<Rest>(rest)...));
  }

 protected:
  ~Refusing() = default;

 private:
  // Throws Error of this kind, whose message names the thing and says the reason.
  [[noreturn]] virtual void refuse(ErrorKind kind, std::string_view reason) const = 0;
};

}  // namespace anydim
