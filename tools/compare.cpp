// anydim compare: a model's results and times beside ONNX Runtime's.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/bench_model.h"
#include "tools/call_inputs.h"
#include "tools/command.h"
#include "tools/output.h"
#include "tools/peer.h"
#include "tools/trace_option.h"

namespace anydim::tools {

namespace {

using Clock = std::chrono::steady_clock;

struct CompareOptions {
  std::string model, python = "python3";
  CallOptions call;
  std::vector<std::string> outputs;
  double tolerance = 1e-3;
  int rounds = 11;
  TraceOptions trace;
};

struct Difference {
  double absolute = 0, relative = 0, cosine = 1;
  std::int64_t unlike = 0;  // elements that are not a number, or infinite, in one of both alone
};

// What NaN or infinite is must be so in both; the rest is compared as real numbers.
Difference difference_of(const ir::Tensor& ours, const ir::Tensor& theirs) {
  Difference found;
  double largest = 0, product = 0, our_square = 0, their_square = 0;
  const auto at = [](const ir::Tensor& tensor, std::int64_t i) {
    return ir::is_float(tensor.dtype()) ? tensor.real_at(i)
                                        : static_cast<double>(tensor.integer_at(i));
  };
  for (std::int64_t i = 0; i < theirs.elements(); ++i) {
    const double a = at(ours, i), b = at(theirs, i);
    if (!std::isfinite(a) || !std::isfinite(b)) {
      found.unlike += (std::isnan(a) && std::isnan(b)) || a == b ? 0 : 1;
      continue;
    }
    found.absolute = std::max(found.absolute, std::abs(a - b));
    largest = std::max(largest, std::abs(b));
    product += a * b;
    our_square += a * a;
    their_square += b * b;
  }
  if (found.absolute > 0)
    found.relative =
        largest > 0 ? found.absolute / largest : std::numeric_limits<double>::infinity();
  if (our_square > 0 && their_square > 0)
    found.cosine = product / std::sqrt(our_square) / std::sqrt(their_square);
  else if (our_square != their_square) found.cosine = 0;
  return found;
}

struct Times {
  double ours = 0, theirs = 0, ratio = 0, low = 0,
         high = 0;  // medians of seconds a call; theirs / ours with its quartiles
};

// In turns, each for about as long; who begins changes.
Times time_both(ModelContext& context, const std::vector<ir::Tensor>& inputs, Peer& peer,
                int rounds) {
  constexpr double turn_seconds = 0.05;
  const auto ours_of = [&](std::int64_t calls) {
    const auto begin = Clock::now();
    for (std::int64_t i = 0; i < calls; ++i) context.run(inputs);
    return std::chrono::duration<double>(Clock::now() - begin).count() / static_cast<double>(calls);
  };
  const auto theirs_of = [&](std::int64_t calls) {
    return peer.time(calls) / static_cast<double>(calls);
  };
  const auto calls_for = [](double seconds) {
    return std::clamp<std::int64_t>(std::llround(turn_seconds / seconds), 1, 100'000);
  };
  ours_of(2);
  theirs_of(2);
  const std::int64_t our_calls = calls_for(ours_of(3)), their_calls = calls_for(theirs_of(3));
  std::vector<double> ours, theirs, ratios;
  for (int round = 0; round < rounds; ++round) {
    if (round % 2 == 0) ours.push_back(ours_of(our_calls));
    theirs.push_back(theirs_of(their_calls));
    if (round % 2 != 0) ours.push_back(ours_of(our_calls));
    ratios.push_back(theirs.back() / ours.back());
  }
  for (std::vector<double>* taken : {&ours, &theirs, &ratios}) std::ranges::sort(*taken);
  return {percentile(ours, 0.5), percentile(theirs, 0.5), percentile(ratios, 0.5),
          percentile(ratios, 0.25), percentile(ratios, 0.75)};
}

// NaN and infinity have no form in JSON.
nlohmann::ordered_json number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
}

void compare(const CompareOptions& options, const CompileOptions& compile, bool json) {
  Peer peer(options.python, options.model, thread_count(compile));
  ir::Module module = load_model(options.model);
  const GivenCall given(options.call, module, "compare");
  const auto model = Model::compile(std::move(module), compile);
  const std::vector<ir::Tensor> inputs = given.tensors(*model);
  const std::vector<std::string>& names = model->output_names();
  ModelContext context(model);
  const std::vector<ir::Tensor> ours = context.run(inputs),
                                theirs = peer.run(model->inputs(), inputs, names);
  model->complete();

  nlohmann::ordered_json outputs = nlohmann::ordered_json::array();
  bool within = true;
  for (std::size_t i = 0; i < names.size(); ++i) {
    nlohmann::ordered_json& one = outputs.emplace_back(nlohmann::ordered_json{{"name", names[i]}});
    const std::string shape = ir::shape_text(ours[i].dtype(), ours[i].dims()),
                      other = ir::shape_text(theirs[i].dtype(), theirs[i].dims());
    if (shape != other) {
      within = false;
      one.update({{"within", false}, {"shape", shape}, {"their_shape", other}});
      if (!json) put("{}: {}, and ONNX Runtime's is {}\n", ir::printable(names[i]), shape, other);
      continue;
    }
    const Difference found = difference_of(ours[i], theirs[i]);
    const bool fits = found.unlike == 0 && found.relative <= options.tolerance;
    within = within && fits;
    one.update({{"within", fits},
                {"absolute", number(found.absolute)},
                {"relative", number(found.relative)},
                {"cosine", number(found.cosine)},
                {"not_finite_in_one", found.unlike}});
    if (!json)
      put("{}: {}; largest difference {:.3g}, relative {:.3g}, cosine {:.9f}{}{}\n",
          ir::printable(names[i]), shape, found.absolute, found.relative, found.cosine,
          found.unlike > 0 ? fmt::format("; {} elements finite in one alone", found.unlike) : "",
          fits ? "" : fmt::format("; MORE than {:g}", options.tolerance));
  }
  const Times times = time_both(context, inputs, peer, options.rounds);
  if (json)
    put_json(nlohmann::ordered_json{{"within", within},
                                    {"tolerance", options.tolerance},
                                    {"outputs", outputs},
                                    {"anydim_ms", 1e3 * times.ours},
                                    {"onnxruntime_ms", 1e3 * times.theirs},
                                    {"ratio", times.ratio},
                                    {"ratio_quartiles", {times.low, times.high}},
                                    {"onnxruntime", peer.version()}});
  else
    put("anydim {:.4f} ms a call, ONNX Runtime {} {:.4f} ms: {:.2f} times as fast [{:.2f}, "
        "{:.2f}], medians of {} turns each\n",
        1e3 * times.ours, ir::printable(peer.version()), 1e3 * times.theirs, times.ratio, times.low,
        times.high, options.rounds);
  if (!within) throw Ends{1};
}

void run(const CompareOptions& options, const CommonOptions& common) {
  if (common.executor != "auto" && common.executor != "vm")
    throw Error(ErrorKind::CommandLine,
                "compare times the virtual machine; leave --executor {} out", common.executor);
  CompileOptions compile_options = tools::compile_options(common);
  compile_options.outputs = options.outputs;
  traced(options.trace, compile_options,
         [&](const CompileOptions& traced) { compare(options, traced, common.json); });
}

}  // namespace

void add_compare(CLI::App& app, CommonOptions& common, Action& action) {
  auto options = std::make_shared<CompareOptions>();
  CLI::App* command = app.add_subcommand(
      "compare",
      "hold a model's results and times against ONNX Runtime's; exit code 1 where they differ");
  command->add_option("MODEL", options->model, "an ONNX model")->required();
  add_call_options(*command, options->call);
  add_outputs_option(*command, options->outputs);
  command
      ->add_option("--tolerance", options->tolerance,
                   "most that an output may differ, by its largest number")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
  command->add_option("--rounds", options->rounds, "turns of about 50 ms that each is timed in")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  command
      ->add_option("--python", options->python, "an interpreter that has the package onnxruntime")
      ->capture_default_str();
  add_trace_options(*command, options->trace);
  add_common_options(*command, common);
  command->callback(
      [&common, &action, options] { action = [&common, options] { run(*options, common); }; });
}

}  // namespace anydim::tools
