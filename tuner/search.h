// What to measure next, and when to stop. It knows no device and no clock: times come to it as
// ratios to the incumbent, the schedule that the cost model alone would use at a point.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ir/schedule.h"

namespace anydim::tuner {

// One region's candidates at its points.
struct SearchRegion {
  std::vector<ir::Schedule> candidates;
  std::vector<std::vector<std::int64_t>> points;
  std::vector<double> weights;                 // expected launches at a point in a call
  std::vector<std::vector<double>> estimates;  // [candidate][point], seconds by the cost model
  std::vector<std::size_t> incumbents;         // candidate at each point
};

struct SearchRules {
  // it stops where no candidate is expected to save more than this share of a call
  double threshold = 0.002;
  bool refit = true;   // correct the cost model by what was measured
  double penalty = 1;  // of the ridge fit
  // standard deviation of log(time / estimate) before anything is measured
  double first_doubt = 0.3;
  // challengers a region that are measured whatever the estimates say, where it has as many
  std::size_t fewest = 3;
};

// Candidate `candidate` of region `region`.
struct Attempt {
  std::size_t region = 0, candidate = 0;
  bool operator==(const Attempt&) const = default;
};

class Search {
 public:
  Search(std::vector<SearchRegion> regions, SearchRules rules);

  // Incumbents come first, then always what promises the greatest saving; nothing where none
  // promises enough, or all are known.
  std::optional<Attempt> next() const;
  // Times over the incumbent's at every point, and the incumbent's seconds; both empty where the
  // candidate may not be used.
  void record(const Attempt& attempt, const std::vector<double>& ratios,
              const std::vector<double>& incumbent_seconds);
  // Known elsewhere to be not worth a try (it failed there), or given out to somebody who will
  // report.
  void withhold(const Attempt& attempt);

  const std::vector<SearchRegion>& regions() const { return regions_; }
  bool tried(const Attempt& attempt) const {
    return known_[attempt.region][attempt.candidate] != Known::No;
  }
  std::size_t trials() const { return trials_; }
  // Time over the incumbent's at each point, as measured; empty: not measured, or not to be used.
  const std::vector<double>& ratios(const Attempt& attempt) const {
    return ratios_[attempt.region][attempt.candidate];
  }
  // What the (corrected) cost model says of it.
  double predicted_ratio(const Attempt& attempt, std::size_t point) const;
  // Seconds of the incumbent at a point: measured where it was, else by the cost model.
  double incumbent_seconds(std::size_t region, std::size_t point) const {
    return incumbent_seconds_[region][point];
  }
  // What a call takes with the best known candidate everywhere, and with the incumbents.
  double best_seconds() const;
  double default_seconds() const;

 private:
  enum class Known : std::uint8_t { No, Withheld, Yes };
  double best_ratio(std::size_t region, std::size_t point) const;
  double promise(const Attempt& attempt, std::span<const double> best) const;
  void refit(std::size_t region);
  std::vector<double> features(std::size_t region, std::size_t candidate, std::size_t point) const;
  double estimated_ratio(std::size_t region, std::size_t candidate, std::size_t point) const;

  std::vector<SearchRegion> regions_;
  SearchRules rules_;
  std::vector<std::vector<Known>> known_;
  std::vector<std::vector<std::vector<double>>> ratios_;
  std::vector<std::vector<double>> incumbent_seconds_;
  // of the logarithm; [region][candidate][point]
  std::vector<std::vector<std::vector<double>>> corrections_;
  std::vector<double> doubt_;
  std::vector<std::size_t> challengers_;  // measured, by region
  std::size_t trials_ = 0;
};

}  // namespace anydim::tuner
