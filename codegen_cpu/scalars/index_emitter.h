// Index expressions as LLVM values.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "codegen_cpu/kernel_builder.h"

namespace anydim::codegen_cpu {

// The i64 value of `dim`, usable in `scope`. Each subexpression is computed once, in the outermost
// scope that defines all its symbols. The vector symbol stands for lane 0. Internal error where a
// symbol isn't defined or differs between lanes.
llvm::Value* emit_index(KernelBuilder& kernel, Scope& scope, const ir::Dim& dim);

// Loops over all points of a space, the last iteration innermost: the body gets a scope of its own
// that defines the iterations' symbols.
void emit_points(KernelBuilder& kernel, Scope& scope, std::span<const ir::Iteration> space,
                 const std::function<void(Scope& point)>& body);

// The same for every lane: <width x i64> where the value differs between lanes, else as emit_index.
llvm::Value* emit_index_lanes(KernelBuilder& kernel, Scope& scope, const ir::Dim& dim);

// left COMPARISON right of signed integers, one each or a vector each.
llvm::Value* emit_comparison(llvm::IRBuilder<>& at, ir::Comparison comparison, llvm::Value* left,
                             llvm::Value* right);

// lhs COMPARISON rhs as i1, or <width x i1> where it differs between lanes.
llvm::Value* emit_condition(KernelBuilder& kernel, Scope& scope,
                            const ir::ScalarStep::Condition& condition);

// a OPERATION b of i1 values, one each or one a lane; b where a is null.
llvm::Value* emit_joined(KernelBuilder& kernel, Scope& scope,
                         llvm::Instruction::BinaryOps operation, llvm::Value* a, llvm::Value* b);

// Whether all of the conditions hold, as emit_condition.
llvm::Value* emit_all_of(KernelBuilder& kernel, Scope& scope,
                         std::span<const ir::ScalarStep::Condition> conditions);

// The deepest scope that defines a symbol of `dim`; the root for constants.
Scope& home_of(KernelBuilder& kernel, Scope& scope, const ir::Dim& dim);

// True where the value differs between the lanes of `scope`.
bool differs_between_lanes(Scope& scope, const ir::Dim& dim);

// Change of `dim` from one lane to the next, where it is the same for every lane: 0 for no change,
// 1 for contiguous accesses.
std::optional<ir::Dim> lane_stride(Scope& scope, const ir::Dim& dim,
                                   const ir::SymbolTable& symbols);

// Pointer to element `offset` of the buffer at `base`, the part of the offset that no inner loop
// changes added outside of it. For lane 0.
llvm::Value* emit_pointer(KernelBuilder& kernel, Scope& scope, llvm::Value* base, ir::DType dtype,
                          const ir::Dim& offset);

}  // namespace anydim::codegen_cpu
