// The dispatch tables of one program at one time, with what finding and loading their kernels
// needs.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "ir/program.h"
#include "ir/schedule.h"
#include "runtime/bucket_lookup.h"
#include "runtime/kernel_maker.h"

namespace anydim::runtime {

// Immutable but for the counters of demand.
struct DispatchSet {
  // One piece of code that the tables name; rows that are compiled for the same shapes with the
  // same schedule share it.
  struct Code {
    std::int32_t kernel = 0, entry = 0;  // the first row that names it
    KernelKey key;
    bool general = false;  // the last row of a table names it
  };

  // `tables`: one a kernel of the program.
  DispatchSet(const ir::Program& program, std::vector<ir::DispatchTable> tables,
              const KernelMaker& maker);

  std::vector<ir::DispatchTable> tables;  // [kernel]
  std::vector<BucketLookup> lookups;      // [kernel]
  std::vector<Code> codes;
  std::vector<std::vector<std::size_t>> code;  // [kernel][row of its table]: position in codes
  // [code]: calls that met it and had to go without
  mutable std::vector<std::atomic<std::uint32_t>> wanted;
};

}  // namespace anydim::runtime
