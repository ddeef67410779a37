#include "tests/ptx/opcodes.h"

namespace anydim::ptx {

const OpcodeTable& opcode_table() {
  static const OpcodeTable table = [] {
    OpcodeTable made;
    add_integer_opcodes(made);
    add_bit_opcodes(made);
    add_arithmetic_opcodes(made);
    add_real_function_opcodes(made);
    add_conversion_opcodes(made);
    add_move_opcodes(made);
    add_comparison_opcodes(made);
    add_memory_opcodes(made);
    add_atomic_opcodes(made);
    add_warp_opcodes(made);
    add_barrier_opcodes(made);
    add_fence_opcodes(made);
    add_copy_async_opcodes(made);
    add_control_opcodes(made);
    add_matrix_opcodes(made);
    add_mbarrier_opcodes(made);
    add_bulk_opcodes(made);
    add_wgmma_opcodes(made);
    add_register_opcodes(made);
    add_cluster_opcodes(made);
    return made;
  }();
  return table;
}

}  // namespace anydim::ptx
