// Parts of a product's depth that some rows do not read: places of a window that lie beside the
// image, all of them 0. Wide dilations have most of theirs there.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "ir/loops/loop_form.h"

namespace anydim::codegen_cpu {

struct WindowTaps {
  ir::Iteration tap;
  std::int64_t count = 0;  // at most most_taps
  std::int64_t depth = 0;  // of a tap
  // Over the row and the tap: a row's elements of a tap are 0 where one does not hold.
  std::vector<ir::step::Condition> conditions{};
};
inline constexpr std::int64_t most_taps = 64;

// nullopt where the depth has no such parts, or they are short. `fresh` gives variables that
// nothing else uses; they are declared in `symbols`.
std::optional<WindowTaps> window_taps(const ir::ScalarProgram& program, const ir::Iteration& depth,
                                      const std::function<ir::DimLeaf()>& fresh,
                                      ir::SymbolTable& symbols);

}  // namespace anydim::codegen_cpu
