// Runs a text encoder at random shapes, over and over, and prints how resident memory and the
// number of compiled kernels went.
//
//   soak MODEL.onnx RUNS [MAXIMUM_LENGTH] [MAXIMUM_BATCH]
//
// Prints one JSON object: resident bytes a tenth of the way, halfway and at the end, bytes a run of
// the last half that memory grew by, kernels compiled in all and after the first 1,000 runs (or the
// first tenth, where that is fewer). Exits 1 if memory grew by `allowed_growth` or more, or a
// kernel was compiled late. What grows once, as a thread that gets its first work late does, is
// little beside the runs of a long soak; what is lost in every run is not.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <random>
#include <string>

#include "api/anydim.h"
#include "runtime/context.h"

namespace {

using namespace anydim;

constexpr double allowed_growth = 32;  // bytes a run: the smallest chunk malloc gives, lost in each

long resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  long pages = 0, resident = 0;
  statm >> pages >> resident;
  return resident * 4096;
}

// Every input [batch, length]: token ids below `vocabulary`, masks of ones.
std::vector<ir::Tensor> batch_of(const ir::Program& program, std::int64_t batch,
                                 std::int64_t length, std::mt19937& random) {
  std::vector<ir::Tensor> inputs;
  for (const ir::Code::Input& input : program.entry().inputs) {
    ir::Tensor tensor(input.dtype, {batch, length});
    bool ids = input.name == "input_ids";
    for (std::int64_t& element : tensor.mutable_as<std::int64_t>())
      element = ids ? static_cast<std::int64_t>(random() % 30) : input.name == "attention_mask";
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

int soak(const std::string& model, long runs, std::int64_t maximum_length,
         std::int64_t maximum_batch) {
  auto executable = compile(load_model(model), {.threads = 2});
  runtime::Context context(executable);
  std::mt19937 random(7);
  long early = std::min<long>(1000, std::max<long>(1, runs / 10)), tenth = 0, half = 0;
  std::int64_t compiled_early = 0;
  for (long run = 0; run < runs; ++run) {
    if (run == runs / 10) tenth = resident_bytes();
    if (run == runs / 2) half = resident_bytes();
    if (run == early) {
      executable->kernels().complete();
      compiled_early = executable->kernels().progress().compiler_calls;
    }
    std::int64_t length =
        1 + static_cast<std::int64_t>(random() % static_cast<unsigned>(maximum_length));
    std::int64_t batch =
        1 + static_cast<std::int64_t>(random() % static_cast<unsigned>(maximum_batch));
    context.run(batch_of(executable->program(), batch, length, random));
  }
  long end = resident_bytes();
  std::int64_t compiled = executable->kernels().progress().compiler_calls;
  double growth = static_cast<double>(end - half) / static_cast<double>(runs - runs / 2);
  fmt::print(
      "{{\"runs\": {}, \"resident_tenth\": {}, \"resident_half\": {}, \"resident_end\": {}, "
      "\"growth_a_run\": {:.2f}, \"kernels_compiled\": {}, \"compiled_late\": {}}}\n",
      runs, tenth, half, end, growth, compiled, compiled - compiled_early);
  return growth < allowed_growth && compiled == compiled_early ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) {
    std::fputs("usage: soak MODEL.onnx RUNS [MAXIMUM_LENGTH] [MAXIMUM_BATCH]\n", stderr);
    return 2;
  }
  try {
    return soak(arguments[1], std::atol(arguments[2]), count > 3 ? std::atol(arguments[3]) : 32,
                count > 4 ? std::atol(arguments[4]) : 4);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
