// Loop form: what a kernel computes, as iteration spaces and scalar programs over index
// expressions.
//
// derive_loop_form() reads any list of bindings (a region's body, or a subgraph of the graph before
// fusion) and gives its kernel kind, the scalar programs fused into it (loads, inner step,
// epilogue) and the index expressions of every access. Fusion asks it what can be one kernel, both
// code generators emit from it, and the padding proof reads its indices. Buffers are contiguous
// row-major; a view (reshape, transpose, slice, broadcast) never exists in memory, it is an index
// expression.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "ir/dims/dim.h"
#include "ir/dims/symbols.h"
#include "ir/module.h"
#include "ir/ops.h"
#include "ir/type.h"

namespace anydim::ir {

// A loop variable running over [0, extent). Index expressions may mention it; LoopForm::symbols
// knows it as below = extent.
struct Iteration {
  DimLeaf variable;
  Dim extent;
  Dim index() const { return Dim::of(variable); }
  bool operator==(const Iteration&) const = default;
};

// `variable` as a loop variable over [0, extent), declared in `symbols`.
Iteration declare_iteration(const DimLeaf& variable, const Dim& extent, SymbolTable& symbols);

// The kinds of steps of a scalar program.
namespace step {

struct Condition {
  Comparison comparison;
  Dim left, right;
  bool operator==(const Condition&) const = default;
};

struct Constant {
  double real = 0;           // of float dtypes
  std::int64_t integer = 0;  // of others
  bool operator==(const Constant&) const = default;
};
// The i64 value of an index expression.
struct Extent {
  Dim value;
  bool operator==(const Extent&) const = default;
};
struct Load {
  std::int32_t buffer = -1;  // position among the region's parameters
  std::vector<Dim> index;    // one expression a dim of the buffer
  bool operator==(const Load&) const = default;
};
// An elementwise op on the operands (cast: dtype is the target).
struct Apply {
  Op op{};
  std::int32_t check = -1;  // into LoopForm::checks: of div or mod on integers (divisor 0)
  // is_inf's and mod's attributes, where they differ from the default: bit 0 negative / truncate,
  // bit 1 positive
  std::uint8_t flags = 0;
  bool operator==(const Apply&) const = default;
};
// Operand 0 (any integer), negative values counted from the end of the extent; outside
// [0, extent) the error slot is set with `check` and the value, and 0 is used. Steps may use the
// result in index expressions as the leaf step_leaf(position).
struct CheckedIndex {
  Dim extent;
  std::int32_t check = -1;  // into LoopForm::checks
  bool operator==(const CheckedIndex&) const = default;
};
// Operand 0 where all of the conditions hold, else operand 1; operand 0's loads must not happen
// elsewhere.
struct Guarded {
  std::vector<Condition> conditions;
  bool operator==(const Guarded&) const = default;
};
// Result of an earlier stage's reduction, the product of a matmul, attention's score or output,
// or a carry.
struct Accumulated {
  std::int32_t slot = -1;
  bool operator==(const Accumulated&) const = default;
};
// Element of the row's scratch vectors at the inner index (row form, and matmul's row stages).
struct Scratch {
  std::int32_t slot = -1;
  bool operator==(const Scratch&) const = default;
};

}  // namespace step

// One step of a scalar program. Steps are in topological order; operands are positions of earlier
// steps.
struct ScalarStep {
  using Condition = step::Condition;

  DType dtype = DType::F32;
  std::variant<step::Constant, step::Extent, step::Load, step::Apply, step::CheckedIndex,
               step::Guarded, step::Accumulated, step::Scratch>
      kind;
  std::vector<std::int32_t> operands{};

  template <typename Kind>
  bool is() const {
    return std::holds_alternative<Kind>(kind);
  }
  template <typename Kind>
  const Kind& as() const {
    return std::get<Kind>(kind);
  }
  template <typename Kind>
  Kind& as() {
    return std::get<Kind>(kind);
  }
  Op op() const { return as<step::Apply>().op; }
  bool applies(Op op) const { return is<step::Apply>() && this->op() == op; }

