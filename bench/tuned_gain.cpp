// A model with the tables of a tuning database against the same model by the cost model alone, in
// one process, in turn, over whole batches of a file's texts. A third instance, by the cost model
// alone too, tells what the comparison itself strays. Each runs a few calls in a row, so that
// caches hold its own weights as in a service, and each follows each of the others as often.
// usage: tuned_gain MODEL LENGTHS DATABASE BATCH THREADS ROUNDS [bf16]
#include <fmt/format.h>

#include <algorithm>
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
  Contestant one{.model = anydim::Model::compile(anydim::load_model(file), options),
                 .context = nullptr};
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
  Contestant again = make(arguments[1], options);
  options.database = arguments[3];
  Contestant tuned = make(arguments[1], options);
  const SampleInputs sample(load_model(arguments[1]));
  const tuner::Distribution lengths = tuner::read_lengths(arguments[2]);
  const tuner::Workload workload = tuner::sample_workload(
      shape_of(*plain.model), lengths, {.texts = std::atoll(arguments[4])}, 1, 0);
  std::vector<std::vector<ir::Tensor>> calls;
  for (const tuner::Call& call : workload.calls) calls.push_back(sample.make(*plain.model, call));
  Contestant* const contestants[] = {&tuned, &plain, &again};
  for (const auto& inputs : calls)
    for (Contestant* each : contestants) time_call(*each, inputs);
  for (const Contestant* each : contestants) each->model->complete();

  constexpr std::size_t in_a_row = 16;
  std::vector<double> ratios, strays, seconds;
  for (std::size_t round = 0; round < static_cast<std::size_t>(std::atoi(arguments[6])); ++round) {
    for (Contestant* each : contestants) each->pass = 0;
    for (std::size_t first = 0, block = round; first < calls.size(); first += in_a_row, ++block) {
      for (std::size_t turn = 0; turn < 3; ++turn) {
        Contestant& at_work =
            *contestants[(block % 2 == 0 ? turn + block / 2 : 2 * turn + block / 2) % 3];
        for (std::size_t c = first; c < std::min(first + in_a_row, calls.size()); ++c)
          at_work.pass += time_call(at_work, calls[c]);
      }
    }
    ratios.push_back(plain.pass / tuned.pass);
    strays.push_back(plain.pass / again.pass);
    seconds.push_back(tuned.pass);
  }
  const tuner::Interval95 gain = tuner::median_interval(ratios),
                          noise = tuner::median_interval(strays);
  fmt::print("{} calls a round, {} rounds, tuned {:.2f} ms a call\n", calls.size(), ratios.size(),
             1e3 * tuner::median(seconds) / static_cast<double>(calls.size()));
  fmt::print("cost model alone / tuned: {:.4f}, 95 % interval [{:.4f}, {:.4f}]\n",
             tuner::median(ratios), gain.low, gain.high);
  fmt::print("cost model alone / itself: {:.4f}, 95 % interval [{:.4f}, {:.4f}]\n",
             tuner::median(strays), noise.low, noise.high);
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
