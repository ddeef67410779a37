// What sources include that read or write JSON, parsed once for all of them.
#include <nlohmann/json.hpp>

#include "standard_library.h"
