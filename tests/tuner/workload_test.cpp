#include "tuner/workload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "ir/error.h"
#include "tests/runtime/temporary_folder.h"

namespace anydim::tuner {
namespace {

template <typename Action>
std::string message_of(ErrorKind kind, const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    return error.what();
  }
  return "nothing was thrown";
}

std::string distribution_error(const std::string& text) {
  return message_of(ErrorKind::CommandLine, [&] { static_cast<void>(parse_distribution(text)); });
}

void write(const std::filesystem::path& file, const std::string& text) {
  std::ofstream(file) << text;
}

TEST(Distribution, DrawsWithinItsRangeAndLikeItsShape) {
  const Distribution lognormal = parse_distribution("lognormal(3.4, 0.8, 1, 512)");
  std::vector<std::int64_t> lengths = draw_lengths(lognormal, 20000, 7);
  EXPECT_GE(std::ranges::min(lengths), 1);
  EXPECT_LE(std::ranges::max(lengths), 512);
  std::ranges::sort(lengths);
  EXPECT_NEAR(static_cast<double>(lengths[10000]), std::exp(3.4),
              1.5);  // the median of a lognormal distribution
  const auto uniform = draw_lengths(parse_distribution(" uniform( 3 ,5 ) "), 3000, 1);
  for (const std::int64_t length : {3, 4, 5})
    EXPECT_NEAR(static_cast<double>(std::ranges::count(uniform, length)), 1000.0, 150);
  EXPECT_EQ(draw_lengths(parse_distribution("constant(9)"), 3, 5),
            (std::vector<std::int64_t>{9, 9, 9}));
  const auto normal = draw_lengths(parse_distribution("normal(60, 20, 1, 512)"), 20000, 1);
  EXPECT_NEAR(
      static_cast<double>(std::accumulate(normal.begin(), normal.end(), std::int64_t{0})) / 20000,
      60, 1);
  EXPECT_EQ(draw_lengths(lognormal, 100, 3), draw_lengths(lognormal, 100, 3));
  EXPECT_NE(draw_lengths(lognormal, 100, 3), draw_lengths(lognormal, 100, 4));
  // So far out that nothing would ever be drawn: the nearer end.
  EXPECT_EQ(draw_lengths(parse_distribution("normal(0, 0.1, 400, 512)"), 2, 1),
            (std::vector<std::int64_t>{400, 400}));
}

TEST(Distribution, SaysWhatIsWrongWithAText) {
  const std::string forms =
      "; it is constant(N), uniform(LEAST, MOST), normal(MEAN, DEVIATION, LEAST, MOST) or "
      "lognormal(MEAN, DEVIATION, LEAST, MOST)";
  EXPECT_EQ(distribution_error("lognormal 3"),
            "--distribution lognormal 3: there are no parentheses around its numbers" + forms);
  EXPECT_EQ(distribution_error("zipf(2)"),
            "--distribution zipf(2): there is no distribution 'zipf'" + forms);
  EXPECT_EQ(distribution_error("uniform(1)"),
            "--distribution uniform(1): uniform takes 2 numbers, not 1" + forms);
  EXPECT_EQ(distribution_error("uniform(1, x)"),
            "--distribution uniform(1, x): 'x' is no number" + forms);
  EXPECT_EQ(distribution_error("uniform(9, 3)"),
            "--distribution uniform(9, 3): lengths are whole numbers from 1 to 2147483647, the "
            "least first" +
                forms);
  EXPECT_EQ(distribution_error("constant(0)"),
            "--distribution constant(0): lengths are whole numbers from 1 to 2147483647, the least "
            "first" +
                forms);
  EXPECT_EQ(distribution_error("normal(5, -1, 1, 9)"),
            "--distribution normal(5, -1, 1, 9): its deviation is negative" + forms);
}

TEST(Distribution, ReadsLengthsAndTokens) {
  const test::TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "lengths.txt";
  write(file, "3\n\n[101, 7592, 102, 0]\n17\n");
  const Distribution lengths = read_lengths(file);
  EXPECT_EQ(lengths.observed, (std::vector<std::int64_t>{3, 4, 17}));
  EXPECT_EQ(draw_lengths(lengths, 2, 0), (std::vector<std::int64_t>{3, 4}));
  for (const std::int64_t length : draw_lengths(lengths, 50, 9))
    EXPECT_NE(std::ranges::find(lengths.observed, length), lengths.observed.end());
  const std::string name = file.string();
  const auto error = [&](const std::string& text) {
    write(file, text);
    return message_of(ErrorKind::Malformed, [&] { static_cast<void>(read_lengths(file)); });
  };
  EXPECT_EQ(error(""), name + ": there is no length in it");
  EXPECT_EQ(error("3\nmany\n"),
            name + ":2: expected a length or a JSON list of token ids, got 'many'");
  EXPECT_EQ(error("0\n"),
            name + ":1: 0 is no length of a text: a whole number from 1 to 2147483647");
  EXPECT_EQ(error("2.5\n"),
            name + ":1: 2.5 is no length of a text: a whole number from 1 to 2147483647");
  std::filesystem::remove(file);
  EXPECT_EQ(message_of(ErrorKind::Malformed, [&] { static_cast<void>(read_lengths(file)); }),
            name + ": there is no such file");
}

TEST(Trace, CountsAndStaysBounded) {
  Trace trace({"x: f32 (n)"}, {"n"});
  constexpr auto most = static_cast<std::int64_t>(Trace::most_bins);
  for (std::int64_t n = 1; n <= 3 * most; ++n) trace.add(std::span(&n, 1), 0);
  EXPECT_LE(trace.bins().size(), Trace::most_bins);
  EXPECT_EQ(trace.calls(), 3 * most);
  // Rounded up, by less than one part in 2^6.
  const std::int64_t last = trace.bins().rbegin()->first[0];
  EXPECT_GE(last, 3 * most);
  EXPECT_LE(last, 3 * most * 65 / 64);
  EXPECT_EQ(Trace::parse(trace.to_json(), "text").bins(), trace.bins());
}

TEST(Trace, RecordsAcrossRuns) {
  const test::TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "trace.json";
  Trace first({"x: f32 (b, s)"}, {"b", "s"});
  const std::int64_t small[] = {2, 7}, large[] = {8, 100};
  first.add(small, 9);
  record_trace(file, first);
  Trace second({"x: f32 (b, s)"}, {"b", "s"});
  second.add(small, 9);
  second.add(large, 500);
  record_trace(file, second);
  const Trace read = read_trace(file);
  EXPECT_EQ(read.bins(),
            (std::map<TracedCall, TraceBin>{{{2, 7, 9}, {2, {}}}, {{8, 100, 500}, {1, {}}}}));
  const std::string other =
      message_of(ErrorKind::Malformed, [&] { record_trace(file, Trace({"y: i64 (b)"}, {"b"})); });
  EXPECT_EQ(other, file.string() +
                       ": the trace is of another model: its inputs are x: f32 (b, s), this "
                       "model's are y: i64 (b)");
  EXPECT_EQ(read_trace(file).bins(), read.bins());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(Trace, KeepsWhatCallsLaunched) {
  Trace trace({"x: f32 (n)"}, {"n"});
  const std::int64_t small = 4, large = 9;
  trace.add(std::span(&small, 1), 0, {{{"a", {10}}, 2}, {{"b", {}}, 1}});
  trace.add(std::span(&small, 1), 0, {{{"a", {10}}, 1}, {{"a", {30}}, 1}});
  trace.add(std::span(&large, 1), 0);
  EXPECT_EQ(trace.bins().at({4, 0}),
            (TraceBin{2, {{{"a", {10}}, 3}, {{"a", {30}}, 1}, {{"b", {}}, 1}}}));
  const Trace read = Trace::parse(trace.to_json(), "text");
  EXPECT_EQ(read.bins(), trace.bins());
  EXPECT_EQ(read.to_json(), trace.to_json());
  Trace twice = read;
  twice.merge(trace);
  EXPECT_EQ(twice.bins().at({4, 0}).launches.at({"a", {10}}), 6);
  ModelShape shape;
  shape.inputs = {{"x", ir::DType::F32, {ir::Dim::symbol("n")}}};
  shape.symbols.declare("n");
  const Workload workload = traced_workload(shape, trace);
  ASSERT_EQ(workload.calls.size(), 2);
  ASSERT_EQ(workload.calls[0].found.size(), 3);
  EXPECT_EQ(workload.calls[0].found[0].region, "a");
  EXPECT_EQ(workload.calls[0].found[0].keys, std::vector<std::int64_t>{10});
  EXPECT_EQ(workload.calls[0].found[0].times, 1.5);
}

TEST(Trace, LaunchesStayBounded) {
  Trace trace({"x: f32 (n)"}, {"n"});
  const std::int64_t n = 1;
  constexpr auto most = static_cast<std::int64_t>(Trace::most_launches);
  TracedLaunches launches;
  for (std::int64_t key = 1; key <= most; ++key) launches[{"a", {key}}] = 1;
  trace.add(std::span(&n, 1), 0, launches);
  EXPECT_EQ(trace.bins().at({1, 0}).launches.size(), Trace::most_launches);
  trace.add(std::span(&n, 1), 0, {{{"a", {2 * most + 1}}, 1}});
  const TracedLaunches& rounded = trace.bins().at({1, 0}).launches;
  EXPECT_LT(rounded.size(), 4096);
  std::int64_t all = 0;
  for (const auto& [launch, count] : rounded) all += count;
  EXPECT_EQ(all, most + 1);
}

TEST(Trace, RefusesWhatIsNone) {
  const auto error = [](const std::string& text) {
    return message_of(ErrorKind::Malformed,
                      [&] { static_cast<void>(Trace::parse(text, "t.json")); });
  };
  EXPECT_EQ(error("{}"), "t.json: this is no trace of shapes (anydim run --record writes them)");
  EXPECT_EQ(error(R"({"anydim_trace": 9})"),
            "t.json: the trace was written by a newer version of anydim");
  EXPECT_EQ(
      error(
          R"({"anydim_trace": 1, "inputs": [], "symbols": ["n"], "significant_bits": 63, "bins": [[1, 0, 0]]})"),
      "t.json: a bin has 2 sizes from 0 and a count from 1; got [1,0,0]");
  EXPECT_NE(error(R"({"anydim_trace": 1})").find("the trace is damaged"), std::string::npos);
  const std::string start =
      R"({"anydim_trace": 2, "inputs": [], "symbols": ["n"], "significant_bits": 63, "bins": [[1, 0, 1]], "regions": ["a"], "launches": )";
  EXPECT_EQ(error(start + "[[[1, 5, 1]]]}"),
            "t.json: a launch has the position of one of 1 regions, keys from 0 and a count from "
            "1; got [1,5,1]");
  EXPECT_EQ(error(start + "[[[0, -5, 1]]]}"),
            "t.json: a launch has the position of one of 1 regions, keys from 0 and a count from "
            "1; got [0,-5,1]");
  EXPECT_EQ(error(start + "[[], []]}"),
            "t.json: the trace is damaged: it has the launches of 2 bins, and 1 bins");
  EXPECT_NE(error(start + "[7]}").find("a launch has the position"), std::string::npos);
}

ModelShape encoder_shape() {
  ModelShape shape;
  shape.inputs = {{"ids", ir::DType::I64, {ir::Dim::symbol("batch"), ir::Dim::symbol("sequence")}}};
  shape.symbols.declare("batch");
  shape.symbols.declare("sequence",
                        {.low = 0, .high = 512, .below = {}, .reason = "a table of 512 rows"});
  return shape;
}

TEST(Workload, FormsWholeBatches) {
  const ModelShape shape = encoder_shape();
  const Distribution lengths{
      .kind = Distribution::Kind::Observed, .observed = {5, 1, 9, 2}, .text = "four"};
  const Workload workload = sample_workload(shape, lengths, {.texts = 2}, 2, 0);
  ASSERT_EQ(workload.calls.size(), 2);
  EXPECT_EQ(workload.calls[0].values, (std::vector<std::int64_t>{2, 5}));
  EXPECT_EQ(workload.calls[0].lengths, (std::vector<std::int64_t>{5, 1}));
  EXPECT_EQ(workload.calls[1].values, (std::vector<std::int64_t>{2, 9}));
  EXPECT_EQ(workload.text, "four, batches of 2 texts");
  const Workload sorted = sample_workload(shape, lengths, {.tokens = 6, .sorted = true}, 3, 0);
  EXPECT_EQ(sorted.calls[0].lengths, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(sorted.calls[1].lengths, (std::vector<std::int64_t>{5}));
}

TEST(Workload, RefusesWhatTheModelDoesNotTake) {
  const Distribution lengths{
      .kind = Distribution::Kind::Observed, .observed = {600}, .text = "long.txt"};
  EXPECT_EQ(
      message_of(ErrorKind::Inputs,
                 [&] {
                   static_cast<void>(sample_workload(encoder_shape(), lengths, {.texts = 1}, 1, 0));
                 }),
      "long.txt gives sequence = 600, but the model takes sequence in [0, 512] (a table of 512 "
      "rows)");
  ModelShape three = encoder_shape();
  three.inputs.push_back({"y", ir::DType::F32, {ir::Dim::symbol("k")}});
  EXPECT_EQ(
      message_of(ErrorKind::CommandLine,
                 [&] { static_cast<void>(sample_workload(three, lengths, {.texts = 1}, 1, 0)); }),
      "lengths say how many texts a batch has and how long they are, but the model's sizes are "
      "batch, sequence, k; record a trace of calls with `anydim run --record FILE` and tune with "
      "--trace FILE");
  const Trace other({"x: f32 (n)"}, {"n"});
  EXPECT_EQ(message_of(ErrorKind::Malformed,
                       [&] { static_cast<void>(traced_workload(encoder_shape(), other)); }),
            "the trace is of another model: its inputs are x: f32 (n); this model's are ids: i64 "
            "(batch, sequence)");
}

TEST(Workload, TracedCallsKeepTheirRows) {
  ModelShape shape = encoder_shape();
  shape.packing = runtime::Packing{.mask = 0};
  Trace trace({"ids: i64 (batch, sequence)"}, {"batch", "sequence"});
  const std::int64_t values[] = {4, 100};
  trace.add(values, 130, {}, 3);
  const Workload workload = traced_workload(shape, trace);
  ASSERT_EQ(workload.calls.size(), 1);
  const Call& call = workload.calls[0];
  EXPECT_EQ(call.weight, 3);
  EXPECT_EQ(call.lengths.size(), 4);
  EXPECT_EQ(call.lengths[0], 100);
  EXPECT_EQ(std::accumulate(call.lengths.begin(), call.lengths.end(), std::int64_t{0}), 130);
}

TEST(Workload, PointsCarryTheWeightOfEveryLaunch) {
  Workload workload;
  std::vector<std::vector<LaunchKeys>> launches;
  std::vector<double> work;
  for (std::int64_t n = 1; n <= 100; ++n) {
    workload.calls.push_back({.values = {n}, .weight = n <= 50 ? 3.0 : 1.0});
    launches.push_back({{0, {n}}, {0, {n}}, {1, {4}}});
    work.push_back(static_cast<double>(n));
  }
  const KeyPoints points = choose_points(workload, launches, work, 5);
  ASSERT_EQ(points.representatives.size(), 5);
  EXPECT_EQ(points.representatives.front(), 0);
  EXPECT_EQ(points.representatives.back(), 99);
  ASSERT_EQ(points.regions.size(), 2);
  EXPECT_EQ(points.regions[0].points.size(), 5);
  EXPECT_NEAR(
      std::accumulate(points.regions[0].weights.begin(), points.regions[0].weights.end(), 0.0), 2,
      1e-9);
  EXPECT_EQ(points.regions[1].points, (std::vector<std::vector<std::int64_t>>{{4}}));
  EXPECT_NEAR(points.regions[1].weights[0], 1, 1e-9);
  // Calls between two representatives count at the nearer.
  EXPECT_GT(points.regions[0].weights[1], points.regions[0].weights[0]);
  // All sizes are known too, each with its own weight.
  const KeyWeights& sizes = points.regions[0].sizes;
  ASSERT_EQ(sizes.keys.size(), 100);
  EXPECT_EQ(sizes.keys[9], std::vector<std::int64_t>{10});
  EXPECT_NEAR(sizes.weights[9], 2 * 3.0 / 200, 1e-12);
  EXPECT_NEAR(std::accumulate(sizes.weights.begin(), sizes.weights.end(), 0.0), 2, 1e-9);
}

// Calls that a trace tells of weigh; those that can be made say where a region is measured.
TEST(Workload, WhatCannotBeMadeIsNotMeasuredButWeighs) {
  Workload workload;
  workload.calls = {
      {.values = {1}, .weight = 0}, {.values = {2}, .weight = 0}, {.values = {3}, .weight = 4}};
  const std::vector<std::vector<LaunchKeys>> launches = {
      {{0, {10}}}, {{0, {40}}, {1, {7}}}, {{0, {12}}, {.kernel = 0, .keys = {90}, .times = 0.5}}};
  const std::vector<double> work = {1, 2, 3};
  const KeyPoints points = choose_points(workload, launches, work, 4, 2);
  EXPECT_EQ(points.representatives, (std::vector<std::size_t>{0, 1}));
  ASSERT_EQ(points.regions.size(), 1) << "no call of the trace launches the other kernel";
  EXPECT_EQ(points.regions[0].points, (std::vector<std::vector<std::int64_t>>{{10}, {40}}));
  EXPECT_EQ(points.regions[0].weights, (std::vector<double>{1, 0.5}));
  EXPECT_EQ(points.regions[0].sizes.keys, (std::vector<std::vector<std::int64_t>>{{12}, {90}}));
  EXPECT_EQ(points.regions[0].sizes.weights, (std::vector<double>{1, 0.5}));
}

TEST(Workload, ALoopsManySizesAreThinnedOut) {
  Workload workload{.calls = {{.values = {100}}}, .text = {}};
  std::vector<std::vector<LaunchKeys>> launches(1);
  for (std::int64_t step = 1; step <= 100; ++step) launches[0].push_back({0, {step}});
  const KeyPoints points = choose_points(workload, launches, std::vector<double>{1}, 6);
  EXPECT_EQ(points.regions.at(0).points, (std::vector<std::vector<std::int64_t>>{{1}, {100}}));
  EXPECT_NEAR(
      std::accumulate(points.regions[0].weights.begin(), points.regions[0].weights.end(), 0.0), 100,
      1e-9);
}

TEST(Workload, VeryManySizesAreMerged) {
  Workload workload;
  std::vector<std::vector<LaunchKeys>> launches;
  std::vector<double> work;
  for (std::int64_t n = 1; n <= 3000; ++n) {
    workload.calls.push_back({.values = {n}});
    launches.push_back({{0, {n, 3001 - n}}});
    work.push_back(static_cast<double>(n));
  }
  const KeyPoints points = choose_points(workload, launches, work, 6);
  const RegionPoints& region = points.regions[0];
  EXPECT_LE(region.sizes.keys.size(), 128);
  EXPECT_GT(region.sizes.keys.size(), 20);
  EXPECT_NEAR(std::accumulate(region.sizes.weights.begin(), region.sizes.weights.end(), 0.0), 1,
              1e-9);
  for (const auto& point : region.points)
    EXPECT_NE(std::ranges::find(region.sizes.keys, point), region.sizes.keys.end());
  for (const auto& keys : region.sizes.keys)
    EXPECT_EQ(keys[0] + keys[1], 3001) << "sizes that calls have";
}

}  // namespace
}  // namespace anydim::tuner
