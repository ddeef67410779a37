#include "bench/campaign/worker/campaign_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <istream>
#include <iterator>
#include <map>
#include <new>
#include <nlohmann/json.hpp>
#include <set>

#include "api/gpu_check.h"
#include "api/npy.h"
#include "api/output_files.h"
#include "bench/campaign/worker/estimates.h"
#include "bench/no_device.h"
#include "tools/output.h"

namespace anydim::campaign {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* empty_program =
    "fn @main(%x: Tensor[(n), f32]) -> Tensor[(n), f32] {\n  %y = add(%x, %x)\n  return %y\n}\n";

ir::Module module_of(const nlohmann::json& wanted) {
  if (wanted.contains("model")) return load_model(wanted.at("model").get<std::string>());
  return ir::parse(wanted.value("text", std::string(empty_program)));
}

ir::DType dtype_of(const nlohmann::json& wanted) {
  const std::string name = wanted.value("dtype", "bf16");
  const auto dtype = ir::dtype_named(name);
  if (!dtype) throw Error(ErrorKind::Malformed, "case: there is no dtype {}", name);
  return *dtype;
}

// Numbers that are the same on every machine; integers in [0, below).
std::vector<ir::Tensor> draw_inputs(const std::vector<InputInfo>& inputs,
                                    const nlohmann::json& wanted) {
  const nlohmann::json described = wanted.value("inputs", nlohmann::json::object());
  std::vector<ir::Tensor> tensors;
  for (const InputInfo& input : inputs) {
    const nlohmann::json one = described.value(
        input.name, nlohmann::json{{"dims", std::vector<std::int64_t>(input.dims.size(), 1)}});
    const auto dims = one.at("dims").get<std::vector<std::int64_t>>();
    ir::Tensor tensor = ir::random_tensor(input.dtype, dims, wanted.value("seed", 1), input.name);
    if (one.contains("lengths")) {  // a mask over the first tokens of each sequence
      const auto lengths = one.at("lengths").get<std::vector<std::int64_t>>();
      ir::Tensor mask(input.dtype, dims);
      for (std::int64_t i = 0; i < mask.elements(); ++i)
        mask.set_integer(
            i, i % dims.at(1) < lengths.at(static_cast<std::size_t>(i / dims[1])) ? 1 : 0);
      tensor = std::move(mask);
    } else if (one.value("ramp", false)) {  // every element its own position
      ir::Tensor ramp(input.dtype, dims);
      for (std::int64_t i = 0; i < ramp.elements(); ++i) ramp.set_integer(i, i);
      tensor = std::move(ramp);
    } else if (one.contains("whole") || one.contains("times")) {
      const bool whole = one.contains("whole");
      const double times =
          whole ? 16 * one.at("whole").get<double>() : one.at("times").get<double>();
      ir::Tensor spread(input.dtype, dims);
      for (std::int64_t i = 0; i < spread.elements(); ++i) {
        const double number = times * tensor.real_at(i);
        spread.set_real(i, whole ? std::floor(number) : number);
      }
      tensor = std::move(spread);
    } else if (ir::is_integer(input.dtype)) {
      const std::int64_t below = one.value("below", std::int64_t{2});
      ir::Tensor bounded(input.dtype, tensor.dims());
      for (std::int64_t i = 0; i < tensor.elements(); ++i)
        bounded.set_integer(i, tensor.integer_at(i) % below);
      tensor = std::move(bounded);
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

double difference_of(const std::vector<ir::Tensor>& got, const std::vector<ir::Tensor>& want) {
  double largest = 0;
  for (std::size_t o = 0; o < want.size(); ++o)
    largest = std::max(largest, largest_difference(got.at(o), want[o]));
  return largest;
}

// What was found, and whether it will do.
void note_difference(Json& result, double difference, double tolerance) {
  result["difference"] = std::isfinite(difference) ? Json(difference) : Json("not finite");
  result["right"] = difference <= tolerance;
}

std::vector<ir::Tensor> expected_results(const nlohmann::json& wanted, const ir::Module& module,
                                         const std::vector<ir::Tensor>& inputs) {
  if (!wanted.contains("expected")) return evaluate_reference(module, inputs);
  std::vector<ir::Tensor> results;
  for (const std::string& name : module.functions.at(0).result_names)
    results.push_back(read_npy(wanted.at("expected").at(name).get<std::string>()));
  return results;
}

// A program as its cases call it: over packed rows, or as it is.
struct CalledProgram {
  std::shared_ptr<const Model> model;  // null: as it is
  std::shared_ptr<const runtime::Executable> executable;

  std::vector<InputInfo> inputs() const {
    return model ? model->inputs() : inputs_of(executable->program());
  }
  // What the executable takes for a call's inputs.
  std::vector<ir::Tensor> call(const std::vector<ir::Tensor>& inputs) const {
    if (!model) return inputs;
    auto packed = runtime::pack_inputs(*model->packing(), inputs);
    if (!packed) throw Error(ErrorKind::Malformed, "case: a call with this mask is not packed");
    return std::move(packed->tensors);
  }
  std::int64_t rows(const std::vector<ir::Tensor>& inputs) const {
    const ir::Tensor mask = row_truths(inputs);
    std::int64_t rows = 0;
    for (std::int64_t i = 0; i < mask.elements(); ++i)
      rows += mask.integer_at(i) == model->packing()->kept ? 1 : 0;
    return rows;
  }
  ir::Tensor row_truths(const std::vector<ir::Tensor>& inputs) const {
    return runtime::row_truths(*model->packing(), inputs.at(model->packing()->mask));
  }
  // Up to `most` rows of each result that has rows, evenly spread over those that take part, as
  // f16; other results as they are.
  std::vector<ir::Tensor> sample(const std::vector<ir::Tensor>& results,
                                 const std::vector<ir::Tensor>& inputs, std::int64_t most) const {
    std::vector<std::int64_t> kept;
    const std::optional<ir::Tensor> mask = model ? std::optional(row_truths(inputs)) : std::nullopt;
    for (std::int64_t i = 0; mask && i < mask->elements(); ++i)
      if (mask->integer_at(i) == model->packing()->kept) kept.push_back(i);
    const auto taken = std::min(static_cast<std::int64_t>(kept.size()), most);
    std::vector<ir::Tensor> samples;
    for (const ir::Tensor& result : results) {
      if (!mask || result.rank() < 3) {
        samples.push_back(result);
        continue;
      }
      const std::int64_t width = result.elements() / mask->elements();
      ir::Tensor& rows = samples.emplace_back(ir::DType::F16, std::vector{taken, width});
      for (std::int64_t i = 0; i < taken; ++i) {
        const std::int64_t row =
            kept[taken == 1 ? 0
                            : static_cast<std::size_t>(
                                  i * (static_cast<std::int64_t>(kept.size()) - 1) / (taken - 1))];
        for (std::int64_t e = 0; e < width; ++e)
          rows.set_real(i * width + e, result.real_at(row * width + e));
      }
    }
    return samples;
  }
  // Results at hidden rows are 0.
  void hide(std::vector<ir::Tensor>& results, const std::vector<ir::Tensor>& inputs) const {
    if (!model) return;
    const ir::Tensor mask = row_truths(inputs);
    for (ir::Tensor& result : results) {
      if (result.rank() < 3) continue;
      const std::int64_t row = result.elements() / mask.elements();
      for (std::int64_t i = 0; i < result.elements(); ++i)
        if (mask.integer_at(i / row) != model->packing()->kept) result.set_real(i, 0);
    }
  }
};

CalledProgram compiled_program(const CompileTarget& target, const nlohmann::json& wanted,
                               CompileOptions options) {
  if (!wanted.value("packed", false))
    return {nullptr, compile_for(target, module_of(wanted), options)};
  options.masked_rows = MaskedRows::Zero;
  auto model = Model::compile(target, module_of(wanted), options);
  if (!model->packing())
    throw Error(ErrorKind::Unsupported,
                "case: the program is not packed: " + model->padded_because());
  auto executable = model->packed();
  return {std::move(model), std::move(executable)};
}

Json microseconds(const GpuSample& sample) {
  return {{"median_us", 1e6 * sample.median},
          {"least_us", 1e6 * sample.least},
          {"most_us", 1e6 * sample.most}};
}

std::vector<GpuMatmul> products_of(const nlohmann::json& wanted) {
  std::vector<GpuMatmul> shapes;
  for (const std::int64_t m : wanted.at("m").get<std::vector<std::int64_t>>())
    shapes.push_back({m, wanted.at("n").get<std::int64_t>(), wanted.at("k").get<std::int64_t>(),
                      dtype_of(wanted), wanted.value("copies", 12)});
  return shapes;
}

std::vector<GpuAttention> attentions_of(const nlohmann::json& wanted) {
  std::vector<GpuAttention> shapes;
  for (const auto& shape : wanted.value("shapes", std::vector<std::array<std::int64_t, 4>>()))
    shapes.push_back({.batch = shape[0],
                      .heads = shape[1],
                      .length = shape[2],
                      .head = shape[3],
                      .dtype = dtype_of(wanted)});
  for (const nlohmann::json& shape : wanted.value("ragged", nlohmann::json::array())) {
    shapes.push_back({.heads = shape.at("heads").get<std::int64_t>(),
                      .head = shape.at("head").get<std::int64_t>(),
                      .dtype = dtype_of(wanted),
                      .lengths = shape.at("lengths").get<std::vector<std::int64_t>>()});
  }
  return shapes;
}

// A call's time on the device, and with all that the host does. `first`: seconds of the call of
// these inputs before: where its capacity is new, it launched on the stream, and the next one
// captures a graph.
Json timed_call(runtime::Context& context, const std::vector<ir::Tensor>& inputs, int repetitions,
                double first) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> whole;
  for (int i = 0; i < repetitions; ++i) {
    const auto start = Clock::now();
    context.run(inputs);
    whole.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  const double second = whole.front();
  std::ranges::sort(whole);
  Json call = microseconds(time_call(context, inputs, repetitions));
  call["host_us"] = 1e6 * whole[whole.size() / 2];
  call["first_host_us"] = 1e6 * first;
  call["second_host_us"] = 1e6 * second;
  return call;
}

// Files FOLDER/NAME.N.npy, N counting results, for "FOLDER/NAME".
std::string expected_name(const std::filesystem::path& files, std::size_t result) {
  return fmt::format("{}.{}", files.filename().string(), result);
}

void write_expected(const std::filesystem::path& files, const std::vector<ir::Tensor>& results) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < results.size(); ++i) names.push_back(expected_name(files, i));
  write_outputs(files.parent_path(), names, results);
}

std::vector<ir::Tensor> read_expected(const std::filesystem::path& files, std::size_t count) {
  std::vector<ir::Tensor> results;
  for (std::size_t i = 0; i < count; ++i)
    results.push_back(read_npy(files.parent_path() / output_file_name(expected_name(files, i))));
  return results;
}

}  // namespace

CampaignCases::CampaignCases(CompileOptions options, MakeTarget make, RawTarget raw)
    : options_(std::move(options)), make_(std::move(make)), raw_(std::move(raw)) {}
CampaignCases::~CampaignCases() = default;

CompileTarget CampaignCases::target_for(const nlohmann::json& wanted,
                                        std::shared_ptr<ChosenSchedules>& chosen) {
  const bool checked = wanted.value("checked", false);
  CompileTarget& known = targets_[checked];
  if (known.backend == nullptr) known = make_(checked);
  std::optional<ScheduleFilter> filter;
  if (wanted.contains("schedule"))
    filter = parse_schedule_filter(wanted.at("schedule").get<std::string>());
  std::vector<ScheduleFilter> avoided;
  for (const nlohmann::json& one : wanted.value("avoid", nlohmann::json::array()))
    avoided.push_back(parse_schedule_filter(one.get<std::string>()));
  const std::shared_ptr<const ir::Backend> backend =
      wanted.contains("constants") ? with_constants(*known.backend, wanted.at("constants"))
                                   : known.backend;
  chosen = std::make_shared<ChosenSchedules>(backend, std::move(filter), std::move(avoided));
  return {chosen, known.device};
}

CompileOptions CampaignCases::options_for(const nlohmann::json& wanted) const {
  CompileOptions options = options_;
  options.policies.push_back(
      parse_policy(wanted.value("policy", wanted.contains("schedule") ? "symbolic" : "bucketed")));
  options.background = false;
  return options;
}

nlohmann::ordered_json CampaignCases::run(const nlohmann::json& wanted) {
  const std::string kind = wanted.at("kind").get<std::string>();
  CompileTarget& plain = targets_[false];
  if (plain.backend == nullptr) plain = make_(false);
  const bool alone = dynamic_cast<const bench::NoDevice*>(plain.device.get()) != nullptr;
  if (alone && kind != "information" && kind != "raw" && kind != "schedules" && kind != "estimates")
    return compile_alone(wanted);
  if (kind == "empty" || kind == "program") return run_program(wanted);
  if (kind == "matmul") return run_matmul(wanted);
  if (kind == "attention") return run_attention(wanted);
  if (kind == "schedules") return rank_schedules(wanted);
  if (kind == "estimates") {
    CompileTarget counted = plain;
    if (wanted.contains("constants"))
      counted.backend = with_constants(*plain.backend, wanted.at("constants"));
    return estimates(counted, options_for(wanted), wanted);
  }
  if (kind == "raw") return run_raw(wanted);
  if (kind == "information") return information();
  throw Error(ErrorKind::Malformed, "case: there is no kind {}", kind);
}

nlohmann::ordered_json CampaignCases::run_program(const nlohmann::json& wanted) {
  using Clock = std::chrono::steady_clock;
  std::shared_ptr<ChosenSchedules> chosen;
  const CompileTarget target = target_for(wanted, chosen);
  const auto begin = Clock::now();
  const CalledProgram program = compiled_program(target, wanted, options_for(wanted));
  const auto& executable = program.executable;
  executable->kernels().complete();
  Json result = {{"compile_s", std::chrono::duration<double>(Clock::now() - begin).count()}};
  if (wanted.contains("schedule") && !chosen->met()) return {{"absent", true}};

  runtime::Context context(executable);
  const std::vector<ir::Tensor> given = draw_inputs(program.inputs(), wanted),
                                inputs = program.call(given);
  std::vector<ir::Tensor> outputs;
  std::vector<double> host;
  double difference = 0;
  const bool compared = wanted.value("compare", true);
  std::vector<ir::Tensor> want =
      compared ? expected_results(wanted, module_of(wanted), given) : std::vector<ir::Tensor>();
  program.hide(want, given);
  for (int pass = 0; pass < wanted.value("passes", 3); ++pass) {
    const auto start = Clock::now();
    outputs = context.run(inputs);
    host.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    if (compared) difference = std::max(difference, difference_of(outputs, want));
  }
  const double tolerance = wanted.value("tolerance", 1e-4);
  result["host_us"] = 1e6 * *std::ranges::min_element(host);
  if (compared) note_difference(result, difference, tolerance);
  // Other sizes of the same program, each compared before it is timed.
  for (const nlohmann::json& size : wanted.value("sizes", nlohmann::json::array())) {
    const std::vector<ir::Tensor> drawn = draw_inputs(program.inputs(), size),
                                  more = program.call(drawn);
    const auto start = Clock::now();
    const std::vector<ir::Tensor> results = context.run(more);
    const double first = std::chrono::duration<double>(Clock::now() - start).count();
    Json call = {{"dims", drawn.at(0).dims()}};
    if (program.model) call["rows"] = program.rows(drawn);
    if (size.contains("expected")) {
      const std::vector<ir::Tensor> samples =
          program.sample(results, drawn, size.value("sampled", std::int64_t{8}));
      if (wanted.value("record", false)) {
        write_expected(size.at("expected"), samples);
        result["calls"].push_back(std::move(call));
        continue;
      }
      note_difference(call,
                      difference_of(samples, read_expected(size.at("expected"), samples.size())),
                      tolerance);
      result["right"] = result.value("right", true) && call["right"].get<bool>();
    }
    call.update(timed_call(context, more, wanted.value("repetitions", 15), first));
    result["calls"].push_back(std::move(call));
  }
  if (wanted.value("record", false)) return result;
  context.record_launches(true);
  context.run(inputs);
  Json launches = Json::array();
  for (const runtime::LaunchRecord& launch : context.launches()) {
    const auto& kernel = executable->program().kernels[static_cast<std::size_t>(launch.kernel)];
    launches.push_back(
        {{"region", kernel.region.name},
         {"schedule",
          to_string(kernel.table.entries[static_cast<std::size_t>(launch.used)].schedule)},
         {"blocks", launch.tasks},
         {"us", 1e6 * launch.seconds}});
  }
  result["launches"] = std::move(launches);
  return result;
}

nlohmann::ordered_json CampaignCases::compile_alone(const nlohmann::json& wanted) {
  std::shared_ptr<ChosenSchedules> chosen;
  const CompileTarget target = target_for(wanted, chosen);
  const CompileOptions options = options_for(wanted);
  runtime::KernelProgress all;
  const auto complete = [&all](const runtime::Executable& executable) {
    executable.kernels().complete();
    const runtime::KernelProgress progress = executable.kernels().progress();
    all.entries += progress.entries;
    all.compiled += progress.compiled;
    all.failed += progress.failed;
  };
  const auto compiled = [&](const std::string& text) {
    complete(*compile_for(target, ir::parse(text), options));
  };
  const std::string kind = wanted.at("kind").get<std::string>();
  if (kind == "matmul") {
    GpuMatmul shape = products_of(wanted).at(0);
    compiled(matmul_program(shape));
    shape.copies = 1;
    if (wanted.value("cache_extremes", false)) compiled(matmul_program(shape));
  } else if (kind == "attention") {
    std::set<std::string> texts;
    for (const GpuAttention& shape : attentions_of(wanted)) texts.insert(attention_program(shape));
    for (const std::string& text : texts) compiled(text);
  } else {
    complete(*compiled_program(target, wanted, options).executable);
  }
  if (wanted.contains("schedule") && !chosen->met()) return {{"absent", true}};
  return {{"entries", all.entries}, {"compiled", all.compiled}, {"failed", all.failed}};
}

nlohmann::ordered_json CampaignCases::run_matmul(const nlohmann::json& wanted) {
  std::shared_ptr<ChosenSchedules> chosen;
  const CompileTarget target = target_for(wanted, chosen);
  const std::vector<GpuMatmul> shapes = products_of(wanted);
  GpuBenchOptions bench;
  bench.library = wanted.value("cublas", false);
  bench.library_path = wanted.value("library_path", "");
  const std::string missing = bench.library ? library_missing(target, bench.library_path) : "";
  if (!missing.empty()) bench.library = false;
  bench.cache_extremes = wanted.value("cache_extremes", false);
  bench.algorithms = wanted.value("algorithms", 100);
  bench.repetitions = wanted.value("repetitions", 15);
  const std::vector<GpuMatmulTimes> all = time_matmul(target, shapes, options_for(wanted), bench);
  if (wanted.contains("schedule") && !chosen->met()) return {{"absent", true}};
  Json rows = Json::array();
  const auto comparison = [&](const GpuComparison& times) {
    Json row = microseconds(times.ours);
    if (bench.library)
      row.update(Json{{"heuristic_us", 1e6 * times.heuristic.median},
                      {"best_us", 1e6 * times.best.median}});
    return row;
  };
  double largest = 0;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    Json row = {
        {"m", shapes[i].m}, {"n", shapes[i].n}, {"k", shapes[i].k}, {"schedule", all[i].schedule}};
    row.update(comparison(all[i].ring));
    if (bench.library) row["algorithms"] = all[i].algorithms;
    if (bench.cache_extremes)
      row.update(Json{{"warm", comparison(all[i].warm)}, {"cold", comparison(all[i].cold)}});
    note_difference(row, all[i].largest_difference, wanted.value("tolerance", 0.02));
    largest = std::max(largest, all[i].largest_difference);
    rows.push_back(std::move(row));
  }
  Json result = {{"rows", std::move(rows)}};
  if (!missing.empty()) result["no_library"] = missing;
  note_difference(result, largest, wanted.value("tolerance", 0.02));
  return result;
}

