#include "tools/bench_model.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <barrier>
#include <chrono>
#include <exception>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>
#include <thread>

#include "tools/output.h"

namespace anydim::tools {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t most_latencies = std::size_t{1} << 24;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// The same call again and again. What the model appends to lies in a cache, which forgets after
// each call what that appended.
class RepeatedCall {
 public:
  RepeatedCall(const std::shared_ptr<const Model>& model, const std::vector<ir::Tensor>& inputs)
      : context_(model), inputs_(inputs) {
    if (model->appending() == nullptr) return;
    CachedCall call = cached_call(*model, inputs);
    cache_.emplace(std::move(call.cache));
    inputs_ = std::move(call.inputs);
    length_ = cache_->length();
  }

  std::vector<ir::Tensor> run() {
    if (!cache_) return context_.run(inputs_);
    cache_->truncate(length_);
    return context_.run(*cache_, inputs_);
  }

 private:
  ModelContext context_;
  std::vector<ir::Tensor> inputs_;  // but for what lies in the cache
  std::optional<KvCache> cache_;
  std::int64_t length_ = 0;
};

struct Timed {
  std::vector<double> latencies;  // seconds, of all streams, sorted
  double seconds = 0;  // from the moment in which all streams begin to the last one's end
};

Timed time_calls(const std::shared_ptr<const Model>& model, const std::vector<ir::Tensor>& inputs,
                 const ModelBench& bench) {
  Timed timed;
  std::mutex mutex;  // of what is below, and of `timed` at the end
  std::exception_ptr failure;
  Clock::time_point begin;
  std::barrier ready(bench.streams, [&]() noexcept { begin = Clock::now(); });
  const auto stream = [&] {
    RepeatedCall call(model, inputs);
    std::vector<double> latencies;
    const auto call_once = [&] {
      const auto at = Clock::now();
      const std::vector<ir::Tensor> results = call.run();
      return seconds_since(at);
    };
    try {
      const auto warming = Clock::now();
      do call_once();
      while (seconds_since(warming) < bench.warm_up);
      ready.arrive_and_wait();
      const auto goes_on = [&] {
        const bool enough =
            std::ssize(latencies) >= bench.iterations && seconds_since(begin) >= bench.duration;
        return !enough && latencies.size() < most_latencies;
      };
      while (goes_on()) latencies.push_back(call_once());
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
      ready.arrive_and_drop();
      return;
    }
    const std::lock_guard lock(mutex);
    timed.seconds = std::max(timed.seconds, seconds_since(begin));
    timed.latencies.insert(timed.latencies.end(), latencies.begin(), latencies.end());
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < bench.streams; ++i) threads.emplace_back(stream);
  stream();
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
  std::ranges::sort(timed.latencies);
  return timed;
}

nlohmann::ordered_json figures_of(const Timed& timed, const ModelBench& bench) {
  const auto milliseconds = [&](double share) { return 1e3 * percentile(timed.latencies, share); };
  const auto calls = static_cast<double>(timed.latencies.size());
  return {{"streams", bench.streams},
          {"calls", timed.latencies.size()},
          {"seconds", timed.seconds},
          {"calls_per_s", calls / timed.seconds},
          {"mean_ms",
           1e3 * std::accumulate(timed.latencies.begin(), timed.latencies.end(), 0.0) / calls},
          {"p50_ms", milliseconds(0.5)},
          {"p90_ms", milliseconds(0.9)},
          {"p99_ms", milliseconds(0.99)},
          {"min_ms", milliseconds(0)},
          {"max_ms", milliseconds(1)}};
}

void print(const nlohmann::ordered_json& figures, const std::vector<InputInfo>& inputs,
           const std::vector<ir::Tensor>& tensors) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    put("{:<19}{}\n", i == 0 ? "inputs" : "",
        fmt::format("{}: {}", ir::printable(inputs[i].name),
                    ir::shape_text(tensors[i].dtype(), tensors[i].dims())));
  put("streams            {:>10}\ncalls              {:>10}\ncalls/s            {:>10.1f}\n",
      figures["streams"].get<int>(), figures["calls"].get<std::int64_t>(),
      figures["calls_per_s"].get<double>());
  for (const char* name : {"mean", "p50", "p90", "p99", "min", "max"})
    put("{:<19}{:>10.4f} ms\n", name, figures[std::string(name) + "_ms"].get<double>());
  put("load               {:>10.3f} s\nfirst result       {:>10.3f} s\npeak memory        "
      "{:>10.1f} MB\n",
      figures["load_s"].get<double>(), figures["first_result_s"].get<double>(),
      1e-6 * static_cast<double>(figures["peak_bytes"].get<std::int64_t>()));
  if (figures.contains("rows_given"))
    put("rows of a call     {:>10} given, {} computed\n", figures["rows_given"].get<std::int64_t>(),
        figures["rows_computed"].get<std::int64_t>());
  for (const auto& [chosen, rows] : figures["schedules"].items())
    put("schedules, {:<17} {:>5}\n", chosen, rows.get<std::int64_t>());
}

}  // namespace

double percentile(std::span<const double> sorted, double share) {
  const double position = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

void add_model_bench_options(CLI::App& command, ModelBench& bench) {
  add_call_options(command, bench.call);
  command
      .add_option("--streams", bench.streams,
                  "threads that call the model of --shape or --input at once")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command.add_option("--iterations", bench.iterations, "timed calls of each stream, at least")
      ->check(CLI::Range(std::int64_t{1}, static_cast<std::int64_t>(most_latencies)))
      ->capture_default_str();
  command.add_option("--duration", bench.duration, "seconds of timed calls, at least")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  command.add_option("--warm-up", bench.warm_up, "seconds of calls before")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
}

void run_model_bench(const ModelBench& bench, const CompileOptions& options,
                     const ProcessClock& process) {
  const auto begin = Clock::now();
  ir::Module module = load_model(bench.model);
  const GivenCall given(bench.call, module, "bench");
  const auto model = Model::compile(std::move(module), options);
  const double load_s = seconds_since(begin);
  const std::vector<ir::Tensor> inputs = given.tensors(*model);
  ModelContext(model).run(inputs);
  const double first_result_s = process.seconds();
  model->complete();
  const CallStatistics first = model->statistics().calls;

  nlohmann::ordered_json figures = figures_of(time_calls(model, inputs, bench), bench);
  figures["load_s"] = load_s;
  figures["first_result_s"] = first_result_s;
  figures["peak_bytes"] = peak_resident_bytes();
  if (first.tokens_given > 0) {
    figures["rows_given"] = first.tokens_given;
    figures["rows_computed"] = first.tokens_computed;
  }
  figures["schedules"] = count_by_choice(table_rows(*program_of(*model)));
  if (bench.json) put_json(figures);
  else print(figures, model->inputs(), inputs);
}

}  // namespace anydim::tools
