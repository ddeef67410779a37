// What a key weighs for a query before weights are divided by their sum: exp of its score less the
// largest one.
#pragma once

#include <optional>

#include "codegen_cpu/emitters.h"
#include "codegen_cpu/scalars/element_vectors.h"
#include "ir/loops/scalar_program.h"

namespace anydim::codegen_cpu {

// The positive number that every score is its product times, where it is nothing more.
std::optional<double> factor_of(const ir::ScalarProgram& score);

// A vector of scores in which keys that do not exist (`mask` is false) weigh nothing.
llvm::Value* without_missing(KernelBuilder& kernel, ElementVectors& vectors, llvm::Value* scores,
                             llvm::Value* mask);

// Weights of vectors of scores less the largest, at most 0; with a factor, of products less the
// largest.
llvm::Value* emit_weight(KernelBuilder& kernel, Scope& scope, ir::DType dtype,
                         llvm::Value* difference, const std::optional<double>& factor);

// The output of a row with a score that is NaN, where its weights count as 0 (zero_nan): the sum of
// 0 times each of the `keys` values, whole vectors of it at `to`. (Where all scores are -infinity
// the weights are 0 already.)
void emit_zero_weights(KernelBuilder& kernel, Scope& scope, ElementVectors& vectors,
                       const ir::AttentionForm& form, llvm::Value* keys, llvm::Value* to);

}  // namespace anydim::codegen_cpu
