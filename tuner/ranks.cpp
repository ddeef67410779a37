#include "tuner/ranks.h"

#include <fmt/format.h>

#include <cstdlib>

#include "ir/error.h"
#include "tuner/json.h"

#ifdef ANYDIM_MPI
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>
#endif

namespace anydim::tuner {

int started_ranks() {
  const char* size = std::getenv("OMPI_COMM_WORLD_SIZE");
  return size == nullptr ? 1 : std::max(1, std::atoi(size));
}

#ifdef ANYDIM_MPI

namespace {

using Json = nlohmann::json;

using Clock = std::chrono::steady_clock;

constexpr auto pause = std::chrono::milliseconds(2);
constexpr auto pulse_pause = std::chrono::milliseconds(500);
constexpr auto longest_start = std::chrono::minutes(5);  // until a rank has loaded the model
constexpr auto patience = std::chrono::minutes(15);      // with rank 0

// False: it cannot be reached.
bool send(int to, const Json& message) {
  const std::string text = message.dump(-1, ' ', false, Json::error_handler_t::replace);
  return MPI_Send(text.data(), static_cast<int>(text.size()), MPI_CHAR, to, 0, MPI_COMM_WORLD) ==
         MPI_SUCCESS;
}

Json receive(int from) {
  MPI_Status status;
  MPI_Probe(from, 0, MPI_COMM_WORLD, &status);
  int size = 0;
  MPI_Get_count(&status, MPI_CHAR, &size);
  std::string text(static_cast<std::size_t>(size), '\0');
  MPI_Recv(text.data(), size, MPI_CHAR, from, 0, MPI_COMM_WORLD, &status);
  return parse_json(text);
}

// A waiting rank sleeps between looks: it shares its machine with what is being timed.
std::optional<int> who_speaks(int from = MPI_ANY_SOURCE) {
  int there = 0;
  MPI_Status status;
  if (MPI_Iprobe(from, 0, MPI_COMM_WORLD, &there, &status) == MPI_SUCCESS && there != 0)
    return status.MPI_SOURCE;
  std::this_thread::sleep_for(pause);
  return std::nullopt;
}

// Nothing where the rank is silent for so long.
std::optional<Json> receive_within(int from, Clock::duration limit) {
  const auto deadline = Clock::now() + limit;
  while (Clock::now() < deadline)
    if (who_speaks(from)) return receive(from);
  return std::nullopt;
}

Json to_json(const Environment& environment) {
  return {{"device", environment.device},       {"target", environment.target},
          {"driver", environment.driver},       {"generator", environment.generator},
          {"precision", environment.precision}, {"threads", environment.threads}};
}

Json to_json(const std::vector<std::vector<LaunchKeys>>& launches) {
  Json all = Json::array();
  for (const auto& call : launches) {
    Json of_call = Json::array();
    for (const LaunchKeys& launch : call)
      of_call.push_back({{"kernel", launch.kernel},
                         {"keys", launch.keys},
                         {"roofline", launch.roofline_seconds}});
    all.push_back(std::move(of_call));
  }
  return all;
}

std::vector<std::vector<LaunchKeys>> launches_of(const Json& message) {
  std::vector<std::vector<LaunchKeys>> launches;
  for (const Json& call : message) {
    auto& of_call = launches.emplace_back();
    for (const Json& launch : call)
      of_call.push_back({launch.at("kernel").get<std::int32_t>(),
                         launch.at("keys").get<std::vector<std::int64_t>>(),
                         launch.at("roofline").get<double>()});
  }
  return launches;
}

}  // namespace

struct Ranks::State {
  int rank = 0, size = 1;
  Clock::duration longest_silence;  // of a rank that measures
  std::vector<int> measuring;       // ranks that take work
  bool greeted = false;  // rank 0: it has heard every rank's environment; the others: it was sent
  bool alone = false;    // a rank was lost: nobody waits for all of them any more
  std::vector<std::string> refused;
  std::vector<int> lost;
  std::function<bool()> interrupted;
  Clock::time_point pulsed{};

  void give_up(int rank_lost) {
    alone = true;
    lost.push_back(rank_lost);
    std::erase(measuring, rank_lost);
    if (measuring.empty())
      throw Error(ErrorKind::Resource,
                  "every rank that measured for rank 0 was lost; what was measured is kept");
  }

