// A symbol's range, as tests declare it.
#pragma once

#include <cstdint>

#include "ir/dims/symbols.h"

namespace anydim::ir {

inline SymbolInfo range(std::int64_t low, std::int64_t high, std::int64_t multiple = 1) {
  SymbolInfo info;
  info.low = low;
  info.high = high;
  info.multiple = multiple;
  return info;
}

}  // namespace anydim::ir
