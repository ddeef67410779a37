// Fills PassContext::tables, by the module's policies. Symbolic: the one schedule that the backend
// estimates best over samples of the whole range. Bucketed: the range of every key is cut at the
// backend's edges, each cell gets the schedule estimated best at its samples, neighbours with equal
// schedules merge, and a last entry over the whole declared range answers for everything else (and
// is the general kernel that a first start compiles: of schedules that are not much slower, the one
// with the least code). Where PassContext::tuning knows the region, its rows stand in place of the
// cells; rows that don't fit the region, or whose schedule the backend doesn't offer for them, are
// left out. Exact: as bucketed, whose kernels answer first. Library: one entry for regions that the
// device's library computes; others are bucketed where the policy is for all regions, and a region
// named for it throws Error{CommandLine} with the reason. Does nothing without a backend.
#include "passes/choose_buckets.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "ir/error.h"
#include "ir/loops/loop_form.h"

namespace anydim::passes {

using namespace ir;

namespace {

// A region's cells are the product over its keys; beyond this many, the keys cut last stay whole.
constexpr std::size_t maximum_cells = 64;
// Samples of the open cell reach to this multiple of its lower edge.
constexpr std::int64_t open_cell_factor = 4;
// A general kernel that serves until its buckets' kernels are there may be this much slower where
// it is sooner there itself.
constexpr double stand_in_slower = 1.25;

// Cells begin at a size that a call may have, so that each serves some; none is for empty calls
// alone.
std::vector<BucketInterval> cut(const BucketInterval& range,
                                const std::vector<std::int64_t>& edges) {
  std::vector<BucketInterval> cells;
  std::int64_t low = range.low;
  for (const std::int64_t edge : edges) {
    if (edge > range.high) continue;
    const std::int64_t first = range.size_from(edge);
    if (first <= std::max(low, range.multiple) || first % range.multiple != 0) continue;
    cells.push_back({low, first - 1, range.multiple});
    low = first;
  }
  cells.push_back({low, range.high, range.multiple});
  return cells;
}

// The least and the largest size of a cell and one between them, on every key at once.
std::vector<std::vector<std::int64_t>> samples(const Bucket& bucket) {
  std::vector<std::vector<std::int64_t>> points(3);
  for (const BucketInterval& interval : bucket.intervals) {
    const std::int64_t low = interval.size_from(1);
    const std::int64_t last = interval.high - interval.high % interval.multiple;
    const std::int64_t high = low > last / open_cell_factor
                                  ? std::max(low, last)
                                  : std::max<std::int64_t>(low, 1) * open_cell_factor;
    points[0].push_back(low);
    points[1].push_back(interval.size_from(low + (high - low) / 2));
    points[2].push_back(high);
  }
  return points;
}

struct Chosen {
  Schedule schedule;
  double seconds = 0;
};

// The candidate with the least code among those that take at most `slower_for_less_code` times as
// long as the fastest.
Chosen best(const Region& region, const Bucket& bucket,
            const std::vector<std::vector<std::int64_t>>& points, const PassContext& context,
            double slower_for_less_code = 1) {
  std::vector<Schedule> candidates = context.backend->candidates(region, bucket);
  internal_check(!candidates.empty(), "a backend has a schedule for every region");
  // Relative to the best at each point, so that the slow end of a cell does not decide alone.
  std::vector<std::vector<double>> seconds(candidates.size());
  std::vector<double> least(points.size(), std::numeric_limits<double>::infinity());
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    for (std::size_t p = 0; p < points.size(); ++p) {
      seconds[c].push_back(
          context.backend->estimate(region, candidates[c], points[p], context.options.threads));
      least[p] = std::min(least[p], seconds[c][p]);
    }
  }
  std::vector<double> ratios(candidates.size());
  for (std::size_t c = 0; c < candidates.size(); ++c)
    for (std::size_t p = 0; p < points.size(); ++p)
      ratios[c] += least[p] > 0 ? seconds[c][p] / least[p] : 1;
  std::size_t chosen = static_cast<std::size_t>(std::ranges::min_element(ratios) - ratios.begin());
  if (slower_for_less_code > 1) {
    const double most = ratios[chosen] * slower_for_less_code;
    double least_code = context.backend->code_size(region, bucket, candidates[chosen]);
    for (std::size_t c = 0; c < candidates.size(); ++c) {
      if (ratios[c] > most) continue;
      const double code = context.backend->code_size(region, bucket, candidates[c]);
      if (code < least_code) least_code = code, chosen = c;
    }
  }
  return {candidates[chosen], seconds[chosen][points.size() / 2]};
}

// The whole range, with samples spread over its orders of magnitude. `stands_in`: kernels of
// buckets follow for all of it.
DispatchTable::Entry general_entry(const Region& region, const Bucket& whole, bool stands_in,
                                   const PassContext& context) {
  std::vector<std::vector<std::int64_t>> points;
  for (std::int64_t size : {1, 16, 128, 1024}) {
    std::vector<std::int64_t> point;
    for (const BucketInterval& interval : whole.intervals)
      point.push_back(interval.size_from(size));
    points.push_back(std::move(point));
  }
  Chosen chosen = best(region, whole, points, context, stands_in ? stand_in_slower : 1);
  return {whole, chosen.schedule, chosen.seconds};
}

bool joins(const DispatchTable::Entry& a, const DispatchTable::Entry& b, std::size_t key) {
  if (!(a.schedule == b.schedule)) return false;
  for (std::size_t i = 0; i < a.bucket.intervals.size(); ++i) {
    if (i == key ? a.bucket.intervals[i].high + 1 != b.bucket.intervals[i].low
                 : !(a.bucket.intervals[i] == b.bucket.intervals[i]))
      return false;
  }
  return true;
}

void merge_neighbours(std::vector<DispatchTable::Entry>& entries, std::size_t keys) {
  for (std::size_t key = keys; key-- > 0;) {
    for (std::size_t i = 0; i < entries.size(); ++i) {
      for (std::size_t j = i + 1; j < entries.size();) {
        if (joins(entries[i], entries[j], key)) {
          entries[i].bucket.intervals[key].high = entries[j].bucket.intervals[key].high;
          entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(j));
        } else {
          ++j;
        }
      }
    }
  }
}

