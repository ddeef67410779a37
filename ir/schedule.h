// Buckets and schedules: for which shapes a kernel is made, and how.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/dims/symbols.h"

namespace anydim::ir {

// A name and ordered integer fields, e.g. `matmul rows=8 columns=48`. Only its backend understands
// it.
struct Schedule {
  std::string name;
  std::vector<std::pair<std::string, std::int64_t>> fields;
  std::int64_t field(std::string_view key) const;  // internal error where absent
  std::optional<std::int64_t> find(std::string_view key) const;
  bool operator==(const Schedule&) const = default;
};
std::string to_string(const Schedule& schedule);
Schedule parse_schedule(std::string_view text);  // throws Error{Malformed}

// An interval of each of the region's bucket keys (Region::keys, in order), with divisibility.
struct BucketInterval {
  std::int64_t low = 0;
  std::int64_t high = default_symbol_maximum;
  std::int64_t multiple = 1;
  // The smallest size in it that is positive and at least `size`; the largest where none is.
  std::int64_t size_from(std::int64_t size) const;
  bool operator==(const BucketInterval&) const = default;
};
struct Bucket {
  std::vector<BucketInterval> intervals;
  // All sizes, for a key that the bucket has no interval of.
  BucketInterval of_key(std::size_t key) const {
    return key < intervals.size() ? intervals[key] : BucketInterval{};
  }
  bool contains(std::span<const std::int64_t> keys) const;
  bool operator==(const Bucket&) const = default;
};
// e.g. "[1, 15] x [0, 512] multiple 8"; "any" without intervals
std::string to_string(const Bucket& bucket);

// Whether every shape of `inner` is one of `outer`.
bool contains(const Bucket& outer, const Bucket& inner);

// `first`, then those of `more` that are not there yet.
std::vector<Schedule> joined(std::vector<Schedule> first, std::vector<Schedule> more);

// Who chose a schedule.
enum class EntryOrigin : std::uint8_t {
  CostModel,       // the backend's estimates alone, when the program was compiled
  TunedPredicted,  // a tuning database, from predictions
  TunedMeasured,   // a tuning database, from measurements
};
std::string_view name_of(EntryOrigin origin);  // "predicted", "tuned, predicted", "tuned, measured"

// The kernels of one region: entries are tried in order, the last contains every shape in the
// declared range, so dispatch is total.
struct DispatchTable {
  struct Entry {
    Bucket bucket;  // shapes that it serves
    Schedule schedule;
    // cost model at the bucket's middle, or what tuning expects; for explain
    double estimated_seconds = 0;
    // Shapes that its code is compiled for, where these are more: entries with equal compiled_for()
    // and schedule share code.
    std::optional<Bucket> kernel{};
    EntryOrigin origin = EntryOrigin::CostModel;
    const Bucket& compiled_for() const { return kernel ? *kernel : bucket; }
  };
  std::vector<Entry> entries;
};

}  // namespace anydim::ir
