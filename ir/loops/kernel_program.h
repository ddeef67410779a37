// A scalar program inside one kernel: its steps under the kernel's own names, and what decides
// where each of them may stand.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "ir/loops/placed_kernel.h"
#include "ir/loops/scalar_program.h"

namespace anydim::ir {

// A checked index below `extent` among the kernel's symbols.
void declare_checked_index(const DimLeaf& leaf, const Dim& extent, SymbolTable& symbols);

// The steps of one program of a kernel. A kernel has several programs that number their steps
// alike: here each step that index expressions mention is the leaf step_leaf(position, number()),
// declared in the kernel's symbols below its extent.
class KernelProgram {
 public:
  // `roots`: steps that are used from outside (stored, reduced, kept), besides those that no step
  // uses.
  KernelProgram(const ScalarProgram& program, const std::vector<std::int32_t>& roots,
                std::uint32_t number, SymbolTable& symbols);

  std::uint32_t number() const { return number_; }
  const std::vector<ScalarStep>& steps() const { return steps_; }
  const ScalarStep& step(std::int32_t position) const {
    return steps_.at(static_cast<std::size_t>(position));
  }
  DType dtype(std::int32_t position) const { return step(position).dtype; }
  // The dtype of a step's last operand, with which an op computes (where's condition is a bool).
  DType operand_dtype(std::int32_t position) const { return dtype(step(position).operands.back()); }
  // A dim of the program, or each of several, with its steps under this kernel's names.
  Dim own(const Dim& dim) const;
  std::vector<Dim> own(const std::vector<Dim>& dims) const;
  // The leaf that stands for a checked index of this program.
  DimLeaf leaf_of(std::int32_t position) const { return step_leaf(position, number_); }

  // What a step is called in the statements of the kernel.
  KernelValue value_of(std::int32_t position) const;

  // Where a step runs: where one of its guards takes what the step is part of, and so on outwards.
  KernelMask mask(std::int32_t position) const;
  // The leaves that a step needs besides its operands: of its index, of its conditions, and, of a
  // step that reads or may fail, of the conditions of every guard around it, so that it is not
  // computed where it must not be.
  const std::vector<DimLeaf>& leaves(std::int32_t position) const {
    return leaves_.at(static_cast<std::size_t>(position));
  }
  // A division of f32 numbers by what is computed from a reduction. Outside of the loop of the
  // dividend its reciprocal is found once; multiplying by it has an error of 1.5 ulp instead of
  // 0.5.
  bool divides_by_reduction(std::int32_t position) const;

 private:
  // The Guarded steps for one of which alone a step runs; empty: it always does.
  const std::vector<std::int32_t>& guards(std::int32_t position) const {
    return guards_.at(static_cast<std::size_t>(position));
  }
  std::vector<DimLeaf> needed_leaves(std::int32_t position) const;

  std::uint32_t number_;
  bool names_steps_ = false;  // in index expressions
  std::vector<ScalarStep> steps_;
  std::vector<std::vector<std::int32_t>> guards_;
  std::vector<std::vector<DimLeaf>> leaves_;
  std::vector<bool> reduced_;
};

// Whether a step of a program, an operand of it or a checked index that it reads at mentions the
// leaf.
bool varies(std::span<const ScalarStep> steps, std::int32_t position, const DimLeaf& leaf);
// Whether a step differs between points of a row, which `inner` runs over: it, an operand or a
// checked index that it reads at mentions one of them, or is an element kept of the row. `earlier`:
// the answers for all steps before it.
bool varies_in_row(const ScalarStep& step, const std::set<DimLeaf>& inner,
                   const std::vector<bool>& earlier);

}  // namespace anydim::ir
