// A model with the tables of a tuning database against the same model by the cost model alone, in
// one process, in turn, over calls of sizes that were not tuned for. A third instance, by the cost
// model alone too, tells what the comparison itself strays. Each runs a few calls in a row, so that
// caches hold its own weights as in a service, and each follows each of the others as often.
// usage: tuned_gain MODEL DATABASE ROUNDS[xCALLS] [NAME=VALUE...]
// A round has so many calls, evenly taken of those that were drawn (again and again where they are
// fewer); without CALLS all of them.
// Names are those of what compiles (api/option_text.h) and of the sizes (api/tune_settings.h), as
// they were tuned with: lengths=tokens.jsonl precision=bf16 threads=2. Of a trace, give one of
// other calls than those that were tuned for.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <span>
#include <string_view>

#include "api/anydim.h"
#include "api/tune_model.h"
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

// A name is one of the sizes' where it is none of what compiles.
void set(std::string_view word, anydim::CompileOptions& options, anydim::TuneSettings& settings) {
  const std::size_t equals = word.find('=');
  const std::string_view name = word.substr(0, equals),
                         value = equals == word.npos ? "" : word.substr(equals + 1);
  try {
    anydim::set_option(options, name, value);
  } catch (const anydim::Error& not_an_option) {
    try {
      anydim::set_tune_setting(settings, name, value);
    } catch (const anydim::Error&) {
      throw not_an_option;
    }
  }
}

struct Effort {
  std::size_t rounds = 0, calls = 0;  // calls of a round; 0: all
};

int run(const char* file, const char* database, const Effort& effort, std::span<char*> words) {
  using namespace anydim;
  CompileOptions options;
  TuneSettings settings;
  for (const char* word : words) set(word, options, settings);
  require_sizes(settings);
  Contestant plain = make(file, options);
  Contestant again = make(file, options);
  options.database = database;
  Contestant tuned = make(file, options);
  const SampleInputs sample(load_model(file));
  const tuner::Workload workload =
      workloads_of(settings, plain.model->inputs(), shape_of(*plain.model)).unseen;
  std::vector<std::vector<ir::Tensor>> calls;
  const std::size_t drawn = workload.calls.size(),
                    in_round = effort.calls == 0 ? drawn : effort.calls,
                    taken = std::min(in_round, drawn);
  for (std::size_t i = 0; i < taken; ++i)
    calls.push_back(sample.make(*plain.model, workload.calls[i * drawn / taken]));
  const std::array<Contestant*, 3> contestants = {&tuned, &plain, &again};
  for (const auto& inputs : calls)
    for (Contestant* each : contestants) time_call(*each, inputs);
  for (const Contestant* each : contestants) each->model->complete();

  constexpr std::size_t in_a_row = 16;
  std::vector<double> ratios, strays, seconds;
  for (std::size_t round = 0; round < effort.rounds; ++round) {
    for (Contestant* each : contestants) each->pass = 0;
    for (std::size_t first = 0, block = round; first < in_round; first += in_a_row, ++block) {
      for (std::size_t turn = 0; turn < 3; ++turn) {
        Contestant& at_work =
            *contestants[(block % 2 == 0 ? turn + block / 2 : 2 * turn + block / 2) % 3];
        for (std::size_t c = first; c < std::min(first + in_a_row, in_round); ++c)
          at_work.pass += time_call(at_work, calls[c % taken]);
      }
    }
    ratios.push_back(plain.pass / tuned.pass);
    strays.push_back(plain.pass / again.pass);
    seconds.push_back(tuned.pass);
  }
  const tuner::Interval95 gain = tuner::median_interval(ratios),
                          noise = tuner::median_interval(strays);
  fmt::print("{} calls a round, {} rounds, tuned {:.2f} ms a call\n", in_round, ratios.size(),
             1e3 * tuner::median(seconds) / static_cast<double>(in_round));
  fmt::print("cost model alone / tuned: {:.4f}, 95 % interval [{:.4f}, {:.4f}]\n",
             tuner::median(ratios), gain.low, gain.high);
  fmt::print("cost model alone / itself: {:.4f}, 95 % interval [{:.4f}, {:.4f}]\n",
             tuner::median(strays), noise.low, noise.high);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Effort effort;
  if (argc < 4 || std::sscanf(argv[3], "%zux%zu", &effort.rounds, &effort.calls) < 1 ||
      effort.rounds == 0) {
    fmt::print(stderr, "usage: tuned_gain MODEL DATABASE ROUNDS[xCALLS] [NAME=VALUE...]\n");
    return 2;
  }
  try {
    return run(argv[1], argv[2], effort, std::span(argv + 4, argv + argc));
  } catch (const anydim::Error& error) {
    fmt::print(stderr, "tuned_gain: {}\n", error.what());
    return static_cast<int>(error.kind());
  }
}
