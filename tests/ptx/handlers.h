// What the files of tensor-core and asynchronous instructions add to the table of opcodes, and what they share.
#pragma once

#include <optional>

#include "tests/ptx/decoder.h"
#include "tests/ptx/units/fragment.h"

namespace anydim::ptx {

void add_matrix_opcodes(OpcodeTable& table);    // mma.sync, ldmatrix, stmatrix, movmatrix
void add_mbarrier_opcodes(OpcodeTable& table);  // mbarrier
void add_wgmma_opcodes(OpcodeTable& table);     // wgmma
void add_register_opcodes(OpcodeTable& table);  // setmaxnreg

// cp.async.bulk and cp.reduce.async.bulk: everything whose modifiers hold "bulk". False, with nothing taken, for another cp.
bool decode_bulk(Decoder& decoder);

// fence.mbarrier_init. False, with nothing taken, for another fence.
bool decode_mbarrier_fence(Decoder& decoder);

// The format of a tensor-core operand's elements; empty for types that none of them takes.
std::optional<ElementFormat> element_format(Type type);

}  // namespace anydim::ptx