// What a backend has for a region's buckets, each asked once: rows share kernels, and a space holds
// a thousand schedules.
class Offers {
 public:
  Offers(const Backend& backend, const Region& region) : backend_(backend), region_(region) {}

  // A backend may offer a schedule for the shapes that it serves best, and not for all those that
  // its code is compiled for. Also what only a search by measurement considers: that is where tuned
  // rows come from.
  bool have(const TunedEntry& row) {
    for (const bool all : {false, true})
      for (const Bucket* bucket : {&row.kernel, &row.bucket}) {
        const std::vector<Schedule>& offered = of(*bucket, all);
        if (std::ranges::find(offered, row.schedule) != offered.end()) return true;
      }
    return false;
  }

 private:
  const std::vector<Schedule>& of(const Bucket& bucket, bool all) {
    const auto [known, fresh] = known_.try_emplace({to_string(bucket), all});
    if (fresh)
      known->second = all ? backend_.space(region_, bucket) : backend_.candidates(region_, bucket);
    return known->second;
  }

  const Backend& backend_;
  const Region& region_;
  std::map<std::pair<std::string, bool>, std::vector<Schedule>> known_;
};

bool fits(const TunedEntry& row, const Bucket& whole, Offers& offers) {
  return row.bucket.intervals.size() == whole.intervals.size() &&
         contains(row.kernel, row.bucket) &&
         std::ranges::all_of(
             row.bucket.intervals,
             [](const BucketInterval& i) { return i.multiple >= 1 && i.low <= i.high; }) &&
         offers.have(row);
}

std::vector<DispatchTable::Entry> tuned_entries(const Region& region, const Bucket& whole,
                                                const PassContext& context) {
  std::vector<DispatchTable::Entry> entries;
  if (context.tuning == nullptr) return entries;
  const auto rows = context.tuning->regions.find(region.identity);
  if (rows == context.tuning->regions.end()) return entries;
  Offers offers(*context.backend, region);
  for (const TunedEntry& row : rows->second) {
    if (!fits(row, whole, offers)) continue;
    entries.push_back({row.bucket, row.schedule, row.seconds, std::nullopt,
                       row.measured ? EntryOrigin::TunedMeasured : EntryOrigin::TunedPredicted});
    if (!(row.kernel == row.bucket)) entries.back().kernel = row.kernel;
  }
  return entries;
}

