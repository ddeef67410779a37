#include "api/gpu_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "api/gpu_check.h"
#include "ir/error.h"
#include "ir/random_tensor.h"
#include "ir/text/parse.h"
#include "runtime/cublaslt.h"
#include "runtime/cuda_device.h"
#include "runtime/cuda_replayed_session.h"
#include "runtime/cuda_timer.h"
#include "runtime/packing.h"

namespace anydim {

namespace {

namespace cuda = runtime::cuda;
using Place = ir::Code::Buffer::Place;

constexpr int warm_ups = 3;
constexpr int calls_of_a_graph = 4;

GpuSample sample_of(std::vector<double> seconds) {
  std::ranges::sort(seconds);
  return {seconds[seconds.size() / 2], seconds.front(), seconds.back()};
}

cuda::CudaDevice& device_of(const CompileTarget& target) {
  auto* device = dynamic_cast<cuda::CudaDevice*>(target.device.get());
  if (device == nullptr) throw Error(ErrorKind::CommandLine, "this comparison needs --device cuda");
  return *device;
}

std::shared_ptr<const cuda::CublasLt> library_of(cuda::CudaDevice& device,
                                                 const std::string& path) {
  return path.empty() ? device.library() : cuda::CublasLt::open(device.shared_context(), path);
}

cuda::ReplayedSession& session_of(runtime::Context& context) {
  auto* session = dynamic_cast<cuda::ReplayedSession*>(&context.session());
  if (session == nullptr)
    throw Error(
        ErrorKind::Unsupported,
        "only a call without branches that fetches no size from the GPU can be issued once more");
  return *session;
}

std::string schedule_of(runtime::Context& context, const std::vector<ir::Tensor>& inputs) {
  context.record_launches(true);
  context.run(inputs);
  context.record_launches(false);
  std::string schedules;
  for (const runtime::LaunchRecord& launch : context.launches()) {
    const auto& kernel =
        context.executable().program().kernels[static_cast<std::size_t>(launch.kernel)];
    const std::string schedule =
        to_string(kernel.table.entries[static_cast<std::size_t>(launch.used)].schedule);
    if (schedules.find(schedule) == std::string::npos)
      schedules += (schedules.empty() ? "" : "; ") + schedule;
  }
  return schedules;
}

std::unique_ptr<cuda::GraphTimer> timer_of(runtime::Context& context, int calls,
                                           int launches_counted) {
  cuda::ReplayedSession& session = session_of(context);
  return std::make_unique<cuda::GraphTimer>(
      session.context(),
      [&](cuda::Stream stream) {
        for (int i = 0; i < calls; ++i) session.enqueue_last(stream);
      },
      calls * launches_counted);
}

// Places of one product of the program, from its launch.
struct ProductPlaces {
  std::vector<cuda::CublasLt::Operands> operands;  // one a copy; d is not set
};

ProductPlaces find_places(runtime::Context& context, const GpuMatmul& shape) {
  const ir::Program& program = context.executable().program();
  const std::vector<cuda::Address>& addresses = session_of(context).last_addresses();
  ProductPlaces places;
  for (const ir::Code::Instruction& instruction : program.entry().instructions) {
    const auto* launch = std::get_if<ir::Code::Launch>(&instruction);
    if (launch == nullptr) continue;
    cuda::CublasLt::Operands operands;
    for (const std::int32_t b : launch->buffers) {
      const ir::Code::Buffer& buffer = program.entry().buffers[static_cast<std::size_t>(b)];
      const cuda::Address address = addresses[static_cast<std::size_t>(b)];
      if (buffer.place == Place::Input) operands.x = address;
      // Constants are gone from the host by now; their names say which is which.
      if (buffer.place == Place::Constant)
        (buffer.name.starts_with("w") ? operands.w : operands.bias) = address;
    }
    if (operands.x == 0 || operands.w == 0 || operands.bias == 0) {
      throw Error(ErrorKind::Unsupported,
                  "the product of {} x {} x {} did not become one launch a copy, so there is "
                  "nothing to compare",
                  shape.m, shape.n, shape.k);
    }
    places.operands.push_back(operands);
  }
  return places;
}

class LibraryRuns {
 public:
  LibraryRuns(std::shared_ptr<cuda::DeviceContext> context, const cuda::CublasLt& library,
              const GpuMatmul& shape, ProductPlaces places)
      : context_(std::move(context)), library_(library),
        product_{shape.m, shape.n, shape.k, shape.dtype, true}, places_(std::move(places)) {
    bytes_ = static_cast<std::size_t>(shape.m * shape.n) * ir::size_of(shape.dtype);
    context_->check(
        context_->driver().memory_allocate(&workspace_, cuda::CublasLt::workspace_bytes),
        "the library's workspace");
    for (cuda::CublasLt::Operands& operands : places_.operands) {
      operands.workspace = workspace_;
      context_->check(
          context_->driver().memory_allocate(&operands.d, std::max<std::size_t>(bytes_, 1)),
          "the library's results");
    }
  }
  ~LibraryRuns() {
    if (!context_->enter_quietly()) return;
    for (const cuda::CublasLt::Operands& operands : places_.operands)
      context_->driver().memory_free(operands.d);
    context_->driver().memory_free(workspace_);
  }
  LibraryRuns(const LibraryRuns&) = delete;
  LibraryRuns& operator=(const LibraryRuns&) = delete;

