// What a mask does to attention, read off the bias as a scalar program of its indices, whatever ops an exporter made it of.
//
// The element of the bias at (batch, row i, key j) is built by ir's ProgramBuilder, which follows elementwise ops, views, broadcasts and gathers at computed
// positions. Every load of a two-dimensional parameter at (batch, j) is taken to be a mask's entry of the key, at (batch, i) of the row. The program is
// then folded under assumptions on these entries: where a key's entry is one value and the bias comes out as a number that absorbs any score, keys
// with that entry take no part.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ir/module.h"

namespace anydim::passes {

// Below this a number added to a score of ordinary size is the sum: float32 has 24 bits, so scores up to 1e22 vanish beside it.
inline constexpr double absorbing = -1e30;

struct MaskFinding {
  ir::ValueId mask = ir::no_value;  // parameter of the function, dims (batch, sequence)
  std::int64_t kept = 1;            // its entry at rows that take part; the other of 0 and 1 hides them
  std::size_t batch_axis = 0;       // among attention's batch dims
  double fill = 0;                  // what a hidden key's score gets added
  bool nothing_else = false;        // rows that take part see one another, and nothing is added to their scores
};

struct MaskVerdict {
  std::optional<MaskFinding> finding{};
  std::string reason{};  // where there is none: why, naming what stands in the way
};

// `attention` is a binding of `block`, `block` the body of `function`, whose entries are 0 or 1 (a check at run time must make that true).
MaskVerdict find_mask(const ir::Function& function, const ir::Block& block, const ir::Binding& attention);

}  // namespace anydim::passes
