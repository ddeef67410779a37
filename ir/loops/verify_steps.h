// What the verifiers of loop forms and of placed kernels check of one program. Throws Flaw.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ir/loops/kernel_header.h"
#include "ir/loops/loop_form.h"

namespace anydim::ir {

struct Flaw {
  std::string message;
  bool unproven = false;
};
void expect(bool holds, const auto& message) {
  if (!holds) throw Flaw{message(), false};
}

// Where a program runs.
struct StepPlace {
  const KernelHeader* header = nullptr;  // its types, symbols and checks
  std::vector<Iteration> around;
  // dtypes of the slots that may be read
  std::map<std::int32_t, DType> accumulated, scratch;
  std::vector<ScalarStep::Condition> conditions{};  // that hold there
};

// Leaves of the dim: symbols of the form, variables of `around`, and checked indices among the
// first `steps` (null: none).
void verify_leaves(const Dim& dim, const SymbolTable& symbols, std::span<const Iteration> around,
                   const std::function<bool(std::int32_t step)>& is_index);
void verify_header(const KernelHeader& header);
void verify_segments(const KernelHeader& header, const Segments& segments, const Dim& rows);
// The results that a compaction of the points of `space` writes; -1: not wanted.
void verify_compaction(const KernelHeader& header, std::span<const Iteration> space,
                       std::int32_t positions, std::int32_t count);
const TensorType& verify_parameter(const KernelHeader& header, std::int32_t parameter);
const TensorType& verify_result(const KernelHeader& header, std::int32_t result);
void verify_rank(const std::string& what, const std::vector<Dim>& index, const TensorType& type);
void verify_check(const KernelHeader& header, std::int32_t check, KernelCheck::Kind kind,
                  const Dim& extent);
// A store of an element of that dtype. `symbols`: the form's and the checked indices of the
// program.
void verify_store(const StepPlace& place, const SymbolTable& symbols, std::int32_t output,
                  const std::vector<Dim>& index, DType dtype,
                  const std::function<bool(std::int32_t step)>& is_index);
// dtype, op, flags and numbers of operands of a step whose operands have these dtypes.
void verify_dtypes(const ScalarStep& step, std::span<const DType> operands);

// Operands and mentioned indices of a step come before it; other leaves of its dims are known.
void verify_order(const ScalarProgram& program, const StepPlace& place, std::int32_t position);

// A division of integers checks its divisor, `by`, unless that is never 0.
void verify_divisor(const KernelHeader& header, const ScalarStep& step, const ScalarStep* by);

class ProgramVerifier {
 public:
  // Keeps `program`, each of whose steps is in order. `roots` are steps that are asked for from
  // outside.
  ProgramVerifier(const ScalarProgram& program, StepPlace place,
                  const std::vector<std::int32_t>& roots);

  void step(std::int32_t position);  // after those before it
  void store(const Store& store) const;
  void expect_dtype(std::int32_t step, DType dtype) const;
  DType dtype(std::int32_t step) const;

 private:
  using Conditions = std::vector<ScalarStep::Condition>;

  bool is_index(std::int32_t step) const;
  void load(std::int32_t position) const;
  // For each way to be needed: what holds then.
  std::vector<Conditions> ways_to(std::int32_t position) const;

  const ScalarProgram& program_;
  StepPlace place_;
  std::vector<std::vector<std::int32_t>> guards_;
  SymbolTable symbols_;  // the form's and the checked indices of the program
};

}  // namespace anydim::ir