  std::vector<cuda::CublasLt::Algorithm> algorithms(int most) const {
    return library_.algorithms(product_, most);
  }

  // Every copy in turn, as often as our graphs have them.
  std::vector<std::size_t> products() const {
    std::vector<std::size_t> all;
    for (int call = 0; call < calls_of_a_graph; ++call)
      for (std::size_t copy = 0; copy < places_.operands.size(); ++copy) all.push_back(copy);
    return all;
  }

  void enqueue(const cuda::CublasLt::Algorithm& algorithm, std::size_t copy,
               cuda::Stream stream) const {
    library_.enqueue(product_, places_.operands[copy], algorithm, stream);
  }

  // One product, not captured: an algorithm's first call may load code, which a stream that
  // captures does not allow. What is wrong where it does not run.
  std::string first_call(const cuda::CublasLt::Algorithm& algorithm) const {
    cuda::TimedStream stream(context_);
    try {
      stream.measure("the first call of a library's algorithm",
                     [&] { enqueue(algorithm, 0, stream.handle()); });
      return {};
    } catch (const Error& error) {
      context_->enter();  // throws where the context is lost
      return error.what();
    }
  }

  // A graph of these copies' products, by an algorithm that runs.
  std::unique_ptr<cuda::GraphTimer> timer(const cuda::CublasLt::Algorithm& algorithm,
                                          const std::vector<std::size_t>& copies) const {
    return std::make_unique<cuda::GraphTimer>(
        context_,
        [&](cuda::Stream stream) {
          for (const std::size_t copy : copies) enqueue(algorithm, copy, stream);
        },
        static_cast<int>(copies.size()));
  }

  // It compares the first and the last product, which have been computed.
  double difference(const std::vector<ir::Tensor>& ours) const {
    double largest = 0;
    const std::size_t last = places_.operands.size() - 1;
    for (const std::size_t i : std::set<std::size_t>{0, last}) {
      ir::Tensor theirs(product_.dtype, {product_.m, product_.n});
      cuda::Stream stream = nullptr;
      const cuda::Driver& driver = context_->driver();
      context_->check(
          driver.copy_to_host(theirs.mutable_bytes().data(), places_.operands[i].d, bytes_, stream),
          "reading the library's results");
      context_->check(driver.stream_synchronize(stream), "reading the library's results");
      largest = std::max(largest, largest_difference(ours[i], theirs));
    }
    return largest;
  }

