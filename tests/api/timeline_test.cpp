// What a model's timeline tells of its calls, and the file that it becomes.
#include "api/timeline_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "api/model.h"
#include "ir/error.h"
#include "ir/text/parse.h"
#include "tests/api/small_encoder.h"

namespace anydim {
namespace {

using nlohmann::json;

std::shared_ptr<const Model> compiled(std::shared_ptr<runtime::Timeline> timeline = nullptr,
                                      bool background = false) {
  CompileOptions options;
  options.keep_kernels = false;
  options.background = background;
  options.threads = 2;
  options.masked_rows = MaskedRows::Zero;
  options.timeline = std::move(timeline);
  return Model::compile(ir::parse(encoder), options);
}

std::vector<ir::Tensor> padded_call(std::int64_t batch, std::int64_t length,
                                    const std::vector<int>& hidden) {
  const std::vector<std::int64_t> ids(static_cast<std::size_t>(batch * length), 3);
  return {ir::Tensor::of<std::int64_t>(ir::DType::I64, {batch, length}, ids),
          ir::Tensor::of<int>(ir::DType::Bool, {batch, length}, hidden)};
}

json events_of(const json& file, const std::string& category) {
  json found = json::array();
  for (const json& event : file.at("traceEvents"))
    if (event.value("cat", "") == category) found.push_back(event);
  return found;
}

TEST(ModelTimeline, TellsOfCallsWhatTheyLeftOutAndWhatTheyLaunched) {
  const auto model = compiled();
  ModelContext context(model);
  context.run(padded_call(2, 3, {0, 0, 1, 0, 1, 1}));  // before: not in it
  model->timeline().start();
  context.run(padded_call(2, 3, {0, 0, 1, 0, 1, 1}));
  EXPECT_THROW(context.run(padded_call(1, 7, {0, 0, 0, 0, 0, 0, 0})), Error);
  const std::vector<std::int64_t> ids{4, 5, 6};
  context.run_ragged(
      {ir::Tensor::of<std::int64_t>(ir::DType::I64, {3}, ids)},
      ir::Tensor::of<std::int64_t>(ir::DType::I64, {3}, std::vector<std::int64_t>{0, 1, 3}));
  model->timeline().stop();
  context.run(padded_call(1, 1, {0}));  // after: neither
  const json file = json::parse(timeline_json(model->timeline().read()));
  EXPECT_EQ(file.at("otherData").at("lost_events"), 0);

  const json calls = events_of(file, "call");
  ASSERT_EQ(calls.size(), 3u);
  EXPECT_EQ(calls[0].at("name"), "packed call");
  EXPECT_EQ(calls[0].at("args").at("rows_given"), 6);
  EXPECT_EQ(calls[0].at("args").at("rows_computed"), 3);
  EXPECT_EQ(calls[0].at("args").at("rows_left_out"), 3);
  EXPECT_EQ(calls[0].at("args").at("input_bytes"), 6 * 8 + 6);
  EXPECT_GT(calls[0].at("args").at("output_bytes"), 6 * 16 * 4);
  EXPECT_EQ(calls[0].at("args").at("failed"), false);
  EXPECT_EQ(calls[1].at("name"), "failed call");
  EXPECT_EQ(calls[1].at("args").at("failed"), true);
  EXPECT_EQ(calls[2].at("name"), "ragged call");

  const json launches = events_of(file, "launch");
  ASSERT_GE(launches.size(), 4u);
  const double begun = calls[0].at("ts"), ended = begun + calls[0].at("dur").get<double>();
  std::size_t inside = 0;
  for (const json& launch : launches) {
    const json& told = launch.at("args");
    for (const char* fact : {"bucket", "schedule", "chosen"})
      EXPECT_NE(told.at(fact), "") << launch;
    EXPECT_GT(told.at("bytes"), 0) << launch;
    EXPECT_FALSE(told.at("symbols").empty()) << launch;
    EXPECT_EQ(launch.at("tid"), calls[0].at("tid"));
    const double at = launch.at("ts");
    inside += at >= begun && at + launch.at("dur").get<double>() <= ended + 0.001 ? 1 : 0;
  }
  EXPECT_GE(inside, 2u);
  // The ragged program came to be in the call that first asked for it.
  const json compilations = events_of(file, "compile");
  ASSERT_FALSE(compilations.empty());
  for (const json& one : compilations) {
    EXPECT_GT(one.at("args").at("code_bytes"), 0);
    EXPECT_EQ(one.at("args").at("kernel cache"), "off");
    EXPECT_EQ(one.at("args").at("background"), false);
  }
}

// A function's buffers are numbered apart from the entry's.
TEST(ModelTimeline, LaunchesOfFunctionsAreToldWithTheirOwnBytes) {
  CompileOptions options;
  options.keep_kernels = false;
  const auto model = Model::compile(ir::parse(R"(
fn @main(%x: Tensor[(n, 48), f32]) -> Tensor[(n, 48), f32] where n in [1, 64] {
  %y = call @inner(%x)
  return %y
}

fn @inner(%x: Tensor[(m, 48), f32]) -> Tensor[(m, 48), f32] where m in [1, 64] {
  %a = softmax(%x) {axis = -1}
  %y = tanh(%a)
  return %y
})"),
                                    options);
  ModelContext context(model);
  model->timeline().start();
  context.run({ir::Tensor::of<float>(ir::DType::F32, {5, 48}, std::vector<float>(5 * 48))});
  model->timeline().stop();
  std::int64_t bytes = 0;
  for (const json& launch :
       events_of(json::parse(timeline_json(model->timeline().read())), "launch"))
    bytes = std::max(bytes, launch.at("args").at("bytes").get<std::int64_t>());
  EXPECT_EQ(bytes, 2 * 5 * 48 * 4);  // read and written
}

TEST(ModelTimeline, KernelsThatFollowBesideTheCallsAreTold) {
  const auto timeline = std::make_shared<runtime::Timeline>();
  timeline->start();
  const auto model = compiled(timeline, true);
  while (model->statistics().kernels.pending > 0) std::this_thread::yield();
  const json file = json::parse(timeline_json(timeline->read()));
  EXPECT_EQ(events_of(file, "stage").size(), 2u);
  std::size_t beside = 0, first = 0;
  for (const json& one : events_of(file, "compile"))
    ++(one.at("args").at("background") == true ? beside : first);
  EXPECT_GT(first, 0u);
  EXPECT_GT(beside, 0u);
}

TEST(ModelTimeline, ThreadsThatCallWhileItIsStartedWrittenAndStoppedLoseNothingUncounted) {
  const auto model = compiled();
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      ModelContext context(model);
      while (!done.load()) context.run(padded_call(1, 3, {0, 0, 1}));
    });
  for (int turn = 0; turn < 20; ++turn) {
    model->timeline().start(64);
    while (json::parse(timeline_json(model->timeline().read())).at("otherData").at("lost_events") ==
           0)
      continue;
    if (turn % 2 == 0) model->timeline().stop();
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(model->timeline().read().events.size(), 64u);
}

TEST(TimelineFile, IsReplacedAsAWholeOrLeftAlone) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "timeline_file";
  std::filesystem::create_directories(folder);
  runtime::Timeline timeline;
  const auto refusal = [&](const std::filesystem::path& file) -> std::pair<ErrorKind, std::string> {
    try {
      write_timeline(file, timeline);
    } catch (const Error& error) {
      return {error.kind(), error.what()};
    }
    return {ErrorKind::Internal, "nothing was thrown"};
  };
  EXPECT_EQ(refusal(folder / "t.json"),
            std::pair(ErrorKind::CommandLine,
                      std::string("no timeline was started, so that there is none to write")));
  timeline.start(1);
  EXPECT_EQ(
      refusal(folder),
      std::pair(ErrorKind::Write, folder.string() + ": cannot be written: it is no regular file"));
  EXPECT_EQ(refusal(folder / "no/t.json"),
            std::pair(ErrorKind::Write, (folder / "no/t.json").string() +
                                            ": cannot be written: No such file or directory"));
  // What others named a node is text of the file's, not a part of its form.
  timeline.add({.note = timeline.note({.name = "a\"b\n\xff", .facts = {{"source", "}]"}}}),
                .begun = runtime::clock_ticks()});
  write_timeline(folder / "t.json", timeline);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  const json file = json::parse(timeline_json(timeline.read()));
  EXPECT_EQ(file.at("traceEvents").back().at("name"), "a\"b\n\xef\xbf\xbd");
  EXPECT_EQ(file.at("traceEvents").back().at("args").at("source"), "}]");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace anydim
