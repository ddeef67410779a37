// Whole runs: with workers many of whose candidates are faulty, and against recorded matrices.
#include "tuner/tune.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "api/anydim.h"
#include "api/tuning_run.h"
#include "tests/runtime/temporary_folder.h"
#include "tests/tuner/faulty_backend.h"

namespace anydim::tuner::testing {
namespace {

constexpr const char* model_text =
    "fn @main(%x: Tensor[(n, 48), f32]) -> Tensor[(n, 32), f32] where n in [1, 64] {\n"
    "  %w = constant(f32 (48, 32) @random(1))\n  %y = matmul(%x, %w)\n  return %y\n}\n";

struct Tuned {
  test::TemporaryFolder folder;
  std::filesystem::path model_file = folder.path() / "model.anydim",
                        database_file = folder.path() / "tuning.db";
  CompileOptions options{.threads = 2, .keep_kernels = false, .background = false};
  std::shared_ptr<const ir::Backend> backend;
  std::shared_ptr<const Model> model;
  ModelShape shape;

  explicit Tuned(std::int64_t variants) {
    std::ofstream(model_file) << model_text;
    CompileTarget target = make_target(options);
    target.backend = std::make_shared<FaultyBackend>(target.backend, variants);
    backend = target.backend;
    model = Model::compile(target, load_model(model_file), options);
    shape = shape_of(*model);
  }
  TuneSubject subject() const {
    return {.model = "model.anydim",
            .shape = shape,
            .program = program_of(*model)->program(),
            .backend = *backend,
            .environment = {.device = "test",
                            .target = "test",
                            .driver = "",
                            .generator = "test",
                            .precision = "f32",
                            .threads = 2}};
  }
  Workload workload(std::uint64_t seed) const {
    return sample_workload(shape, parse_distribution("uniform(4, 60)"), {.texts = 1}, 64, seed);
  }
};

std::int64_t wanted_variants() {
  const char* given = std::getenv("ANYDIM_FAULT_CANDIDATES");
  return given == nullptr ? 40 : std::atoll(given);
}

TEST(Tune, FaultyCandidatesAreToldApartAndNeverTaken) {
  const std::int64_t variants = wanted_variants();
  const Tuned tuned(variants);
  WorkerSettings settings{.command = {ANYDIM_FAULTY_WORKER, std::to_string(variants)},
                          .log = (tuned.folder.path() / "log").string(),
                          .model = {.file = tuned.model_file.string()},
                          .options = {{"threads", "2"}, {"cache_folder", "none"}},
                          .compile_seconds = 3,
                          .run_seconds = 3,
                          .memory_bytes = std::int64_t{6} << 30};
  std::unique_ptr<WorkerMeasure> worker;
  double slowest_restart = 0;
  const TuneDevice device{
      .prepare =
          [&](const std::vector<Call>& calls) {
            if (worker != nullptr)
              slowest_restart = std::max(slowest_restart, worker->longest_restart_seconds());
            settings.calls = calls;
            worker = std::make_unique<WorkerMeasure>(settings);
            return worker->prepare();
          },
      .measure = [&](const TrialRequest& request) { return (*worker)(request); },
      .measure_in_calls =
          [&](const std::vector<TrialRequest>& requests) {
            const auto trials = worker->in_calls(requests);
            for (const Trial& trial : *trials)
              for (const PointTimes& times : trial.points)
                EXPECT_TRUE(times.seconds > 0 && times.incumbent_seconds > 0 && times.samples >= 6)
                    << times.seconds << ' ' << times.incumbent_seconds << ' ' << times.samples;
            return trials;
          }};
  Database database(tuned.database_file, Database::Access::Write);
  const TuneSubject subject = tuned.subject();
  const TuneRules rules{.budget_seconds = 3000,
                        .most_kernels = 4,
                        .points = 2,
                        .unseen_calls = 0,
                        .exhaustive = true};
  const TuneResult result =
      tune(subject, tuned.workload(0), tuned.workload(1), rules, device, database, {});

  EXPECT_FALSE(result.interrupted);
  EXPECT_GE(result.trials, result.space) << "every candidate was tried";
  // One that may be used, in a call; one that would crash there takes the process along.
  const auto request = [&](Outcome outcome) {
    const auto space = subject.backend.space(subject.program.kernels[0].region, {{{1, 64, 1}}});
    const auto found = std::ranges::find_if(space, [&](const ir::Schedule& schedule) {
      return expected_outcome(schedule.find("variant").value_or(0)) == outcome;
    });
    const LaunchKeys launch = worker->prepare().at(1).at(0);
    return std::vector<TrialRequest>{{launch.kernel, *found, {{1, launch.keys}}}};
  };
  const auto right = worker->in_calls(request(Outcome::Ok));
  ASSERT_EQ(right->size(), 1);
  EXPECT_EQ(name_of(right->at(0).outcome), "ok") << right->at(0).detail;
  EXPECT_GE(right->at(0).points.at(0).samples, 6);
  EXPECT_EQ(name_of(worker->in_calls(request(Outcome::Crashed))->at(0).outcome), "crashed");
  EXPECT_EQ(name_of(worker->in_calls(request(Outcome::Ok))->at(0).outcome), "ok");
  // One that ends the process while it is compiled, beside a right one that is measured.
  const auto variant = [&](std::int64_t number) {
    const TrialRequest known = request(Outcome::Ok).at(0);
    const auto space = subject.backend.space(subject.program.kernels[0].region, {{{1, 64, 1}}});
    const auto found = std::ranges::find_if(
        space, [&](const ir::Schedule& schedule) { return schedule.find("variant") == number; });
    return TrialRequest{known.kernel, *found, known.points};
  };
  constexpr std::int64_t aborts_compiler = 24;
  const TrialRequest good = variant(0), bad = variant(aborts_compiler);
  worker->expect({good, bad});
  EXPECT_EQ(name_of((*worker)(good)->outcome), "ok");
  EXPECT_EQ(name_of((*worker)(bad)->outcome), "crashed");
  EXPECT_EQ(name_of((*worker)(good)->outcome), "ok");
  ASSERT_EQ(result.latencies.size(), 1);
  const std::string& identity = subject.program.kernels[0].region.identity;
  std::map<std::int64_t, Outcome> outcomes;
  for (const Measurement& row : database.measurements(subject.environment, identity))
    if (const auto variant = row.schedule.find("variant")) outcomes[*variant] = row.outcome;
  ASSERT_EQ(static_cast<std::int64_t>(outcomes.size()), variants);
  std::map<Outcome, int> counts;
  for (const auto& [variant, outcome] : outcomes) {
    EXPECT_EQ(name_of(outcome), name_of(expected_outcome(variant))) << "variant " << variant;
    ++counts[outcome];
  }
  EXPECT_EQ(counts[Outcome::Crashed], 2 * counts[Outcome::Hung]);
  for (const ir::TunedEntry& entry : result.partition.regions[0].entries)
    EXPECT_EQ(expected_outcome(entry.schedule.find("variant").value_or(0)), Outcome::Ok)
        << to_string(entry.schedule);
  slowest_restart = std::max(slowest_restart, worker->longest_restart_seconds());
  EXPECT_GT(slowest_restart, 0);
  EXPECT_LT(slowest_restart, 5);
  std::printf("%lld candidates:", static_cast<long long>(variants));
  for (const auto& [outcome, count] : counts)
    std::printf(" %d %s,", count, std::string(name_of(outcome)).c_str());
  std::printf(" slowest restart %.2f s\n", slowest_restart);

  // The same again: nothing is measured.
  const TuneDevice none{
      .prepare = [](const std::vector<Call>&) -> std::vector<std::vector<LaunchKeys>> {
        throw std::logic_error("asked");
      },
      .measure = [](const TrialRequest&) -> std::optional<Trial> {
        throw std::logic_error("asked");
      }};
  const TuneResult again =
      tune(subject, tuned.workload(0), tuned.workload(1), rules, none, database, {});
  EXPECT_TRUE(again.nothing_to_do);
  EXPECT_EQ(again.run.kernels, result.run.kernels);
}

// A device whose times are a formula.
TuneDevice formula_device(const TuneSubject& subject, int& trials) {
  return {
      .prepare = [](const std::vector<Call>&) { return std::vector<std::vector<LaunchKeys>>(); },
      .measure = [&](const TrialRequest& request) -> std::optional<Trial> {
        ++trials;
        Trial trial;
        for (const TrialPoint& point : request.points) {
          const double fast =
              1.0 - 0.02 * static_cast<double>(request.schedule.find("rows").value_or(0));
          const double seconds = 1e-6 * static_cast<double>(point.keys[0]) * fast;
          const auto& incumbent = subject.program.kernels[0].table.entries.back().schedule;
          const double own = 1e-6 * static_cast<double>(point.keys[0]) *
                             (1.0 - 0.02 * static_cast<double>(incumbent.find("rows").value_or(0)));
          trial.points.push_back({.seconds = seconds,
                                  .incumbent_seconds = own,
                                  .ratio = seconds / own,
                                  .low = seconds / own,
                                  .high = seconds / own,
                                  .samples = 9});
        }
        return trial;
      }};
}

TEST(Tune, InterruptedRunsGoOnWhereTheyStopped) {
  const Tuned tuned(0);
  const TuneSubject subject = tuned.subject();
  int trials = 0, asked = 0;
  const TuneDevice device = formula_device(subject, trials);
  const TuneRules rules{.most_kernels = 4, .points = 2, .unseen_calls = 0, .exhaustive = true};
  Database database(tuned.database_file, Database::Access::Write);
  const TuneResult first = tune(subject, tuned.workload(0), tuned.workload(1), rules, device,
                                database, {.interrupted = [&] { return ++asked > 10; }});
  EXPECT_TRUE(first.interrupted);
  EXPECT_EQ(first.trials, 10);
  EXPECT_TRUE(database.runs(subject.environment).empty());
  const TuneResult second =
      tune(subject, tuned.workload(0), tuned.workload(1), rules, device, database, {});
  EXPECT_FALSE(second.interrupted);
  EXPECT_GE(second.reused, 9);
  EXPECT_GE(second.reused + second.trials, second.space);
  EXPECT_LT(second.run.expected_seconds, second.run.default_seconds * 1.0001);
  EXPECT_EQ(database.runs(subject.environment).size(), 1);
  const ir::TuningTable table = database.tuning_table(subject.environment);
  EXPECT_EQ(table.regions.size(), 1);
}

TEST(Tune, SeveralAtOnceFindTheSame) {
  const Tuned tuned(0);
  const TuneSubject subject = tuned.subject();
  int trials = 0;
  const TuneRules rules{.most_kernels = 4, .points = 2, .unseen_calls = 0, .exhaustive = true};
  Database one(tuned.folder.path() / "one.db", Database::Access::Write),
      many(tuned.folder.path() / "many.db", Database::Access::Write);
  const TuneDevice single = formula_device(subject, trials);
  TuneDevice wide = single;
  std::size_t widest = 0;
  wide.width = 7;
  wide.measure_many = [&](const std::vector<TrialRequest>& requests) {
    widest = std::max(widest, requests.size());
    std::vector<Trial> all;
    for (const TrialRequest& request : requests) all.push_back(*single.measure(request));
    return all;
  };
  const TuneResult a = tune(subject, tuned.workload(0), tuned.workload(1), rules, single, one, {});
  const TuneResult b = tune(subject, tuned.workload(0), tuned.workload(1), rules, wide, many, {});
  EXPECT_EQ(widest, 7);
  EXPECT_EQ(a.run.expected_seconds, b.run.expected_seconds);
  EXPECT_EQ(one.measurement_count(), many.measurement_count());
}

TEST(Tune, WhatDoesNotHoldInWholeCallsIsNotChosen) {
  const Tuned tuned(0);
  const TuneSubject subject = tuned.subject();
  const TuneRules rules{.most_kernels = 4, .points = 2, .unseen_calls = 0, .exhaustive = true};
  const auto rows_of = [](const ir::Schedule& schedule) {
    return schedule.find("rows").value_or(0);
  };
  std::int64_t most_rows = 0;
  for (const ir::Schedule& schedule :
       subject.backend.space(subject.program.kernels[0].region, {{{1, 64, 1}}}))
    most_rows = std::max(most_rows, rows_of(schedule));
  // In calls, the kernels that the formula has for the fastest are slower than the incumbent by as
  // much, fail there, or keep their word.
  enum class Deceit : std::uint8_t { Slow, Fails, None };
  for (const Deceit deceit : {Deceit::Slow, Deceit::Fails, Deceit::None}) {
    int trials = 0;
    TuneDevice device = formula_device(subject, trials);
    const auto alone = device.measure;
    std::size_t asked = 0;
    device.measure_in_calls = [&](const std::vector<TrialRequest>& requests) {
      asked += requests.size();
      std::vector<Trial> told;
      for (const TrialRequest& request : requests) {
        Trial& trial = told.emplace_back(*alone(request));
        if (rows_of(request.schedule) < most_rows || deceit == Deceit::None) continue;
        if (deceit == Deceit::Fails) trial = {.outcome = Outcome::Crashed, .detail = "signal"};
        for (PointTimes& times : trial.points)
          for (double* ratio : {&times.ratio, &times.low, &times.high}) *ratio = 1 / *ratio;
      }
      return std::optional(told);
    };
    Database database(tuned.folder.path() / fmt::format("{}.db", static_cast<int>(deceit)),
                      Database::Access::Write);
    const TuneResult result =
        tune(subject, tuned.workload(0), tuned.workload(1), rules, device, database, {});
    EXPECT_GT(asked, 0);
    std::int64_t chosen = 0;
    for (const ir::TunedEntry& entry : result.partition.regions[0].entries)
      chosen = std::max(chosen, rows_of(entry.schedule));
    EXPECT_EQ(chosen == most_rows, deceit == Deceit::None) << chosen;
  }
}

TEST(RecordedMatrix, StandsForADevice) {
  const RecordedMatrix matrix = RecordedMatrix::parse(
      R"({"matrix": {"s a=1": {"64x32x48": 10, "128x32x48": 12.5}}})", "m.json");
  const ir::Schedule schedule = ir::parse_schedule("s a=1");
  EXPECT_EQ(matrix.schedules(), std::vector<ir::Schedule>{schedule});
  EXPECT_DOUBLE_EQ(*matrix.seconds(schedule, 1, 32, 48), 10e-6);
  EXPECT_DOUBLE_EQ(*matrix.seconds(schedule, 65, 32, 48), 12.5e-6);
  EXPECT_DOUBLE_EQ(*matrix.seconds(schedule, 1000, 32, 48), 12.5e-6);
  EXPECT_EQ(matrix.seconds(schedule, 1, 32, 49), std::nullopt);
  EXPECT_EQ(matrix.seconds(ir::parse_schedule("s a=2"), 1, 32, 48), std::nullopt);
  const auto error = [](const std::string& text) {
    try {
      static_cast<void>(RecordedMatrix::parse(text, "m.json"));
    } catch (const Error& thrown) {
      EXPECT_EQ(thrown.kind(), ErrorKind::Malformed);
      return std::string(thrown.what());
    }
    return std::string("nothing was thrown");
  };
  EXPECT_EQ(error("[]"), "m.json: this is no matrix of latencies by schedule and shape");
  EXPECT_EQ(error(R"({"s a=1": {"64x32": 1}})"), "m.json: '64x32' is no shape MxNxK");
  EXPECT_EQ(error(R"({"s a=1": {"64x32x48": 0}})"),
            "m.json: the latency of s a=1 at 64x32x48 is no time above 0");
  EXPECT_EQ(error("{}"), "m.json: there is no latency in it");
}

TEST(Tune, FindsTheBestOfARecordedMatrix) {
  const Tuned tuned(0);
  const TuneSubject subject = tuned.subject();
  const ir::Region& region = subject.program.kernels[0].region;
  // Times fall with the number of the schedule, by far to the last; but for one that is best at
  // small sizes.
  nlohmann::json rows;
  const auto space = subject.backend.space(region, {{{1, 64, 1}}});
  for (const auto& entry : subject.program.kernels[0].table.entries)
    for (const int m : {16, 32, 48, 64})
      rows[to_string(entry.schedule)][std::to_string(m) + "x32x48"] = 100.0 * m;
  for (std::size_t i = 0; i < space.size(); ++i) {
    const double slow = i + 1 == space.size()
                            ? 40
                            : 100 - static_cast<double>(i) / static_cast<double>(space.size());
    for (const int m : {16, 32, 48, 64})
      rows[to_string(space[i])][std::to_string(m) + "x32x48"] = m <= 16 && i == 5 ? 1.0 : slow * m;
  }
  const RecordedMatrix matrix = RecordedMatrix::parse(rows.dump(), "recorded");
  Database database(tuned.database_file, Database::Access::Write);
  const TuneResult result =
      tune(subject, tuned.workload(0), tuned.workload(1),
           {.most_kernels = 2, .points = 4, .unseen_calls = 4, .exhaustive = true},
           replayed_device(subject, matrix), database, {});
  const auto& entries = result.partition.regions[0].entries;
  EXPECT_EQ(to_string(entries[entry_at(entries, std::vector<std::int64_t>{4})].schedule),
            to_string(space[5]));
  EXPECT_EQ(to_string(entries[entry_at(entries, std::vector<std::int64_t>{60})].schedule),
            to_string(space.back()));
  ASSERT_TRUE(result.regret);
  EXPECT_NEAR(result.regret->strategies.at(0).regret.expected_total, 0, 0.35);
}

TEST(Tune, ATableOutlivesAFailureOfItsKernelsAfterwards) {
  const Tuned tuned(0);
  const TuneSubject subject = tuned.subject();
  int trials = 0, prepared = 0;
  TuneDevice device = formula_device(subject, trials);
  device.prepare = [&](const std::vector<Call>&) {
    ++prepared;
    return std::vector<std::vector<LaunchKeys>>();
  };
  const auto measure = device.measure;
  device.measure = [&](const TrialRequest& request) -> std::optional<Trial> {
    if (prepared > 1)
      return Trial{.outcome = Outcome::OutOfMemory, .detail = "something else took it"};
    return measure(request);
  };
  Database database(tuned.database_file, Database::Access::Write);
  const TuneResult result =
      tune(subject, tuned.workload(0), tuned.workload(1),
           {.most_kernels = 2, .points = 3, .unseen_calls = 2}, device, database, {});
  EXPECT_EQ(prepared, 2);
  EXPECT_FALSE(result.regret);
  EXPECT_EQ(database.tables().size(), 1U);
}

TEST(Tune, PredictsWhereNothingCanBeTimed) {
  const Tuned tuned(0);
  const TuneSubject subject = tuned.subject();
  Database database(tuned.database_file, Database::Access::Write);
  const TuneResult result =
      tune(subject, tuned.workload(0), tuned.workload(1), {.most_kernels = 4, .points = 3},
           predicted_device(subject), database, {});
  EXPECT_FALSE(result.regret);
  for (const ir::TunedEntry& entry : result.partition.regions[0].entries)
    EXPECT_FALSE(entry.measured);
  for (const Measurement& row :
       database.measurements(subject.environment, subject.program.kernels[0].region.identity))
    EXPECT_FALSE(row.measured);
  EXPECT_LE(result.run.expected_seconds, result.run.default_seconds * 1.001);
}

TEST(Roofline, CountsWhatALaunchMustDo) {
  const Tuned tuned(0);
  const TuneSubject subject = tuned.subject();
  const LeastWork work =
      least_work(subject.program.kernels[0].region, std::vector<std::int64_t>{8});
  EXPECT_DOUBLE_EQ(work.multiply_adds, 8 * 32 * 48);
  EXPECT_DOUBLE_EQ(work.bytes, 4 * (8 * 48 + 48 * 32 + 8 * 32));
  EXPECT_FALSE(work.narrow);
}

TEST(Roofline, IsArithmeticOrMemoryWhicheverTakesLonger) {
  const DeviceLimits limits{
      .multiply_adds = 10, .narrow_multiply_adds = 40, .reads = {{100, 50}, {1000, 5}}};
  EXPECT_DOUBLE_EQ(roofline_seconds({.multiply_adds = 100, .bytes = 100}, limits), 10);
  EXPECT_DOUBLE_EQ(roofline_seconds({.multiply_adds = 100, .narrow = true, .bytes = 100}, limits),
                   2.5);
  EXPECT_DOUBLE_EQ(roofline_seconds({.multiply_adds = 1, .bytes = 101}, limits), 20.2);
  EXPECT_DOUBLE_EQ(roofline_seconds({.multiply_adds = 1, .bytes = 2000}, limits), 400);
  EXPECT_DOUBLE_EQ(roofline_seconds({.multiply_adds = 100, .bytes = 100}, {}), 0);
}

TEST(Roofline, LimitsAreMeasured) {
  runtime::WorkerPool pool(1);
  const DeviceLimits limits = measure_limits(pool);
  if (limits.multiply_adds == 0) GTEST_SKIP() << "no probe for this processor";
  EXPECT_GT(limits.multiply_adds, 0);
  EXPECT_GE(limits.narrow_multiply_adds, limits.multiply_adds);
  ASSERT_GT(limits.reads.size(), 3U);
  for (std::size_t i = 1; i < limits.reads.size(); ++i) {
    EXPECT_LT(limits.reads[i - 1].first, limits.reads[i].first);
    EXPECT_GE(limits.reads[i - 1].second, limits.reads[i].second);
  }
  EXPECT_GT(limits.reads.back().second, 0);
}

TEST(Tune, RefusesBadLimits) {
  const Tuned tuned(0);
  const TuneSubject subject = tuned.subject();
  int trials = 0;
  const TuneDevice device = formula_device(subject, trials);
  Database database(tuned.database_file, Database::Access::Write);
  const auto message = [&](const TuneRules& rules) {
    try {
      static_cast<void>(
          tune(subject, tuned.workload(0), tuned.workload(1), rules, device, database, {}));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::CommandLine);
      return std::string(error.what());
    }
    return std::string("nothing was thrown");
  };
  EXPECT_EQ(message({.budget_seconds = 0}),
            "--budget is no time: give seconds, minutes or hours above 0, e.g. 10m");
  EXPECT_EQ(message({.most_kernels = 0}),
            "--max-kernels 0 is below the 1 regions of the model, each of which needs one kernel; "
            "give 1 or more");
  EXPECT_EQ(trials, 0);
}

}  // namespace
}  // namespace anydim::tuner::testing
