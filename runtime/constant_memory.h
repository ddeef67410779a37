// Where constants lie that were packed or read from a file: side by side in large blocks of huge
// pages. Kernels stream through weights and fetch them ahead of use; with pages of 4 KB every fetch
// would first walk the page table (a quarter of a short text's time). On machines of several nodes
// blocks are spread over them (runtime/memory_nodes.h).
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>

#include "ir/tensor.h"
#include "runtime/memory.h"
#include "runtime/memory_nodes.h"

namespace anydim::runtime {

// Blocks live as long as a tensor in them. Safe to use from several threads at once.
class ConstantMemory {
 public:
  explicit ConstantMemory(MemoryNodes nodes = MemoryNodes()) : nodes_(std::move(nodes)) {}

  // A writable tensor of zeros, aligned to 64 bytes. Throws Error{Resource}, and Error{Inputs}
  // where the size overflows.
  ir::Tensor allocate(ir::DType dtype, std::vector<std::int64_t> dims);

 private:
  struct Place {
    std::shared_ptr<const MemoryBlock> block;
    std::byte* bytes = nullptr;
  };
  Place take(std::size_t bytes);

  MemoryNodes nodes_;
  std::mutex mutex_;
  std::shared_ptr<const MemoryBlock> block_;
  std::size_t used_ = 0;  // of block_
};

}  // namespace anydim::runtime
