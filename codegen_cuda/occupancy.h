// How many blocks share a multiprocessor.
#pragma once

#include <cstdint>

#include "codegen_cuda/target.h"

namespace anydim::codegen_cuda {

// By threads, shared memory and registers a thread; at least 1.
std::int64_t resident_blocks(const CudaTarget& target, std::int64_t threads,
                             std::int64_t shared_bytes, std::int64_t registers);

// The registers that each thread may have where so many blocks are to run together: what the
// assembler keeps to when it is told (launch bounds).
std::int64_t registers_left(const CudaTarget& target, std::int64_t threads, std::int64_t blocks);

// Blocks of kernels that stream (maps, rows, scans) are counted with so many registers a thread,
// which hardly one of them needs; one that keeps values in registers (`kept` of them) needs more.
// Up to sm_90 the assembler uses as many as it needs and no more, where nothing is kept; where
// something is, it spills some to fit more blocks (seen with 13.0), as it does from sm_100 on, or
// it takes all that it may: it is told the blocks there.
bool streaming_is_bound(const CudaTarget& target, std::int64_t kept = 0);
std::int64_t streaming_registers(const CudaTarget& target, std::int64_t kept = 0);
std::int64_t streaming_blocks(const CudaTarget& target, std::int64_t threads,
                              std::int64_t kept = 0);

}  // namespace anydim::codegen_cuda
