#include "api/explain_model.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "api/append.h"
#include "api/sample_inputs.h"
#include "ir/error.h"

namespace anydim {

namespace {

std::vector<ir::Tensor> some_inputs(const std::vector<InputInfo>& inputs,
                                    const std::vector<std::vector<std::int64_t>>& extents,
                                    std::int64_t integer) {
  std::vector<ir::Tensor> tensors;
  for (std::size_t at = 0; at < inputs.size(); ++at) {
    ir::Tensor& tensor = tensors.emplace_back(inputs[at].dtype, extents.at(at));
    for (std::int64_t i = 0; i < tensor.elements(); ++i) {
      if (ir::is_float(inputs[at].dtype)) tensor.set_real(i, 0.01 * static_cast<double>(i % 100));
      else tensor.set_integer(i, integer);
    }
  }
  return tensors;
}

CallExplanation explain_way_of(const Model& model, const std::vector<ir::Tensor>& inputs,
                               int repeat, const Cancellation* cancellation, ExplanationDepth depth,
                               const ThreadScalingOptions& scaling) {
  const auto packed =
      model.packing() ? runtime::pack_inputs(*model.packing(), inputs) : std::nullopt;
  const std::vector<ir::Tensor> given = packed            ? packed->tensors
                                        : model.packing() ? inputs
                                                          : for_program(model, inputs);
  const auto executable = packed ? model.packed() : model.padded();
  executable->kernels().complete(cancellation);
  runtime::Context context(executable);
  CallExplanation call = explain_call(context, given, repeat, depth);
  if (!scaling.threads.empty())
    call.scaling = scale_launches(*executable, context.launches(), model.options(), scaling);
  return call;
}

void add_rows(std::string& text, const std::vector<TableRow>& rows) {
  for (const TableRow& row : rows)
    append(text, "    {}  {}  {}: {}, {:.2f} us\n", row.region, row.bucket, row.schedule,
           row.chosen, 1e6 * row.expected_seconds);
}

}  // namespace

// Integers of 1 mean something to most models (a token, an unmasked place); where a model refuses
// them, 0 fits every table.
ModelExplanation explain_model(const Model& model,
                               const std::vector<std::vector<std::int64_t>>& extents, int repeat,
                               const Cancellation* cancellation, ExplanationDepth depth,
                               const ThreadScalingOptions& scaling) {
  if (!model.equal_dims().hold(extents))
    return explain_model(*model.general(), extents, repeat, cancellation, depth, scaling);
  const auto explained = [&](std::int64_t integer) -> ModelExplanation {
    return {explain_way_of(model, some_inputs(model.inputs(), extents, integer), repeat,
                           cancellation, depth, scaling),
            padding_text(model), model.equal_dims().text()};
  };
  try {
    return explained(1);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Inputs) throw;
  }
  return explained(0);
}

std::string padding_text(const Model& model) {
  if (!model.packing()) return "kept: " + model.padded_because();
  std::string text = "removed: rows that the mask hides are not computed";
  if (model.packing()->ranges_of_kept_rows)
    text += "; activations are quantised by the range of the others";
  if (model.packing()->counts_hidden_picks)
    text += "; in calls that pick a hidden row by its number they are";
  if (model.packing()->limited_inputs.empty()) return text;
  append(text, "; in calls with an element beyond {:.6g} either way in",
         model.packing()->input_limit);
  for (const std::size_t input : model.packing()->limited_inputs)
    append(text, " {}", model.inputs()[input].name);
  return text + " they are";
}

namespace {

// Launches of one region at one size are alike, and told once.
void add_scaling(std::string& text, const CallExplanation& call) {
  struct Alike {
    std::size_t first = 0;
    std::int64_t count = 0;
  };
  std::map<std::pair<std::string, std::string>, std::size_t> places;
  std::vector<Alike> groups;
  for (std::size_t i = 0; i < call.launches.size(); ++i) {
    const auto [place, fresh] =
        places.try_emplace({call.launches[i].region, listed(call.launches[i].dims)}, groups.size());
    if (fresh) groups.push_back({.first = i});
    ++groups[place->second].count;
  }
  for (const CallAtThreads& at : call.scaling) {
    append(text, "\non {} threads, by the cost model: {:.1f} us, efficiency {:.0f} %\n", at.threads,
           1e6 * at.seconds, 100 * at.efficiency);
    for (const auto& [first, count] : groups) {
      const LaunchAtThreads& launch = at.launches[first];
      append(text, "    {} x {}: {} tasks, {:.2f} us, efficiency {:.0f} %; {}\n", count,
             call.launches[first].region, launch.tasks, 1e6 * launch.seconds,
             100 * launch.efficiency, launch.schedule);
    }
  }
}

}  // namespace

std::string to_text(const ModelExplanation& explanation) {
  const CallExplanation& call = explanation.call;
  std::string text;
  append(text, "symbols: {}\n", listed(call.symbols));
  double estimated = 0, measured = 0;
  for (std::size_t i = 0; i < call.launches.size(); ++i) {
    const LaunchExplanation& launch = call.launches[i];
    estimated += launch.estimated_seconds;
    measured += launch.measured_seconds;
    append(text, "\n{:3} {}  from {}\n", i, launch.region,
           launch.source.empty() ? "no node" : launch.source);
    append(text, "    dims {}; keys {}; bucket {}\n", listed(launch.dims), listed(launch.keys),
           launch.bucket);
    append(text, "    schedule {} ({}); {} tasks; {} bytes of code, {}\n", launch.schedule,
           launch.chosen, launch.tasks, launch.code_bytes, launch.kernel);
    for (const std::string& warning : launch.warnings) append(text, "    warning: {}\n", warning);
    append(text, "    estimated {:.2f} us, measured {:.2f} us\n", 1e6 * launch.estimated_seconds,
           1e6 * launch.measured_seconds);
  }
  append(text, "\ntables, tried from above\n");
  add_rows(text, call.tables);
  if (!call.exact.empty()) append(text, "\nkernels for single sizes\n");
  add_rows(text, call.exact);
  add_scaling(text, call);
  append(
      text,
      "\nlaunches: {}, estimated {:.1f} us, measured {:.1f} us; the whole call {:.1f} us; {} shape "
      "stages, {} fetches\n",
      call.launches.size(), 1e6 * estimated, 1e6 * measured, 1e6 * call.call_seconds, call.stages,
      call.fetches);
  append(text, "memory: arena {} bytes, scratch {}, outputs {}, constants {}, code {}\n",
         call.memory.arena, call.memory.scratch, call.memory.outputs, call.constant_bytes,
         call.kernels.code_bytes);
  append(text, "arena ceiling: {} bytes{}\n", call.arena_ceiling,
         call.arena_ceiling_bytes ? fmt::format(", at most {}", *call.arena_ceiling_bytes) : "");
  append(text, "kernels: {} in the tables, {} from the cache, {} compiled now, {} failed\n",
         call.kernels.entries, call.kernels.from_cache, call.kernels.compiled, call.kernels.failed);
  append(text, "padding: {}\n", explanation.padding);
  if (!explanation.equal_dims.empty())
    append(text, "sizes: {}; calls in which they are not are served by another program\n",
           explanation.equal_dims);
  return text;
}

}  // namespace anydim
