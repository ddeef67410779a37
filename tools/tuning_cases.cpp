#include "tools/tuning_cases.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "api/tuning_run.h"
#include "tools/process.h"
#include "tools/recorded_calls.h"

namespace anydim::tools {

namespace {

using Json = nlohmann::ordered_json;

void limit_further_memory(std::int64_t bytes) {
  if (bytes <= 0 || __builtin_add_overflow(bytes, mapped_bytes(), &bytes)) return;
  rlimit limit{};
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, static_cast<rlim_t>(bytes));
  setrlimit(RLIMIT_AS, &limit);
}

}  // namespace

struct TuningCases::State {
  CompileOptions options;
  std::function<CompileTarget()> make;
  std::shared_ptr<const Model> model;
  std::unique_ptr<tuner::RegionBench> bench;
};

TuningCases::TuningCases(CompileOptions options, std::function<CompileTarget()> make)
    : state_(std::make_unique<State>(State{.options = std::move(options), .make = std::move(make), .model = {}, .bench = {}})) {}
TuningCases::~TuningCases() = default;

Json TuningCases::run(const nlohmann::json& wanted, const std::function<void()>& compiled) {
  const std::string kind = wanted.at("kind").get<std::string>();
  if (kind == "tune_prepare") return prepare(wanted);
  if (kind == "tune_candidate") return measure(wanted, compiled);
  throw Error(ErrorKind::Malformed, fmt::format("case: there is no kind {}", kind));
}

Json TuningCases::prepare(const nlohmann::json& wanted) {
  CompileOptions options = state_->options;
  tuner::exit_on_forbidden_access();
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  options.keep_originals = true;
  options.background = false;
  options.database.reset();  // incumbents are the cost model's choice
  options.outputs = wanted.value("outputs", std::vector<std::string>());
  ir::Module module = load_model(wanted.at("model").get<std::string>());
  const SampleInputs inputs(module);
  state_->model = Model::compile(state_->make(), std::move(module), options);
  std::vector<std::vector<ir::Tensor>> calls;
  for (const nlohmann::json& call : wanted.at("calls")) {
    const tuner::Call one = tuner::call_of(call);
    calls.push_back(for_program(*state_->model,
                                one.inputs.empty() ? inputs.make(*state_->model, one) : read_call(one.inputs, state_->model->inputs())));
  }
  const auto program = program_of(*state_->model);
  state_->bench = std::make_unique<tuner::RegionBench>(program, std::move(calls));
  limit_further_memory(wanted.value("memory_bytes", std::int64_t{0}));
  Json result = {{"launches", Json::array()}, {"rooflines", Json::array()}, {"regions", tuner::region_fingerprints(program->program())}};
  for (const auto& launches : state_->bench->launches()) {
    Json& of_call = result["launches"].emplace_back(Json::array());
    Json& rooflines = result["rooflines"].emplace_back(Json::array());
    for (const tuner::LaunchKeys& launch : launches) {
      Json one = {launch.kernel};
      for (const std::int64_t key : launch.keys) one.push_back(key);
      of_call.push_back(std::move(one));
      rooflines.push_back(launch.roofline_seconds);
    }
  }
  return result;
}

Json TuningCases::measure(const nlohmann::json& wanted, const std::function<void()>& compiled) {
  if (state_->bench == nullptr) throw Error(ErrorKind::Malformed, "case: a model is prepared before its regions are tried");
  std::vector<tuner::TrialPoint> points;
  for (const nlohmann::json& point : wanted.at("points"))
    points.push_back({point.at("call").get<std::size_t>(), point.at("keys").get<std::vector<std::int64_t>>()});
  tuner::TrialRules rules;
  rules.repetitions = wanted.value("repetitions", rules.repetitions);
  rules.hopeless = wanted.value("hopeless", rules.hopeless);
  const tuner::Trial trial = state_->bench->measure(wanted.at("kernel").get<std::int32_t>(),
                                                    ir::parse_schedule(wanted.at("schedule").get<std::string>()), points, rules, compiled);
  return tuner::to_json(trial);
}

}  // namespace anydim::tools
