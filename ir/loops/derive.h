// Inside derive_loop_form(): what all kernel kinds share.
#pragma once

#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "ir/loops/scalar_access.h"

namespace anydim::ir::derive {

// Where each value that depends on the kernel kind's own step stands: its index at the current
// point of the iteration, and its level (how many reductions lie between it and the step).
struct Placement {
  std::vector<Dim> index;
  int level = 0;
};

class Placements {
 public:
  Placements(const Subgraph& subgraph, const SymbolTable& symbols)
      : subgraph_(subgraph), symbols_(symbols) {}

  // The dims and index of a whole point; dims of extent 1 in an operand take their index from here
  // when they broadcast.
  void frame(std::vector<Dim> dims, std::vector<Dim> index) {
    frame_dims_ = std::move(dims);
    frame_index_ = std::move(index);
  }
  const std::vector<Dim>& frame_index() const { return frame_index_; }
  const std::vector<Dim>& frame_dims() const { return frame_dims_; }

  void place(ValueId value, Placement placement) { placed_[value] = std::move(placement); }
  const Placement* find(ValueId value) const;
  bool depends(const Binding& binding) const;  // on a placed value, all of which a kernel gives
  // Places the results of an elementwise op or a view that keeps every element, or of an overwrite
  // in place, of which only what it writes has a place; throws NoLoopForm for anything else.
  void follow(const Binding& binding);
  // The store of output number `output`, a placed value, whose element `builder` computes.
  Store store_of(ProgramBuilder& builder, std::size_t output, ValueId value) const;
  // True where the value's dims are the frame's, so that it may be read at the frame's index.
  bool in_frame(ValueId value) const;

 private:
  void follow_elementwise(const Binding& binding);
  void follow_overwrite(const Binding& binding);
  std::vector<Dim> moved(const Binding& binding) const;

  const Subgraph& subgraph_;
  const SymbolTable& symbols_;
  std::vector<Dim> frame_dims_, frame_index_;
  std::unordered_map<ValueId, Placement> placed_;
  std::unordered_map<ValueId, Placement> written_;  // results of overwrites in place
};

bool is_reduction(Op op);  // after expansion, which leaves no mean: over axes or segments
bool is_segment_reduction(Op op);
// Segments of `rows` rows whose offsets are `offsets`; throws NoLoopForm, naming the binding, where
// they are computed in the kernel itself.
Segments segments_of(AccessContext& context, const Binding& binding, ValueId offsets,
                     const Dim& rows);
// Adds the list of work that `work` is; throws as segments_of does.
void add_work(Segments& segments, AccessContext& context, const Binding& binding, ValueId work);
Reduce reduce_kind(Op op);

// Row stages after a level-0 point program: shared by the row form and by matmul's whole-row
// epilogues.
struct RowPlan {
  std::vector<RowStage> stages;
  std::vector<DType> scratch;
  std::int32_t accumulators = 0;
};
// `bindings` in order: reductions over exactly the `inner` variables and what follows them.
// `first_scratch`, where not no_value, is a placed level-0 value that every stage reads as Scratch
// slot 0. Outputs of level 0 that depend on `first_scratch`'s step are left to the caller. With
// `segment`, the rows are the segments that the value `offsets` cuts, counted by `variable`, and
// every reduction runs over one of them.
struct SegmentRows {
  ValueId offsets = no_value;
  DimLeaf variable;  // counts them
};
RowPlan plan_rows(AccessContext& context, Placements& placements, const std::set<DimLeaf>& inner,
                  ValueId first_scratch, std::span<const ValueId> outputs,
                  const SegmentRows* segment = nullptr);

MapForm derive_map(AccessContext& context, std::span<const ValueId> outputs);
RowForm derive_rows(AccessContext& context, std::span<const ValueId> outputs);
MatmulForm derive_matmul(AccessContext& context, const Binding& matmul,
                         std::span<const ValueId> outputs);
bool is_ordered(Op op);  // has an ordered form, after expansion
OrderedForm derive_ordered(AccessContext& context, const Binding& binding,
                           std::span<const ValueId> outputs);
CompactForm derive_compact(AccessContext& context, const Binding& binding,
                           std::span<const ValueId> outputs);
SortForm derive_sort(AccessContext& context, const Binding& binding,
                     std::span<const ValueId> outputs);
AttentionForm derive_attention(AccessContext& context, const Binding& attention,
                               std::span<const ValueId> outputs);

// Iterations that accesses divide, without a rest, by extents that only a call knows or by long
// constant ones become loops over their digits: no element is divided for then.
void take_apart(std::vector<Iteration>& space, AccessContext& context,
                std::span<ScalarProgram*> programs, std::span<std::vector<Store>*> stores);
// Joins neighbouring iterations into one where every access sees them as one contiguous run. Loop
// order stays.
void collapse(std::vector<Iteration>& space, AccessContext& context,
              std::span<ScalarProgram*> programs, std::span<std::vector<Store>*> stores,
              std::span<const std::vector<Dim>> buffer_dims,
              std::span<const std::vector<Dim>> output_dims);
// Dims of every buffer, by position, and of every output.
std::vector<std::vector<Dim>> buffer_dims(const AccessContext& context);
std::vector<std::vector<Dim>> output_dims(const AccessContext& context,
                                          std::span<const ValueId> outputs);

}  // namespace anydim::ir::derive
