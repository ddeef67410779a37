// Ops that only rename elements: as part of a kernel they are index expressions and never exist in
// memory.
#pragma once

#include "ir/module.h"

namespace anydim::passes {

// Every element of the results is an element of operand 0.
bool is_view(ir::Op op);
// A conversion of f16 or bf16 to f32, or of integers of 8 or 16 bits to i32 or f32, which is exact:
// repeating it costs nothing where its operand is read.
bool is_widening(const ir::Function& function, const ir::Binding& binding);
// A conversion of f32 to f16 or bf16.
bool is_narrowing(const ir::Function& function, const ir::Binding& binding);

}  // namespace anydim::passes