Bucket whole_range(const Region& region) {
  Bucket whole;
  for (const Dim& key : region.keys) {
    Interval range = bounds(key, region.body.symbols);
    whole.intervals.push_back({std::max<std::int64_t>(range.low, 0), range.high,
                               std::max<std::int64_t>(divisor(key, region.body.symbols), 1)});
  }
  return whole;
}

// The library's one entry, or nothing where it does not compute the region. `named`: the policy was
// asked for this very region.
std::optional<DispatchTable> library_table(const Region& region, bool named,
                                           const PassContext& context) {
  const Backend::LibraryChoice choice = context.backend->library_schedule(region);
  if (!choice.schedule) {
    if (!named) return std::nullopt;
    throw Error(ErrorKind::CommandLine,
                "the policy library was chosen for the region {0}, which no library computes: {1}; "
                "leave its policy out, or ask for symbolic, bucketed or exact",
                region.name, choice.reason);
  }
  const Bucket whole = whole_range(region);
  const double seconds = context.backend->estimate(region, *choice.schedule, samples(whole)[1],
                                                   context.options.threads);
  return DispatchTable{{{whole, *choice.schedule, seconds}}};
}

DispatchTable choose(const Region& region, bool bucketed, const PassContext& context) {
  const Bucket whole = whole_range(region);
  DispatchTable table;
  if (bucketed) table.entries = tuned_entries(region, whole, context);
  if (!table.entries.empty()) {
    if (!contains(table.entries.back().bucket, whole))
      table.entries.push_back(general_entry(region, whole, false, context));
    return table;
  }
  if (bucketed && !region.keys.empty()) {
    std::vector<std::vector<std::int64_t>> edges = context.backend->key_edges(region);
    internal_check(edges.size() == region.keys.size(), "a backend gives edges for every key");
    std::vector<Bucket> cells{Bucket{}};
    for (std::size_t key = 0; key < region.keys.size(); ++key) {
      std::vector<BucketInterval> intervals = cut(whole.intervals[key], edges[key]);
      if (cells.size() * intervals.size() > maximum_cells) intervals = {whole.intervals[key]};
      std::vector<Bucket> next;
      for (const Bucket& cell : cells)
        for (const BucketInterval& interval : intervals) {
          next.push_back(cell);
          next.back().intervals.push_back(interval);
        }
      cells = std::move(next);
    }
    if (cells.size() == 1) cells.clear();  // nothing is cut: the general entry is all there is
    for (const Bucket& cell : cells) {
      Chosen chosen = best(region, cell, samples(cell), context);
      table.entries.push_back({cell, chosen.schedule, chosen.seconds});
    }
    merge_neighbours(table.entries, region.keys.size());
  }
  if (table.entries.size() == 1 && table.entries[0].bucket == whole) return table;
  const bool stands_in = !table.entries.empty();
  table.entries.push_back(general_entry(region, whole, stands_in, context));
  return table;
}

}  // namespace

void choose_buckets(Module& module, PassContext& context) {
  if (context.backend == nullptr) return;
  context.tables.clear();
  // The text form leaves form and keys out, because they follow from the region.
  for (Region& region : module.regions)
    if (!region.form) set_form(region, derive_loop_form(region));
  for (const Region& region : module.regions)
    context.tables.push_back(choose_table(region, module.policies, context));
}

DispatchTable choose_table(const Region& region, const std::vector<PolicyChoice>& policies,
                           const PassContext& context) {
  check_cancelled(context.options.cancellation);
  const PolicyChoice* choice = find_policy(policies, region.name);
  if (choice != nullptr && choice->policy == Policy::Library) {
    std::optional<DispatchTable> table = library_table(region, !choice->region.empty(), context);
    if (table) return std::move(*table);
  }
  return choose(region, choice == nullptr || choice->policy != Policy::Symbolic, context);
}

}  // namespace anydim::passes
