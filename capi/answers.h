// Structs that the library fills for the caller, whose header may be older or newer than the
// library.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "capi/status.h"

namespace anydim::capi {

// What version 1 of the interface had; a caller never has less.
template <typename Answer>
inline constexpr std::size_t first_size = sizeof(Answer);

// Throws Error{CommandLine} where `answer` is NULL or its struct_size is not set.
template <typename Answer>
void require_answer(const Answer* answer, std::string_view argument) {
  require_pointer(answer, argument);
  if (answer->struct_size < first_size<Answer>)
    throw Error(ErrorKind::CommandLine,
                "{}->struct_size is {}: expected sizeof(*{}), which is at least {}", argument,
                answer->struct_size, argument, first_size<Answer>);
}

// Sets *answer to a new handle of the object that `make` gives, or to NULL where it throws.
template <typename Handle, typename Make>
void give_handle(Handle** answer, std::string_view argument, Make&& make) {
  require_pointer(answer, argument);
  *answer = nullptr;
  *answer = make_handle<Handle>(make());
}

// Throws Error{CommandLine}; `what`: "results".
template <typename Things>
const auto& thing_at(const Things& things, std::size_t index, std::string_view what) {
  if (index >= things.size())
    throw Error(ErrorKind::CommandLine,
                "argument 'index' is {}, and there are {} {}: expected less", index, things.size(),
                what);
  return things[index];
}

// As much of `filled` as the caller's struct has room for; members that this library does not know
// become zero.
template <typename Answer>
void give_answer(const Answer& filled, Answer* answer) {
  const std::size_t wanted = answer->struct_size, known = std::min(wanted, sizeof(Answer));
  auto* const bytes = reinterpret_cast<std::byte*>(answer);
  std::memcpy(bytes, &filled, known);
  std::memset(bytes + known, 0, wanted - known);
  answer->struct_size = wanted;
}

}  // namespace anydim::capi
