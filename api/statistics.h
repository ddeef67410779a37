// One look at a model at work: calls, kernels and memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "api/call_counters.h"
#include "runtime/kernel_store.h"

namespace anydim {

class Model;

struct MemoryInUse {
  std::int64_t constant_bytes = 0;  // weights as kernels read them
  std::int64_t code_bytes = 0;      // of kernels and shape programs
  std::int64_t held_bytes = 0;      // as CallStatistics has it; results belong to the caller
};

struct ModelStatistics {
  CallStatistics calls;
  runtime::KernelProgress kernels;  // of all programs of the model that have been compiled
  MemoryInUse memory;
};

// What a call of these shapes may hold at most while it runs, by the programs that have been
// compiled so far.
struct MemoryCeiling {
  std::optional<std::int64_t> arena_bytes;  // activations; nothing where they have no bound
  std::string unbounded_because;            // then the node, else empty
  std::int64_t constant_bytes = 0;          // which calls share
};

}  // namespace anydim
