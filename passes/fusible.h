// What fusion may do with an op: rules of one binding, whatever stands around it.
#pragma once

#include "ir/module.h"

namespace anydim::passes {

// Dims as a tensor, or numbers that stand in the program.
bool is_literal(const ir::Binding& binding);
// Costs nothing in the kernel that reads it, however many there are.
bool is_free(const ir::Function& function, const ir::Binding& binding);
// What a kernel grows from.
bool is_anchor(ir::Op op);
bool is_product(ir::Op op);
// Has an element-wise or index form.
bool is_pointwise(const ir::Binding& binding);
// No kernel's work: control flow, checks, and constants that are read where they lie.
bool stays_outside(const ir::Binding& binding);
// Takes less time to compute again than to read: comparisons, logic, selections and sums.
bool is_cheap_arithmetic(const ir::Binding& binding);
// Reads each element of its first operand several times, in different shares: resampling.
bool mixes_elements(const ir::Binding& binding);
// Has each element of its operand several times, as windows that lie over each other do.
bool repeats_elements(const ir::Binding& binding);

// A border of elements of its operand, whose places take longer to find than to read.
bool borders_with_elements(const ir::Binding& binding);

}  // namespace anydim::passes
