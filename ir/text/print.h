// A module as text. docs/text-form.md has the grammar; ir/text/parse.h reads it back exactly.
#pragma once

#include <string>

#include "ir/module.h"

namespace anydim::ir {

// Any module prints, also one that the verifier refuses: ids out of range show as %<7>, so that a
// dump can be looked at.
std::string print(const Module& module);
std::string print(const Module& module, const Function& function);
std::string print(const Module& module, const Region& region);
// One binding without its blocks, e.g. `%y: Tensor[(n, 4), f32] = relu(%x) from "Relu_3"`.
std::string print(const Module& module, const Function& function, const Binding& binding);

std::string print(const Type& type);  // value(%t, i) inside dims prints as value(%<t>, i)
std::string print(const Function& function, const Type& type);
std::string print(const Function& function, const Dim& dim);
// The symbols of a kernel as in a where clause.
std::string print(const SymbolTable& symbols);
std::string print(const Tensor& tensor);  // as in `constant(...)`

// The body alone, in the form whose equality makes two regions one kernel: see ir/region.h.
std::string print_canonical(const Function& body);

}  // namespace anydim::ir
