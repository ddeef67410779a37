// Which rows of a padded call take part, read off its mask: what a program over packed rows is
// given beside the call's own inputs.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "ir/loops/loop_form.h"
#include "ir/tensor.h"

namespace anydim::runtime {

// One of the i64 tensors that say where packed rows are.
enum class RowVector : std::uint8_t {
  Rows,       // (tokens): position of each packed row among batch * sequence
  Offsets,    // (batch + 1): first packed row of each sequence, then tokens
  Positions,  // (tokens): position within its sequence
  Sequences,  // (tokens): its sequence
  Places,     // (batch * sequence): packed row of each padded one, -1 for hidden ones
  Steps,      // (longest sequence): 0, 1, ..
  Work,       // (batch, 2): attention's list of work (work_list)
};

struct Packing {
  std::size_t mask = 0;          // input of dims (batch, sequence), of any dtype
  ir::ScalarProgram question{};  // what is asked of its entries (ir/reference/evaluate.h's
                                 // apply_program, a bool); no steps: entries are 0 or 1
  std::int64_t kept = 1;  // the answer, or the entry, at rows that take part, 1 - kept elsewhere
  std::int64_t kept_entry = 1, hidden_entry = 0;  // entries that say so, for examples
  bool first_rows = false;                        // the first row of every sequence must take part
  bool leading_rows = false;  // rows that take part must come before hidden ones
  // The packed program's last result is a count of hidden rows that the model picks: where it is
  // not 0, the call must take the padded way after all.
  bool counts_hidden_picks = false;
  // activations are quantised by ranges of rows that take part, not of all
  bool ranges_of_kept_rows = false;
  // floats, which must be at most `input_limit` either way
  std::vector<std::size_t> limited_inputs{};
  double input_limit = std::numeric_limits<double>::infinity();
  std::vector<RowVector> vectors{};  // after the call's own inputs, in this order
};

// Whether a call of the packed program stands. Takes the count of hidden picks from the results.
bool settles(const Packing& packing, std::vector<ir::Tensor>& results);

struct PackedInputs {
  std::vector<ir::Tensor> tensors;
  std::int64_t tokens = 0;
};

// The mask's entries, or the answers to the question of them: `kept` at rows that take part.
ir::Tensor row_truths(const Packing& packing, const ir::Tensor& mask);

// Nothing where the call must take the padded way: a mask with other entries than 0 and 1 or of
// another rank, no row that takes part, a first row that is hidden where it counts, a hidden row
// before one that takes part where rows are counted, or an input beyond its limit.
std::optional<PackedInputs> pack_inputs(const Packing& packing,
                                        const std::vector<ir::Tensor>& inputs);

// The same for sequences that come end to end, of lengths offsets[s + 1] - offsets[s]; `steps` is
// the extent of Steps. `offsets` start with 0 and never fall. Rows and Places speak of padded rows:
// there are none.
std::vector<ir::Tensor> ragged_vectors(std::span<const RowVector> vectors,
                                       std::span<const std::int64_t> offsets, std::int64_t steps);

// Attention's list of work (ir/ops.def) for sequences of lengths offsets[s + 1] - offsets[s]: pairs
// of a sequence and the rows of those before it in the list.
std::vector<std::int64_t> work_list(std::span<const std::int64_t> offsets);

}  // namespace anydim::runtime
