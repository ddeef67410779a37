// What a mask does to attention, read off the bias as a scalar program of its indices, whatever ops
// an exporter made it of.
//
// Every load of a two-dimensional parameter at (batch, key) may be a mask's entry of the key, at
// (batch, row) of the row. Either the entry itself is 0 or 1, or the bias asks one question of it
// (entry != 0, entry == padding id), whose answer is. The bias is folded under assumptions on these
// numbers (passes/bias_program.h): where a key's is one and the bias comes out as a number that
// outweighs its score, keys of that number take no part. What the bias is between rows that take
// part (causal, a sliding window, nothing) is kept as a program of their positions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "ir/loops/loop_form.h"
#include "ir/module.h"
#include "passes/bias_program.h"

namespace anydim::passes {

struct MaskFinding {
  ir::ValueId mask = ir::no_value;  // parameter of the function, dims (batch, sequence)
  ir::ScalarProgram question{};     // a function of an entry that gives a bool; no steps: the entry
                                    // itself, which must be 0 or 1
  // the entry, or the answer, at rows that take part; the other of 0 and 1 hides them
  std::int64_t kept = 1;
  std::int64_t kept_entry = 1, hidden_entry = 0;  // entries that say so, for examples
  // that rows which take part come before hidden ones in every sequence is assumed
  bool leading = false;
  std::size_t batch_axis = 0;        // among attention's batch dims
  ir::DType dtype = ir::DType::F32;  // of scores
  double fill = 0;                   // what a hidden key's score gets added, at most
  double self = 0;                   // what a row's score with itself gets added, at least
  // What scores between rows that take part get added, or whether they are seen where the bias is
  // one of bools; indices as in passes/bias_program.h.
  ir::ScalarProgram between{};
  std::map<std::int32_t, ir::Tensor> constants{};  // which its Loads read, by buffer

  // Scores that are at most `bound` either way (infinity: any number) are outweighed: the weights
  // of hidden keys are exactly 0.
  bool hides(double bound) const;
};

// Assumptions that an entry of the finding's mask at `place` is one that takes part, or not.
Assumptions takes_part(const MaskFinding& finding, const ir::Function& function,
                       const std::vector<ir::Dim>& place, bool part);

struct MaskVerdict {
  std::optional<MaskFinding> finding{};
  std::string reason{};  // where there is none: why, naming what stands in the way
};

// The reason where no attention was recognised: of the function's first softmax, if it has one.
std::string without_attention(const ir::Function& function);

// What may be read as a mask.
enum class MaskReading : std::uint8_t {
  Any,  // the answer to a question of an entry rather than the entry, as it is 0 or 1 in every call
  Entries,  // entries alone, which say what any question of them is, also where a model asks
            // several
};
// `attention` is a binding of `block`, `block` the body of `function`.
MaskVerdict find_mask(const ir::Function& function, const ir::Block& block,
                      const ir::Binding& attention, MaskReading reading = MaskReading::Any);

}  // namespace anydim::passes
