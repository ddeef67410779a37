// What tests do otherwise under sanitizers.
#pragma once

#if __has_feature(address_sanitizer)
#include <sanitizer/lsan_interface.h>
#endif

namespace anydim::tests {

inline constexpr bool sanitized =
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);

// What this thread allocates while it lives may stay to the end: what is given up on purpose is no
// leak.
class [[maybe_unused]] MeantToStay {
#if __has_feature(address_sanitizer)
  __lsan::ScopedDisabler disabler_;
#endif
};

}  // namespace anydim::tests