nlohmann::ordered_json CampaignCases::run_attention(const nlohmann::json& wanted) {
  std::shared_ptr<ChosenSchedules> chosen;
  const CompileTarget target = target_for(wanted, chosen);
  const std::vector<GpuAttention> shapes = attentions_of(wanted);
  const auto all =
      time_attention(target, shapes, options_for(wanted), wanted.value("repetitions", 15));
  if (wanted.contains("schedule") && !chosen->met()) return {{"absent", true}};
  Json rows = Json::array();
  double largest = 0;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const GpuAttention& shape = shapes[i];
    Json row = {{"heads", shape.heads}, {"head", shape.head}, {"schedule", all[i].schedule}};
    if (shape.lengths.empty()) row.update(Json{{"batch", shape.batch}, {"length", shape.length}});
    else row["lengths"] = shape.lengths;
    row.update(microseconds(all[i].ours));
    note_difference(row, all[i].largest_difference, wanted.value("tolerance", 0.02));
    largest = std::max(largest, all[i].largest_difference);
    rows.push_back(std::move(row));
  }
  Json result = {{"rows", std::move(rows)}};
  note_difference(result, largest, wanted.value("tolerance", 0.02));
  return result;
}

nlohmann::ordered_json CampaignCases::rank_schedules(const nlohmann::json& wanted) {
  std::shared_ptr<ChosenSchedules> chosen;
  const CompileTarget target = target_for(wanted, chosen);
  CompileOptions options = options_for(wanted);
  options.policies = {parse_policy("bucketed")};  // every bucket offers what suits it
  program_for(target, product_of(wanted), options);
  std::map<std::string, Json> best;
  for (const std::int64_t m : wanted.at("m").get<std::vector<std::int64_t>>()) {
    const auto ranked = chosen->ranked("matmul", {m});
    const std::size_t top =
        std::min<std::size_t>(ranked.size(), wanted.value("top", std::size_t{4}));
    for (std::size_t i = 0; i < top; ++i)
      best[to_string(ranked[i].second)].push_back(
          {{"m", m}, {"estimate_us", 1e6 * ranked[i].first}});
  }
  return {{"schedules", best}};
}

