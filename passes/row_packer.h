// A function over padded [batch, sequence] rows rewritten over the rows that take part, laid end to
// end.
//
// Rows are asked for from the results backwards. A value whose dims hold batch and sequence (side
// by side or apart, or as one product) has one row for each of them; its packed form has one dim
// `tokens` in their place, at the sequence's position. Every op on the way must keep rows to
// themselves (elementwise ops, products with weights, norms and reductions along other dims, views
// that leave rows whole), be attention under a mask that is proven to hide the other rows
// (passes/mask_proof.h), or reduce rows in a way that provably ignores hidden ones (sums of what is
// 0 there, the largest of what is low there, the first row, counts of rows before), or pick rows by
// numbers that are made of inputs alone.
// Ranges by which activations are quantised (passes/quantised_range.h) are those of the rows that
// take part. Values of one axis alone are gathered at each row's position or sequence. Anything
// else refuses the rewrite, naming the op.
#pragma once

#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/module.h"
#include "passes/element_range.h"
#include "passes/mask_proof.h"
#include "passes/row_axes.h"

namespace anydim::passes {

// What inputs and results with rows are in the packed function.
enum class PackedForm : std::uint8_t {
  Exact,   // inputs are padded; results that keep hidden rows are refused
  Zeroed,  // inputs are padded; zeros stand at hidden rows of results
  Ragged,  // inputs and results hold the rows that take part alone, end to end, and there is no
           // mask
};

// Thrown where an op stands in the way; caught by remove_padding().
struct CannotPack {
  std::string reason;
};

// What a call must supply beside the model's inputs, and when it may take this way at all.
struct PackingPlan {
  ir::ValueId mask = ir::no_value;  // parameter; none where ragged
  ir::ScalarProgram question{};     // what the model asks of its entries (passes/mask_proof.h); no
                                    // steps: entries are 0 or 1
  std::int64_t kept = 1;  // the answer, or the entry, at rows that take part, 1 - kept elsewhere
  std::int64_t kept_entry = 1, hidden_entry = 0;  // entries that say so, for examples
  ir::Dim batch, sequence;                        // as the padded function has them
  bool first_rows = false;                        // the first row of every sequence must take part
  bool leading_rows = false;  // rows that take part must come before hidden ones
  // The last result of the packed function, a count: how many of the rows that the model picks by
  // numbers of its own are hidden. Where it is not 0 the results are not the model's.
  bool counts_hidden_picks = false;
  // activations are quantised by ranges of rows that take part, not of all
  bool ranges_of_kept_rows = false;
  // Values of the padded function that sums, means and such ranges make of rows, and the packed one
  // of packed rows. What reads inputs alone is the model's own, of all rows, and is not here.
  std::set<ir::ValueId> reductions{};
  // Parameters whose elements, those of hidden rows too, must be at most `input_limit` either way:
  // the proof that fills hide rests on it.
  std::set<ir::ValueId> limited_inputs{};
  double input_limit = std::numeric_limits<double>::infinity();
  std::vector<bool> ragged_inputs{},
      ragged_results{};  // where ragged: which parameters (without those below) and results have
                         // tokens first
  // Parameters of the packed function after those of the padded one, i64:
  ir::ValueId rows = ir::no_value;  // (tokens): position of each packed row among batch * sequence
  // (batch + 1): first packed row of each sequence, then tokens
  ir::ValueId offsets = ir::no_value;
  ir::ValueId positions = ir::no_value;  // (tokens): position within its sequence
  ir::ValueId sequences = ir::no_value;  // (tokens): its sequence
  // (batch * sequence): packed row of each padded one, -1 for hidden ones
  ir::ValueId places = ir::no_value;
  // (sequence): 0, 1, ..: how long the longest sequence is, where ragged
  ir::ValueId steps = ir::no_value;
  ir::ValueId work = ir::no_value;  // (batch, 2): the order in which attention begins (ir/ops.def)
};

class RowPacker {
 public:
  // `padded` has the types of inference.
  RowPacker(const ir::Function& padded, PackedForm form, MaskReading reading);

  // The packed function, without types; `plan` speaks of its parameters. Throws CannotPack.
  ir::Function run(PackingPlan& plan);
  // Whether run() read some mask as the answer to a question of its entries, so that
  // MaskReading::Entries may say more.
  bool asks_question() const;

 private:
  using Dims = std::vector<ir::Dim>;

  const ir::Binding* definition(ir::ValueId value) const { return definitions_[value]; }
  const ir::TensorType& type(ir::ValueId value) const { return padded_.tensor_type(value); }
  void copy_parameters();
  ir::ValueId packed_result(ir::ValueId result);
  [[noreturn]] void refuse(const ir::Binding& binding, const std::string& why) const;
  void find_rows();  // mask, batch and sequence dims, from the first attention