 private:
  std::shared_ptr<cuda::DeviceContext> context_;
  const cuda::CublasLt& library_;
  cuda::LibraryProduct product_;
  ProductPlaces places_;
  std::size_t bytes_ = 0;
  cuda::Address workspace_ = 0;
};

// Calls taken in turn, so that a clock that changes changes for all.
using Engine = std::function<double()>;
std::vector<GpuSample> in_turn(const std::vector<Engine>& engines, int repetitions) {
  for (const Engine& engine : engines)
    for (int i = 0; i < warm_ups; ++i) engine();
  std::vector<std::vector<double>> seconds(engines.size());
  for (int repetition = 0; repetition < repetitions; ++repetition)
    for (std::size_t i = 0; i < engines.size(); ++i) seconds[i].push_back(engines[i]());
  std::vector<GpuSample> samples;
  for (std::vector<double>& all : seconds) samples.push_back(sample_of(std::move(all)));
  return samples;
}

GpuComparison comparison_of(const std::vector<GpuSample>& samples) {
  return samples.size() == 1 ? GpuComparison{.ours = samples[0], .heuristic = {}, .best = {}}
                             : GpuComparison{samples[0], samples[1], samples[2]};
}

// The library's algorithms that run, its own first choice first, as graphs over all copies; which
// of them is fastest is decided by repetitions that nothing else reports.
struct LibraryChoice {
  std::vector<cuda::CublasLt::Algorithm> algorithms;
  std::vector<std::unique_ptr<cuda::GraphTimer>> timers;
  std::size_t best = 0;
};

LibraryChoice choose(const LibraryRuns& runs, const GpuMatmul& shape, int most) {
  LibraryChoice choice;
  const std::vector<cuda::CublasLt::Algorithm> offered = runs.algorithms(most);
  for (std::size_t i = 0; i < offered.size(); ++i) {
    if (const std::string why = runs.first_call(offered[i]); !why.empty()) {
      if (i > 0) continue;
      throw Error(
          ErrorKind::Resource,
          "cuBLASLt's first choice for {} x {} x {} does not run ({}); bench without --vs cublas",
          shape.m, shape.n, shape.k, why);
    }
    choice.algorithms.push_back(offered[i]);
    choice.timers.push_back(runs.timer(offered[i], runs.products()));
  }
  constexpr int choosing = 3;
  std::vector<std::vector<double>> seconds(choice.timers.size());
  for (int repetition = 0; repetition < choosing; ++repetition)
    for (std::size_t i = 0; i < choice.timers.size(); ++i)
      seconds[i].push_back(choice.timers[i]->measure());
  const auto least = std::ranges::min_element(
      seconds, {}, [](const std::vector<double>& all) { return sample_of(all).median; });
  choice.best = static_cast<std::size_t>(least - seconds.begin());
  return choice;
}

// A program of one product.
struct OneProduct {
  std::shared_ptr<runtime::Context> context;
  ir::Tensor x;
};

void measure_warm_and_cold(GpuMatmulTimes& times, const OneProduct& one, const LibraryRuns* runs,
                           const LibraryChoice* choice, const GpuBenchOptions& bench, int calls) {
  one.context->run({one.x});
  const auto ours = timer_of(*one.context, calls, 1);
  std::vector<std::unique_ptr<cuda::GraphTimer>> theirs;
  std::vector<Engine> warm{[&] { return ours->measure(); }}, cold;
  cuda::ReplayedSession& session = session_of(*one.context);
  cuda::ColdTimer timer(session.context());
  cold.emplace_back(
      [&] { return timer.measure([&](cuda::Stream stream) { session.enqueue_last(stream); }); });
  if (choice != nullptr) {
    for (const std::size_t which : {std::size_t{0}, choice->best}) {
      theirs.push_back(runs->timer(choice->algorithms[which],
                                   std::vector<std::size_t>(static_cast<std::size_t>(calls), 0)));
      warm.emplace_back([timer = theirs.back().get()] { return timer->measure(); });
      cold.emplace_back([&, which] {
        return timer.measure(
            [&](cuda::Stream stream) { runs->enqueue(choice->algorithms[which], 0, stream); });
      });
    }
  }
  times.warm = comparison_of(in_turn(warm, bench.repetitions));
  times.cold = comparison_of(in_turn(cold, bench.repetitions));
}

// Weight and bias of one copy, as matmul_program() has them.
struct Parameters {
  ir::Tensor w, bias;
};
Parameters parameters_of(const GpuMatmul& shape, int copy) {
  const auto seed = static_cast<std::uint64_t>(copy);
  return {
      ir::random_tensor(shape.dtype, std::vector{shape.k, shape.n}, seed, fmt::format("w{}", copy)),
      ir::random_tensor(shape.dtype, std::vector{shape.n}, seed, fmt::format("b{}", copy))};
}

std::vector<ir::Tensor> attention_operands(const std::vector<std::int64_t>& dims, ir::DType dtype) {
  std::vector<ir::Tensor> inputs;
  for (int i = 0; i < 3; ++i)
    inputs.push_back(ir::random_tensor(dtype, dims, 7, fmt::format("input {}", i)));
  return inputs;
}

std::string equal_attention_text(const GpuAttention& shape) {
  const std::string operand =
      fmt::format("Tensor[(b, h, s, {}), {}]", shape.head, ir::name_of(shape.dtype));
  return fmt::format(
      "fn @main(%q: {0}, %k: {0}, %v: {0}) -> {0} where b in [0, 65536], h in [0, 256], s in [0, "
      "65536] {{\n"
      "  %qw = cast(%q) {{to = f32}}\n  %kw = cast(%k) {{to = f32}}\n  %vw = cast(%v) {{to = "
      "f32}}\n"
      "  %yw = attention(%qw, %kw, %vw) {{scale = {1}}}\n  %y = cast(%yw) {{to = {2}}}\n  return "
      "%y\n}}\n",
      operand, attention_scale(shape.head), ir::name_of(shape.dtype));
}

std::string ragged_attention_text(const GpuAttention& shape) {
  const std::string_view type = ir::name_of(shape.dtype);
  std::string text = fmt::format(
      "fn @main(%q: {0}, %k: {0}, %v: {0}, %offsets: Tensor[(n + 1), i64], %work: Tensor[(n, 2), "
      "i64]) -> {0}\n"
      "  where t in [0, 16777216], n in [0, 1048576] {{\n"
      "  %split = shape(t, {1}, {2})\n",
      fmt::format("Tensor[(t, {}), {}]", shape.heads * shape.head, type), shape.heads, shape.head);
  for (const char operand : {'q', 'k', 'v'}) {
    text += fmt::format(
        "  %{0}_wide = cast(%{0}) {{to = f32}}\n  %{0}_heads = dyn.reshape(%{0}_wide, %split)\n"
        "  %{0}_rows = transpose(%{0}_heads) {{perm = (1, 0, 2)}}\n",
        operand);
  }
  return text +
         fmt::format(
             "  %a = attention(%q_rows, %k_rows, %v_rows, none, %offsets, %work) {{scale = {0}}}\n"
             "  %beside = transpose(%a) {{perm = (1, 0, 2)}}\n  %flat = shape(t, {1})\n"
             "  %joined = dyn.reshape(%beside, %flat)\n  %y = cast(%joined) {{to = {2}}}\n  return "
             "%y\n}}\n",
             attention_scale(shape.head), shape.heads * shape.head, type);
}

std::vector<ir::Tensor> attention_inputs(const GpuAttention& shape) {
  if (shape.lengths.empty())
    return attention_operands({shape.batch, shape.heads, shape.length, shape.head}, shape.dtype);
  std::vector<std::int64_t> offsets{0};
  for (const std::int64_t length : shape.lengths) offsets.push_back(offsets.back() + length);
  std::vector<ir::Tensor> inputs =
      attention_operands({offsets.back(), shape.heads * shape.head}, shape.dtype);
  const std::array vectors{runtime::RowVector::Offsets, runtime::RowVector::Work};
  for (ir::Tensor& vector : runtime::ragged_vectors(vectors, offsets, 0))
    inputs.push_back(std::move(vector));
  return inputs;
}

GpuSample measure_alone(cuda::GraphTimer& timer, int repetitions) {
  for (int i = 0; i < warm_ups; ++i) timer.measure();
  std::vector<double> seconds;
  for (int i = 0; i < repetitions; ++i) seconds.push_back(timer.measure());
  return sample_of(std::move(seconds));
}

}  // namespace

std::string matmul_program(const GpuMatmul& shape) {
  const std::string_view type = ir::name_of(shape.dtype);
  std::string parameters, types, body, results;
  for (int i = 0; i < shape.copies; ++i) {
    const char* comma = i == 0 ? "" : ", ";
    parameters += fmt::format("{}%x{}: Tensor[(m, {}), {}]", comma, i, shape.k, type);
    types += fmt::format("{}Tensor[(m, {}), {}]", comma, shape.n, type);
    body += fmt::format(
        "  %w{0} = constant({1} ({2}, {3}) @random({0}))\n  %b{0} = constant({1} ({3}) "
        "@random({0}))\n",
        i, type, shape.k, shape.n);
    body += fmt::format("  %p{0} = matmul(%x{0}, %w{0})\n  %y{0} = add(%p{0}, %b{0})\n", i);
    results += fmt::format("{}%y{}", comma, i);
  }
  return fmt::format("fn @main({}) -> ({})\n  where m in [0, 1048576] {{\n{}  return {}\n}}\n",
                     parameters, types, body, results);
}

std::string attention_program(const GpuAttention& shape) {
  return shape.lengths.empty() ? equal_attention_text(shape) : ragged_attention_text(shape);
}

double attention_scale(std::int64_t head) { return 1024 / std::sqrt(static_cast<double>(head)); }

std::string library_missing(const CompileTarget& target, const std::string& path) {
  try {
    library_of(device_of(target), path);
    return {};
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Resource) throw;
    return error.what();
  }
}

