// Index expressions as CUDA C++, in 32 bits where the ranges within the bucket prove that they
// suffice.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "codegen_cuda/kernel_writer.h"

namespace anydim::codegen_cuda {

// An expression for `dim`, in parentheses where it is compound. Divisions, choices and the like are
// computed once, into named variables in the outermost scope that defines all their symbols.
// Internal error where a symbol isn't defined.
std::string write_index(KernelWriter& kernel, CodeScope& scope, const ir::Dim& dim);
// The same for a row-major offset known to lie within a buffer of `dims`: 32 bits suffice where the
// buffer has fewer than 2^31 elements.
std::string write_offset(KernelWriter& kernel, CodeScope& scope, const ir::Dim& offset,
                         const std::vector<ir::Dim>& dims);
// An expression without the parentheses that enclose all of it.
std::string bare(std::string expression);
// The same as a variable of its own at the end of `scope`.
IndexVariable name_index(KernelWriter& kernel, CodeScope& scope, const ir::Dim& dim,
                         std::string_view stem);

// lhs COMPARISON rhs, in parentheses.
std::string write_condition(KernelWriter& kernel, CodeScope& scope,
                            const ir::ScalarStep::Condition& condition);
// Whether all of the conditions hold: in parentheses where compound, "true" of none.
std::string write_all_of(KernelWriter& kernel, CodeScope& scope,
                         std::span<const ir::ScalarStep::Condition> conditions);
// What `body` writes, where all of the conditions hold.
void write_where(KernelWriter& kernel, CodeScope& scope,
                 std::span<const ir::ScalarStep::Condition> conditions,
                 const std::function<void(CodeScope&)>& body);

// The deepest scope that defines a symbol of `dim`; the outermost for constants.
CodeScope& home_of(CodeScope& scope, const ir::Dim& dim);

// "int" or "long long".
std::string index_type(bool wide);
// `for (TYPE counter = first; counter < end; counter += step)`
std::string counting_loop(bool wide, const std::string& counter, const std::string& first,
                          const std::string& end, const std::string& step);

}  // namespace anydim::codegen_cuda
