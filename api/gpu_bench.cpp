#include "api/gpu_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "ir/error.h"
#include "ir/parse.h"
#include "ir/random_tensor.h"
#include "runtime/cublaslt.h"
#include "runtime/cuda_device.h"
#include "runtime/cuda_memory.h"
#include "runtime/cuda_session.h"
#include "runtime/cuda_timer.h"

namespace anydim {

namespace {

namespace cuda = runtime::cuda;
using Place = ir::Program::Buffer::Place;

constexpr int warm_ups = 3;
constexpr int calls_of_a_graph = 4;

GpuSample sample_of(std::vector<double> seconds) {
  std::ranges::sort(seconds);
  return {seconds[seconds.size() / 2], seconds.front(), seconds.back()};
}

const std::shared_ptr<cuda::DeviceContext>& context_of(const CompileTarget& target) {
  const auto* device = dynamic_cast<const cuda::CudaDevice*>(target.device.get());
  if (device == nullptr) throw Error(ErrorKind::CommandLine, "this comparison needs --device cuda");
  return device->shared_context();
}

cuda::CudaSession& session_of(runtime::Context& context) {
  auto* session = dynamic_cast<cuda::CudaSession*>(&context.session());
  internal_check(session != nullptr, "the program was compiled for a GPU");
  return *session;
}

std::string schedule_of(runtime::Context& context, const std::vector<ir::Tensor>& inputs) {
  context.record_launches(true);
  context.run(inputs);
  context.record_launches(false);
  std::string schedules;
  for (const runtime::LaunchRecord& launch : context.launches()) {
    const auto& kernel = context.executable().program().kernels[static_cast<std::size_t>(launch.kernel)];
    const std::string schedule = to_string(kernel.table.entries[static_cast<std::size_t>(launch.used)].schedule);
    if (schedules.find(schedule) == std::string::npos) schedules += (schedules.empty() ? "" : "; ") + schedule;
  }
  return schedules;
}

std::unique_ptr<cuda::GraphTimer> timer_of(runtime::Context& context, int calls, int launches_counted) {
  cuda::CudaSession& session = session_of(context);
  return std::make_unique<cuda::GraphTimer>(
      session.context(),
      [&](cuda::Stream stream) {
        for (int i = 0; i < calls; ++i) session.enqueue_last(stream);
      },
      calls * launches_counted);
}

std::string matmul_text(std::int64_t n, std::int64_t k, ir::DType dtype, int copies) {
  const std::string_view type = ir::name_of(dtype);
  std::string parameters, types, body, results;
  for (int i = 0; i < copies; ++i) {
    const char* comma = i == 0 ? "" : ", ";
    parameters += fmt::format("{}%x{}: Tensor[(m, {}), {}]", comma, i, k, type);
    types += fmt::format("{}Tensor[(m, {}), {}]", comma, n, type);
    body += fmt::format("  %w{0} = constant({1} ({2}, {3}) @random({0}))\n  %b{0} = constant({1} ({3}) @random({0}))\n", i, type, k, n);
    body += fmt::format("  %p{0} = matmul(%x{0}, %w{0})\n  %y{0} = add(%p{0}, %b{0})\n", i);
    results += fmt::format("{}%y{}", comma, i);
  }
  return fmt::format("fn @main({}) -> ({})\n  where m in [0, 1048576] {{\n{}  return {}\n}}\n", parameters, types, body, results);
}

// Places of one product of the program, from its launch.
struct ProductPlaces {
  std::vector<cuda::CublasLt::Operands> operands;  // one a copy; d is not set
};

ProductPlaces find_places(runtime::Context& context, const GpuMatmul& shape) {
  const ir::Program& program = context.executable().program();
  const std::vector<cuda::Address>& addresses = session_of(context).last_addresses();
  ProductPlaces places;
  for (const ir::Program::Instruction& instruction : program.instructions) {
    const auto* launch = std::get_if<ir::Program::Launch>(&instruction);
    if (launch == nullptr) continue;
    cuda::CublasLt::Operands operands;
    for (const std::int32_t b : launch->buffers) {
      const ir::Program::Buffer& buffer = program.buffers[static_cast<std::size_t>(b)];
      const cuda::Address address = addresses[static_cast<std::size_t>(b)];
      if (buffer.place == Place::Input) operands.x = address;
      // Constants are gone from the host by now; their names say which is which.
      if (buffer.place == Place::Constant) (buffer.name.starts_with("w") ? operands.w : operands.bias) = address;
    }
    if (operands.x == 0 || operands.w == 0 || operands.bias == 0) {
      throw Error(ErrorKind::Unsupported,
                  fmt::format("the product of {} x {} x {} did not become one launch a copy, so there is nothing to compare", shape.m,
                              shape.n, shape.k));
    }
    places.operands.push_back(operands);
  }
  return places;
}

class LibraryRuns {
 public:
  LibraryRuns(std::shared_ptr<cuda::DeviceContext> context, const cuda::CublasLt& library, const GpuMatmul& shape, ProductPlaces places)
      : context_(std::move(context)), library_(library), product_{shape.m, shape.n, shape.k, shape.dtype, true},
        places_(std::move(places)) {
    bytes_ = static_cast<std::size_t>(shape.m * shape.n) * ir::size_of(shape.dtype);
    context_->check(context_->driver().memory_allocate(&workspace_, cuda::CublasLt::workspace_bytes), "the library's workspace");
    for (cuda::CublasLt::Operands& operands : places_.operands) {
      operands.workspace = workspace_;
      context_->check(context_->driver().memory_allocate(&operands.d, std::max<std::size_t>(bytes_, 1)), "the library's results");
    }
  }
  ~LibraryRuns() {
    context_->enter_quietly();
    for (const cuda::CublasLt::Operands& operands : places_.operands) context_->driver().memory_free(operands.d);
    context_->driver().memory_free(workspace_);
  }
  LibraryRuns(const LibraryRuns&) = delete;
  LibraryRuns& operator=(const LibraryRuns&) = delete;

