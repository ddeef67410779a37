#include "tuner/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "ir/error.h"
#include "tuner/json.h"
#include "tuner/observed.h"
#include "tuner/search_latencies.h"
#include "tuner/text_hash.h"
#include "tuner/tolerance.h"
#include "tuner/tune_report.h"
#include "tuner/unseen_regret.h"

namespace anydim::tuner {

namespace {

using Clock = std::chrono::steady_clock;

double estimated_seconds(const TuneSubject& subject, const ir::Region& region,
                         const ir::Schedule& schedule, std::span<const std::int64_t> keys) {
  return std::max(subject.backend.estimate(region, schedule, keys, subject.environment.threads),
                  1e-12);
}

SearchRegion search_region(const TuneSubject& subject, const RegionPoints& points) {
  const ir::Program::Kernel& kernel = kernel_of(subject, points.kernel);
  SearchRegion region{
      .candidates = subject.backend.space(kernel.region, whole_range(kernel.region)),
      .points = points.points,
      .weights = points.weights,
      .estimates = {},
      .incumbents = {}};
  for (const std::vector<std::int64_t>& keys : points.points) {
    const ir::Schedule& incumbent = entry_for(kernel.table, keys).schedule;
    const auto at = std::ranges::find(region.candidates, incumbent);
    region.incumbents.push_back(static_cast<std::size_t>(at - region.candidates.begin()));
    if (at == region.candidates.end()) region.candidates.push_back(incumbent);
  }
  for (const ir::Schedule& candidate : region.candidates) {
    std::vector<double>& seconds = region.estimates.emplace_back();
    for (const std::vector<std::int64_t>& keys : points.points)
      seconds.push_back(estimated_seconds(subject, kernel.region, candidate, keys));
  }
  return region;
}

// One run's work between the search and the database.
class Run {
 public:
  Run(const TuneSubject& subject, const KeyPoints& points, const TuneRules& rules,
      const TuneDevice& device, Database& database, const TuneHooks& hooks, Clock::time_point begin)
      : subject_(subject), points_(points.regions), rules_(rules), device_(device),
        database_(database), hooks_(hooks), begin_(begin),
        search_(regions_of(subject, points), rules_of(rules)) {
    for (const SearchRegion& region : search_.regions()) {
      space_ += static_cast<std::int64_t>(region.candidates.size());
      noise_.emplace_back(region.points.size(), 0.0);
      rooflines_.emplace_back(region.points.size(), 0.0);
    }
  }

  // Takes over what the database knows of these regions at all of their points.
  void recall() {
    for (std::size_t r = 0; r < points_.size(); ++r) {
      // by schedule, then keys
      std::map<std::string, std::map<std::vector<std::int64_t>, Measurement>> known;
      for (Measurement& one : database_.measurements(subject_.environment, region(r).identity)) {
        if (!one.multiples.empty() || one.measured != device_.measured) continue;
        std::string name = to_string(one.schedule);
        std::vector<std::int64_t> keys = one.keys;
        known[std::move(name)][std::move(keys)] = std::move(one);
      }
      // Incumbents first: times of the others are taken relative to theirs.
      const SearchRegion& searched = search_.regions()[r];
      for (const bool incumbents : {true, false}) {
        for (std::size_t c = 0; c < searched.candidates.size(); ++c) {
          const bool incumbent =
              std::ranges::find(searched.incumbents, c) != searched.incumbents.end();
          const auto found = known.find(to_string(searched.candidates[c]));
          if (incumbent != incumbents || found == known.end()) continue;
          recall(r, c, found->second, known);
        }
      }
    }
  }

  // Has the device load the calls, and keeps what it tells of their launches.
  void prepare(const std::vector<Call>& calls) {
    if (!device_.prepare) return;
    const auto begin = Clock::now();
    const std::vector<std::vector<LaunchKeys>> launches = device_.prepare(calls);
    prepare_seconds_ = std::chrono::duration<double>(Clock::now() - begin).count();
    for (std::size_t r = 0; r < points_.size(); ++r) {
      for (std::size_t p = 0; p < points_[r].points.size(); ++p) {
        const std::size_t call = points_[r].calls[p] + 1;
        if (call >= launches.size()) continue;
        for (const LaunchKeys& launch : launches[call])
          if (launch.kernel == points_[r].kernel && launch.keys == points_[r].points[p])
            rooflines_[r][p] = launch.roofline_seconds;
      }
    }
  }

