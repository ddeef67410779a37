// Scalar programs under facts that a compiler knows of what they read.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "ir/dims/symbols.h"
#include "ir/loops/loop_form.h"
#include "ir/loops/value_range.h"
#include "ir/tensor.h"

namespace anydim::ir {

// Buffers are those of Load steps.
struct ProgramFacts {
  SymbolTable symbols;
  std::map<DimLeaf, Dim> replaced{};             // written in the place of a variable
  std::vector<std::optional<double>> numbers{};  // that steps are, by position
  std::map<std::int32_t, const Tensor*> constants{};
  std::map<std::int32_t, ValueRange> elements{};  // of buffers that are no constants
  bool finite = false;                            // other buffers hold neither infinities nor NaN
};

// The program's live steps with everything folded that the facts decide, in the arithmetic of
// ir/reference/evaluate.h; the last step is the element. Steps that read a constant matrix whose
// rows step from one number to another along a diagonal become conditions.
struct Folded {
  ScalarProgram program;
  ValueRange range;  // of the element, with symbols in their ranges
};
Folded fold_program(const ScalarProgram& program, ProgramFacts facts);

}  // namespace anydim::ir