  std::vector<cuda::CublasLt::Algorithm> algorithms(int most) const { return library_.algorithms(product_, most); }

  // Null where the algorithm does not run.
  std::unique_ptr<cuda::GraphTimer> timer(const cuda::CublasLt::Algorithm& algorithm) const {
    try {
      return std::make_unique<cuda::GraphTimer>(
          context_,
          [&](cuda::Stream stream) {
            for (int call = 0; call < calls_of_a_graph; ++call)
              for (const cuda::CublasLt::Operands& operands : places_.operands) library_.enqueue(product_, operands, algorithm, stream);
          },
          calls_of_a_graph * static_cast<int>(places_.operands.size()));
    } catch (const Error&) {
      context_->enter();  // throws where the context is lost
      return nullptr;
    }
  }

  // Of the first and the last product.
  double largest_difference(const std::vector<ir::Tensor>& ours) const {
    double largest = 0;
    const std::size_t last = places_.operands.size() - 1;
    for (const std::size_t i : std::set<std::size_t>{0, last}) {
      ir::Tensor theirs(product_.dtype, {product_.m, product_.n});
      cuda::Stream stream = nullptr;
      const cuda::Driver& driver = context_->driver();
      context_->check(driver.copy_to_host(theirs.mutable_bytes().data(), places_.operands[i].d, bytes_, stream),
                      "reading the library's results");
      context_->check(driver.stream_synchronize(stream), "reading the library's results");
      for (std::int64_t e = 0; e < theirs.elements(); ++e) {
        const double want = theirs.real_at(e), difference = std::fabs(ours[i].real_at(e) - want) / (1 + std::fabs(want));
        if (!(difference <= largest)) largest = difference;
      }
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

void compare(GpuMatmulTimes& times, cuda::GraphTimer& ours, const LibraryRuns& runs, const GpuBenchOptions& bench,
             const std::vector<ir::Tensor>& results) {
  std::vector<std::unique_ptr<cuda::GraphTimer>> timers;
  for (const auto& algorithm : runs.algorithms(bench.algorithms)) {
    if (auto timer = runs.timer(algorithm)) timers.push_back(std::move(timer));
  }
  if (timers.empty()) throw Error(ErrorKind::Resource, "none of the algorithms that cuBLASLt offers runs on this GPU");
  times.algorithms = static_cast<int>(timers.size());
  timers[0]->measure();
  times.largest_difference = runs.largest_difference(results);
  // Chosen by the odd repetitions, timed by the even ones.
  constexpr int choosing = 3;
  std::vector<std::vector<double>> odd(timers.size());
  for (int repetition = 0; repetition < choosing; ++repetition)
    for (std::size_t i = 0; i < timers.size(); ++i) odd[i].push_back(timers[i]->measure());
  const auto chosen = std::ranges::min_element(odd, {}, [](const std::vector<double>& seconds) { return sample_of(seconds).median; });
  cuda::GraphTimer& best = *timers[static_cast<std::size_t>(chosen - odd.begin())];
  std::vector<double> our_times, heuristic_times, best_times;
  for (int repetition = 0; repetition < bench.repetitions; ++repetition) {
    our_times.push_back(ours.measure());
    heuristic_times.push_back(timers[0]->measure());
    best_times.push_back(best.measure());
  }
  times.ours = sample_of(std::move(our_times));
  times.heuristic = sample_of(std::move(heuristic_times));
  times.best = sample_of(std::move(best_times));
}

std::vector<ir::Tensor> random_inputs(const std::vector<std::vector<std::int64_t>>& dims, ir::DType dtype) {
  std::vector<ir::Tensor> inputs;
  for (std::size_t i = 0; i < dims.size(); ++i) inputs.push_back(ir::random_tensor(dtype, dims[i], 7, fmt::format("input {}", i)));
  return inputs;
}

std::string equal_attention_text(const GpuAttention& shape) {
  const std::string operand = fmt::format("Tensor[(b, h, s, {}), {}]", shape.head, ir::name_of(shape.dtype));
  return fmt::format(
      "fn @main(%q: {0}, %k: {0}, %v: {0}) -> {0} where b in [0, 65536], h in [0, 256], s in [0, 65536] {{\n"
      "  %qw = cast(%q) {{to = f32}}\n  %kw = cast(%k) {{to = f32}}\n  %vw = cast(%v) {{to = f32}}\n"
      "  %yw = attention(%qw, %kw, %vw) {{scale = {1}}}\n  %y = cast(%yw) {{to = {2}}}\n  return %y\n}}\n",
      operand, 1 / std::sqrt(static_cast<double>(shape.head)), ir::name_of(shape.dtype));
}

std::string ragged_attention_text(const GpuAttention& shape) {
  const std::string_view type = ir::name_of(shape.dtype);
  std::string text = fmt::format(
      "fn @main(%q: {0}, %k: {0}, %v: {0}, %offsets: Tensor[(n), i64]) -> {0} where t in [0, 16777216], n in [1, 1048576] {{\n"
      "  %split = shape(t, {1}, {2})\n",
      fmt::format("Tensor[(t, {}), {}]", shape.heads * shape.head, type), shape.heads, shape.head);
  for (const char operand : {'q', 'k', 'v'}) {
    text += fmt::format(
        "  %{0}_wide = cast(%{0}) {{to = f32}}\n  %{0}_heads = dyn.reshape(%{0}_wide, %split)\n"
        "  %{0}_rows = transpose(%{0}_heads) {{perm = (1, 0, 2)}}\n",
        operand);
  }
  return text + fmt::format(
                    "  %a = attention(%q_rows, %k_rows, %v_rows, none, %offsets) {{scale = {0}}}\n"
                    "  %beside = transpose(%a) {{perm = (1, 0, 2)}}\n  %flat = shape(t, {1})\n"
                    "  %joined = dyn.reshape(%beside, %flat)\n  %y = cast(%joined) {{to = {2}}}\n  return %y\n}}\n",
                    1 / std::sqrt(static_cast<double>(shape.head)), shape.heads * shape.head, type);
}

std::vector<ir::Tensor> attention_inputs(const GpuAttention& shape) {
  if (shape.lengths.empty())
    return random_inputs(std::vector(3, std::vector{shape.batch, shape.heads, shape.length, shape.head}), shape.dtype);
  ir::Tensor offsets(ir::DType::I64, {static_cast<std::int64_t>(shape.lengths.size()) + 1});
  std::int64_t rows = 0;
  for (std::size_t i = 0; i < shape.lengths.size(); ++i) {
    rows += shape.lengths[i];
    offsets.set_integer(static_cast<std::int64_t>(i) + 1, rows);
  }
  std::vector<ir::Tensor> inputs = random_inputs(std::vector(3, std::vector{rows, shape.heads * shape.head}), shape.dtype);
  inputs.push_back(std::move(offsets));
  return inputs;
}

GpuSample measure_alone(cuda::GraphTimer& timer, int repetitions) {
  for (int i = 0; i < warm_ups; ++i) timer.measure();
  std::vector<double> seconds;
  for (int i = 0; i < repetitions; ++i) seconds.push_back(timer.measure());
  return sample_of(std::move(seconds));
}

}  // namespace

std::vector<GpuMatmulTimes> time_matmul(const CompileTarget& target, const std::vector<GpuMatmul>& shapes, const CompileOptions& options,
                                        const GpuBenchOptions& bench) {
  const std::shared_ptr<cuda::DeviceContext>& device = context_of(target);
  const std::shared_ptr<cuda::CublasLt> library = bench.library ? cuda::CublasLt::open(device, bench.library_path) : nullptr;
  std::vector<GpuMatmulTimes> all;
  std::shared_ptr<runtime::Context> context;
  for (const GpuMatmul& shape : shapes) {
    internal_check(shape.n == shapes[0].n && shape.k == shapes[0].k, "one program serves all shapes");
    if (context == nullptr) {
      const auto executable = compile_for(target, ir::parse(matmul_text(shape.n, shape.k, shape.dtype, shape.copies)), options);
      executable->kernels().complete();
      context = std::make_shared<runtime::Context>(executable);
    }
    // One tensor on the host, a copy for each product on the GPU.
    const std::vector<ir::Tensor> inputs(static_cast<std::size_t>(shape.copies),
                                         ir::random_tensor(shape.dtype, std::vector{shape.m, shape.k}, 7, "input"));
    GpuMatmulTimes& times = all.emplace_back();
    times.schedule = schedule_of(*context, inputs);
    const std::vector<ir::Tensor> results = context->run(inputs);
    const auto timer = timer_of(*context, calls_of_a_graph, shape.copies);
    for (int i = 0; i < warm_ups; ++i) timer->measure();
    if (library == nullptr) {
      times.ours = measure_alone(*timer, bench.repetitions);
    } else {
      const LibraryRuns runs(device, *library, shape, find_places(*context, shape));
      compare(times, *timer, runs, bench, results);
    }
  }
  return all;
}

std::vector<GpuAttentionTimes> time_attention(const CompileTarget& target, const std::vector<GpuAttention>& shapes,
                                              const CompileOptions& options, int repetitions) {
  context_of(target);
  std::map<std::string, std::shared_ptr<runtime::Context>> contexts;  // by text
  std::vector<GpuAttentionTimes> all;
  for (const GpuAttention& shape : shapes) {
    const std::string text = shape.lengths.empty() ? equal_attention_text(shape) : ragged_attention_text(shape);
    auto& context = contexts[text];
    if (context == nullptr) {
      const auto executable = compile_for(target, ir::parse(text), options);
      executable->kernels().complete();
      context = std::make_shared<runtime::Context>(executable);
    }
    const std::vector<ir::Tensor> inputs = attention_inputs(shape);
    GpuAttentionTimes& times = all.emplace_back();
    times.schedule = schedule_of(*context, inputs);
    times.ours = time_call(*context, inputs, repetitions);
  }
  return all;
}

GpuSample time_call(runtime::Context& context, const std::vector<ir::Tensor>& inputs, int repetitions) {
  context.run(inputs);
  return measure_alone(*timer_of(context, calls_of_a_graph, 1), repetitions);
}

}  // namespace anydim
