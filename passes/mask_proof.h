// What a mask does to attention, read off the bias as a scalar program of its indices, whatever ops an exporter made it of.
//
// Every load of a two-dimensional parameter at (batch, key) is taken to be a mask's entry of the key, at (batch, row) of the row. The bias is
// folded under assumptions on these entries (passes/bias_program.h): where a key's entry is one value and the bias comes out as a number that no score outweighs, keys with
// that entry take no part. What the bias is between rows that take part (causal, a sliding window, nothing) is kept as a program of their positions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ir/loop_form.h"
#include "ir/module.h"

namespace anydim::passes {

// Below this a number added to a score of ordinary size is the sum: float32 has 24 bits, so scores up to 1e22 vanish beside it.
inline constexpr double absorbing = -1e30;
// A weight exp(x) in float32 is exactly 0 below -104; beyond that, room for rounding.
inline constexpr double vanishing = -110;

struct MaskFinding {
  ir::ValueId mask = ir::no_value;  // parameter of the function, dims (batch, sequence)
  std::int64_t kept = 1;            // its entry at rows that take part; the other of 0 and 1 hides them
  std::size_t batch_axis = 0;       // among attention's batch dims
  double fill = 0;                  // what a hidden key's score gets added, at most
  double self = 0;                  // what a row's score with itself gets added, at least
  ir::ScalarProgram between{};      // what scores between rows that take part get added; indices as in passes/bias_program.h

  // Scores that are at most `bound` either way are outweighed: the weights of hidden keys are exactly 0.
  bool hides(double bound) const { return fill <= absorbing || 2 * bound + fill - self <= vanishing; }
};

struct MaskVerdict {
  std::optional<MaskFinding> finding{};
  std::string reason{};  // where there is none: why, naming what stands in the way
};

// `attention` is a binding of `block`, `block` the body of `function`, whose entries are 0 or 1 (a check at run time must make that true).
MaskVerdict find_mask(const ir::Function& function, const ir::Block& block, const ir::Binding& attention);

}  // namespace anydim::passes
