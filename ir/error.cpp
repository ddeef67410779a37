#include "ir/error.h"

#include "ir/printable.h"

namespace anydim {

Error::Error(ErrorKind kind, std::string_view message)
    : std::runtime_error(ir::printable_message(message)), kind_(kind) {}

void internal_error(std::string_view condition, std::source_location place) {
  throw Error(ErrorKind::Internal, "internal error: {} ({}:{} in {}); please report this as a bug",
              condition, place.file_name(), place.line(), place.function_name());
}

}  // namespace anydim