  // Seconds at a point that no kernel can beat; 0: not known. Where one did, the limits were
  // measured too low, and its time is the limit.
  double roofline(std::size_t region, std::size_t point) const {
    double least = search_.incumbent_seconds(region, point);
    for (std::size_t c = 0; c < search_.regions()[region].candidates.size(); ++c)
      if (const std::vector<double>& ratios = search_.ratios({region, c}); !ratios.empty())
        least = std::min(least, ratios[point] * search_.incumbent_seconds(region, point));
    return std::min(least, rooflines_[region][point]);
  }

  // A chosen row, with the mean roofline of the sizes that its bucket holds.
  ChosenEntry chosen(std::size_t r, const ir::TunedEntry& entry) const {
    std::vector<double> rooflines;
    for (std::size_t p = 0; p < points_[r].points.size(); ++p) rooflines.push_back(roofline(r, p));
    const KeyWeights& sizes = points_[r].sizes;
    double weights = 0, sum = 0;
    for (std::size_t s = 0; s < sizes.keys.size(); ++s) {
      if (!entry.bucket.contains(sizes.keys[s])) continue;
      weights += sizes.weights[s];
      sum += sizes.weights[s] * interpolated(points_[r].points, rooflines, sizes.keys[s]);
    }
    return {.entry = entry,
            .roofline_seconds = weights > 0 ? std::min(sum / weights, entry.seconds) : 0};
  }

  // What was measured, told on to all sizes of the workload.
  std::vector<RegionLatencies> refined(std::span<const RegionLatencies> latencies) const {
    std::vector<RegionLatencies> all;
    for (std::size_t r = 0; r < points_.size(); ++r) {
      const auto estimate = [&](std::size_t candidate, std::span<const std::int64_t> keys) {
        return estimated(r, latencies[r].candidates[candidate].schedule, keys);
      };
      all.push_back(refine(latencies[r], points_[r].sizes, estimate));
    }
    return all;
  }

  // Seconds of a call by the schedules of the cost model alone, at all sizes of the workload: in
  // the times that tables are chosen from, or where a schedule has none there, its estimate
  // corrected by what was measured nearby.
  double default_seconds(std::span<const RegionLatencies> refined) const {
    double seconds = 0;
    for (std::size_t r = 0; r < points_.size(); ++r) {
      const SearchRegion& searched = search_.regions()[r];
      std::vector<double> corrections;
      for (std::size_t p = 0; p < searched.points.size(); ++p)
        corrections.push_back(search_.incumbent_seconds(r, p) /
                              searched.estimates[searched.incumbents[p]][p]);
      const RegionLatencies& times = refined[r];
      for (std::size_t s = 0; s < times.points.size(); ++s) {
        const ir::Schedule& incumbent =
            entry_for(kernel_of(subject_, points_[r].kernel).table, times.points[s]).schedule;
        double best = std::numeric_limits<double>::infinity();
        for (std::size_t c = 0; c < times.candidates.size(); ++c)
          if (times.candidates[c].schedule == incumbent) best = std::min(best, times.seconds[c][s]);
        if (!std::isfinite(best))
          best = estimated(r, incumbent, times.points[s]) *
                 interpolated(searched.points, corrections, times.points[s]);
        seconds += times.weights[s] * best;
      }
    }
    return seconds;
  }

  // What loading and timing every finalist in several rounds at `points` new calls is likely to
  // take; a third of the budget at most.
  double regret_reserve(std::size_t points) const {
    if (trials_ == 0) return 0.1 * rules_.budget_seconds;
    constexpr double finalists = 5, rounds = 6;  // of a region
    const double share =
        static_cast<double>(points) / static_cast<double>(std::max<std::size_t>(rules_.points, 1));
    const double needed = prepare_seconds_ + rounds * finalists *
                                                 static_cast<double>(points_.size()) * share *
                                                 trial_seconds_ / static_cast<double>(trials_);
    return std::min(needed, rules_.budget_seconds / 3);
  }

  // False: interrupted. Goes on while more than `reserve` seconds of the budget are left.
  bool measure(const std::function<double()>& reserve) {
    const auto may_try = [&](std::size_t more) {
      return rules_.most_trials == 0 ||
             trials_ + static_cast<std::int64_t>(more) < rules_.most_trials;
    };
    while (seconds_left() > reserve() && may_try(0)) {
      std::vector<Attempt> attempts;
      while (attempts.size() < std::max<std::size_t>(device_.width, 1) &&
             may_try(attempts.size())) {
        std::optional<Attempt> attempt = search_.next();
        if (!attempt && rules_.exhaustive) attempt = any_untried();
        if (!attempt) break;
        attempts.push_back(*attempt);
        search_.withhold(*attempt);
      }
      if (attempts.empty()) return true;
      if (!try_all(attempts)) return false;
    }
    return true;
  }

