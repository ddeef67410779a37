// Tile registers in software, so that kernels for them run on any processor.
#pragma once

#include <string>

namespace llvm {
class Module;
}

namespace anydim::codegen_cpu::testing {

// Replaces every instruction on tile registers by a call of a function here that does what it does,
// with the same operands. Each thread has registers of its own. The rules of the instructions are
// checked: shapes that fit each other, registers that are set and hold something, legal settings.
void emulate_tiles(llvm::Module& module);
// The first broken rule on this thread since the last call, and registers that a kernel left set;
// empty where there is none.
std::string take_tile_fault();

}  // namespace anydim::codegen_cpu::testing
