#include "tools/bench_op.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "tools/library_matmul.h"
#include "tools/output.h"

namespace anydim::tools {

namespace {

using Clock = std::chrono::steady_clock;

// Engines take turns. Threads of OpenMP libraries spin for 200 ms after their last call and would
// hold a processor that the other side needs.
constexpr auto settling_time = std::chrono::milliseconds(250);
constexpr int samples_per_turn = 11, warm_up_calls = 3;
// A burst of other work on the machine slows whole turns. Engines take more turns until the median
// of each one's turns is close to its fastest.
constexpr int fewest_turns = 3, most_turns = 11;
constexpr double settled_spread = 1.1;  // median to fastest turn

struct MatmulShape {
  std::int64_t m = 0, n = 0, k = 0;
};

struct Row {
  MatmulShape shape;
  double ours = 0, theirs = 0;  // seconds, median
  double largest_difference = 0;
  std::string schedule;
};

// Both operands of the precision asked for, sums and results f32.
ir::Module matmul_module(std::int64_t n, std::int64_t k, ir::DType operands) {
  constexpr const char* plain = "  %y = matmul(%x, %w)\n";
  constexpr const char* widened =
      "  %a = cast(%x) {to = f32}\n  %b = cast(%w) {to = f32}\n  %y = matmul(%a, %b)\n";
  return ir::parse(fmt::format(
      "fn @main(%x: Tensor[(m, {0}), {2}]) -> Tensor[(m, {1}), f32] where m in [0, 1048576] {{\n"
      "  %w = constant({2} ({0}, {1}) @random(1))\n"
      "{3}  return %y\n}}\n",
      k, n, ir::name_of(operands), operands == ir::DType::F32 ? plain : widened));
}

ir::Tensor weight_of(const ir::Module& module) {
  for (const ir::Binding& binding : module.functions.at(0).body.bindings) {
    if (binding.op == ir::Op::constant) return ir::tensor_attribute(binding, "value");
  }
  internal_error("the module holds its weight");
}

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

bool settled(std::vector<double> turns) {
  return turns.empty() || median(turns) <= settled_spread * std::ranges::min(turns);
}

// Calls that last about 2 ms together, so that the clock and its reading don't count.
int calls_per_sample(const MatmulShape& shape) {
  const double work = 2.0 * static_cast<double>(shape.m) * static_cast<double>(shape.n) *
                      static_cast<double>(shape.k);
  return static_cast<int>(std::clamp(2e-3 * 2e11 / work, 1.0, 2000.0));
}

Row measure(const MatmulShape& shape, runtime::Context& context, const ir::Tensor& weight,
            const LibraryMatmul& library) {
  ir::Tensor x(weight.dtype(), {shape.m, shape.k});
  for (std::int64_t i = 0; i < x.elements(); ++i)
    x.set_real(
        i, static_cast<double>((static_cast<std::uint64_t>(i) * 2654435761U) % 2048) / 1024 - 1);
  std::vector<float> theirs(static_cast<std::size_t>(shape.m * shape.n));
  const std::vector<ir::Tensor> inputs{x};

  const int calls = calls_per_sample(shape);
  std::vector<double> our_turns, their_turns;
  const auto take_turn = [&](std::vector<double>& medians, const auto& call) {
    if (library) std::this_thread::sleep_for(settling_time);
    for (int i = 0; i < warm_up_calls; ++i) call();
    std::vector<double> times;
    for (int sample = 0; sample < samples_per_turn; ++sample) {
      const auto begin = Clock::now();
      for (int i = 0; i < calls; ++i) call();
      times.push_back(std::chrono::duration<double>(Clock::now() - begin).count() / calls);
    }
    medians.push_back(median(times));
  };
  Row row;
  row.shape = shape;
  for (int turn = 0;
       turn < fewest_turns || (turn < most_turns && !(settled(our_turns) && settled(their_turns)));
       ++turn) {
    take_turn(our_turns, [&] { context.run(inputs); });
    if (library)
      take_turn(their_turns, [&] {
        library(shape.m, shape.n, shape.k, x.bytes().data(), weight.bytes().data(), theirs.data());
      });
  }
  row.ours = median(our_turns);
  context.record_launches(true);
  const auto outputs = context.run(inputs);
  context.record_launches(false);
  const runtime::LaunchRecord& launch = context.launches().at(0);
  const auto& kernel =
      context.executable().program().kernels[static_cast<std::size_t>(launch.kernel)];
  row.schedule = to_string(kernel.table.entries[static_cast<std::size_t>(launch.used)].schedule);
  if (!library) return row;
  row.theirs = median(their_turns);
  const auto ours = outputs[0].as<float>();
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    row.largest_difference =
        std::max(row.largest_difference, static_cast<double>(std::fabs(ours[i] - theirs[i])));
  }
  return row;
}

// Leaves this process the first `count` of its processors.
void restrict_processors(int count) {
  cpu_set_t allowed, kept;
  CPU_ZERO(&kept);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&kept) < count; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) CPU_SET(cpu, &kept);
  }
  if (sched_setaffinity(0, sizeof kept, &kept) != 0)
    throw Error(ErrorKind::Resource, "the process cannot be kept to {} of its processors", count);
}

