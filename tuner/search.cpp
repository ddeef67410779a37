#include "tuner/search.h"

#include <algorithm>
#include <cmath>

#include "ir/error.h"
#include "tuner/ridge.h"

namespace anydim::tuner {

namespace {

constexpr double least_doubt = 0.03;

}  // namespace

Search::Search(std::vector<SearchRegion> regions, SearchRules rules)
    : regions_(std::move(regions)), rules_(rules) {
  for (const SearchRegion& region : regions_) {
    const std::size_t candidates = region.candidates.size(), points = region.points.size();
    internal_check(
        region.weights.size() == points && region.incumbents.size() == points &&
            region.estimates.size() == candidates,
        "a region has a weight and an incumbent a point, and estimates of every candidate");
    known_.emplace_back(candidates, Known::No);
    ratios_.emplace_back(candidates);
    corrections_.emplace_back(candidates, std::vector<double>(points, 0.0));
    std::vector<double>& seconds = incumbent_seconds_.emplace_back();
    for (std::size_t p = 0; p < points; ++p)
      seconds.push_back(region.estimates[region.incumbents[p]][p]);
    doubt_.push_back(rules_.first_doubt);
    challengers_.push_back(0);
  }
}

double Search::estimated_ratio(std::size_t region, std::size_t candidate, std::size_t point) const {
  const SearchRegion& r = regions_[region];
  const double incumbent = r.estimates[r.incumbents[point]][point];
  return incumbent > 0 ? r.estimates[candidate][point] / incumbent : 1;
}

double Search::predicted_ratio(const Attempt& attempt, std::size_t point) const {
  return estimated_ratio(attempt.region, attempt.candidate, point) *
         std::exp(corrections_[attempt.region][attempt.candidate][point]);
}

double Search::best_ratio(std::size_t region, std::size_t point) const {
  double best = 1;
  for (const std::vector<double>& ratios : ratios_[region])
    if (!ratios.empty()) best = std::min(best, ratios[point]);
  return best;
}

// Seconds of a call that the candidate might save, taken as a standard deviation better than
// predicted.
double Search::promise(const Attempt& attempt, std::span<const double> best) const {
  const SearchRegion& region = regions_[attempt.region];
  const double hope = std::exp(-doubt_[attempt.region]);
  double saved = 0;
  for (std::size_t p = 0; p < region.points.size(); ++p) {
    const double gain = best[p] - predicted_ratio(attempt, p) * hope;
    if (gain > 0) saved += gain * region.weights[p] * incumbent_seconds_[attempt.region][p];
  }
  return saved;
}

std::optional<Attempt> Search::next() const {
  std::optional<Attempt> chosen;
  double most = 0;
  for (std::size_t r = 0; r < regions_.size(); ++r) {
    for (const std::size_t incumbent : regions_[r].incumbents)
      if (known_[r][incumbent] == Known::No) return Attempt{r, incumbent};
  }
  const double least = rules_.threshold * best_seconds();
  for (std::size_t r = 0; r < regions_.size(); ++r) {
    std::vector<double> best;
    for (std::size_t p = 0; p < regions_[r].points.size(); ++p) best.push_back(best_ratio(r, p));
    for (std::size_t c = 0; c < regions_[r].candidates.size(); ++c) {
      if (known_[r][c] != Known::No) continue;
      const double promised = promise({r, c}, best);
      if ((promised >= least || challengers_[r] < rules_.fewest) && (promised > most || !chosen)) {
        most = promised;
        chosen = Attempt{r, c};
      }
    }
  }
  return chosen;
}

void Search::withhold(const Attempt& attempt) {
  Known& known = known_[attempt.region][attempt.candidate];
  if (known == Known::No) known = Known::Withheld;
}

void Search::record(const Attempt& attempt, const std::vector<double>& ratios,
                    const std::vector<double>& incumbent_seconds) {
  const auto [r, c] = attempt;
  const SearchRegion& region = regions_[r];
  known_[r][c] = Known::Yes;
  ++trials_;
  const bool incumbent = std::ranges::find(region.incumbents, c) != region.incumbents.end();
  if (!incumbent) ++challengers_[r];
  ratios_[r][c] = ratios;  // what was right before may have failed now
  if (ratios.empty()) return;
  internal_check(ratios.size() == region.points.size() && incumbent_seconds.size() == ratios.size(),
                 "a trial has a time for every point");
  for (std::size_t p = 0; p < ratios.size(); ++p) {
    if (region.incumbents[p] == c) incumbent_seconds_[r][p] = incumbent_seconds[p];
  }
  refit(r);
}

std::vector<double> Search::features(std::size_t region, std::size_t candidate,
                                     std::size_t point) const {
  const SearchRegion& r = regions_[region];
  const ir::Schedule& own = r.candidates[candidate];
  const ir::Schedule& incumbent = r.candidates[r.incumbents[point]];
  double size = 0;
  for (const std::int64_t key : r.points[point]) size += std::log2(1 + static_cast<double>(key));
  std::vector<double> features{1};
  // As many for every candidate: schedules of a region may differ in name and then in fields.
  std::size_t most = 0;
  for (const ir::Schedule& schedule : r.candidates) most = std::max(most, schedule.fields.size());
  features.resize(1 + 3 * most + 1);
  features.back() = own.name == incumbent.name ? 0 : 1;
  for (std::size_t f = 0; f < own.fields.size(); ++f) {
    const double value = std::log2(1 + static_cast<double>(own.fields[f].second));
    const double theirs =
        std::log2(1 + static_cast<double>(
                          incumbent.find(own.fields[f].first).value_or(own.fields[f].second)));
    features[1 + 3 * f] = value - theirs;
    features[2 + 3 * f] = value;
    features[3 + 3 * f] = value * size / 10;
  }
  return features;
}

void Search::refit(std::size_t r) {
  const SearchRegion& region = regions_[r];
  std::vector<std::vector<double>> rows;
  std::vector<double> values;
  for (std::size_t c = 0; c < region.candidates.size(); ++c) {
    if (ratios_[r][c].empty()) continue;
    for (std::size_t p = 0; p < region.points.size(); ++p) {
      if (c == region.incumbents[p]) continue;
      rows.push_back(features(r, c, p));
      values.push_back(
          std::log(std::max(ratios_[r][c][p], 1e-3) / std::max(estimated_ratio(r, c, p), 1e-3)));
    }
  }
  if (values.empty()) return;
  constexpr std::size_t enough = 8;  // samples, below which a fit says nothing
  if (rules_.refit && values.size() >= enough) {
    const Ridge ridge(rows, values, rules_.penalty);
    for (std::size_t c = 0; c < region.candidates.size(); ++c)
      for (std::size_t p = 0; p < region.points.size(); ++p)
        corrections_[r][c][p] = std::clamp(ridge.predict(features(r, c, p)), -1.5, 1.5);
  }
  // How far what was measured lies from what is now predicted; with few samples, what was believed
  // before counts as four of them.
  double squares = 4 * rules_.first_doubt * rules_.first_doubt;
  std::size_t at = 0;
  for (std::size_t c = 0; c < region.candidates.size(); ++c) {
    if (ratios_[r][c].empty()) continue;
    for (std::size_t p = 0; p < region.points.size(); ++p) {
      if (c == region.incumbents[p]) continue;
      const double left = values[at++] - corrections_[r][c][p];
      squares += left * left;
    }
  }
  doubt_[r] = std::max(least_doubt, std::sqrt(squares / static_cast<double>(4 + values.size())));
}

double Search::best_seconds() const {
  double seconds = 0;
  for (std::size_t r = 0; r < regions_.size(); ++r)
    for (std::size_t p = 0; p < regions_[r].points.size(); ++p)
      seconds += regions_[r].weights[p] * incumbent_seconds_[r][p] * best_ratio(r, p);
  return seconds;
}

double Search::default_seconds() const {
  double seconds = 0;
  for (std::size_t r = 0; r < regions_.size(); ++r)
    for (std::size_t p = 0; p < regions_[r].points.size(); ++p)
      seconds += regions_[r].weights[p] * incumbent_seconds_[r][p];
  return seconds;
}

}  // namespace anydim::tuner
