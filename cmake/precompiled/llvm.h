// What the CPU code generator's sources include of LLVM, parsed once for all of them.
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>

#include "standard_library.h"