  // What timing kept challengers in whole calls takes, as far as they take that long; a sixth of
  // the budget at most.
  double confirm_reserve() const {
    if (!device_.measure_in_calls) return 0;
    constexpr double rounds = 4;
    return std::min(rounds * TrialRules().call_seconds * static_cast<double>(rules_.points),
                    rules_.budget_seconds / 6);
  }

  // Kept challengers timed afresh at the same points, in whole calls where the device can: the
  // luckiest of many noisy times is too good to be true. False: interrupted.
  bool confirm(const Partition& partition, std::span<const RegionLatencies> latencies,
               double reserve) {
    std::vector<Attempt> attempts = kept_of(partition, latencies);
    if (device_.measure_in_calls) {
      // How fast a kernel is depends on those around it, so all are timed again with new company.
      if (attempts == timed_together_) return true;
      timed_together_ = attempts;
      return confirm_in_calls(std::move(attempts), reserve);
    }
    std::erase_if(attempts, [&](const Attempt& attempt) {
      return is_incumbent(attempt.region, attempt.candidate) ||
             confirmed_.contains({attempt.region, attempt.candidate});
    });
    return confirm_alone(attempts, reserve);
  }

  // Challengers that were not timed in whole calls may not run anywhere.
  void leave_out_unconfirmed(std::span<RegionLatencies> latencies) const {
    for (std::size_t r = 0; r < latencies.size(); ++r) {
      for (std::size_t c = 0; c < latencies[r].candidates.size(); ++c) {
        const std::size_t candidate = candidate_of(r, latencies[r].candidates[c].schedule);
        if (!is_incumbent(r, candidate) && !confirmed_.contains({r, candidate}))
          std::ranges::fill(latencies[r].seconds[c], std::numeric_limits<double>::infinity());
      }
    }
  }

  const Search& search() const { return search_; }
  const std::vector<std::vector<double>>& noise() const { return noise_; }
  std::int64_t trials() const { return trials_; }
  std::int64_t reused() const { return reused_; }
  std::int64_t space() const { return space_; }
  const std::map<Outcome, std::int64_t>& failures() const { return failures_; }
  double seconds_left() const {
    return rules_.budget_seconds - std::chrono::duration<double>(Clock::now() - begin_).count();
  }

 private:
  static std::vector<SearchRegion> regions_of(const TuneSubject& subject, const KeyPoints& points) {
    std::vector<SearchRegion> regions;
    for (const RegionPoints& one : points.regions) regions.push_back(search_region(subject, one));
    return regions;
  }
  static SearchRules rules_of(const TuneRules& rules) { return rules.search; }

  const ir::Region& region(std::size_t r) const {
    return kernel_of(subject_, points_[r].kernel).region;
  }

  double estimated(std::size_t r, const ir::Schedule& schedule,
                   std::span<const std::int64_t> keys) const {
    return estimated_seconds(subject_, region(r), schedule, keys);
  }

  std::optional<Attempt> any_untried() const {
    for (std::size_t r = 0; r < search_.regions().size(); ++r)
      for (std::size_t c = 0; c < search_.regions()[r].candidates.size(); ++c)
        if (!search_.tried({r, c})) return Attempt{r, c};
    return std::nullopt;
  }

  void recall(
      std::size_t r, std::size_t c, const std::map<std::vector<std::int64_t>, Measurement>& at_keys,
      const std::map<std::string, std::map<std::vector<std::int64_t>, Measurement>>& known) {
    const SearchRegion& searched = search_.regions()[r];
    std::vector<double> ratios, seconds;
    for (std::size_t p = 0; p < searched.points.size(); ++p) {
      const auto own = at_keys.find(searched.points[p]);
      if (own != at_keys.end() && own->second.outcome != Outcome::Ok) {
        search_.record({r, c}, {}, {});
        ++reused_;
        return;
      }
      const auto incumbents = known.find(to_string(searched.candidates[searched.incumbents[p]]));
      if (own == at_keys.end() || incumbents == known.end()) return;
      const auto incumbent = incumbents->second.find(searched.points[p]);
      if (incumbent == incumbents->second.end() || incumbent->second.outcome != Outcome::Ok) return;
      ratios.push_back(own->second.seconds / incumbent->second.seconds);
      seconds.push_back(incumbent->second.seconds);
      if (searched.incumbents[p] == c) noise_[r][p] = own->second.spread;
    }
    search_.record({r, c}, ratios, seconds);
    ++reused_;
  }

