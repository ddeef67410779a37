// A model with the tables of a tuning database against the same model by the cost model alone, in one process, in turn, over whole batches of a file's texts.
// usage: tuned_gain MODEL LENGTHS DATABASE BATCH THREADS ROUNDS [bf16]
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>

#include "api/anydim.h"
#include "api/tuning_run.h"
#include "tuner/statistics.h"

namespace {

using Clock = std::chrono::steady_clock;

struct Contestant {
  std::shared_ptr<const anydim::Model> model;
  std::unique_ptr<anydim::ModelContext> context;
  double pass = 0;  // seconds of the pass at work
};

Contestant make(const char* file, const anydim::CompileOptions& options) {
  Contestant one{.model = anydim::Model::compile(anydim::load_model(file), options), .context = nullptr};
  one.context = std::make_unique<anydim::ModelContext>(one.model);
  return one;
}

double time_call(Contestant& contestant, const std::vector<anydim::ir::Tensor>& inputs) {
  const auto begin = Clock::now();
  contestant.context->run(inputs);
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

int run(char** arguments) {
  using namespace anydim;
  CompileOptions options{.threads = std::atoi(arguments[5])};
  if (arguments[7] != nullptr) options.precision = parse_precision(arguments[7]);
  Contestant plain = make(arguments[1], options);
  options.database = arguments[3];
  Contestant tuned = make(arguments[1], options);
  const SampleInputs sample(load_model(arguments[1]));
  const tuner::Distribution lengths = tuner::read_lengths(arguments[2]);
  const tuner::Workload workload = tuner::sample_workload(shape_of(*plain.model), lengths, {.texts = std::atoll(arguments[4])}, 1, 0);
  std::vector<std::vector<ir::Tensor>> calls;
  for (const tuner::Call& call : workload.calls) calls.push_back(sample.make(*plain.model, call));
  for (const auto& inputs : calls)
    for (Contestant* each : {&plain, &tuned}) time_call(*each, inputs);
  for (const Contestant* each : {&plain, &tuned}) each->model->complete();

  std::vector<double> ratios, again, seconds;
  for (int round = 0; round < std::atoi(arguments[6]); ++round) {
    double ours = 0, theirs = 0, itself = 0;
    for (std::size_t c = 0; c < calls.size(); ++c) {
      // Each goes first as often as the others.
      for (int turn = 0; turn < 3; ++turn) {
        const auto which = (static_cast<std::size_t>(turn) + c + static_cast<std::size_t>(round)) % 3;
        (which == 0 ? ours : which == 1 ? theirs : itself) += time_call(which == 0 ? tuned : plain, calls[c]);
      }
    }
    ratios.push_back(theirs / ours);
    again.push_back(theirs / itself);
    seconds.push_back(ours);
  }
  const tuner::Interval95 gain = tuner::median_interval(ratios), noise = tuner::median_interval(again);
  fmt::print("{} calls a round, {} rounds, tuned {:.2f} ms a call\n", calls.size(), ratios.size(),
             1e3 * tuner::median(seconds) / static_cast<double>(calls.size()));
  fmt::print("cost model alone / tuned: {:.4f}, 95 % interval [{:.4f}, {:.4f}]\n", tuner::median(ratios), gain.low, gain.high);
  fmt::print("cost model alone / itself: {:.4f}, 95 % interval [{:.4f}, {:.4f}]\n", tuner::median(again), noise.low, noise.high);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7 && argc != 8) {
    fmt::print(stderr, "usage: tuned_gain MODEL LENGTHS DATABASE BATCH THREADS ROUNDS [bf16]\n");
    return 2;
  }
  try {
    return run(argv);
  } catch (const anydim::Error& error) {
    fmt::print(stderr, "tuned_gain: {}\n", error.what());
    return static_cast<int>(error.kind());
  }
}
