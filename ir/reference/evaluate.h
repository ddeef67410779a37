// The reference evaluator: runs any module slowly and plainly. The oracle of other tests, and
// constant folding at compile time.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "ir/loops/loop_form.h"
#include "ir/module.h"
#include "ir/scalar.h"

namespace anydim::ir {

// Runs a function of the module (types need not be inferred). Reals are computed in f32 for f32,
// f16 and bf16, in f64 for f64; sums, products and composites accumulate in f64; every result is
// rounded once. Integers wrap. Throws Error{Inputs} where the inputs or a check at run time don't
// fit: division of integers by zero, an index out of range, operands that don't broadcast, a failed
// check_shape.
std::vector<Tensor> evaluate(const Module& module, const Function& function,
                             std::vector<Tensor> inputs);

// Runs one binding that isn't control flow, on operands of the function (null: absent). `value_of`
// gives the dims of shape literals and checks; it may be empty where the binding has none. Results
// of movement ops may share the operand's memory.
std::vector<Tensor> evaluate_binding(const Function& function, const Binding& binding,
                                     std::span<const Tensor* const> operands,
                                     const std::function<std::int64_t(const Dim&)>& value_of = {});

// One elementwise op on operands of one shape, rounded or wrapped to the result's dtype: the
// evaluator's own step, for whatever folds scalar programs. `to` is a cast's or bitcast's target.
// Nothing where integers are divided by zero.
std::optional<Tensor> apply_elementwise(const ScalarOp& op, DType to,
                                        std::span<const Tensor> operands);

// A program of constants, ops and one buffer's element without an index, on each element of that
// buffer. No integer is divided by zero.
Tensor apply_program(const ScalarProgram& program, const Tensor& buffer);

}  // namespace anydim::ir
