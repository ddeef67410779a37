// Each file of handlers adds its opcodes here.
#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "tests/ptx/decoder.h"

namespace anydim::ptx {

void add_integer_opcodes(OpcodeTable& table);
void add_bit_opcodes(OpcodeTable& table);
void add_arithmetic_opcodes(OpcodeTable& table);  // of integers and reals: add, mul, fma, min ...
void add_real_function_opcodes(OpcodeTable& table);
void add_conversion_opcodes(OpcodeTable& table);
void add_move_opcodes(OpcodeTable& table);
void add_comparison_opcodes(OpcodeTable& table);
void add_memory_opcodes(OpcodeTable& table);
void add_atomic_opcodes(OpcodeTable& table);
void add_warp_opcodes(OpcodeTable& table);
void add_barrier_opcodes(OpcodeTable& table);
void add_fence_opcodes(OpcodeTable& table);
void add_copy_async_opcodes(OpcodeTable& table);
void add_control_opcodes(OpcodeTable& table);
void add_matrix_opcodes(OpcodeTable& table);    // mma.sync, ldmatrix, stmatrix, movmatrix
void add_mbarrier_opcodes(OpcodeTable& table);  // also fence.mbarrier_init: after the other fences
void add_bulk_opcodes(OpcodeTable& table);      // cp.async.bulk, cp.reduce.async.bulk
void add_wgmma_opcodes(OpcodeTable& table);
void add_register_opcodes(OpcodeTable& table);  // setmaxnreg
void add_cluster_opcodes(OpcodeTable& table);   // mapa, getctarank

// Shared between files that serve one opcode.
Execute integer_arithmetic(
    Decoder& decoder,
    Type type);  // add, sub, mul, mad, min, max, abs, neg, div, rem by the opcode's name
Execute carried_arithmetic(Decoder& decoder, Type type, std::string_view half,
                           bool leaves);  // with .cc (`leaves`), and addc, subc, madc
Execute real_arithmetic(Decoder& decoder,
                        Type type);  // add, sub, mul, fma, min, max, abs, neg of f32 and f64
Execute half_arithmetic(Decoder& decoder, Type type);  // the same of f16, bf16 and pairs of them
// .rz, .rm, .rp: the handler and what it keeps in `detail`
std::pair<Execute, std::shared_ptr<const void>> directed_arithmetic(std::string_view opcode,
                                                                    Type type,
                                                                    std::string_view rounding);

}  // namespace anydim::ptx
