// Options and cancellations behind their handles.
#pragma once

#include <mutex>

#include "api/options.h"
#include "capi/status.h"

namespace anydim::capi {

class OptionsObject {
 public:
  void set(std::string_view name, std::string_view value);  // throws Error{CommandLine}
  void set_warning(anydim_warning warning, void* user);
  // As the command would compile: by the user's own tuning database unless one, or no folder for
  // it, was named.
  CompileOptions for_compilation() const;

 private:
  mutable std::mutex mutex_;
  CompileOptions options_;
  bool database_named_ = false;
};

// Those of the handle, or the usual ones for NULL. Throws Error{Cancelled} where the cancellation,
// which they have, came already.
CompileOptions compile_options(const anydim_options* options, anydim_cancellation* cancellation);

template <>
struct HandleTraits<anydim_options> : HandleOf<HandleKind::Options, OptionsObject> {};

template <>
struct HandleTraits<anydim_cancellation> : HandleOf<HandleKind::Cancellation, Cancellation> {};

}  // namespace anydim::capi
