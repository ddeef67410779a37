// Taking a loop variable apart. Where index expressions divide it by the same extents again and
// again (a reshape of several dims into one that a matmul runs over), its digits to those extents
// can be loops of their own, and no division is left.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "ir/loops/loop_form.h"

namespace anydim::ir {

// Extents that the dims divide the variable by, the smallest first; each divides the next one.
// Empty where there are none, or they do not divide each other. Where the variable takes a value at
// all, none of them is 0.
std::vector<Dim> digit_extents(std::span<const Dim> dims, const DimLeaf& variable,
                               const SymbolTable& symbols);
std::vector<Dim> digit_extents(const ScalarProgram& program, const DimLeaf& variable,
                               const SymbolTable& symbols);

struct Digits {
  DimLeaf variable;
  std::vector<Iteration> digits;  // outermost first; declared in the symbols
  std::vector<Dim> weights;       // of each: the last is 1
  Dim value;                      // of the variable, over the digits
};
// `iteration` as digits whose weights are `extents` (as digit_extents gives them); the outermost
// counts up to the iteration's extent divided by the largest one, rounded up. `fresh` gives
// variables that nothing else uses.
Digits split(const Iteration& iteration, const std::vector<Dim>& extents,
             const std::function<DimLeaf()>& fresh, SymbolTable& symbols);

// The index, the program over the digits instead of their variable. It says the same where no
// weight is 0.
Dim over_digits(const Dim& index, const Digits& digits, const SymbolTable& symbols);
ScalarProgram over_digits(const ScalarProgram& program, const Digits& digits,
                          const SymbolTable& symbols);

}  // namespace anydim::ir
