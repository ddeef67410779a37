#include "tuner/tuning_cases.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "ir/error.h"
#include "runtime/guarded_memory.h"
#include "tuner/cases.h"

namespace anydim::tuner {

namespace {

using Json = nlohmann::ordered_json;

// Address space of this process now; 0 where the system does not tell.
std::int64_t mapped_bytes() {
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

void limit_further_memory(std::int64_t bytes) {
  if (bytes <= 0 || __builtin_add_overflow(bytes, mapped_bytes(), &bytes)) return;
  rlimit limit{};
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, static_cast<rlim_t>(bytes));
  setrlimit(RLIMIT_AS, &limit);
}

}  // namespace

void TuningCases::serve(std::istream& in, std::FILE* out) {
  run_cases([this](const nlohmann::json& wanted,
                   const std::function<void()>& compiled) { return run(wanted, compiled); },
            in, out);
}

Json TuningCases::run(const nlohmann::json& wanted, const std::function<void()>& compiled) {
  const std::string kind = wanted.at("kind").get<std::string>();
  if (kind == "tune_prepare") return prepare(wanted);
  if (kind == "tune_candidate") return measure(wanted, compiled);
  if (kind == "tune_in_calls") return measure_in_calls(wanted, compiled);
  throw Error(ErrorKind::Malformed, "case: there is no kind {}", kind);
}

Json TuningCases::prepare(const nlohmann::json& wanted) {
  runtime::exit_on_forbidden_access();
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  PrepareCase told{.model = model_file_of(wanted.at("model")),
                   .options = wanted.value("options", OptionWords())};
  for (const nlohmann::json& call : wanted.at("calls")) told.calls.push_back(call_of(call));
  PreparedModel prepared = prepare_(told);
  bench_ = std::make_unique<RegionBench>(prepared.program, std::move(prepared.calls));
  // A driver takes addresses of this process for memory of its device's.
  if (!prepared.program->device().has_memory())
    limit_further_memory(wanted.value("memory_bytes", std::int64_t{0}));
  Json result = {{"launches", Json::array()},
                 {"rooflines", Json::array()},
                 {"regions", region_fingerprints(prepared.program->program())}};
  for (const auto& launches : bench_->launches()) {
    Json& of_call = result["launches"].emplace_back(Json::array());
    Json& rooflines = result["rooflines"].emplace_back(Json::array());
    for (const LaunchKeys& launch : launches) {
      Json one = {launch.kernel};
      for (const std::int64_t key : launch.keys) one.push_back(key);
      of_call.push_back(std::move(one));
      rooflines.push_back(launch.roofline_seconds);
    }
  }
  return result;
}

RegionBench& TuningCases::bench() {
  if (bench_ == nullptr)
    throw Error(ErrorKind::Malformed, "case: a model is prepared before its regions are tried");
  return *bench_;
}

Json TuningCases::measure(const nlohmann::json& wanted, const std::function<void()>& compiled) {
  TrialRules rules;
  rules.repetitions = wanted.value("repetitions", rules.repetitions);
  rules.hopeless = wanted.value("hopeless", rules.hopeless);
  std::vector<TrialRequest> ahead;
  for (const nlohmann::json& one : wanted.value("ahead", nlohmann::json::array()))
    ahead.push_back(request_of(one));
  bench().expect(ahead);
  return to_json(bench().measure(request_of(wanted), rules, compiled));
}

Json TuningCases::measure_in_calls(const nlohmann::json& wanted,
                                   const std::function<void()>& compiled) {
  std::vector<TrialRequest> requests;
  for (const nlohmann::json& candidate : wanted.at("candidates"))
    requests.push_back(request_of(candidate));
  Json result = {{"trials", Json::array()}};
  for (const Trial& trial : bench().measure_in_calls(requests, TrialRules(), compiled))
    result["trials"].emplace_back(to_json(trial));
  return result;
}

}  // namespace anydim::tuner