std::vector<GpuMatmulTimes> time_matmul(const CompileTarget& target,
                                        const std::vector<GpuMatmul>& shapes,
                                        const CompileOptions& options,
                                        const GpuBenchOptions& bench) {
  cuda::CudaDevice& device = device_of(target);
  const std::shared_ptr<const cuda::CublasLt> library =
      bench.library ? library_of(device, bench.library_path) : nullptr;
  if (shapes.empty()) return {};
  const GpuMatmul& first = shapes[0];
  const auto context_of = [&](int copies) {
    GpuMatmul shape = first;
    shape.copies = copies;
    const auto executable = compile_for(target, ir::parse(matmul_program(shape)), options);
    executable->kernels().complete();
    return std::make_shared<runtime::Context>(executable);
  };
  const std::shared_ptr<runtime::Context> context = context_of(first.copies);
  OneProduct one;
  if (bench.cache_extremes) one.context = first.copies == 1 ? context : context_of(1);
  std::vector<Parameters> ends{parameters_of(first, 0)};  // of the first and the last copy
  if (first.copies > 1) ends.push_back(parameters_of(first, first.copies - 1));
  std::vector<GpuMatmulTimes> all;
  for (const GpuMatmul& shape : shapes) {
    internal_check(shape.n == first.n && shape.k == first.k && shape.copies == first.copies,
                   "one program serves all shapes");
    // One tensor on the host, a copy for each product on the GPU.
    const std::vector<ir::Tensor> inputs(
        static_cast<std::size_t>(shape.copies),
        ir::random_tensor(shape.dtype, std::vector{shape.m, shape.k}, 7, "input"));
    GpuMatmulTimes& times = all.emplace_back();
    times.schedule = schedule_of(*context, inputs);
    const std::vector<ir::Tensor> results = context->run(inputs);
    times.largest_difference =
        std::max(product_difference(inputs[0], ends.front().w, ends.front().bias, results.front()),
                 product_difference(inputs[0], ends.back().w, ends.back().bias, results.back()));
    const auto timer = timer_of(*context, calls_of_a_graph, shape.copies);
    std::optional<LibraryRuns> runs;
    LibraryChoice choice;
    std::vector<Engine> engines{[&] { return timer->measure(); }};
    if (library != nullptr) {
      runs.emplace(device.shared_context(), *library, shape, find_places(*context, shape));
      choice = choose(*runs, shape, bench.algorithms);
      times.algorithms = static_cast<int>(choice.timers.size());
      choice.timers[0]->measure();
      times.largest_difference = std::max(times.largest_difference, runs->difference(results));
      engines.emplace_back([&] { return choice.timers[0]->measure(); });
      engines.emplace_back([&] { return choice.timers[choice.best]->measure(); });
    }
    times.ring = comparison_of(in_turn(engines, bench.repetitions));
    one.x = inputs[0];
    if (bench.cache_extremes)
      measure_warm_and_cold(times, one, runs ? &*runs : nullptr, runs ? &choice : nullptr, bench,
                            calls_of_a_graph * shape.copies);
  }
  return all;
}

