// Shape programs as machine code.
#pragma once

#include <string>

#include "codegen_cpu/target.h"
#include "ir/backend.h"
#include "ir/shapes/shape_program.h"

namespace llvm {
class Module;
}

namespace anydim::codegen_cpu {

// Entry and meaning as ir::Backend::compile_shapes says; results and failures are those of
// ir::ShapeInterpreter. Nothing where the program is too long to be worth compiling.
std::optional<ir::CompiledKernel> emit_shapes(const Target& target,
                                              const ir::ShapeProgram& program);
// The same as a function `name` of a module that holds other code.
void add_shape_function(llvm::Module& module, const Target& target, const ir::ShapeProgram& program,
                        const std::string& name);

}  // namespace anydim::codegen_cpu