  bool operator==(const ScalarStep&) const = default;
};

// The dims that a step mentions: its index or extent, or both sides of its conditions.
void for_each_dim(auto& step, const auto& use) {
  const auto each = [&](auto& kind) {
    if constexpr (requires { kind.value; }) use(kind.value);
    if constexpr (requires { kind.extent; }) use(kind.extent);
    if constexpr (requires { kind.index; }) {
      for (auto& dim : kind.index) use(dim);
    }
    if constexpr (requires { kind.conditions; }) {
      for (auto& condition : kind.conditions) {
        use(condition.left);
        use(condition.right);
      }
    }
  };
  std::visit(each, step.kind);
}

bool any_dim(const ScalarStep& step, const auto& holds) {
  bool any = false;
  for_each_dim(step, [&](const Dim& dim) { any = any || holds(dim); });
  return any;
}

struct ScalarProgram {
  std::vector<ScalarStep> steps;
  bool operator==(const ScalarProgram&) const = default;
};

// Writes the value of `step` to element `index` of output `output` (position among the region's
// results).
struct Store {
  std::int32_t output = 0;
  std::vector<Dim> index;
  std::int32_t step = 0;
  bool operator==(const Store&) const = default;
};

// Independent points; parts write disjoint elements and may run in any order, also at once (concat
// has a part for each operand).
struct MapPart {
  // outermost first; the last is contiguous in the stores where possible
  std::vector<Iteration> space;
  ScalarProgram program;
  std::vector<Store> stores;
  bool operator==(const MapPart&) const = default;
};
struct MapForm {
  std::vector<MapPart> parts;
  bool operator==(const MapForm&) const = default;
};

enum class Reduce : std::uint8_t { Sum, Product, Max, Min };

// One pass over the inner space of a row.
struct RowStage {
  ScalarProgram program;
  struct Reduction {
    Reduce kind = Reduce::Sum;
    std::int32_t step = 0;     // reduced value
    DType dtype = DType::F32;  // accumulator and result dtype
    std::int32_t slot = 0;     // Accumulated slot that later stages read
    bool operator==(const Reduction&) const = default;
  };
  struct Keep {
    std::int32_t slot = 0;  // Scratch slot that later stages read at the same inner index
    std::int32_t step = 0;
    bool operator==(const Keep&) const = default;
  };
  std::vector<Reduction> reductions;
  std::vector<Keep> keeps;
  std::vector<Store> stores;
  bool per_row = false;  // runs once a row, after the earlier stages, with no inner index (results
                         // of whole-row reductions)
  bool operator==(const RowStage&) const = default;
};

// Rows of several sequences laid end to end: sequence s has rows offsets[s] to offsets[s + 1] - 1,
// where `offsets` is an i64 buffer of count + 1 elements that start with 0, never fall, and end
// with the number of rows.
struct Segments {
  std::int32_t offsets = 0;  // position among the region's parameters
  Dim count;
  std::int32_t check = -1;  // index into LoopForm::checks: a kernel reports the first offset that
                            // breaks the rule, and reads no row beyond its buffers
  // Attention's list of work (ir/ops.def), an i64 buffer of 2 count elements: its position among
  // the region's parameters, or -1, and its check, where a kernel reports the first place of the
  // list that breaks the rule.
  std::int32_t work = -1, work_check = -1;
  bool operator==(const Segments&) const = default;
};

// Rows: for each point of `outer`, the stages in order over `inner`. Softmax, layer norm, any
// reduction with what is fused around it. With segments, the first outer iteration counts them and
// the one inner iteration runs over the rows of that segment alone.
struct RowForm {
  std::vector<Iteration> outer;
  std::vector<Iteration> inner;  // one or more reduced iterations, outermost first
  std::vector<RowStage> stages;
  std::vector<DType> scratch;  // dtype of each Scratch slot; a slot has one element an inner point
  std::int32_t accumulators = 0;
  std::optional<Segments> segments{};
  bool operator==(const RowForm&) const = default;
};

// product[batch, m, n] = sum over k of left[batch, m, k] * right[batch, k, n], then the epilogue at
// (batch, m, n) with the product as Accumulated slot 0, then, where whole rows are needed (layer
// norm), row stages over n with the epilogue's value as Scratch slot 0.
//
// With gates (SwiGLU, a recurrent cell) the right operand has a matrix a gate, product[gate, batch,
// m, n], and the epilogue at (batch, m, n) has gate g's as Accumulated slot g; no row stages
// follow.
struct MatmulForm {
  std::vector<Iteration> batch;
  Iteration m, n, k;
  std::optional<Iteration> gate{};  // of a constant extent, 2 to most_gates
  ScalarProgram left, right;        // last step is the element; most often one Load
  DType accumulate = DType::F32;
  // Other than 0: the left operand may be rounded to bytes, of which so many along k have one
  // scale.
  std::int64_t left_block = 0;
  ScalarProgram epilogue;
  std::int32_t epilogue_step = 0;  // the epilogue's value
  std::vector<Store> stores;       // of the epilogue; may be empty where row stages follow
  std::vector<RowStage> rows;      // outer = batch and m, inner = n
  std::vector<DType> scratch;
  std::int32_t accumulators = 0;
  std::int64_t gates() const { return gate ? gate->extent.constant().value() : 1; }
  bool operator==(const MatmulForm&) const = default;
};
inline constexpr std::int64_t most_gates = 8;

// output[batch, i, e] = sum over j of weight[batch, i, j] * v[batch, j, e], weight = softmax over j
// of score[batch, i, j], and the score is the scalar program over (batch, i, j) with the dot
// product of q[batch, i, :] and k[batch, j, :] as Accumulated slot 0 (scale and mask fused). With
// segments, rows and keys are both rows laid end to end, and j runs over the segment of row i
// alone. With zero_nan, weights that are NaN, as those of a row are whose scores are all -infinity
// or one of them NaN, count as 0.
struct AttentionForm {
  std::vector<Iteration> batch;
  Iteration row, key, depth, width;  // i, j, d, e
  ScalarProgram q, k, v;             // last step is the element
  ScalarProgram score;               // last step is the score
  ScalarProgram epilogue;            // Accumulated slot 0 is the output element
  std::vector<Store> stores;
  std::optional<Segments> segments{};
  bool zero_nan = false;
  bool operator==(const AttentionForm&) const = default;
};

// One pass over the inner space of an ordered form, point after point.
struct OrderedStage {
  std::vector<Iteration> inner;  // outermost first; may be empty: one point
  // over the outer variables: elsewhere the stage does nothing
  std::vector<ScalarStep::Condition> conditions;
  ScalarProgram program;
  // Accumulated slot `slot` is 0 at the first point and what step `next` was at the point before at
  // every other.
  struct Carry {
    std::int32_t slot = 0;
    std::int32_t next = 0;
    DType dtype = DType::F32;
    bool operator==(const Carry&) const = default;
  };
  std::vector<Carry> carries;
  // element = value, or element = combine(element, value), where an earlier stage or point wrote
  // the element; combine is add, mul, min or max.
  struct Update {
    Store store;
    std::optional<Op> combine;
    bool operator==(const Update&) const = default;
  };
  std::vector<Update> updates;
  bool operator==(const OrderedStage&) const = default;
};

// The steps that a part of a form (a MapPart, a stage; of a MatmulForm and an AttentionForm what
// follows the product) asks its program for.
void for_each_root(auto& part, const auto& use) {
  if constexpr (requires { part.reductions; })
    for (auto& reduction : part.reductions) use(reduction.step);
  if constexpr (requires { part.keeps; })
    for (auto& keep : part.keeps) use(keep.step);
  if constexpr (requires { part.carries; })
    for (auto& carry : part.carries) use(carry.next);
  if constexpr (requires { part.updates; })
    for (auto& update : part.updates) use(update.store.step);
  if constexpr (requires { part.stores; })
    for (auto& store : part.stores) use(store.step);
  if constexpr (requires { part.epilogue_step; }) use(part.epilogue_step);
}
std::vector<std::int32_t> roots_of(const auto& part) {
  std::vector<std::int32_t> roots;
  for_each_root(part, [&](std::int32_t step) { roots.push_back(step); });
  return roots;
}

// Ordered: for each point of `outer` (in any order, also at once) the stages in order, each over
// its own inner space in order. Points of `outer` write disjoint elements. Running sums (a carry),
// scatters (a copy, then updates).
struct OrderedForm {
  std::vector<Iteration> outer;
  std::vector<OrderedStage> stages;
  bool operator==(const OrderedForm&) const = default;
};

// Compaction: the row-major numbers of the points of `space` where `selected` holds, in order, to
// elements 0, 1, ... of output `positions`, whose other elements (it has as many as there are
// points) are 0; and how many such points there are, to the one element of output `count`. -1: not
// wanted.
struct CompactForm {
  std::vector<Iteration> space;  // outermost first
  ScalarProgram program;
  std::int32_t selected = 0;  // step, bool
  std::int32_t positions = -1, count = -1;
  bool operator==(const CompactForm&) const = default;
};

// Sort: for each point of `outer` (in any order, also at once), the numbers 0 to item.extent - 1 in
// the order of their keys, equal ones in order of number: that of rank `rank` is stored at `index`.
// Nothing is known, or stored, of ranks beyond those of `rank`, which has no more than there are
// items. Keys are compared at the first point of `depth`, in order, where they differ; NaN is the
// largest number.
struct SortForm {
  std::vector<Iteration> outer;
  Iteration item;
  std::vector<Iteration> depth;  // may be empty: one key
  ScalarProgram program;
  std::int32_t key = 0;  // step
  bool descending = false;
  Iteration rank;
  std::int32_t output = 0;
  std::vector<Dim> index;  // over the variables of `outer` and `rank`
  bool operator==(const SortForm&) const = default;
};

// What a kernel finds out only as it runs, and reports in its error slot.
struct KernelCheck {
  enum class Kind : std::uint8_t {
    Index,    // of a CheckedIndex: within [-extent, extent)
    Divisor,  // of an Apply of div or mod on integers: not 0
    Offsets,  // of Segments: start with 0, never fall, and end with extent
    Work,     // of Segments: extent sequences, longest first, equal ones in their order, each after
              // the rows of those before it; what is reported is a place
  };
  Kind kind = Kind::Index;
  std::string what;    // e.g. "gather index"
  std::string source;  // node in the model
  Dim extent;
  bool operator==(const KernelCheck&) const = default;
};

struct LoopForm {
  std::variant<MapForm, RowForm, MatmulForm, AttentionForm, OrderedForm, CompactForm, SortForm>
      kind;
  std::vector<TensorType> parameters, results;  // of the buffers that it reads and writes
  SymbolTable symbols;                          // the function's symbols and every iteration's
  std::vector<KernelCheck> checks;
};

// The product of a space's extents; 1 for none.
Dim points_of(std::span<const Iteration> space);

// One expression for an access: row-major offset in elements of `index` in a buffer of `dims`,
// simplified.
Dim linear_offset(const std::vector<Dim>& index, const std::vector<Dim>& dims,
                  const SymbolTable& symbols);

struct LoopFormResult {
  std::optional<LoopForm> form;
  std::string reason;  // where there is no form: why, naming the binding
};
// `function` gives values and symbols; `bindings` is a topologically ordered subgraph of it;
// `inputs` (buffer positions) and `outputs` are value ids.
LoopFormResult derive_loop_form(const Function& function, std::span<const Binding> bindings,
                                std::span<const ValueId> inputs, std::span<const ValueId> outputs);
// The form of a whole region. Fusion makes only regions that have one; for one written by hand that
// has none, Error{Unsupported} says why.
LoopForm derive_loop_form(const Region& region);
// The same, or the form that the region carries.
std::shared_ptr<const LoopForm> loop_form_of(const Region& region);

// What decides which schedule is best, over the form's symbols: every varying extent of the
// iteration space, neighbouring loops multiplied together, without constants and repetitions. Map:
// points of each part. Rows: rows, inner points. Matmul: product of batch, m, n, k. Attention:
// product of batch, queries, keys, mean rows of segments, depth, width. Ordered: outer points,
// inner points of each stage. Compact: points. Sort: outer points, items, ranks, points of the
// depth. Buckets are intervals over these, and so are a backend's edges and estimates.
std::vector<Dim> bucket_keys(const LoopForm& form);

// The sealed region carries this form of its body from here on, so that it is derived once; and has
// its keys.
void set_form(Region& region, LoopForm form);

// The kernel kind's name: "map", "rows", "matmul", "attention", "ordered", "compact", "sort".
std::string kind_name(const LoopForm& form);
// Whether it works on rows laid end to end.
bool has_segments(const LoopForm& form);
// All of it as text, an indented listing; ir/loops/loop_form_parse.h reads it back.
std::string to_string(const LoopForm& form);

}  // namespace anydim::ir
