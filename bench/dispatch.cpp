// What a launch costs beside its kernel: a chain of kernels over one element, each too small to
// matter.
//
//   dispatch [KERNELS] [RUNS]
//
// Each kernel is a row reduction over one element, which fusion cannot join with the next; sizes
// are symbolic, so the shape program, the memory plan, the lookup of the bucket and the call are
// all paid. Prints nanoseconds a kernel: the median of 9 rounds, with the tables of the cost model
// and with tuned tables of 64 buckets, and nanoseconds of one lookup in such a table over sizes in
// random order.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <random>
#include <string>
#include <vector>

#include "api/anydim.h"
#include "runtime/context.h"

namespace {

using namespace anydim;

std::string chain(int kernels) {
  std::string text = "fn @main(%x0: Tensor[(n, m), f32]) {\n";
  for (int i = 0; i < kernels; ++i)
    text += fmt::format("  %x{} = softmax(%x{}) {{axis = {}}}\n", i + 1, i, i % 2);
  return text + fmt::format("  return %x{}\n}}\n", kernels);
}

double nanoseconds(runtime::Context& context, const std::vector<ir::Tensor>& inputs, int kernels,
                   int runs) {
  auto begin = std::chrono::steady_clock::now();
  for (int run = 0; run < runs; ++run) context.run(inputs);
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin)
             .count() /
         runs / kernels;
}

double median_of_rounds(runtime::Context& context, const std::vector<ir::Tensor>& inputs,
                        int kernels, int runs) {
  std::vector<double> rounds;
  nanoseconds(context, inputs, kernels, runs);
  for (int round = 0; round < 9; ++round)
    rounds.push_back(nanoseconds(context, inputs, kernels, runs));
  std::sort(rounds.begin(), rounds.end());
  return rounds[rounds.size() / 2];
}

// 64 rows over the first key, the one that serves size 1 last but one; all share the general
// kernel's code.
ir::DispatchTable with_64_buckets(const ir::DispatchTable& table) {
  ir::DispatchTable::Entry general = table.entries.back();
  general.kernel = general.bucket;
  ir::DispatchTable result;
  for (std::int64_t row = 62; row >= 0; --row) {
    result.entries.push_back(general);
    if (general.bucket.intervals.empty()) continue;
    ir::BucketInterval& interval = result.entries.back().bucket.intervals[0];
    interval.low = std::max(interval.low, 1 + 16 * row);
    interval.high = 16 * (row + 1);
  }
  result.entries.push_back(general);
  return result;
}

double lookup_nanoseconds() {
  ir::DispatchTable table;
  table.entries.push_back({{{{0, ir::default_symbol_maximum, 1}}}, {"general", {}}});
  const runtime::BucketLookup lookup(with_64_buckets(table));
  std::mt19937 random(1);
  std::vector<std::int64_t> sizes(1 << 16);
  for (std::int64_t& size : sizes) size = 1 + static_cast<std::int64_t>(random() % 1100);
  std::vector<double> rounds;
  std::size_t sum = 0;
  for (int round = 0; round < 9; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    // Each size waits for the answer before it, as one launch after the other does.
    for (const std::int64_t size : sizes)
      sum += lookup.find(std::array{size + static_cast<std::int64_t>(sum & 1)});
    rounds.push_back(
        std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count() /
        static_cast<double>(sizes.size()));
  }
  std::sort(rounds.begin(), rounds.end());
  return sum == 0 ? 0 : rounds[rounds.size() / 2];
}

void measure(int kernels, int runs) {
  auto executable = compile(ir::parse(chain(kernels)), {.threads = 1});
  executable->kernels().complete();
  runtime::Context context(executable);
  std::vector<ir::Tensor> inputs{ir::Tensor(ir::DType::F32, {1, 1})};
  const double predicted = median_of_rounds(context, inputs, kernels, runs);
  std::vector<ir::DispatchTable> tables;
  for (const ir::Program::Kernel& kernel : executable->program().kernels)
    tables.push_back(with_64_buckets(kernel.table));
  executable->kernels().retune(std::move(tables));
  executable->kernels().complete();
  const double tuned = median_of_rounds(context, inputs, kernels, runs);
  fmt::print(
      "{{\"kernels\": {}, \"slots\": {}, \"nanoseconds_a_kernel\": {:.0f}, \"with_64_buckets\": "
      "{:.0f}, \"lookup_nanoseconds\": {:.1f}}}\n",
      executable->program().entry().instructions.size() - 1, executable->program().entry().slots,
      predicted, tuned, lookup_nanoseconds());
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