std::vector<GpuAttentionTimes> time_attention(const CompileTarget& target,
                                              const std::vector<GpuAttention>& shapes,
                                              const CompileOptions& options, int repetitions) {
  device_of(target);
  std::map<std::string, std::shared_ptr<runtime::Context>> contexts;  // by text
  std::vector<GpuAttentionTimes> all;
  for (const GpuAttention& shape : shapes) {
    const std::string text = attention_program(shape);
    auto& context = contexts[text];
    if (context == nullptr) {
      const auto executable = compile_for(target, ir::parse(text), options);
      executable->kernels().complete();
      context = std::make_shared<runtime::Context>(executable);
    }
    const std::vector<ir::Tensor> inputs = attention_inputs(shape);
    GpuAttentionTimes& times = all.emplace_back();
    times.schedule = schedule_of(*context, inputs);
    times.largest_difference = attention_difference(shape, inputs, context->run(inputs).at(0));
    times.ours = measure_alone(*timer_of(*context, calls_of_a_graph, 1), repetitions);
  }
  return all;
}

GpuSample time_call(runtime::Context& context, const std::vector<ir::Tensor>& inputs,
                    int repetitions) {
  context.run(inputs);
  return measure_alone(*timer_of(context, calls_of_a_graph, 1), repetitions);
}

}  // namespace anydim
