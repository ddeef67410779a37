// Shape programs as machine code.
#pragma once

#include "codegen_cpu/target.h"
#include "ir/backend.h"
#include "ir/shape_program.h"

namespace anydim::codegen_cpu {

// Entry and meaning as ir::Backend::compile_shapes says; results and failures are those of ir::ShapeInterpreter.
ir::CompiledKernel emit_shapes(const Target& target, const ir::ShapeProgram& program);

}  // namespace anydim::codegen_cpu