double billions_per_second(const MatmulShape& shape, double seconds) {
  return 2e-9 * static_cast<double>(shape.m) * static_cast<double>(shape.n) *
         static_cast<double>(shape.k) / seconds;
}

void print(const std::vector<Row>& rows, const OperatorBench& bench) {
  std::vector<double> ratios;
  nlohmann::ordered_json shapes = nlohmann::ordered_json::array();
  const bool compared = bench.library != "none";
  for (const Row& row : rows) {
    nlohmann::ordered_json one = {{"m", row.shape.m},
                                  {"n", row.shape.n},
                                  {"k", row.shape.k},
                                  {"us", 1e6 * row.ours},
                                  {"gflops", billions_per_second(row.shape, row.ours)},
                                  {"schedule", row.schedule}};
    const double ratio = row.theirs / row.ours;
    if (compared) {
      ratios.push_back(ratio);
      one["library_us"] = 1e6 * row.theirs;
      one["ratio"] = ratio;
      one["largest_difference"] = row.largest_difference;
    }
    shapes.push_back(one);
    if (bench.json) continue;
    put("{:>5} x {:>5} x {:>5}  {:>10.2f} us {:>7.1f} GFLOP/s", row.shape.m, row.shape.n,
        row.shape.k, 1e6 * row.ours, billions_per_second(row.shape, row.ours));
    if (compared)
      put("  {} {:>10.2f} us  ratio {:.3f}  difference {:.1e}", bench.library, 1e6 * row.theirs,
          ratio, row.largest_difference);
    put("  {}\n", row.schedule);
  }
  print_ratios(bench, shapes, ratios, bench.library);
}

}  // namespace

void print_ratios(const OperatorBench& bench, const nlohmann::ordered_json& shapes,
                  const std::vector<double>& ratios, std::string_view slower) {
  double sum = 0, least = INFINITY;
  for (const double ratio : ratios) {
    sum += std::log(ratio);
    least = std::min(least, ratio);
  }
  const double mean = std::exp(sum / static_cast<double>(ratios.size()));
  if (bench.json) {
    nlohmann::ordered_json object = {
        {"operator", bench.name}, {"library", bench.library}, {"shapes", shapes}};
    if (!ratios.empty()) object["geometric_mean"] = mean, object["least_ratio"] = least;
    put_json(object);
  } else if (!ratios.empty()) {
    put("geometric mean {:.3f}, least {:.3f} (over 1: faster than {})\n", mean, least, slower);
  }
}

std::vector<std::int64_t> parse_shape(const std::string& text, std::size_t count,
                                      std::string_view what) {
  std::vector<std::int64_t> numbers(count);
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  for (std::size_t i = 0; i < count; ++i) {
    const auto [next, fault] = std::from_chars(at, end, numbers[i]);
    const bool separated = i + 1 == count ? next == end : next != end && *next == ',';
    if (fault != std::errc{} || numbers[i] < 1 || numbers[i] > (1 << 20) || !separated) {
      throw Error(ErrorKind::CommandLine, "shape {} is not {}", text, what);
    }
    at = next + 1;
  }
  return numbers;
}

void run_operator_bench(const OperatorBench& bench, const CompileOptions& options) {
  if (bench.name != "matmul" || bench.library == "cublas")
    throw Error(ErrorKind::CommandLine, "--op attention and --vs cublas need --device cuda");
  if (options.precision == ir::DType::I8)
    throw Error(ErrorKind::CommandLine,
                "bench --op takes --precision f32, bf16 or f16: int8 is a way to compile a model's "
                "products");
  if (bench.shapes.empty())
    throw Error(ErrorKind::CommandLine,
                "bench --op matmul needs shapes, M,N,K each, e.g. 128,1536,384");
  std::vector<MatmulShape> shapes;
  for (const std::string& text : bench.shapes) {
    const auto numbers =
        parse_shape(text, 3, "M,N,K with numbers from 1 to 1048576, e.g. 128,1536,384");
    shapes.push_back({numbers[0], numbers[1], numbers[2]});
  }
  const int threads = thread_count(options);
  LibraryMatmul library;
  if (bench.library != "none") {
    // Some libraries take their number of threads from the processors they see, whatever they are
    // asked for.
    restrict_processors(threads);
    library = load_matmul(options.precision, bench.library, bench.library_path, threads);
  }

  struct Compiled {
    ir::Tensor weight;
    std::unique_ptr<runtime::Context> context;
  };
  std::map<std::pair<std::int64_t, std::int64_t>, Compiled> programs;
  std::vector<Row> rows;
  for (const MatmulShape& shape : shapes) {
    auto& program = programs[{shape.n, shape.k}];
    if (program.context == nullptr) {
      ir::Module module = matmul_module(shape.n, shape.k, options.precision);
      program.weight = weight_of(module);
      const auto executable = compile(std::move(module), options);
      executable->kernels().complete();
      program.context = std::make_unique<runtime::Context>(executable);
    }
    rows.push_back(measure(shape, *program.context, program.weight, library));
  }
  print(rows, bench);
}

}  // namespace anydim::tools
