// Builds scalar programs: the element of any value at any index, with everything between it and the
// buffers fused in.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/expand.h"
#include "ir/loops/loop_form.h"

namespace anydim::ir {

// Why a subgraph has no loop form; caught by derive_loop_form().
struct NoLoopForm {
  std::string reason;
};

// What the programs of one loop form share.
struct AccessContext {
  const Subgraph* subgraph = nullptr;
  std::unordered_map<ValueId, std::int32_t>
      buffers{};          // inputs: position among the region's parameters
  SymbolTable symbols{};  // the function's and the iterations'
  std::vector<KernelCheck> checks{};
  std::map<LoopRole, std::int64_t> iterations{};  // how many of each role
  // Values that ProgramBuilder::direct does not make become buffers when they are first read.
  bool others_are_buffers = false;

  // The position of a new buffer.
  std::int32_t add_buffer(ValueId value);

  // Position of an equal check, added where there is none.
  std::int32_t check_position(const KernelCheck& check);

  // A new loop variable below `extent`.
  Iteration iterate(LoopRole role, const Dim& extent);
  // `variable` as a loop variable below `extent`.
  Iteration declare(const DimLeaf& variable, const Dim& extent);
};

class ProgramBuilder {
 public:
  explicit ProgramBuilder(AccessContext& context) : context_(context) {}

  // Results of the kernel kind's own step: reading `value` gives this Accumulated or Scratch slot,
  // whatever the index.
  void provide(ValueId value, std::variant<step::Accumulated, step::Scratch> slot);
  // Reading element `index` of it does.
  void provide(ValueId value, const std::vector<Dim>& index, step::Accumulated slot);
  // Reading `value` gives this step, whatever the index.
  void provide(ValueId value, std::int32_t step) { provided_[value] = step; }

  // The step that holds element `index` of `value`. Throws NoLoopForm where an op between it and
  // the buffers has no scalar form.
  std::int32_t element(ValueId value, const std::vector<Dim>& index);
  std::int32_t push(ScalarStep step);
  std::int32_t number(DType dtype, double value);  // a constant
  std::int32_t apply(Op op, DType dtype, std::vector<std::int32_t> operands);
  std::int32_t extent(const Dim& dim);  // its value as i64
  // The index that a gather reads or a scatter writes, element `at` of `indices`: proven in range,
  // or checked.
  Dim checked_index(ValueId indices, const std::vector<Dim>& at, const Dim& extent,
                    const Binding& binding);
  ScalarProgram take() { return {std::move(steps_)}; }
  const std::vector<ScalarStep>& steps() const { return steps_; }

 private:
  using Index = std::vector<Dim>;
  std::int32_t compute(ValueId value, const Index& index);
  std::int32_t defined(const Binding& binding, std::size_t result, const Index& index);
  // The element, where dims alone tell which elements of the operands make it.
  std::optional<std::int32_t> direct(const Binding& binding, const Index& index);
  std::int32_t elementwise(const Binding& binding, const Index& index);
  std::int32_t literal_element(const std::vector<Dim>& dims, const Index& index);
  std::int32_t constant(const Tensor& tensor, const Index& index);
  std::int32_t arange(const Binding& binding, const Index& index);
  std::int32_t concatenated(const Binding& binding, const Index& index);
  std::int32_t overwritten(const Binding& binding, const Index& index);
  std::int32_t triangle(const Binding& binding, const Index& index);
  std::int32_t gathered(const Binding& binding, const Index& index);
  std::int32_t padded(const Binding& binding, const Index& index);
  std::int32_t hot(const Binding& binding, const Index& index);
  std::int32_t resized(const Binding& binding, const Index& index);
  std::int32_t guarded(std::int32_t inside, std::int32_t outside, DType dtype,
                       std::vector<ScalarStep::Condition> conditions);
  std::int32_t zero(DType dtype);
  Dim checked(std::int32_t step, const Dim& extent, const Binding& binding);

  AccessContext& context_;
  std::vector<ScalarStep> steps_;
  std::map<std::pair<ValueId, Index>, std::int32_t> memo_;
  std::map<ValueId, std::int32_t> provided_;
  int depth_ = 0;  // of element() in itself
};

// ---- Index arithmetic of views, shared by reading (result to operand) and writing (operand to
// result) ----

// Index in an operand that broadcasts to `dims`: 0 where its extent is 1, select(extent == 1, 0, i)
// where that is undecided.
std::vector<Dim> broadcast_index(const std::vector<Dim>& index, const std::vector<Dim>& dims,
                                 const std::vector<Dim>& operand_dims, const SymbolTable& symbols);
// Index of the same element after reinterpreting `from` dims as `to` dims, row-major. Equal groups
// of dims pass through untouched.
std::vector<Dim> reshape_index(const std::vector<Dim>& index, const std::vector<Dim>& from,
                               const std::vector<Dim>& to, const SymbolTable& symbols);
// Per dim of x: first element and step that a strided_slice reads.
struct SliceStart {
  Dim start = 0;
  Dim step = 1;
};
std::vector<SliceStart> slice_starts(const Subgraph& subgraph, const Binding& binding,
                                     const SymbolTable& symbols);
// Index in x of the element of a `windows` at `index`.
std::vector<Dim> windows_index(const Binding& binding, const std::vector<Dim>& index,
                               const SymbolTable& symbols);
// Elements of a small integer tensor that the subgraph defines by literals, as dims; nullopt where
// it does not.
std::optional<std::vector<Dim>> literal_elements(const Subgraph& subgraph, ValueId id);
// The elements that an attribute of a static op or operand `operand` of its dynamic twin gives;
// throws NoLoopForm where a run computes them.
std::vector<Dim> given_elements(const Subgraph& subgraph, const Binding& binding,
                                std::string_view attribute, std::size_t operand);
// The attribute `axis`, counted from the front.
std::size_t axis_from_front(const Binding& binding, std::size_t rank);
// Axes of an expand_dims or squeeze in the longer of the two shapes, and the permutation of a
// transpose.
std::vector<std::size_t> permutation(const Binding& binding, std::size_t rank);

}  // namespace anydim::ir
