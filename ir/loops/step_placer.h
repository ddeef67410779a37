// Placing the steps of a scalar program in the scopes of a kernel: the one algorithm of both code
// generators and of the text of kernels.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "ir/dims/symbols.h"
#include "ir/error.h"
#include "ir/loops/kernel_program.h"

namespace anydim::ir {

// Values of steps already computed in one scope: by the program's number and the step.
template <typename Value>
using PlacedSteps = std::map<std::pair<std::uint32_t, std::int32_t>, Value>;

// The deepest scope that defines one of the leaves, `outermost` where none is deeper. A Scope has
// `depth()`, `parent()` and `find(leaf, &home)`, which looks outwards. Internal error where a leaf
// is not defined.
template <typename Scope>
Scope& home_of_leaves(Scope& scope, Scope& outermost, const auto& leaves) {
  Scope* deepest = &outermost;
  for (const DimLeaf& leaf : leaves) {
    Scope* home = nullptr;
    if (!scope.find(leaf, &home))
      internal_error("the leaf " + to_string(leaf) + " of an index expression is defined");
    if (home->depth() > deepest->depth()) deepest = home;
  }
  return *deepest;
}

// Steps are emitted on demand, once a scope, in the outermost scope that has all they need: the
// homes of their operands and of the leaves that KernelProgram::leaves names, but not outside of
// `floor`, up to which the program is known to run at least once (loads must not be hoisted past
// it). A code generator says how a step is emitted where it has been placed. A Scope also has
// `steps`, PlacedSteps<Value>; a Value that equals Value{} is none.
template <typename Scope, typename Value>
class StepPlacer {
 public:
  StepPlacer(KernelProgram program, Scope& floor) : program_(std::move(program)), floor_(floor) {}
  StepPlacer(const StepPlacer&) = delete;
  StepPlacer& operator=(const StepPlacer&) = delete;
  virtual ~StepPlacer() = default;

  const KernelProgram& program() const { return program_; }
  DType dtype(std::int32_t step) const { return program_.dtype(step); }
  // The value of a step in `scope`.
  Value value(Scope& scope, std::int32_t step) { return place(scope, step).value; }

 protected:
  struct Placed {
    Value value{};
    Scope* home = nullptr;
  };

  // What stands for a step from outside the program: an Accumulated or Scratch slot, whatever else
  // the caller provides.
  virtual std::optional<Placed> given(std::int32_t step) = 0;
  // What is known of a dim in this kernel.
  virtual Interval interval_of(const Dim& dim) = 0;
  // The outermost scope that a step may stand in, as far as its program does not tell: never
  // outside of `floor`.
  virtual Scope& outermost_of(Scope& scope, std::int32_t step, Scope& floor) {
    (void)scope, (void)step;
    return floor;
  }
  virtual Value emit(Scope& home, std::int32_t step, const std::vector<Value>& operands) = 0;
  virtual Value holds(Scope& scope, const ScalarStep::Condition& condition) = 0;
  virtual Value always(Scope& scope) = 0;
  virtual Value both(Scope& scope, const Value& a, const Value& b) = 0;
  virtual Value either(Scope& scope, const Value& a, const Value& b) = 0;
  // Of f32 numbers: 1 over the value of step `divisor`, and `step` as the product of two.
  virtual Value reciprocal(Scope& scope, std::int32_t divisor, const Value& value) = 0;
  virtual Value product(Scope& scope, std::int32_t step, const Value& a, const Value& b) = 0;

