// From LLVM IR to machine code in a blob.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "codegen_cpu/blob.h"
#include "codegen_cpu/target.h"

namespace llvm {
class LLVMContext;
class Module;
class TargetMachine;
}  // namespace llvm

namespace anydim::codegen_cpu {

// A machine of one's own: LLVM's are not safe to share between threads.
std::unique_ptr<llvm::TargetMachine> make_machine(const Target& target);

// Optimises the module with a short fixed list of passes and generates code; `entries` are the
// functions whose places the blob gives. `module` is changed on the way and was made with
// make_machine's triple and data layout. Throws Error{Internal} where the module is ill-formed
// (LLVM's verifier) or needs outside symbols.
Blob compile_module(llvm::Module& module, llvm::TargetMachine& machine,
                    std::span<const std::string> entries);

}  // namespace anydim::codegen_cpu