  std::vector<std::vector<LaunchKeys>> prepare(const std::vector<Call>& calls) {
    Json message = {{"prepare", Json::array()}};
    for (const Call& call : calls) message["prepare"].push_back(tuner::to_json(call));
    std::vector<std::vector<LaunchKeys>> launches;
    const std::vector<int> asked = measuring;
    for (const int to : asked)
      if (!send(to, message)) give_up(to);
    for (const int from : asked) {
      if (std::ranges::find(measuring, from) == measuring.end()) continue;
      std::optional<Json> answer;
      do answer = receive_within(from, longest_silence);
      while (answer && answer->contains("alive"));
      if (!answer) {
        give_up(from);
        continue;
      }
      if (answer->contains("error"))
        throw Error(ErrorKind::Resource, "rank {}: {}", from,
                    answer->at("error").get<std::string>());
      launches = launches_of(answer->at("launches"));
    }
    return launches;
  }

  std::vector<Trial> measure(const std::vector<TrialRequest>& requests) {
    struct Work {
      std::size_t request = 0;
      Clock::time_point heard{};
    };
    std::vector<std::optional<Trial>> trials(requests.size());
    std::vector<std::size_t> waiting;  // requests, the next one last
    for (std::size_t i = requests.size(); i-- > 0;) waiting.push_back(i);
    std::vector<int> idle = measuring;
    std::map<int, Work> busy;  // by rank
    bool stopped = false;
    while (!waiting.empty() || !busy.empty()) {
      stopped = stopped || (interrupted && interrupted());
      while (!stopped && !idle.empty() && !waiting.empty()) {
        const int to = idle.back();
        idle.pop_back();
        if (!send(to, {{"trial", to_json(requests[waiting.back()])}, {"index", waiting.back()}})) {
          give_up(to);
          continue;
        }
        busy[to] = {waiting.back(), Clock::now()};
        waiting.pop_back();
      }
      if (busy.empty()) break;
      const std::optional<int> from = who_speaks();
      if (!from) {
        const auto silent = std::ranges::find_if(busy, [&](const auto& one) {
          return Clock::now() - one.second.heard > longest_silence;
        });
        if (silent == busy.end()) continue;
        waiting.push_back(silent->second.request);
        const int rank_lost = silent->first;
        busy.erase(silent);
        give_up(rank_lost);
        continue;
      }
      const Json answer = receive(*from);
      const auto at_work = busy.find(*from);
      if (at_work == busy.end()) continue;  // it was given up, and its work with it
      at_work->second.heard = Clock::now();
      if (answer.contains("alive")) continue;
      busy.erase(at_work);
      idle.push_back(*from);
      if (answer.contains("error"))
        throw Error(ErrorKind::Resource, "rank {}: {}", *from,
                    answer.at("error").get<std::string>());
      if (answer.contains("said"))
        trials[answer.at("index").get<std::size_t>()] = trial_of(answer.at("said"));
      else stopped = true;
    }
    // What came back before the interruption counts as far as it is without gaps.
    std::vector<Trial> done;
    for (std::optional<Trial>& trial : trials) {
      if (!trial) break;
      done.push_back(std::move(*trial));
    }
    return done;
  }
};

Ranks::Ranks(double longest_silence_seconds) : state_(std::make_unique<State>()) {
  state_->longest_silence = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(longest_silence_seconds));
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &state_->rank);
  MPI_Comm_size(MPI_COMM_WORLD, &state_->size);
  // A rank that cannot be reached is this program's to judge.
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
}

Ranks::~Ranks() {
  // A process that ends early, by an error, leaves none of the others waiting.
  if (state_->rank != 0) {
    if (!state_->greeted) send(0, {{"error", "it ended before it could measure"}});
  } else if (!state_->greeted) {
    for (int from = 1; from < state_->size; ++from) {
      const auto greeting = receive_within(from, longest_start);
      if (!greeting) state_->alone = true;
      else if (!greeting->contains("error"))
        send(from, {{"stop", "rank 0 ended before it had work"}, {"alone", state_->alone}});
    }
  } else {
    for (const int to : state_->measuring) send(to, {{"stop", ""}, {"alone", state_->alone}});
  }
  // It waits for every rank, so that with one lost nobody may call it.
  if (!state_->alone) MPI_Finalize();
}

