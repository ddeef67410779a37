#include "tuner/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "ir/error.h"
#include "ir/schedule_space.h"
#include "tuner/text_hash.h"
#include "tuner/tolerance.h"

namespace anydim::tuner {

namespace {

using Clock = std::chrono::steady_clock;

const ir::Program::Kernel& kernel_of(const TuneSubject& subject, std::int32_t kernel) {
  return subject.program.kernels.at(static_cast<std::size_t>(kernel));
}

const ir::DispatchTable::Entry& entry_for(const ir::DispatchTable& table, std::span<const std::int64_t> keys) {
  std::size_t met = 0;
  while (met + 1 < table.entries.size() && !table.entries[met].bucket.contains(keys)) ++met;
  return table.entries[met];
}

double estimated_work(const TuneSubject& subject, const std::vector<LaunchKeys>& launches) {
  double seconds = 0;
  for (const LaunchKeys& launch : launches) {
    const ir::Program::Kernel& kernel = kernel_of(subject, launch.kernel);
    seconds +=
        subject.backend.estimate(kernel.region, entry_for(kernel.table, launch.keys).schedule, launch.keys, subject.environment.threads);
  }
  return seconds;
}

// What sampled calls launch: by arithmetic where shapes decide, else by running fewer of them.
struct Observed {
  Workload workload;
  std::vector<std::vector<LaunchKeys>> launches;
  std::vector<double> work;
};

Observed observe(const TuneSubject& subject, const Workload& workload, const TuneDevice& device) {
  constexpr std::size_t most_run = 32;
  Observed observed{.workload = workload, .launches = {}, .work = {}};
  const ShapeWalk walk(subject.program);
  if (walk.possible()) {
    for (const Call& call : workload.calls) observed.launches.push_back(walk.launches(subject.shape, call));
  } else {
    std::vector<Call>& calls = observed.workload.calls;
    if (calls.size() > most_run) {
      std::vector<Call> fewer;
      for (std::size_t i = 0; i < most_run; ++i) fewer.push_back(calls[i * calls.size() / most_run]);
      calls = std::move(fewer);
    }
    observed.launches = device.prepare(calls);
    if (observed.launches.size() != calls.size()) return {};  // interrupted
  }
  for (const std::vector<LaunchKeys>& launches : observed.launches) observed.work.push_back(estimated_work(subject, launches));
  return observed;
}

std::vector<Call> calls_to_prepare(const TuneSubject& subject, const Observed& observed, const KeyPoints& points) {
  std::vector<Call> calls{small_call(subject.shape)};
  for (const std::size_t representative : points.representatives) calls.push_back(observed.workload.calls[representative]);
  return calls;
}

TrialRequest request_for(const RegionPoints& points, const ir::Schedule& schedule) {
  TrialRequest request{.kernel = points.kernel, .schedule = schedule, .points = {}};
  for (std::size_t p = 0; p < points.points.size(); ++p) request.points.push_back({points.calls[p] + 1, points.points[p]});
  return request;
}

SearchRegion search_region(const TuneSubject& subject, const RegionPoints& points) {
  const ir::Program::Kernel& kernel = kernel_of(subject, points.kernel);
  SearchRegion region{.candidates = ir::space_of(subject.backend, kernel.region, whole_range(kernel.region)),
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
      seconds.push_back(std::max(subject.backend.estimate(kernel.region, candidate, keys, subject.environment.threads), 1e-12));
  }
  return region;
}

// One run's work between the search and the database.
class Run {
 public:
  Run(const TuneSubject& subject, const KeyPoints& points, const TuneRules& rules, const TuneDevice& device, Database& database,
      const TuneHooks& hooks, Clock::time_point begin)
      : subject_(subject), points_(points.regions), rules_(rules), device_(device), database_(database), hooks_(hooks), begin_(begin),
        search_(regions_of(subject, points), rules_of(rules)) {
    for (const SearchRegion& region : search_.regions()) {
      space_ += static_cast<std::int64_t>(region.candidates.size());
      noise_.emplace_back(region.points.size(), 0.0);
    }
  }

