#include "capi/functions.h"
#include "capi/handles.h"

namespace anydim::capi {

const char* library_version() noexcept { return ANYDIM_VERSION; }

std::size_t handles_alive() noexcept { return Registry::get().alive(); }

const anydim_api& table() {
  static constexpr anydim_api functions = {
      .version = ANYDIM_API_VERSION,
      .size = sizeof(anydim_api),
#define ANYDIM_FUNCTION(name) .name = name,
#include "capi/functions.def"
#undef ANYDIM_FUNCTION
  };
  return functions;
}

}  // namespace anydim::capi

// What entry.c gives the world.
extern "C" const anydim_api* anydim_table(void) { return &anydim::capi::table(); }