  // Row axes of dims; nullopt where they hold no rows. Refused (naming `value`) where rows stand
  // along two axes.
  std::optional<RowAxes> row_axes(ir::ValueId value) const;
  bool holds_rows(ir::ValueId value) const { return row_axes(value).has_value(); }
  Dims packed_dims(const Dims& dims, const RowAxes& axes) const;

  // Packed form of a value with rows; the same value for values without (copied with all that it
  // needs).
  ir::ValueId packed(ir::ValueId value);
  ir::ValueId plain(ir::ValueId value);
  RowAxes require_leading(ir::ValueId result) const;
  ir::ValueId unpacked(ir::ValueId value);  // back to padded, zeros at hidden rows
  // An operand of an elementwise op or broadcast whose result has `rank` dims and `axes`.
  ir::ValueId aligned(const ir::Binding& binding, ir::ValueId operand, std::size_t rank,
                      const RowAxes& axes);

  ir::ValueId pack_parameter(ir::ValueId value, const RowAxes& axes);
  ir::ValueId pack_binding(const ir::Binding& binding, ir::ValueId value, const RowAxes& axes);
  ir::ValueId packed_fill(const ir::Binding& binding, const RowAxes& axes);
  bool rows_first(ir::ValueId value, const RowAxes& axes) const;
  ir::ValueId pack_reshape(const ir::Binding& binding, const RowAxes& axes);
  ir::ValueId pack_transpose(const ir::Binding& binding, const RowAxes& axes);
  ir::ValueId pack_along(const ir::Binding& binding, ir::ValueId value,
                         const RowAxes& axes);  // norms, softmax, split, concat
  ir::ValueId pack_slice(const ir::Binding& binding, const RowAxes& axes);
  ir::ValueId pack_reduction(const ir::Binding& binding, const RowAxes& axes);
  ir::ValueId pack_matmul(const ir::Binding& binding, const RowAxes& axes);
  ir::ValueId pack_attention(const ir::Binding& binding, const RowAxes& axes);
  ir::ValueId without_nan_weights(const ir::Binding& binding, ir::ValueId weighted,
                                  ir::ValueId values, const RowAxes& axes);
  ir::ValueId plain_binding(const ir::Binding& binding, ir::ValueId value);
  ir::ValueId reduce_rows(const ir::Binding& binding);
  ir::ValueId count_rows(const ir::Binding& binding, const RowAxes& axes);
  ir::ValueId first_rows(const ir::Binding& binding);
  ir::ValueId picked_rows(const ir::Binding& binding);
  bool picks_first_rows(const ir::Binding& binding) const;
  bool is_made_of_inputs(ir::ValueId value) const;
  // Throws where keys that the mask hides may still weigh something, whatever limit inputs keep.
  void require_hidden(const MaskFinding& finding, const ir::Binding& attention);
  void limit_inputs(std::size_t limit);  // that a bound rests on, by ranges(limit)
  class BetweenRows;
  ir::ValueId bias_between(const MaskFinding& finding,
                           const ir::Binding& attention);  // no_value: nothing is added
  // The number that the mask makes of every element of the value's hidden rows, whatever else they
  // are made of, infinities aside.
  std::optional<double> number_where_hidden(ir::ValueId value) const;
  ElementRanges& ranges(
      std::size_t limit);      // with inputs within the limit of this position, 0: any number
  bool is_mask_alone() const;  // the model makes nothing of the mask's entries but weights

  // New bindings in the packed function.
  ir::ValueId add(ir::Op op, std::vector<ir::ValueId> operands, ir::Attributes attributes,
                  const ir::Binding& like, const Dims& dims = {});
  ir::ValueId number(ir::DType dtype, double value, const ir::Binding& like);  // rank 0
  ir::ValueId reshaped(ir::ValueId value, const Dims& dims, const ir::Binding& like);
  ir::ValueId squeezed(ir::ValueId value, std::vector<std::int64_t> axes, const ir::Binding& like);
  ir::ValueId parameter(ir::ValueId PackingPlan::* which, const char* name, Dims dims);

  const ir::Function& padded_;
  PackedForm form_;
  MaskReading reading_;
  std::vector<const ir::Binding*> definitions_;
  MaskFinding mask_;                          // of the first attention
  std::map<ir::ValueId, MaskVerdict> masks_;  // by bias
  std::vector<ElementRanges> ranges_;         // by limit of inputs
  ir::Dim batch_, sequence_, tokens_;
  PackingPlan plan_;
  ir::Function made_;
  std::map<ir::ValueId, ir::ValueId> packed_, plain_;
  ir::ValueId hidden_picks_ = ir::no_value;  // of the packed function: PackingPlan
};

}  // namespace anydim::passes
