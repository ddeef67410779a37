// What every code generator asks of scalar programs and reductions.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "ir/loops/loop_form.h"
#include "ir/scalar.h"

namespace anydim::ir {

// The checked indices of its own program that a dim mentions.
std::vector<std::int32_t> steps_mentioned(const Dim& dim);

// The step that is the element of a program that has one.
std::int32_t last_step(const ScalarProgram& program);

// Drops steps that `roots` do not need; roots are renumbered in place.
void prune(ScalarProgram& program, std::vector<std::int32_t*> roots);
// The same of the program that a part of a form has roots in (for_each_root).
void prune(auto& part) {
  std::vector<std::int32_t*> roots;
  for_each_root(part, [&](std::int32_t& step) { roots.push_back(&step); });
  if constexpr (requires { part.program; }) prune(part.program, std::move(roots));
  else prune(part.epilogue, std::move(roots));
}

// The op of an Apply step, with its flags, and step::Apply::flags of an op.
ScalarOp scalar_op(const ScalarStep& step);
std::uint8_t step_flags(const ScalarOp& op);
// Attributes that make a binding of it.
Attributes step_attributes(const ScalarStep& step);

// Into LoopForm::checks, of steps that may fail; -1: none.
std::int32_t check_of(const ScalarStep& step);

// A Constant step: a number that the dtype has, or an element of a tensor.
ScalarStep number_step(DType dtype, double value);
ScalarStep element_step(const Tensor& tensor, std::int64_t position);
// The number of a Constant step, of rank 0.
Tensor constant_tensor(const ScalarStep& step);

// For each step the Guarded steps that it runs for: it is needed only where one of them takes its
// operand 0. Empty: always. `roots` are the steps whose values are asked for from outside; a step
// that nobody inside uses counts as asked for too.
std::vector<std::vector<std::int32_t>> guards_of(const ScalarProgram& program,
                                                 const std::vector<std::int32_t>& roots);

// For each step whether it is computed from an Accumulated one, or read at an index that is.
std::vector<bool> computed_from_accumulated(const ScalarProgram& program);

// The program's steps up to its element, without a last conversion from f16 or bf16 to f32.
ScalarProgram without_widening(const ScalarProgram& program);

// The elementwise op that joins two partial results.
Op joining_op(Reduce reduce);

// Terms and operands of the largest index expression that the program reads at.
std::size_t largest_index(const ScalarProgram& program);

}  // namespace anydim::ir
