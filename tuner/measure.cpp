#include "tuner/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "ir/error.h"
#include "runtime/guarded_memory.h"

namespace anydim::tuner {

namespace {

using Clock = std::chrono::steady_clock;

bool tells_of_memory(const std::string& text) {
  for (const char* sign : {"out of memory", "bad_alloc", "Cannot allocate memory"})
    if (text.find(sign) != std::string::npos) return true;
  return false;
}

}  // namespace

nlohmann::json to_json(const TrialRequest& request) {
  nlohmann::json said = {{"kernel", request.kernel},
                         {"schedule", to_string(request.schedule)},
                         {"points", nlohmann::json::array()}};
  for (const TrialPoint& point : request.points)
    said["points"].push_back({{"call", point.call}, {"keys", point.keys}});
  return said;
}

TrialRequest request_of(const nlohmann::json& said) {
  TrialRequest request{.kernel = said.at("kernel").get<std::int32_t>(),
                       .schedule = ir::parse_schedule(said.at("schedule").get<std::string>()),
                       .points = {}};
  for (const nlohmann::json& point : said.at("points"))
    request.points.push_back(
        {point.at("call").get<std::size_t>(), point.at("keys").get<std::vector<std::int64_t>>()});
  return request;
}

nlohmann::json to_json(const Trial& trial) {
  nlohmann::json said = {{"outcome", name_of(trial.outcome)},
                         {"detail", trial.detail},
                         {"resources",
                          {{"code_bytes", trial.resources.code_bytes},
                           {"instructions", trial.resources.instructions},
                           {"spills", trial.resources.spills},
                           {"registers", trial.resources.registers},
                           {"stack_bytes", trial.resources.stack_bytes},
                           {"shared_bytes", trial.resources.shared_bytes}}},
                         {"points", nlohmann::json::array()}};
  for (const PointTimes& point : trial.points) {
    said["points"].push_back({{"seconds", point.seconds},
                              {"incumbent_seconds", point.incumbent_seconds},
                              {"ratio", point.ratio},
                              {"low", point.low},
                              {"high", point.high},
                              {"samples", point.samples}});
  }
  return said;
}

Trial trial_of(const nlohmann::json& said) {
  Trial trial{.outcome = parse_outcome(said.at("outcome").get<std::string>()),
              .detail = said.at("detail").get<std::string>()};
  const nlohmann::json& resources = said.at("resources");
  trial.resources = {.code_bytes = resources.at("code_bytes").get<std::int64_t>(),
                     .instructions = resources.at("instructions").get<std::int64_t>(),
                     .spills = resources.at("spills").get<std::int64_t>(),
                     .registers = resources.at("registers").get<std::int64_t>(),
                     .stack_bytes = resources.at("stack_bytes").get<std::int64_t>(),
                     .shared_bytes = resources.at("shared_bytes").get<std::int64_t>()};
  for (const nlohmann::json& point : said.at("points")) {
    trial.points.push_back({.seconds = point.at("seconds").get<double>(),
                            .incumbent_seconds = point.at("incumbent_seconds").get<double>(),
                            .ratio = point.at("ratio").get<double>(),
                            .low = point.at("low").get<double>(),
                            .high = point.at("high").get<double>(),
                            .samples = point.at("samples").get<std::int64_t>()});
  }
  return trial;
}

nlohmann::json to_json(const ModelFile& model) {
  nlohmann::json said = {{"file", model.file}, {"anonymous", model.anonymous}};
  if (model.folder) said["folder"] = *model.folder;
  return said;
}

ModelFile model_file_of(const nlohmann::json& said) {
  ModelFile model{.file = said.at("file").get<std::string>(),
                  .anonymous = said.at("anonymous").get<bool>()};
  if (said.contains("folder")) model.folder = said.at("folder").get<std::string>();
  return model;
}

Trial classify(const CaseEnd& end, const std::string& log) {
  const char* while_doing = end.staged ? "while it ran" : "while it was compiled";
  switch (end.status) {
    case CaseEnd::Status::Stopped: internal_error("a trial that was given up has no outcome");
    case CaseEnd::Status::Hung:
      return {.outcome = Outcome::Hung,
              .detail = fmt::format("over its time limit {}", while_doing)};
    case CaseEnd::Status::Died:
      if (end.exit_code == runtime::forbidden_access_exit)
        return {.outcome = Outcome::OutOfBounds,
                .detail = fmt::format("touched pages outside its buffers {}", while_doing)};
      // The system's own end of a process that takes all memory.
      if (end.signal == SIGKILL || tells_of_memory(log))
        return {.outcome = Outcome::OutOfMemory,
                .detail = fmt::format("out of memory {}", while_doing)};
      return {.outcome = Outcome::Crashed,
              .detail = end.signal != 0 ? fmt::format("signal {} ({}) {}", end.signal,
                                                      strsignal(end.signal), while_doing)
                                        : fmt::format("exit {} {}", end.exit_code, while_doing)};
    case CaseEnd::Status::Ended: break;
  }
  const nlohmann::json& said = end.said;
  if (said.contains("error")) {
    const bool memory = said.value("exit_code", 0) == static_cast<int>(ErrorKind::Resource);
    return {.outcome = memory       ? Outcome::OutOfMemory
                       : end.staged ? Outcome::Crashed
                                    : Outcome::Uncompiled,
            .detail = said.value("error", "")};
  }
  try {
    return trial_of(said);
  } catch (const nlohmann::json::exception&) {
    return {.outcome = Outcome::Crashed, .detail = "its answer was damaged"};
  } catch (const Error&) {
    return {.outcome = Outcome::Crashed, .detail = "its answer was damaged"};
  }
}

WorkerMeasure::WorkerMeasure(WorkerSettings settings, std::function<bool()> stop)
    : settings_(std::move(settings)), stop_(std::move(stop)),
      worker_(settings_.command, settings_.log) {}

std::int64_t WorkerMeasure::log_size() const {
  std::error_code error;
  const auto size = std::filesystem::file_size(settings_.log, error);
  return error ? 0 : static_cast<std::int64_t>(size);
}

std::string WorkerMeasure::log_since(std::int64_t position) const {
  std::ifstream stream(settings_.log, std::ios::binary);
  if (!stream) return {};
  stream.seekg(position);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::vector<std::vector<LaunchKeys>> WorkerMeasure::prepare() {
  nlohmann::json wanted = {{"kind", "tune_prepare"},
                           {"model", to_json(settings_.model)},
                           {"options", settings_.options},
                           {"calls", nlohmann::json::array()},
                           {"memory_bytes", settings_.memory_bytes}};
  for (const Call& call : settings_.calls) wanted["calls"].push_back(to_json(call));
  std::string fault;
  for (int attempt = 0; attempt < 2; ++attempt) {
    wanted["id"] = fmt::format("prepare/{}", cases_++);
    const std::int64_t logged = log_size();
    const CaseEnd end = worker_.run(
        wanted,
        {.first_seconds = settings_.prepare_seconds, .then_seconds = settings_.prepare_seconds},
        stop_);
    if (end.status == CaseEnd::Status::Stopped) {
      stopped_ = true;
      return {};
    }
    if (end.status == CaseEnd::Status::Ended && !end.said.contains("error")) {
      if (!settings_.regions.empty() &&
          end.said.at("regions").get<std::vector<std::string>>() != settings_.regions)
        throw Error(ErrorKind::Internal,
                    "a measuring process compiles the model to other regions than this one; is it "
                    "of the same build?");
      std::vector<std::vector<LaunchKeys>> launches;
      for (const nlohmann::json& call : end.said.at("launches")) {
        std::vector<LaunchKeys>& of_call = launches.emplace_back();
        for (const nlohmann::json& launch : call) {
          const auto numbers = launch.get<std::vector<std::int64_t>>();
          of_call.push_back(
              {static_cast<std::int32_t>(numbers.at(0)), {numbers.begin() + 1, numbers.end()}});
        }
        const nlohmann::json& rooflines = end.said.at("rooflines").at(launches.size() - 1);
        for (std::size_t i = 0; i < of_call.size(); ++i)
          of_call[i].roofline_seconds = rooflines.at(i).get<double>();
      }
      return launches;
    }
    fault = end.said.is_object() && end.said.contains("error")
                ? end.said.value("error", "")
                : classify(end, log_since(logged)).detail;
    worker_.stop();
  }
  throw Error(ErrorKind::Resource, "two measuring processes in a row could not load the model: {}",
              fault);
}

std::optional<WorkerMeasure::Answer> WorkerMeasure::ask(nlohmann::json wanted,
                                                        double longest_seconds) {
  if (!worker_.running()) {
    const auto begin = Clock::now();
    const bool first = worker_.starts() == 0;
    prepare();
    if (stopped_) return std::nullopt;
    if (!first)
      longest_restart_ =
          std::max(longest_restart_, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  wanted["id"] = fmt::format("trial/{}", cases_++);
  const std::int64_t logged = log_size();
  const CaseEnd end = worker_.run(
      wanted, {.first_seconds = settings_.compile_seconds, .then_seconds = longest_seconds}, stop_);
  if (end.status == CaseEnd::Status::Stopped) return std::nullopt;
  // A process that reported a bug of its own computes nothing any more.
  if (end.said.is_object() &&
      end.said.value("exit_code", 0) == static_cast<int>(ErrorKind::Internal))
    worker_.stop();
  return Answer{.end = end,
                .log = end.status == CaseEnd::Status::Died ? log_since(logged) : std::string()};
}

void WorkerMeasure::expect(std::vector<TrialRequest> requests) { ahead_ = std::move(requests); }

std::optional<WorkerMeasure::Answer> WorkerMeasure::ask(const TrialRequest& request) {
  nlohmann::json wanted = to_json(request);
  wanted["kind"] = "tune_candidate";
  wanted["repetitions"] = settings_.rules.repetitions;
  wanted["hopeless"] = settings_.rules.hopeless;
  for (const TrialRequest& one : ahead_) wanted["ahead"].push_back(to_json(one));
  return ask(std::move(wanted), settings_.run_seconds);
}

std::optional<Trial> WorkerMeasure::operator()(const TrialRequest& request) {
  std::erase(ahead_, request);
  std::optional<Answer> answer = ask(request);
  if (!answer) return std::nullopt;
  // A process that was lost while it compiled what comes next says nothing of this candidate.
  const bool lost = answer->end.status == CaseEnd::Status::Died ||
                    (answer->end.status == CaseEnd::Status::Hung && !answer->end.staged);
  if (lost && !ahead_.empty()) {
    ahead_.clear();
    answer = ask(request);
    if (!answer) return std::nullopt;
  }
  Trial trial = classify(answer->end, answer->log);
  // What else it wrote to in that process nobody knows.
  if (trial.outcome == Outcome::OutOfBounds) worker_.stop();
  return trial;
}

std::optional<std::vector<Trial>> WorkerMeasure::in_calls(
    const std::vector<TrialRequest>& requests) {
  nlohmann::json wanted = {{"kind", "tune_in_calls"}, {"candidates", nlohmann::json::array()}};
  std::set<std::size_t> calls;
  for (const TrialRequest& request : requests) {
    wanted["candidates"].push_back(to_json(request));
    for (const TrialPoint& point : request.points) calls.insert(point.call);
  }
  const std::optional<Answer> answer =
      ask(std::move(wanted), settings_.run_seconds * static_cast<double>(calls.size()));
  if (!answer) return std::nullopt;
  if (answer->end.status == CaseEnd::Status::Ended && answer->end.said.contains("trials")) {
    try {
      std::vector<Trial> trials;
      for (const nlohmann::json& said : answer->end.said.at("trials"))
        trials.push_back(trial_of(said));
      if (trials.size() == requests.size()) return trials;
    } catch (const nlohmann::json::exception&) {
    } catch (const Error&) {
    }
  }
  return std::vector<Trial>(requests.size(), classify(answer->end, answer->log));
}

}  // namespace anydim::tuner
