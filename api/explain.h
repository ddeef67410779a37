// Every decision behind one call, to be printed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/thread_scaling.h"
#include "runtime/context.h"
#include "tuner/device_limits.h"
#include "tuner/roofline.h"

namespace anydim {

struct LaunchExplanation {
  std::string region;
  std::string source;                                      // nodes it came from
  std::vector<std::pair<std::string, std::int64_t>> dims;  // the region's symbols
  std::vector<std::pair<std::string, std::int64_t>>
      keys;                      // what dispatch looked at, printed over the symbols
  std::string bucket, schedule;  // of the kernel that ran
  std::string chosen;  // by whom: "predicted", "tuned, measured", ... (ir::name_of(EntryOrigin))
  std::string kernel;  // "from the cache", "compiled now", or why the general one served
  std::int64_t code_bytes = 0;
  std::vector<std::string> warnings{};  // of the assembler, CUDA: what makes the kernel slower
  std::int64_t tasks = 0;
  double estimated_seconds = 0;
  double measured_seconds = 0;  // median of the measured calls
  // Where the explanation goes in depth:
  tuner::LeastWork work{};  // what any kernel would have to do
  // the least time that the processor's limits allow for it; 0: not known
  double roofline_seconds = 0;
  double begun_seconds = 0, lasted_seconds = 0;  // in the call of CallExplanation::shown_seconds
};

// One row of a dispatch table.
struct TableRow {
  std::string region, bucket, schedule;
  std::vector<ir::BucketInterval> intervals{};  // the bucket, by key
  std::string chosen;                           // as LaunchExplanation::chosen
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
  std::string arena_ceiling;  // an expression over the symbols
  // its largest value over their ranges, where it has one
  std::optional<std::int64_t> arena_ceiling_bytes;
  runtime::KernelProgress kernels;
  double call_seconds = 0;  // median, without recording
  // In depth:
  std::optional<tuner::DeviceLimits> limits{};  // of the processor, by measurement
  double shown_seconds = 0;  // of one call whose launches have their times in it; 0: there is none
  // At the numbers of threads asked about, launches in the order of those above.
  std::vector<CallAtThreads> scaling{};
};

// "n = 7, m = 3", or "none".
std::string listed(const std::vector<std::pair<std::string, std::int64_t>>& values);

enum class ExplanationDepth {
  Usual,
  Deep,  // also what each launch has to do at least and when it began, for which the executable's
         // timeline is started anew
};

// Runs the call `repeat` times (after one to warm up) with launches recorded, and as often without.
CallExplanation explain_call(runtime::Context& context, const std::vector<ir::Tensor>& inputs,
                             int repeat, ExplanationDepth depth = ExplanationDepth::Usual);

}  // namespace anydim
