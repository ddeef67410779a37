// What the files of tensor-core and asynchronous instructions add to the table of opcodes, and what they share.
#pragma once

#include <optional>

#include "tests/ptx/decoder.h"
#include "tests/ptx/units/fragment.h"

namespace anydim::ptx {

void add_matrix_opcodes(OpcodeTable& table);    // mma.sync, ldmatrix, stmatrix, movmatrix
void add_mbarrier_opcodes(OpcodeTable& table);  // mbarrier, fence.mbarrier_init (before the other fences)
void add_bulk_opcodes(OpcodeTable& table);      // cp.async.bulk, cp.reduce.async.bulk
void add_wgmma_opcodes(OpcodeTable& table);     // wgmma
void add_register_opcodes(OpcodeTable& table);  // setmaxnreg

// The format of a tensor-core operand's elements; empty for types that none of them takes.
std::optional<ElementFormat> element_format(Type type);

}  // namespace anydim::ptx