  std::size_t candidate_of(std::size_t r, const ir::Schedule& schedule) const {
    const std::vector<ir::Schedule>& candidates = search_.regions()[r].candidates;
    return static_cast<std::size_t>(std::ranges::find(candidates, schedule) - candidates.begin());
  }
  bool is_incumbent(std::size_t r, std::size_t candidate) const {
    const std::vector<std::size_t>& incumbents = search_.regions()[r].incumbents;
    return std::ranges::find(incumbents, candidate) != incumbents.end();
  }

  // What the partition keeps but for schedules that the cost model has at every point.
  std::vector<Attempt> kept_of(const Partition& partition,
                               std::span<const RegionLatencies> latencies) const {
    std::vector<Attempt> attempts;
    for (std::size_t r = 0; r < points_.size(); ++r) {
      for (const std::size_t kept : partition.regions[r].candidates) {
        const std::size_t c = candidate_of(r, latencies[r].candidates[kept].schedule);
        const std::vector<std::size_t>& incumbents = search_.regions()[r].incumbents;
        if (std::ranges::count(incumbents, c) < std::ssize(incumbents)) attempts.push_back({r, c});
      }
    }
    return attempts;
  }

  bool confirm_alone(const std::vector<Attempt>& attempts, double reserve) {
    const std::size_t width = std::max<std::size_t>(device_.width, 1);
    for (std::size_t i = 0; i < attempts.size() && seconds_left() > reserve; i += width) {
      const auto first = attempts.begin() + static_cast<std::ptrdiff_t>(i);
      const std::vector<Attempt> some(
          first, first + static_cast<std::ptrdiff_t>(std::min(width, attempts.size() - i)));
      if (!try_all(some)) return false;
      for (const Attempt& attempt : some) confirmed_.insert({attempt.region, attempt.candidate});
    }
    return true;
  }

  // As many regions at once as there are: a call then runs what the tables might come to be.
  bool confirm_in_calls(std::vector<Attempt> left, double reserve) {
    while (!left.empty() && seconds_left() > reserve) {
      std::vector<Attempt> together, others;
      for (const Attempt& attempt : left) {
        const bool taken =
            std::ranges::find(together, attempt.region, &Attempt::region) != together.end();
        (taken ? others : together).push_back(attempt);
      }
      if (!try_in_calls(together)) return false;
      left = std::move(others);
    }
    return true;
  }

  bool try_in_calls(const std::vector<Attempt>& attempts) {
    std::vector<TrialRequest> requests;
    for (const Attempt& attempt : attempts) {
      requests.push_back(request_of(attempt));
      show(attempt);
    }
    if (hooks_.interrupted && hooks_.interrupted()) return false;
    const std::optional<std::vector<Trial>> trials = device_.measure_in_calls(requests);
    if (!trials) return false;
    if (attempts.size() > 1 && trials->front().outcome != Outcome::Ok) {
      // One of them ended the process: which, only each alone can tell.
      for (const Attempt& attempt : attempts)
        if (!try_in_calls({attempt})) return false;
      return true;
    }
    for (std::size_t i = 0; i < attempts.size(); ++i) {
      Trial trial = trials->at(i);
      // What cannot be told apart from the incumbent does not win.
      for (PointTimes& times : trial.points)
        if (times.high >= 1) times.ratio = std::max(times.ratio, 1.0);
      take(attempts[i], trial, true);
      confirmed_.insert({attempts[i].region, attempts[i].candidate});
    }
    return true;
  }

  TrialRequest request_of(const Attempt& attempt) const {
    return request_for(points_[attempt.region],
                       search_.regions()[attempt.region].candidates[attempt.candidate]);
  }

