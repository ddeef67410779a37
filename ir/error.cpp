#include "ir/error.h"

#include <fmt/format.h>

namespace anydim {

void internal_error(std::string_view condition, std::source_location place) {
  throw Error(ErrorKind::Internal, fmt::format("internal error: {} ({}:{} in {}); please report this as a bug", condition,
                                               place.file_name(), place.line(), place.function_name()));
}

}  // namespace anydim