  Placed place(Scope& scope, std::int32_t position) {
    if (auto placed = given(position)) return *placed;
    const auto key = std::pair(program_.number(), position);
    for (Scope* at = &scope; at != nullptr; at = at->parent())
      if (const auto found = at->steps.find(key); found != at->steps.end())
        return {found->second, at};
    const ScalarStep& step = program_.step(position);
    place_indices(scope, step);
    std::vector<Value> operands;
    std::vector<Scope*> homes;
    Scope* home = &outermost_of(scope, position, floor_);
    for (const std::int32_t operand : step.operands) {
      const Placed placed = place(scope, operand);
      operands.push_back(placed.value);
      homes.push_back(placed.home);
      if (placed.home->depth() > home->depth()) home = placed.home;
    }
    home = &home_of_leaves(scope, *home, program_.leaves(position));
    Value value;
    if (program_.divides_by_reduction(position) && homes[1]->depth() < home->depth()) {
      value = product(*home, position, operands[0],
                      shared_reciprocal(*homes[1], step.operands[1], operands[1]));
    } else {
      value = emit(*home, position, operands);
    }
    home->steps[key] = value;
    return {value, home};
  }

  // A checked index that a dim mentions is an operand too: its scope must know it before the dim is
  // looked at.
  void place_indices(Scope& scope, const Dim& dim) {
    for (const std::int32_t index : steps_mentioned(dim)) place(scope, index);
  }

  // All conditions of a Guarded step.
  Value conditions(Scope& scope, const ScalarStep& guarded) {
    Value all{};
    for (const ScalarStep::Condition& condition : guarded.conditions) {
      const Value one = holds(scope, condition);
      all = all == Value{} ? one : both(scope, all, one);
    }
    return all == Value{} ? always(scope) : all;
  }

  // Where a step runs: where one of its guards takes what the step is part of, and so on outwards.
  // Value{}: everywhere.
  Value mask_of(Scope& scope, std::int32_t position) {
    Value any{};
    for (const std::int32_t guard : program_.guards(position)) {
      Value one = conditions(scope, program_.step(guard));
      if (const Value outer = mask_of(scope, guard); !(outer == Value{}))
        one = both(scope, one, outer);
      any = any == Value{} ? one : either(scope, any, one);
    }
    return any;
  }

  // Extents of dims that are looked into through a checked index, and that may be 0: where one is
  // out of range, 0 stands for it, which in an empty dim is no element at all.
  std::vector<Dim> extents_that_may_be_empty(const std::vector<Dim>& index) {
    std::set<std::int32_t> indices;
    for (const Dim& dim : index)
      for (const std::int32_t checked : steps_mentioned(dim)) indices.insert(checked);
    std::vector<Dim> extents;
    for (const std::int32_t checked : indices)
      if (const Dim& extent = program_.step(checked).index.at(0); interval_of(extent).low <= 0)
        extents.push_back(extent);
    return extents;
  }
  std::vector<Dim> extents_that_may_be_empty(std::int32_t load) {
    return extents_that_may_be_empty(program_.step(load).index);
  }

  // Where `mask` holds (Value{}: everywhere) and there is an element at `index`.
  Value where_elements(Scope& scope, Value mask, const std::vector<Dim>& index) {
    for (const Dim& extent : extents_that_may_be_empty(index)) {
      const Value some = holds(scope, {Comparison::Less, Dim(0), extent});
      mask = mask == Value{} ? some : both(scope, mask, some);
    }
    return mask;
  }
  // Where a load happens: where it runs and there is an element. Value{}: everywhere.
  Value load_mask(Scope& scope, std::int32_t load) {
    return where_elements(scope, mask_of(scope, load), program_.step(load).index);
  }

 private:
  void place_indices(Scope& scope, const ScalarStep& step) {
    for_each_dim(step, [&](const Dim& dim) { place_indices(scope, dim); });
  }

  // Kept beside the steps, under numbers that no step has.
  Value shared_reciprocal(Scope& home, std::int32_t divisor, const Value& value) {
    Value& inverse = home.steps[{program_.number(), -1 - divisor}];
    if (inverse == Value{}) inverse = reciprocal(home, divisor, value);
    return inverse;
  }

  KernelProgram program_;
  Scope& floor_;
};

}  // namespace anydim::ir