int Ranks::rank() const { return state_->rank; }
int Ranks::size() const { return state_->size; }
const std::vector<std::string>& Ranks::refused() const { return state_->refused; }
const std::vector<int>& Ranks::lost() const { return state_->lost; }

void Ranks::pulse() {
  if (Clock::now() - state_->pulsed < pulse_pause) return;
  state_->pulsed = Clock::now();
  send(0, {{"alive", true}});
}

TuneDevice Ranks::device(const Environment& environment, const std::function<bool()>& interrupted) {
  const Json own = to_json(environment);
  state_->greeted = true;
  for (int from = 1; from < state_->size; ++from) {
    const auto greeting = receive_within(from, longest_start);
    if (!greeting) {
      state_->alone = true;
      state_->lost.push_back(from);
      continue;
    }
    const Json& theirs = *greeting;
    if (theirs.contains("error")) {
      state_->refused.push_back(
          fmt::format("rank {}: {}", from, theirs.at("error").get<std::string>()));
      continue;
    }
    if (theirs == own) {
      state_->measuring.push_back(from);
      continue;
    }
    std::string differs;
    for (const auto& [name, value] : own.items())
      if (theirs.value(name, Json()) != value)
        differs += fmt::format("{}{} {} instead of {}", differs.empty() ? "" : ", ", name,
                               theirs.value(name, Json()).dump(), value.dump());
    state_->refused.push_back(fmt::format("rank {}: {}", from, differs));
    send(from, {{"stop", fmt::format("its environment is not rank 0's: {}", differs)}});
  }
  if (state_->measuring.empty())
    throw Error(
        ErrorKind::Resource,
        "no other rank has rank 0's device, compiler and threads, so none may measure for it");
  state_->interrupted = interrupted;
  State* state = state_.get();
  return {
      .prepare = [state](const std::vector<Call>& calls) { return state->prepare(calls); },
      .measure = [state](const TrialRequest& request) -> std::optional<Trial> {
        std::vector<Trial> one = state->measure({request});
        return one.empty() ? std::nullopt : std::optional(std::move(one[0]));
      },
      // Two a rank: one at work, one to go on with.
      .width = 2 * state_->measuring.size(),
      .measure_many =
          [state](const std::vector<TrialRequest>& requests) { return state->measure(requests); }};
}

std::string Ranks::serve(const Environment& environment, const TuneDevice& own) {
  send(0, to_json(environment));
  state_->greeted = true;
  for (;;) {
    const auto heard = receive_within(0, patience);
    if (!heard) {
      state_->alone = true;
      throw Error(ErrorKind::Resource,
                  "rank 0 has been silent for a quarter of an hour, so this rank measures no more");
    }
    const Json& message = *heard;
    if (message.contains("stop")) {
      state_->alone = message.value("alone", false);
      return message.at("stop").get<std::string>();
    }
    Json answer = {{"index", message.value("index", std::size_t{0})}};
    try {
      if (message.contains("prepare")) {
        std::vector<Call> calls;
        for (const Json& call : message.at("prepare")) calls.push_back(call_of(call));
        answer["launches"] = to_json(own.prepare(calls));
      } else if (const auto trial = own.measure(request_of(message.at("trial")))) {
        answer["said"] = tuner::to_json(*trial);
      }
    } catch (const Error& error) {
      answer["error"] = error.what();
    }
    send(0, answer);
  }
}

#else

struct Ranks::State {
  std::vector<std::string> refused;
  std::vector<int> lost;
};

Ranks::Ranks(double) {
  throw Error(ErrorKind::Resource,
              "this build has no MPI, so one process tunes; build with Open MPI installed, or run "
              "without mpirun");
}
Ranks::~Ranks() = default;
int Ranks::rank() const { return 0; }
int Ranks::size() const { return 1; }
const std::vector<std::string>& Ranks::refused() const { return state_->refused; }
const std::vector<int>& Ranks::lost() const { return state_->lost; }
void Ranks::pulse() {}
TuneDevice Ranks::device(const Environment&, const std::function<bool()>&) {
  internal_error("there are ranks");
}
std::string Ranks::serve(const Environment&, const TuneDevice&) {
  internal_error("there are ranks");
}

#endif

}  // namespace anydim::tuner
