// What recording a timeline costs: calls with it on and off, in turns.
//
//   timeline_cost MODEL LENGTH [ROUNDS]
//
// Inputs have 1 for their first dim and LENGTH for other unknown ones; calls have one thread.
//
// A round makes calls for about 20 ms each way, the way that begins changing with each; prints the
// median over rounds of the ratio on / off, with the quartiles, and microseconds a call. Ring of
// the default size, which wraps many times. Times are the calling thread's processor time, which
// other load disturbs less.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <vector>

#include "api/anydim.h"

namespace {

using namespace anydim;

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::vector<ir::Tensor> inputs_of_length(const Model& model, std::int64_t length) {
  std::vector<ir::Tensor> tensors;
  for (const InputInfo& input : model.inputs()) {
    std::vector<std::int64_t> dims;
    for (std::size_t i = 0; i < input.dims.size(); ++i)
      dims.push_back(input.dims[i].constant().value_or(i == 0 ? 1 : length));
    ir::Tensor& tensor = tensors.emplace_back(input.dtype, dims);
    for (std::int64_t i = 0; i < tensor.elements(); ++i)
      ir::is_float(input.dtype) ? tensor.set_real(i, 0.5) : tensor.set_integer(i, 1);
  }
  return tensors;
}

double seconds_a_call(ModelContext& context, const std::vector<ir::Tensor>& inputs, int calls) {
  const double begin = thread_seconds();
  for (int call = 0; call < calls; ++call) context.run(inputs);
  return (thread_seconds() - begin) / calls;
}

double quantile(std::vector<double> values, double share) {
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

void measure(const char* file, std::int64_t length, int rounds) {
  const auto model = Model::compile(load_model(file), {.threads = 1});
  const auto inputs = inputs_of_length(*model, length);
  ModelContext context(model);
  context.run(inputs);
  model->complete();
  const double once = seconds_a_call(context, inputs, 20);
  const int calls = std::max(1, static_cast<int>(0.02 / once));
  std::vector<double> ratios, off, on;
  for (int round = 0; round < rounds; ++round) {
    double seconds[2] = {};
    for (int turn = 0; turn < 2; ++turn) {
      const bool recorded = (turn + round) % 2 == 0;
      if (recorded) model->timeline().start();
      context.run(inputs);
      seconds[recorded ? 1 : 0] = seconds_a_call(context, inputs, calls);
      model->timeline().stop();
    }
    off.push_back(seconds[0]);
    on.push_back(seconds[1]);
    ratios.push_back(seconds[1] / seconds[0]);
  }
  fmt::print(
      "off {:.2f} us a call, on {:.2f} us; on / off {:.4f} [{:.4f}, {:.4f}] over {} rounds of {} "
      "calls\n",
      1e6 * quantile(off, 0.5), 1e6 * quantile(on, 0.5), quantile(ratios, 0.5),
      quantile(ratios, 0.25), quantile(ratios, 0.75), rounds, calls);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: timeline_cost MODEL LENGTH [ROUNDS]\n");
    return 2;
  }
  try {
    measure(argv[1], std::atoll(argv[2]), argc > 3 ? std::atoi(argv[3]) : 101);
  } catch (const std::exception& error) {
    fmt::print(stderr, "timeline_cost: {}\n", error.what());
    return 1;
  }
}
