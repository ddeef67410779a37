// What a launch costs beside its kernel: a chain of kernels over one element, each too small to matter.
//
//   dispatch [KERNELS] [RUNS]
//
// Each kernel is a row reduction over one element, which fusion cannot join with the next; sizes are symbolic, so the shape program, the
// memory plan, the lookup of the bucket and the call are all paid. Prints nanoseconds a kernel: the median of 9 rounds.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "api/anydim.h"
#include "runtime/context.h"

namespace {

using namespace anydim;

std::string chain(int kernels) {
  std::string text = "fn @main(%x0: Tensor[(n, m), f32]) {\n";
  for (int i = 0; i < kernels; ++i) text += fmt::format("  %x{} = softmax(%x{}) {{axis = {}}}\n", i + 1, i, i % 2);
  return text + fmt::format("  return %x{}\n}}\n", kernels);
}

double nanoseconds(runtime::Context& context, const std::vector<ir::Tensor>& inputs, int kernels, int runs) {
  auto begin = std::chrono::steady_clock::now();
  for (int run = 0; run < runs; ++run) context.run(inputs);
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count() / runs / kernels;
}

void measure(int kernels, int runs) {
  auto executable = compile(ir::parse(chain(kernels)), {.threads = 1});
  executable->kernels().complete();
  runtime::Context context(executable);
  std::vector<ir::Tensor> inputs{ir::Tensor(ir::DType::F32, {1, 1})};
  std::vector<double> rounds;
  nanoseconds(context, inputs, kernels, runs);
  for (int round = 0; round < 9; ++round) rounds.push_back(nanoseconds(context, inputs, kernels, runs));
  std::sort(rounds.begin(), rounds.end());
  fmt::print("{{\"kernels\": {}, \"slots\": {}, \"nanoseconds_a_kernel\": {:.0f}}}\n", executable->program().instructions.size() - 1,
             executable->program().slots, rounds[rounds.size() / 2]);
}

}  // namespace

int main(int count, char** arguments) {
  try {
    measure(count > 1 ? std::atoi(arguments[1]) : 100, count > 2 ? std::atoi(arguments[2]) : 200);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
