// Placing the steps of a scalar program in the scopes of a kernel: the one algorithm of both code
// generators and of the text of kernels. Each says of its loops which scopes they are and is handed
// the statements of a placed kernel (ir/loops/placed_kernel.h) one by one, each with the scope that
// it stands in.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "ir/dims/symbols.h"
#include "ir/error.h"
#include "ir/loops/kernel_program.h"
#include "ir/loops/placed_kernel.h"

namespace anydim::ir {

// What statements computed in one scope.
template <typename Value>
using PlacedValues = std::map<KernelValue, Value>;

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

// Steps are written on demand, once a scope, in the outermost scope that has all they need: the
// homes of their operands and of the leaves that KernelProgram::leaves names, but not outside of
// `floor`, up to which the program is known to run at least once (loads must not be hoisted past
// it). A Scope also has `values`, PlacedValues<Value>.
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
  Value value(Scope& scope, std::int32_t step) { return value_of(scope, place(scope, step).value); }
  // Writes an element of a result, or combines with what is there (combine: an elementwise op of
  // two operands).
  void store(Scope& scope, const Store& store, const std::optional<Op>& combine = std::nullopt) {
    write(scope, placed_store(scope, store, combine));
  }

  // An index of the program under this kernel's names, with all that it mentions defined in `scope`
  // or outside of it.
  Dim index(Scope& scope, const Dim& of_program) {
    place_indices(scope, of_program);
    return program_.own(of_program);
  }

  // The value of Accumulated slot `slot` from now on, valid in `home` and below: steps that use it
  // are written there or deeper, so give each new value a scope of its own.
  void set_accumulated(std::int32_t slot, Value value, Scope& home) {
    give({KernelValue::Kind::Accumulated, 0, slot}, std::move(value), home);
  }
  // The same of a step.
  void set_step(std::int32_t step, Value value, Scope& home) {
    give(program_.value_of(step), std::move(value), home);
  }

 protected:
  // What is known of a dim in this kernel.
  virtual Interval interval_of(const Dim& dim) = 0;
  // The outermost scope that a step may stand in, as far as its program does not tell: never
  // outside of `floor`.
  virtual Scope& outermost_of(Scope& scope, std::int32_t step, Scope& floor) {
    (void)scope, (void)step;
    return floor;
  }
  // The step whose value a store takes: a device whose stores convert may leave out a conversion.
  virtual std::int32_t stored_step(const Store& store) const { return store.step; }
  // A statement where it stands, after all that it reads; a checked index is defined in `home`.
  virtual Value write(Scope& home, const PlacedStep& step) = 0;
  virtual Value write(Scope& home, const PlacedInverse& inverse) = 0;
  virtual void write(Scope& scope, const PlacedStore& store) = 0;

  Value value_of(Scope& scope, const KernelValue& value) const {
    if (const auto given = given_.find(value); given != given_.end()) return given->second.value;
    for (Scope* at = &scope; at != nullptr; at = at->parent())
      if (const auto found = at->values.find(value); found != at->values.end())
        return found->second;
    internal_error("what a statement reads stands before it");
  }

  PlacedStore placed_store(Scope& scope, const Store& store, const std::optional<Op>& combine) {
    PlacedStore placed{store.output, {}, {}, combine, {}};
    for (const Dim& dim : store.index) placed.index.push_back(index(scope, dim));
    placed.value = place(scope, combine ? store.step : stored_step(store)).value;
    placed.mask = where_elements({}, store.index);
    return placed;
  }

  // A checked index that a dim mentions is an operand too: its scope must know it before the dim is
  // looked at.
  void place_indices(Scope& scope, const Dim& dim) {
    for (const std::int32_t index : steps_mentioned(dim)) place(scope, index);
  }

  // Where a load happens: where it runs and there is an element.
  KernelMask load_mask(std::int32_t load) {
    return where_elements(program_.mask(load), program_.step(load).as<step::Load>().index);
  }

 private:
  struct Given {
    Value value;
    Scope* home;
  };
  struct Placed {
    KernelValue value;
    Scope* home;
  };

  void give(const KernelValue& value, Value given, Scope& home) {
    given_.insert_or_assign(value, Given{std::move(given), &home});
  }

  std::optional<Placed> find(Scope& scope, const KernelValue& value) {
    if (const auto given = given_.find(value); given != given_.end())
      return Placed{value, given->second.home};
    for (Scope* at = &scope; at != nullptr; at = at->parent())
      if (at->values.contains(value)) return Placed{value, at};
    return std::nullopt;
  }

  Placed place(Scope& scope, std::int32_t position) {
    const KernelValue value = program_.value_of(position);
    if (const auto found = find(scope, value)) return *found;
    PlacedStep placed{program_.number(), position, program_.step(position), {}, {}};
    ScalarStep& step = placed.step;
    internal_check(!step.is<step::Accumulated>(), "a slot that is read has a value");
    for (const DimLeaf& leaf : program_.leaves(position))
      if (leaf.is_step()) place(scope, leaf.step());
    std::vector<Scope*> homes;
    Scope* home = &outermost_of(scope, position, floor_);
    for (const std::int32_t operand : std::exchange(step.operands, {})) {
      const Placed found = place(scope, operand);
      placed.operands.push_back(found.value);
      homes.push_back(found.home);
      if (found.home->depth() > home->depth()) home = found.home;
    }
    home = &home_of_leaves(scope, *home, program_.leaves(position));
    if (program_.divides_by_reduction(position) && homes[1]->depth() < home->depth()) {
      step = {DType::F32, step::Apply{Op::mul}};
      placed.operands[1] = inverse(*homes[1], position, placed.operands[1]);
    }
    if (step.is<step::Load>()) placed.mask = load_mask(position);
    else if (check_of(step) >= 0) placed.mask = program_.mask(position);
    home->values.insert_or_assign(value, write(*home, placed));
    return {value, home};
  }

  KernelValue inverse(Scope& home, std::int32_t division, const KernelValue& of) {
    const KernelValue value{KernelValue::Kind::Inverse, program_.number(),
                            program_.step(division).operands[1]};
    if (!home.values.contains(value))
      home.values.emplace(value, write(home, PlacedInverse{value.program, value.number, of}));
    return value;
  }

  // `mask`, where there is an element at `index`. Dims that are looked into through a checked index
  // may be 0: where one is out of range, 0 stands for it, which in an empty dim is no element at
  // all.
  KernelMask where_elements(KernelMask mask, const std::vector<Dim>& index) {
    std::set<std::int32_t> indices;
    for (const Dim& dim : index)
      for (const std::int32_t checked : steps_mentioned(dim)) indices.insert(checked);
    for (const std::int32_t checked : indices)
      if (const Dim& extent = program_.step(checked).as<step::CheckedIndex>().extent;
          interval_of(extent).low <= 0)
        mask = both(mask, {{{{Comparison::Less, Dim(0), extent}}}});
    return mask;
  }

  KernelProgram program_;
  Scope& floor_;
  std::map<KernelValue, Given> given_;
};

}  // namespace anydim::ir
