// The functions of the table, as anydim.h describes them: each has its member's name and type, and
// throws nothing.
#pragma once

#include "capi/anydim.h"

namespace anydim::capi {

template <typename Member>
struct FunctionOf;
template <typename Result, typename... Arguments>
struct FunctionOf<Result (*)(Arguments...)> {
  using type = Result(Arguments...) noexcept;
};

#define ANYDIM_FUNCTION(name) FunctionOf<decltype(anydim_api::name)>::type name;
#include "capi/functions.def"
#undef ANYDIM_FUNCTION

const anydim_api& table();

}  // namespace anydim::capi
