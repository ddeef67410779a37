#include "capi/options.h"

#include "api/option_text.h"
#include "api/tuning.h"
#include "capi/answers.h"
#include "capi/functions.h"

namespace anydim::capi {

void OptionsObject::set(std::string_view name, std::string_view value) {
  const std::lock_guard lock(mutex_);
  set_option(options_, name, value);
  if (name == "database") database_named_ = true;
}

void OptionsObject::set_warning(anydim_warning warning, void* user) {
  const std::lock_guard lock(mutex_);
  options_.warn =
      warning == nullptr ? runtime::Warning{} : [warning, user](const std::string& message) {
        warning(user, message.c_str());
      };
}

CompileOptions OptionsObject::for_compilation() const {
  const std::lock_guard lock(mutex_);
  CompileOptions options = options_;
  if (!database_named_ && options.keep_kernels) use_own_database(options);
  return options;
}

CompileOptions compile_options(const anydim_options* options, anydim_cancellation* cancellation) {
  const auto named = optional_object_of(options);
  CompileOptions compile =
      named == nullptr ? OptionsObject().for_compilation() : named->for_compilation();
  compile.cancellation = optional_object_of(cancellation);
  check_cancelled(compile.cancellation.get());
  return compile;
}

anydim_status* options_create(anydim_options** options) noexcept {
  return guarded("options_create", [&] {
    give_handle(options, "options", [] { return std::make_shared<OptionsObject>(); });
  });
}

anydim_status* options_set(anydim_options* options, const char* name, const char* value) noexcept {
  return guarded("options_set", [&] {
    const auto object = object_of(options);
    require_pointer(name, "name");
    require_pointer(value, "value");
    object->set(name, value);
  });
}

anydim_status* options_set_warning(anydim_options* options, anydim_warning warning,
                                   void* user) noexcept {
  return guarded("options_set_warning", [&] { object_of(options)->set_warning(warning, user); });
}

anydim_status* options_release(anydim_options* options) noexcept {
  return guarded("options_release", [&] { release_handle(options); });
}

anydim_status* cancellation_create(anydim_cancellation** cancellation) noexcept {
  return guarded("cancellation_create", [&] {
    give_handle(cancellation, "cancellation", [] { return std::make_shared<Cancellation>(); });
  });
}

anydim_status* cancellation_cancel(anydim_cancellation* cancellation) noexcept {
  return guarded("cancellation_cancel", [&] { object_of(cancellation)->cancel(); });
}

anydim_status* cancellation_reset(anydim_cancellation* cancellation) noexcept {
  return guarded("cancellation_reset", [&] { object_of(cancellation)->reset(); });
}

anydim_status* cancellation_release(anydim_cancellation* cancellation) noexcept {
  return guarded("cancellation_release", [&] { release_handle(cancellation); });
}

}  // namespace anydim::capi