  // False: interrupted.
  bool try_all(const std::vector<Attempt>& attempts) {
    const auto begin = Clock::now();
    std::vector<TrialRequest> requests;
    for (const Attempt& attempt : attempts) requests.push_back(request_of(attempt));
    if (device_.expect) device_.expect(requests);
    for (std::size_t i = 0; i < attempts.size(); ++i) {
      show(attempts[i]);
      if (hooks_.interrupted && hooks_.interrupted()) return false;
      if (device_.measure_many) continue;
      const std::optional<Trial> trial = device_.measure(requests[i]);
      if (!trial) return false;
      take(attempts[i], *trial);
    }
    const auto measured = [&] {
      trial_seconds_ += std::chrono::duration<double>(Clock::now() - begin).count();
    };
    if (!device_.measure_many) {
      measured();
      return true;
    }
    const std::vector<Trial> trials = device_.measure_many(requests);
    for (std::size_t i = 0; i < trials.size(); ++i) take(attempts[i], trials[i]);
    measured();
    return trials.size() == attempts.size();
  }

  void show(const Attempt& attempt) const {
    if (!hooks_.progress) return;
    hooks_.progress(
        {.region = region(attempt.region).name,
         .candidate = to_string(search_.regions()[attempt.region].candidates[attempt.candidate]),
         .trials = static_cast<std::size_t>(trials_),
         .space = static_cast<std::size_t>(space_),
         .best_seconds = search_.best_seconds(),
         .default_seconds = search_.default_seconds(),
         .roofline_seconds = call_roofline(),
         .seconds_left = std::max(seconds_left(), 0.0)});
  }

  double call_roofline() const {
    double seconds = 0;
    for (std::size_t r = 0; r < points_.size(); ++r)
      for (std::size_t p = 0; p < points_[r].points.size(); ++p)
        seconds += points_[r].weights[p] * roofline(r, p);
    return seconds;
  }

  // `again`: the incumbents' seconds stay those of before, which other candidates' are relative to.
  void take(const Attempt& attempt, const Trial& trial, bool again = false) {
    const auto [r, c] = attempt;
    ++trials_;
    const SearchRegion& searched = search_.regions()[r];
    std::vector<Measurement> rows;
    std::vector<double> ratios, incumbent_seconds;
    for (std::size_t p = 0; p < searched.points.size(); ++p) {
      Measurement row{.region = region(r).identity,
                      .keys = searched.points[p],
                      .schedule = searched.candidates[c],
                      .outcome = trial.outcome,
                      .measured = device_.measured,
                      .resources = trial.resources,
                      .detail = trial.detail};
      if (trial.outcome == Outcome::Ok) {
        const PointTimes& times = trial.points.at(p);
        const bool own = searched.incumbents[p] == c;
        // Relative to the incumbent's own time, so that times of one run compare however the
        // machine felt.
        const double base = search_.ratios({r, searched.incumbents[p]}).empty()
                                ? times.incumbent_seconds
                                : search_.incumbent_seconds(r, p);
        // The incumbent's code for the whole range may be slower than that for its bucket; where
        // the two cannot be told apart they are the same.
        ratios.push_back(own && times.low <= 1 && times.high >= 1 ? 1 : times.ratio);
        incumbent_seconds.push_back(again ? base : times.incumbent_seconds);
        row.seconds = ratios.back() * (own ? incumbent_seconds.back() : base);
        row.spread = (times.high - times.low) / 2;
        row.samples = times.samples;
        if (own) noise_[r][p] = std::max(times.ratio - times.low, times.high - times.ratio);
      }
      rows.push_back(std::move(row));
    }
    if (trial.outcome != Outcome::Ok) ++failures_[trial.outcome];
    database_.record(subject_.environment, rows);
    search_.record(attempt, ratios, incumbent_seconds);
  }

