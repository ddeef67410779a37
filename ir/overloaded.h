// A visitor of a variant made of one function an alternative.
#pragma once

namespace anydim::ir {

template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};

}  // namespace anydim::ir
