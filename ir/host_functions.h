// libm entry points that kernels call through their arguments: a kernel blob has no unresolved
// symbols. Used where a vectorised implementation isn't worth its code: f64 functions, fmod, and
// sin, cos and tan of large f32.
#pragma once

#include <optional>
#include <string_view>
#include <type_traits>

#include "ir/ops.h"

namespace anydim::ir {

template <int operands>
using RealFunction =
    std::conditional_t<operands == 1, double (*)(double), double (*)(double, double)>;

// Kernels index it as an array of pointers, in this order.
struct HostFunctions {
#define ANYDIM_FUNCTION(name, operands) RealFunction<operands> name;
#include "ir/library_functions.def"
#undef ANYDIM_FUNCTION
  RealFunction<2> fmod;
};

// Positions in HostFunctions.
enum class LibraryFunction : unsigned {
#define ANYDIM_FUNCTION(name, operands) name,
#include "ir/library_functions.def"
#undef ANYDIM_FUNCTION
  fmod,
};

HostFunctions host_functions();  // this process's libm

std::string_view name_of(LibraryFunction function);  // in C, for f64

// The function that computes an op on reals as it is; nothing where there is none.
std::optional<LibraryFunction> library_function(Op op);

}  // namespace anydim::ir
