// The stages of a row computed by a group of threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen_cuda/scalars/linear_space.h"
#include "codegen_cuda/scalars/scalar_writer.h"

namespace anydim::codegen_cuda {

// Which threads share a row, and how they put their results together.
struct RowGroup {
  enum class Kind : unsigned char {
    Warp,    // the lanes of a warp
    Block,   // the threads of a block
    Column,  // thread x of each warp of a block: 32 rows at a time, whose elements lie side by side
  };
  Kind kind = Kind::Warp;
  int threads = 32;          // of one row
  std::string thread{};      // name of the thread's number within the row
  std::string stores_row{};  // condition under which this thread writes results that a row has one
                             // of; empty: always
  // condition under which it writes results of its points; empty: always
  std::string stores_point{};
};

struct RowStagePlan {
  const ir::RowForm& form;  // without scratch, or with all of it in registers
  RowGroup group;
  int vector = 1;  // neighbouring points of a thread
  int items = 0;   // vectors of a thread, where they are known to cover a row: the loop is unrolled
                   // and scratch lies in registers; 0: a loop over any length
  // Restricts inner points to vectors [first, last) (names; empty: all), for rows split between
  // blocks and for segments.
  std::string first, last;
};

// Writes the stages into `row`, where the row's symbols are defined. `entry` takes shared arrays.
// Returns the names of the Accumulated slots' values.
std::vector<std::string> write_row_stages(KernelWriter& kernel, CodeScope& entry, CodeScope& row,
                                          const RowStagePlan& plan);
// Only the per-row stages, for given Accumulated values.
void write_row_results(KernelWriter& kernel, CodeScope& row, const RowStagePlan& plan,
                       std::vector<std::string> values);

// value = this reduction of the group's values.
std::string reduced(KernelWriter& kernel, CodeScope& entry, const RowGroup& group,
                    const ir::RowStage::Reduction& reduction, const std::string& value);
// What an empty row gives, and two values as one.
std::string neutral(const ir::RowStage::Reduction& reduction);
std::string combined(KernelWriter& kernel, const ir::RowStage::Reduction& reduction,
                     const std::string& a, const std::string& b);

// The vectors of an inner space: the last loop counted in vectors of `width`, which divides it or
// is 1.
int row_vector_width(const ir::SymbolTable& symbols, const ir::RowForm& form, std::int64_t wanted);

}  // namespace anydim::codegen_cuda