nlohmann::ordered_json CampaignCases::run_raw(const nlohmann::json& wanted) {
  std::shared_ptr<ChosenSchedules> chosen;
  RawKernel kernel;
  kernel.name = wanted.value("name", wanted.at("id").get<std::string>());
  const std::string file = wanted.at("source").get<std::string>();
  std::ifstream stream(file, std::ios::binary);
  kernel.source.assign(std::istreambuf_iterator<char>(stream), {});
  if (kernel.source.empty())
    throw Error(ErrorKind::Malformed, "{}: cannot be read, or is empty", file);
  const nlohmann::json& launch = wanted.at("launch");
  kernel.launch.entry = launch.at("entry").get<std::string>();
  kernel.launch.grid = {launch.value("grid", 1), 1, 1};
  kernel.launch.block = {launch.value("block", 32), 1, 1};
  kernel.launch.cluster = {launch.value("cluster", 1), 1, 1};
  kernel.launch.shared_bytes = launch.value("shared_bytes", 0);
  for (const nlohmann::json& map : launch.value("maps", nlohmann::json::array())) {
    ir::TensorMap described;
    described.buffer = map.at("buffer").get<std::int32_t>();
    described.dtype = dtype_of(map);
    for (const std::int64_t extent : map.at("dims").get<std::vector<std::int64_t>>())
      described.dims.emplace_back(extent);
    for (const std::int64_t stride : map.at("strides").get<std::vector<std::int64_t>>())
      described.strides.emplace_back(stride);
    described.box = map.at("box").get<std::vector<std::int32_t>>();
    described.swizzle_bytes = map.value("swizzle_bytes", 0);
    kernel.launch.tensor_maps.push_back(std::move(described));
  }
  std::vector<InputInfo> inputs;
  nlohmann::json drawn = {{"inputs", nlohmann::json::object()}};
  for (const nlohmann::json& input : wanted.at("inputs")) {
    const std::string name = std::to_string(inputs.size());
    inputs.push_back({name, dtype_of(input), {}});
    drawn["inputs"][name] = input;
  }
  kernel.inputs = draw_inputs(inputs, drawn);
  for (const nlohmann::json& output : wanted.at("outputs"))
    kernel.outputs.emplace_back(dtype_of(output),
                                output.at("dims").get<std::vector<std::int64_t>>());

  const std::vector<ir::Tensor> results =
      run_raw_kernel(target_for(wanted, chosen), kernel, raw_.architecture, raw_.code);
  if (wanted.contains("folder")) {
    std::vector<std::string> names;
    std::vector<ir::Tensor> all = kernel.inputs;
    all.insert(all.end(), results.begin(), results.end());
    for (std::size_t i = 0; i < all.size(); ++i) {
      const bool input = i < kernel.inputs.size();
      names.push_back(fmt::format("{}.{}{}", kernel.name, input ? "in" : "out",
                                  input ? i : i - kernel.inputs.size()));
    }
    write_outputs(wanted.at("folder").get<std::string>(), names, all);
  }
  Json result = {{"outputs", results.size()}};
  if (wanted.contains("expected")) {
    const std::filesystem::path folder = wanted.at("expected").get<std::string>();
    bool right = true;
    for (std::size_t i = 0; i < results.size(); ++i) {
      const ir::Tensor want = read_npy(folder / fmt::format("{}.out{}.npy", kernel.name, i));
      right = right && want.dims() == results[i].dims() &&
              std::ranges::equal(want.bytes(), results[i].bytes());
    }
    result["right"] = right;
  }
  return result;
}

nlohmann::ordered_json CampaignCases::information() {
  Json result = Json::object();
  for (const Finding& finding : examine_system(options_)) result[finding.name] = finding.value;
  // What the cases run on, which the options alone do not say.
  const ir::Backend& backend = *targets_.at(false).backend;
  result["code target"] = backend.target();
  result["code generator"] = backend.generator();
  if (!raw_.architecture.empty()) result["architecture"] = raw_.architecture;
  return result;
}

}  // namespace anydim::campaign
