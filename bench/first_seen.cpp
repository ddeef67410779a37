// What a call of a shape costs that was never met before, and one right after the tuning tables
// changed, beside a warm one.
//
//   first_seen MODEL [SHAPES] [LONGEST] [THREADS]
//
// Under the policy `exact` every new shape is answered by its buckets' kernels while its own are
// compiled in the background. Each of SHAPES (200) distinct lengths up to LONGEST (256) is called
// once, among calls of a known length, as traffic is, then warm: the median of nine calls after its
// kernels have come. Then, under `bucketed`, the tables are replaced before each call by tables
// with other kernels in part, and the same lengths are called again. Last, the same with nothing
// new: only as much is compiled beside, and calls of another length lie between, which is what
// caches cost a short call whatever it does. Prints the ratios first call / warm call as JSON: by
// the clock on the wall, and by the processor time of the calling thread, which other programs on
// the machine hardly change (with one thread it does all the work of a call).
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "api/anydim.h"

namespace {

using namespace anydim;
using Clock = std::chrono::steady_clock;

// The last symbol of the inputs is the length, others are 1; integers are 1, which masks nothing.
std::vector<ir::Tensor> inputs_of_length(const Model& model, std::int64_t length) {
  std::string longest;
  for (const InputInfo& input : model.inputs())
    for (const ir::Dim& dim : input.dims)
      if (dim.kind() == ir::Dim::Kind::Symbol) longest = dim.leaf().symbol;
  std::vector<ir::Tensor> tensors;
  for (const InputInfo& input : model.inputs()) {
    std::vector<std::int64_t> dims;
    for (const ir::Dim& dim : input.dims)
      dims.push_back(dim.evaluate([&](const ir::DimLeaf& leaf) -> std::int64_t {
        return leaf.symbol == longest ? length : 1;
      }));
    ir::Tensor& tensor = tensors.emplace_back(input.dtype, dims);
    for (std::int64_t i = 0; i < tensor.elements(); ++i)
      ir::is_float(input.dtype) ? tensor.set_real(i, 0.5) : tensor.set_integer(i, 1);
  }
  return tensors;
}

struct Cost {
  double wall = 0, processor = 0;  // seconds
};

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

Cost cost(ModelContext& context, const std::vector<ir::Tensor>& inputs) {
  const auto begin = Clock::now();
  const double processor = processor_seconds();
  context.run(inputs);
  return {std::chrono::duration<double>(Clock::now() - begin).count(),
          processor_seconds() - processor};
}

Cost warm_cost(ModelContext& context, const std::vector<ir::Tensor>& inputs) {
  std::vector<double> wall, processor;
  for (int turn = 0; turn < 9; ++turn) {
    const Cost one = cost(context, inputs);
    wall.push_back(one.wall);
    processor.push_back(one.processor);
  }
  std::ranges::nth_element(wall, wall.begin() + 4);
  std::ranges::nth_element(processor, processor.begin() + 4);
  return {wall[4], processor[4]};
}

struct Ratios {
  std::vector<double> wall, processor;
  void add(const Cost& first, const Cost& warm) {
    wall.push_back(first.wall / warm.wall);
    processor.push_back(first.processor / warm.processor);
  }
};

const runtime::Executable& executable_of(const Model& model) {
  return model.packing() ? *model.packed() : *model.padded();
}

std::string percentiles(std::vector<double> ratios) {
  std::ranges::sort(ratios);
  const auto at = [&](double share) {
    return ratios[static_cast<std::size_t>(share * static_cast<double>(ratios.size() - 1))];
  };
  return fmt::format(
      "{{\"shapes\": {}, \"p50\": {:.3f}, \"p90\": {:.3f}, \"p99\": {:.3f}, \"most\": {:.3f}}}",
      ratios.size(), at(0.5), at(0.9), at(0.99), ratios.back());
}

std::string figures(const Ratios& ratios) {
  return fmt::format("{{\"wall\": {}, \"processor\": {}}}", percentiles(ratios.wall),
                     percentiles(ratios.processor));
}

// Every second row of every table gets the general kernel's schedule, other rows in every turn:
// code comes and goes.
std::vector<ir::DispatchTable> varied(const runtime::Executable& executable, std::size_t turn) {
  std::vector<ir::DispatchTable> tables;
  for (const ir::Program::Kernel& kernel : executable.program().kernels) {
    ir::DispatchTable& table = tables.emplace_back(kernel.table);
    for (std::size_t row = 0; row + 1 < table.entries.size(); ++row)
      if ((row + turn) % 2 == 0) table.entries[row].schedule = table.entries.back().schedule;
  }
  return tables;
}

// What the background does for a shape that is new: a kernel of each region, here for nobody.
void compile_for_nobody(const runtime::Executable& executable) {
  for (const ir::Program::Kernel& kernel : executable.program().kernels) {
    const ir::DispatchTable::Entry& general = kernel.table.entries.back();
    executable.backend().compile(kernel.region, general.bucket, general.schedule);
  }
}

void measure(const std::string& file, int shapes, std::int64_t longest, int threads) {
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(longest));
  std::iota(lengths.begin(), lengths.end(), 1);
  std::ranges::shuffle(lengths, std::mt19937(8));
  lengths.resize(std::min<std::size_t>(lengths.size(), static_cast<std::size_t>(shapes)));
  const CompileOptions options{
      .policies = {{"", Policy::Exact}}, .threads = threads, .keep_kernels = false};
  const auto exact = Model::compile(load_model(file), options);
  ModelContext context(exact);
  warm_cost(context, inputs_of_length(*exact, longest + 1));
  exact->complete();
  Ratios first_seen, retuned;
  const std::vector<ir::Tensor> known = inputs_of_length(*exact, longest + 1);
  for (const std::int64_t length : lengths) {
    const std::vector<ir::Tensor> inputs = inputs_of_length(*exact, length);
    warm_cost(context, known);
    const Cost first = cost(context, inputs);
    executable_of(*exact).kernels().complete();
    first_seen.add(first, warm_cost(context, inputs));
  }
  const auto bucketed =
      Model::compile(load_model(file), {.threads = threads, .keep_kernels = false});
  bucketed->complete();
  ModelContext other(bucketed);
  for (std::size_t turn = 0; turn < lengths.size(); ++turn) {
    const std::vector<ir::Tensor> inputs = inputs_of_length(*bucketed, lengths[turn]);
    const Cost warm = warm_cost(other, inputs);
    // By another thread than the one that calls, as a service does it.
    std::jthread([&] {
      executable_of(*bucketed).kernels().retune(varied(executable_of(*bucketed), turn));
    }).join();
    retuned.add(cost(other, inputs), warm);
    executable_of(*bucketed).kernels().complete();
  }
  Ratios nothing_new;
  for (const std::int64_t length : lengths) {
    const std::vector<ir::Tensor> inputs = inputs_of_length(*bucketed, length);
    const Cost warm = warm_cost(other, inputs);
    std::jthread([&] { compile_for_nobody(executable_of(*bucketed)); }).join();
    warm_cost(other, known);
    nothing_new.add(cost(other, inputs), warm);
  }
  fmt::print(
      "{{\"first_seen\": {}, \"after_a_change\": {}, \"nothing_new\": {}, \"kept_kernels\": {}, "
      "\"kept_bytes\": {}}}\n",
      figures(first_seen), figures(retuned), figures(nothing_new),
      executable_of(*exact).kernels().exact().list().size(),
      executable_of(*exact).kernels().exact().code_bytes());
}

}  // namespace

int main(int count, char** words) {
  if (count < 2) {
    fmt::print(stderr, "usage: first_seen MODEL [SHAPES] [LONGEST] [THREADS]\n");
    return 2;
  }
  try {
    const auto number = [&](int position, int otherwise) {
      return count > position ? std::atoi(words[position]) : otherwise;
    };
    measure(words[1], number(2, 200), number(3, 256), number(4, 1));
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