  // Takes over what the database knows of these regions at all of their points.
  void recall() {
    for (std::size_t r = 0; r < points_.size(); ++r) {
      std::map<std::string, std::map<std::vector<std::int64_t>, Measurement>> known;  // by schedule, then keys
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
          const bool incumbent = std::ranges::find(searched.incumbents, c) != searched.incumbents.end();
          const auto found = known.find(to_string(searched.candidates[c]));
          if (incumbent != incumbents || found == known.end()) continue;
          recall(r, c, found->second, known);
        }
      }
    }
  }

  // False: interrupted.
  bool measure() {
    while (seconds_left() > 0) {
      std::vector<Attempt> attempts;
      while (attempts.size() < std::max<std::size_t>(device_.width, 1)) {
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

  // Kept challengers timed afresh at the same points: the luckiest of many noisy times is too good to be true.
  bool confirm(const Partition& partition, std::span<const RegionLatencies> latencies) {
    std::vector<Attempt> attempts;
    for (std::size_t r = 0; r < points_.size(); ++r) {
      for (const std::size_t kept : partition.regions[r].candidates) {
        const auto at = std::ranges::find(search_.regions()[r].candidates, latencies[r].candidates[kept].schedule);
        const Attempt attempt{r, static_cast<std::size_t>(at - search_.regions()[r].candidates.begin())};
        const bool incumbent =
            std::ranges::find(search_.regions()[r].incumbents, attempt.candidate) != search_.regions()[r].incumbents.end();
        if (!incumbent && confirmed_.insert({{r, attempt.candidate}, true}).second) attempts.push_back(attempt);
      }
    }
    return attempts.empty() || try_all(attempts);
  }

  const Search& search() const { return search_; }
  const std::vector<std::vector<double>>& noise() const { return noise_; }
  std::int64_t trials() const { return trials_; }
  std::int64_t reused() const { return reused_; }
  std::int64_t space() const { return space_; }
  const std::map<Outcome, std::int64_t>& failures() const { return failures_; }

 private:
  static std::vector<SearchRegion> regions_of(const TuneSubject& subject, const KeyPoints& points) {
    std::vector<SearchRegion> regions;
    for (const RegionPoints& one : points.regions) regions.push_back(search_region(subject, one));
    return regions;
  }
  static SearchRules rules_of(const TuneRules& rules) { return rules.search; }

  const ir::Region& region(std::size_t r) const { return kernel_of(subject_, points_[r].kernel).region; }
  double seconds_left() const { return rules_.budget_seconds - std::chrono::duration<double>(Clock::now() - begin_).count(); }

  std::optional<Attempt> any_untried() const {
    for (std::size_t r = 0; r < search_.regions().size(); ++r)
      for (std::size_t c = 0; c < search_.regions()[r].candidates.size(); ++c)
        if (!search_.tried({r, c})) return Attempt{r, c};
    return std::nullopt;
  }

  void recall(std::size_t r, std::size_t c, const std::map<std::vector<std::int64_t>, Measurement>& at_keys,
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

  // False: interrupted.
  bool try_all(const std::vector<Attempt>& attempts) {
    std::vector<TrialRequest> requests;
    for (const Attempt& attempt : attempts) {
      requests.push_back(request_for(points_[attempt.region], search_.regions()[attempt.region].candidates[attempt.candidate]));
      show(attempt);
      if (hooks_.interrupted && hooks_.interrupted()) return false;
      if (device_.measure_many) continue;
      const std::optional<Trial> trial = device_.measure(requests.back());
      if (!trial) return false;
      take(attempt, *trial);
    }
    if (!device_.measure_many) return true;
    const std::vector<Trial> trials = device_.measure_many(requests);
    for (std::size_t i = 0; i < trials.size(); ++i) take(attempts[i], trials[i]);
    return trials.size() == attempts.size();
  }

  void show(const Attempt& attempt) const {
    if (!hooks_.progress) return;
    hooks_.progress({.region = region(attempt.region).name,
                     .candidate = to_string(search_.regions()[attempt.region].candidates[attempt.candidate]),
                     .trials = static_cast<std::size_t>(trials_),
                     .space = static_cast<std::size_t>(space_),
                     .best_seconds = search_.best_seconds(),
                     .default_seconds = search_.default_seconds(),
                     .seconds_left = std::max(seconds_left(), 0.0)});
  }

  void take(const Attempt& attempt, const Trial& trial) {
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
        // Relative to the incumbent's own time, so that times of one run compare however the machine felt.
        const double base = search_.ratios({r, searched.incumbents[p]}).empty() ? times.incumbent_seconds : search_.incumbent_seconds(r, p);
        // The incumbent's code for the whole range may be slower than that for its bucket; where the two cannot be told apart they are the same.
        ratios.push_back(own && times.low <= 1 && times.high >= 1 ? 1 : times.ratio);
        incumbent_seconds.push_back(times.incumbent_seconds);
        row.seconds = ratios.back() * (own ? times.incumbent_seconds : base);
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
  std::map<std::pair<std::size_t, std::size_t>, bool> confirmed_;
  std::map<Outcome, std::int64_t> failures_;
  std::int64_t trials_ = 0, reused_ = 0, space_ = 0;
};

// The finalists at calls that were never measured, twice.
std::optional<RegretReport> measure_regret(const TuneSubject& subject, const Observed& unseen, const TuneRules& rules,
                                           const TuneDevice& device, const TuneResult& result) {
  KeyPoints points = choose_points(unseen.workload, unseen.launches, unseen.work, rules.unseen_calls);
  device.prepare(calls_to_prepare(subject, unseen, points));
  std::vector<FreshLatencies> fresh;
  std::vector<RegionLatencies> unseen_latencies;
  Strategy tuned{.name = "tuned", .kernels = result.partition.kernels, .tables = {}};
  std::vector<RegionLatencies> seen;
  for (std::size_t i = 0; i < result.latencies.size(); ++i) {
    const auto at = std::ranges::find(points.regions, result.kernels[i], &RegionPoints::kernel);
    if (at == points.regions.end()) continue;
    FreshLatencies one{.latencies = {.region = result.latencies[i].region,
                                     .range = result.latencies[i].range,
                                     .points = at->points,
                                     .weights = at->weights,
                                     .candidates = result.latencies[i].candidates,
                                     .seconds = {},
                                     .edges = result.latencies[i].edges}};
    // Finalists: what any strategy may pick is best somewhere, kept, or an incumbent; the rest is left out as too slow to matter.
    std::vector<bool> finalist(one.latencies.candidates.size());
    for (const std::size_t kept : result.partition.regions[i].candidates) finalist[kept] = true;
    for (std::size_t p = 0; p < result.latencies[i].points.size(); ++p) {
      std::size_t best = 0;
      for (std::size_t c = 0; c < finalist.size(); ++c)
        if (result.latencies[i].seconds[c][p] < result.latencies[i].seconds[best][p]) best = c;
      finalist[best] = true;
    }
    RegionLatencies kept_seen = result.latencies[i];
    for (std::size_t c = finalist.size(); c-- > 0;) {
      if (finalist[c]) continue;
      one.latencies.candidates.erase(one.latencies.candidates.begin() + static_cast<std::ptrdiff_t>(c));
      kept_seen.candidates.erase(kept_seen.candidates.begin() + static_cast<std::ptrdiff_t>(c));
      kept_seen.seconds.erase(kept_seen.seconds.begin() + static_cast<std::ptrdiff_t>(c));
      if (!kept_seen.measured.empty()) kept_seen.measured.erase(kept_seen.measured.begin() + static_cast<std::ptrdiff_t>(c));
    }
    std::vector<double> base(at->points.size());
    for (const bool again : {false, true}) {
      std::vector<std::vector<double>>& seconds = again ? one.again : one.latencies.seconds;
      for (const KernelCandidate& candidate : one.latencies.candidates) {
        const std::optional<Trial> trial = device.measure(request_for(*at, candidate.schedule));
        if (!trial) return std::nullopt;
        std::vector<double>& row = seconds.emplace_back(at->points.size(), std::numeric_limits<double>::infinity());
        if (trial->outcome != Outcome::Ok) continue;
        for (std::size_t p = 0; p < row.size(); ++p) {
          if (base[p] == 0) base[p] = trial->points[p].incumbent_seconds;
          row[p] = trial->points[p].ratio * base[p];
        }
      }
    }
    unseen_latencies.push_back(one.latencies);
    fresh.push_back(std::move(one));
    seen.push_back(std::move(kept_seen));
    tuned.tables.push_back(result.partition.regions[i].entries);
  }
  std::vector<Strategy> strategies = usual_strategies(seen, unseen_latencies, rules.most_kernels);
  strategies.insert(strategies.begin(), std::move(tuned));
  return regret(fresh, strategies);
}

std::string report_text(const TuneResult& result, const std::string& fingerprint) {
  nlohmann::ordered_json report = {{"fingerprint", fingerprint}, {"space", result.space}, {"reused", result.reused}};
  if (result.regret) {
    report["best_seconds"] = result.regret->best_seconds;
    const auto shown = [](const Regret& regret) {
      return nlohmann::ordered_json{
          {"expected_total", regret.expected_total}, {"mean", regret.mean}, {"percentile_99", regret.percentile_99}};
    };
    for (const StrategyRegret& one : result.regret->strategies) {
      nlohmann::ordered_json row = shown(one.regret);
      row["name"] = one.name;
      row["kernels"] = one.kernels;
      row["expected_seconds"] = one.expected_seconds;
      report["strategies"].push_back(std::move(row));
    }
    report["noise"] = shown(result.regret->noise);
  }
  return report.dump();
}

}  // namespace

Call small_call(const ModelShape& shape) {
  constexpr std::int64_t small = 3;
  Call call;
  const std::vector<std::string> names = shape.symbol_names();
  for (const std::string& name : names) {
    const ir::SymbolInfo* known = shape.symbols.find(name);
    const ir::SymbolInfo info = known == nullptr ? ir::SymbolInfo{} : *known;
    const std::int64_t rounded = (std::clamp(small, info.low, info.high) + info.multiple - 1) / info.multiple * info.multiple;
    call.values.push_back(rounded <= info.high ? rounded : info.low);
  }
  if (!shape.packing) return call;
  // Sequences of several lengths, the first the longest.
  const std::vector<ir::Dim>& mask = shape.inputs.at(shape.packing->mask).dims;
  const auto value = [&](const ir::Dim& dim) {
    return dim.evaluate([&](const ir::DimLeaf& leaf) {
      return call.values.at(static_cast<std::size_t>(std::ranges::find(names, leaf.symbol) - names.begin()));
    });
  };
  const std::int64_t batch = value(mask.at(0)), length = value(mask.at(1));
  for (std::int64_t row = 0; row < batch; ++row) call.lengths.push_back(std::max<std::int64_t>(1, length - row));
  return call;
}

std::vector<RegionLatencies> latencies_of(const Search& search, const std::vector<RegionPoints>& points, const TuneSubject& subject,
                                          const std::vector<std::vector<double>>& noise, bool measured) {
  std::vector<RegionLatencies> all;
  for (std::size_t r = 0; r < points.size(); ++r) {
    const SearchRegion& searched = search.regions()[r];
    const ir::Region& region = kernel_of(subject, points[r].kernel).region;
    RegionLatencies one{.region = region.identity,
                        .range = whole_range(region),
                        .points = searched.points,
                        .weights = searched.weights,
                        .candidates = {},
                        .seconds = {},
                        .edges = subject.backend.key_edges(region)};
    bool none = true;
    for (std::size_t c = 0; c < searched.candidates.size(); ++c) none = none && search.ratios({r, c}).empty();
    for (std::size_t c = 0; c < searched.candidates.size(); ++c) {
      const std::vector<double>& ratios = search.ratios({r, c});
      const bool incumbent = std::ranges::find(searched.incumbents, c) != searched.incumbents.end();
      // Of a region without any time the incumbents are there by their estimates.
      if (ratios.empty() && !(none && incumbent)) continue;
      one.candidates.push_back({.schedule = searched.candidates[c]});
      std::vector<double>& seconds = one.seconds.emplace_back();
      for (std::size_t p = 0; p < searched.points.size(); ++p) {
        double ratio = ratios.empty() ? search.predicted_ratio({r, c}, p) : ratios[p];
        const std::vector<double>& incumbents = search.ratios({r, searched.incumbents[p]});
        const double own = incumbents.empty() ? 1 : incumbents[p];
        // A challenger wins only beyond the spread of A against A.
        constexpr double barely = 1e-4;
        if (searched.incumbents[p] != c && ratio < own && ratio > own - noise[r][p]) ratio = own + barely;
        seconds.push_back(ratio * search.incumbent_seconds(r, p));
      }
      one.measured.emplace_back(searched.points.size(), measured && !ratios.empty());
    }
    all.push_back(std::move(one));
  }
  return all;
}

TuneResult tune(const TuneSubject& subject, const Workload& workload, const Workload& unseen, const TuneRules& rules,
                const TuneDevice& device, Database& database, const TuneHooks& hooks) {
  const auto begin = Clock::now();
  if (!(rules.budget_seconds > 0))
    throw Error(ErrorKind::CommandLine, "--budget is no time: give seconds, minutes or hours above 0, e.g. 10m");
  TuneResult result;
  const Observed observed = observe(subject, workload, device);
  if (observed.launches.empty()) {
    result.interrupted = true;
    return result;
  }
  const KeyPoints points = choose_points(observed.workload, observed.launches, observed.work, rules.points);
  const auto regions = static_cast<std::int64_t>(points.regions.size());
  if (rules.most_kernels < regions) {
    throw Error(ErrorKind::CommandLine,
                fmt::format("--max-kernels {} is below the {} regions of the model, each of which needs one kernel; give {} or more",
                            rules.most_kernels, regions, regions));
  }
  // Equal fingerprints: the same regions, calls, limits.
  std::string all = fmt::format("{} {} {} {}", workload.text, rules.most_kernels, rules.points, rules.exhaustive);
  for (const RegionPoints& region : points.regions) all += kernel_of(subject, region.kernel).region.identity;
  const std::string fingerprint = text_hash(all);
  for (const ModelRun& before : database.runs(subject.environment)) {
    const nlohmann::json report = nlohmann::json::parse(before.report, nullptr, false);
    if (!report.is_object() || report.value("fingerprint", "") != fingerprint || before.budget_seconds < rules.budget_seconds) continue;
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
  const auto conclude = [&] {
    result.latencies = latencies_of(run.search(), points.regions, subject, run.noise(), device.measured);
    result.partition = choose_kernels(result.latencies, rules.most_kernels);
    result.trials = run.trials();
    result.reused = run.reused();
    result.space = run.space();
    result.failures.assign(run.failures().begin(), run.failures().end());
  };
  device.prepare(calls_to_prepare(subject, observed, points));
  result.interrupted = !run.measure();
  for (int round = 0; round < 3 && !result.interrupted && device.measured; ++round) {
    conclude();
    const std::int64_t before = run.trials();
    result.interrupted = !run.confirm(result.partition, result.latencies);
    if (run.trials() == before) break;
  }
  conclude();
  result.run = {.model = subject.model,
                .distribution = workload.text,
                .budget_seconds = rules.budget_seconds,
                .most_kernels = rules.most_kernels,
                .kernels = result.partition.kernels,
                .trials = result.trials + result.reused,
                .expected_seconds = result.partition.expected_seconds,
                .lower_bound_seconds = result.partition.lower_bound_seconds,
                .default_seconds = run.search().default_seconds()};
  if (result.interrupted) return result;
  if (rules.unseen_calls > 0 && device.measured) {
    const Observed fresh = observe(subject, unseen, device);
    if (!fresh.launches.empty()) result.regret = measure_regret(subject, fresh, rules, device, result);
  }
  result.run.report = report_text(result, fingerprint);
  std::vector<ChosenTable> tables;
  for (std::size_t i = 0; i < result.latencies.size(); ++i) {
    ChosenTable& table = tables.emplace_back();
    table.region = result.latencies[i].region;
    for (const ir::TunedEntry& entry : result.partition.regions[i].entries) table.entries.push_back({.entry = entry});
  }
  database.store_run(subject.environment, result.run, tables);
  return result;
}

}  // namespace anydim::tuner