  const TuneSubject& subject_;
  const std::vector<RegionPoints>& points_;
  const TuneRules& rules_;
  const TuneDevice& device_;
  Database& database_;
  const TuneHooks& hooks_;
  Clock::time_point begin_;
  Search search_;
  std::vector<std::vector<double>> noise_;  // [region][point]: 95 % spread of A against A
  std::vector<std::vector<double>>
      rooflines_;             // [region][point]: as the device tells; 0: not known
  double trial_seconds_ = 0;  // of all trials, on the wall
  double prepare_seconds_ = 0;
  std::set<std::pair<std::size_t, std::size_t>> confirmed_;  // region, candidate
  std::vector<Attempt> timed_together_;                      // in whole calls, last
  std::map<Outcome, std::int64_t> failures_;
  std::int64_t trials_ = 0, reused_ = 0, space_ = 0;
};

}  // namespace

TuneResult tune(const TuneSubject& subject, const Workload& workload, const Workload& unseen,
                const TuneRules& rules, const TuneDevice& device, Database& database,
                const TuneHooks& hooks) {
  const auto begin = Clock::now();
  if (!(rules.budget_seconds > 0))
    throw Error(ErrorKind::CommandLine,
                "--budget is no time: give seconds, minutes or hours above 0, e.g. 10m");
  TuneResult result;
  const Observed observed = observe(subject, workload, device);
  if (observed.launches.empty()) {
    result.interrupted = true;
    return result;
  }
  const KeyPoints points = choose_points(observed.workload, observed.launches, observed.work,
                                         rules.points, observed.runnable);
  const auto regions = static_cast<std::int64_t>(points.regions.size());
  if (rules.most_kernels < regions) {
    throw Error(ErrorKind::CommandLine,
                "--max-kernels {} is below the {} regions of the model, each of which needs one "
                "kernel; give {} or more",
                rules.most_kernels, regions, regions);
  }
  // Equal fingerprints: the same regions, calls, limits.
  std::string all = fmt::format("{} {} {} {} {}", workload.text, rules.most_kernels, rules.points,
                                rules.exhaustive, rules.most_trials);
  for (const RegionPoints& region : points.regions)
    all += kernel_of(subject, region.kernel).region.identity;
  const std::string fingerprint = text_hash(all);
  for (const ModelRun& before : database.runs(subject.environment)) {
    const nlohmann::json report = parse_json(before.report);
    if (!report.is_object() || !report.contains("fingerprint") ||
        report["fingerprint"] != fingerprint || before.budget_seconds < rules.budget_seconds)
      continue;
    result.nothing_to_do = true;
    result.run = before;
    return result;
  }

  std::vector<RegionRecord> records;
  for (const RegionPoints& region : points.regions) {
    const ir::Region& named = kernel_of(subject, region.kernel).region;
    records.push_back({.identity = named.identity, .name = named.name});
    result.kernels.push_back(region.kernel);
  }
  database.name_regions(records);
  Run run(subject, points, rules, device, database, hooks, begin);
  run.recall();
  const auto conclude = [&](bool confirmed_alone) {
    result.latencies =
        latencies_of(run.search(), points.regions, subject, run.noise(), device.measured);
    result.refined = run.refined(result.latencies);
    if (confirmed_alone) run.leave_out_unconfirmed(result.refined);
    result.partition = choose_kernels(result.refined, rules.most_kernels, Tail{});
    result.trials = run.trials();
    result.reused = run.reused();
    result.space = run.space();
    result.failures.assign(run.failures().begin(), run.failures().end());
  };
  run.prepare(calls_to_prepare(subject, observed, points));
  const bool regret_wanted = rules.unseen_calls > 0 && device.measured;
  const auto reserve = [&] { return regret_wanted ? run.regret_reserve(rules.unseen_calls) : 0; };
  // a little for timing kept kernels again
  result.interrupted = !run.measure([&] { return 1.2 * reserve() + run.confirm_reserve(); });
  // Kernels that disappoint make room for others that have not been timed again.
  const int rounds = device.measure_in_calls ? 8 : 3;
  for (int round = 0; round < rounds && !result.interrupted && device.measured; ++round) {
    conclude(false);
    const std::int64_t before = run.trials();
    result.interrupted = !run.confirm(result.partition, result.latencies, reserve());
    if (run.trials() == before) break;
  }
  conclude(device.measure_in_calls != nullptr);
  result.run = {.model = subject.model,
                .distribution = workload.text,
                .budget_seconds = rules.budget_seconds,
                .most_kernels = rules.most_kernels,
                .kernels = result.partition.kernels,
                .trials = result.trials + result.reused,
                .expected_seconds = result.partition.expected_seconds,
                .lower_bound_seconds = result.partition.lower_bound_seconds,
                .default_seconds = run.default_seconds(result.refined)};
  if (result.interrupted) return result;
  if (regret_wanted) {
    const Observed fresh = observe(subject, unseen, device);
    if (!fresh.launches.empty())
      measure_regret(subject, fresh, rules, device, [&] { return run.seconds_left(); }, result);
  }
  result.run.report = report_text(result, fingerprint);
  std::vector<ChosenTable> tables;
  for (std::size_t i = 0; i < result.latencies.size(); ++i) {
    ChosenTable& table = tables.emplace_back();
    table.region = result.latencies[i].region;
    for (const ir::TunedEntry& entry : result.partition.regions[i].entries)
      table.entries.push_back(run.chosen(i, entry));
  }
  database.store_run(subject.environment, result.run, tables);
  return result;
}

}  // namespace anydim::tuner
