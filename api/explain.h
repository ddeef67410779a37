// Every decision behind one call, to be printed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/context.h"

namespace anydim {

struct LaunchExplanation {
  std::string region;
  std::string source;                                      // nodes it came from
  std::vector<std::pair<std::string, std::int64_t>> dims;  // the region's symbols
  std::vector<std::pair<std::string, std::int64_t>> keys;  // what dispatch looked at, printed over the symbols
  std::string bucket, schedule;                            // of the kernel that ran
  std::string chosen;                                      // by whom: "predicted", "tuned, measured", ... (ir::name_of(EntryOrigin))
  std::string kernel;                                      // "from the cache", "compiled now", or why the general one served
  std::int64_t code_bytes = 0;
  std::int64_t tasks = 0;
  double estimated_seconds = 0;
  double measured_seconds = 0;  // median of the measured calls
};

// One row of a dispatch table.
struct TableRow {
  std::string region, bucket, schedule;
  std::string chosen;  // as LaunchExplanation::chosen
  double expected_seconds = 0;
};
std::vector<TableRow> table_rows(const runtime::Executable& executable);
// The kernels for single shapes that are there (the policy `exact`), which no table has.
std::vector<TableRow> exact_rows(const runtime::Executable& executable);
// Rows by who chose them.
std::map<std::string, std::int64_t> count_by_choice(const std::vector<TableRow>& rows);

struct CallExplanation {
  std::vector<std::pair<std::string, std::int64_t>> symbols;
  std::vector<LaunchExplanation> launches;
  std::vector<TableRow> tables, exact;
  std::int64_t fetches = 0, stages = 0;
  runtime::CallMemory memory;
  std::int64_t constant_bytes = 0;
  std::string arena_ceiling;                        // an expression over the symbols
  std::optional<std::int64_t> arena_ceiling_bytes;  // its largest value over their ranges, where it has one
  runtime::KernelProgress kernels;
  double call_seconds = 0;  // median, without recording
};

// Runs the call `repeat` times (after one to warm up) with launches recorded, and as often without.
CallExplanation explain_call(runtime::Context& context, const std::vector<ir::Tensor>& inputs, int repeat);

}  // namespace anydim
