#include "ir/host_functions.h"

#include <cmath>

namespace anydim::ir {

HostFunctions host_functions() {
  return {
#define ANYDIM_FUNCTION(name, operands) .name = std::name,
#include "ir/library_functions.def"
#undef ANYDIM_FUNCTION
      .fmod = std::fmod};
}

std::string_view name_of(LibraryFunction function) {
  static constexpr std::string_view names[] = {
#define ANYDIM_FUNCTION(name, operands) #name,
#include "ir/library_functions.def"
#undef ANYDIM_FUNCTION
      "fmod"};
  return names[static_cast<unsigned>(function)];
}

std::optional<LibraryFunction> library_function(Op op) {
  switch (op) {  // NOLINT: the others are no functions of a library
#define ANYDIM_FUNCTION(name, operands) \
  case Op::name: return LibraryFunction::name;
#include "ir/library_functions.def"
#undef ANYDIM_FUNCTION
    default: return std::nullopt;
  }
}

}  // namespace anydim::ir
