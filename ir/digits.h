// Taking a loop variable apart. Where index expressions divide it by the same extents again and again (a reshape of several dims into one that a matmul runs
// over), its digits to those extents can be loops of their own, and no division is left.
#pragma once

#include <functional>
#include <vector>

#include "ir/loop_form.h"

namespace anydim::ir {

// Extents that the program divides the variable by, the smallest first; each divides the next one and is proven to be at least 1. Empty where there are none,
// or they do not divide each other.
std::vector<Dim> digit_extents(const ScalarProgram& program, const DimLeaf& variable, const SymbolTable& symbols);

struct Digits {
  std::vector<Iteration> digits;  // outermost first; declared in the symbols
  Dim value;                      // of the variable, over the digits
};
// `iteration` as digits whose weights are `extents` (as digit_extents gives them); the outermost counts up to the iteration's extent divided by the
// largest one, rounded up. `fresh` gives variables that nothing else uses.
Digits split(const Iteration& iteration, const std::vector<Dim>& extents, const std::function<DimLeaf()>& fresh, SymbolTable& symbols);

// The program with `value` in the variable's place.
ScalarProgram with_variable(const ScalarProgram& program, const DimLeaf& variable, const Dim& value, const SymbolTable& symbols);

}  // namespace anydim::ir
