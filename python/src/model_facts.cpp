#include "python/src/model_facts.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "python/src/arrays.h"
#include "python/src/interpreter.h"
#include "python/src/interruptible.h"

namespace nb = nanobind;

namespace anydim::python {

namespace {

nb::list infos_of(const std::vector<InputInfo>& infos) {
  nb::list list;
  for (const InputInfo& info : infos) {
    nb::list dims;
    for (const ir::Dim& dim : info.dims) {
      if (const auto constant = dim.constant()) dims.append(*constant);
      else dims.append(dim.to_string());
    }
    list.append(nb::make_tuple(info.name, numpy_name(info.dtype), nb::tuple(dims)));
  }
  return list;
}

using Numbers = std::vector<std::pair<std::string, std::int64_t>>;

nb::dict dict_of(const Numbers& numbers) {
  nb::dict dict;
  for (const auto& [name, number] : numbers) dict[name.c_str()] = number;
  return dict;
}

nb::dict dict_of(const LaunchExplanation& launch) {
  nb::dict dict;
  dict["region"] = launch.region;
  dict["source"] = launch.source;
  dict["dims"] = dict_of(launch.dims);
  dict["keys"] = dict_of(launch.keys);
  dict["bucket"] = launch.bucket;
  dict["schedule"] = launch.schedule;
  dict["chosen"] = launch.chosen;
  dict["kernel"] = launch.kernel;
  dict["code_bytes"] = launch.code_bytes;
  dict["tasks"] = launch.tasks;
  dict["estimated_seconds"] = launch.estimated_seconds;
  dict["measured_seconds"] = launch.measured_seconds;
  dict["warnings"] = nb::tuple(nb::cast(launch.warnings));
  return dict;
}

}  // namespace

nb::list inputs_of(const Engine& engine) { return infos_of(engine.model().inputs()); }
nb::list outputs_of(const Engine& engine) { return infos_of(engine.model().outputs()); }

nb::dict symbols_of(const Engine& engine) {
  nb::dict symbols;
  const ir::SymbolTable& table = engine.model().symbols();
  for (const std::string& name : table.names()) {
    const ir::SymbolInfo& info = *table.find(name);
    symbols[name.c_str()] = nb::make_tuple(info.low, info.high, info.multiple, info.reason);
  }
  return symbols;
}

nb::dict statistics_of(const Engine& engine) {
  const ModelStatistics statistics = engine.model().statistics();
  const CallStatistics& calls = statistics.calls;
  const LatencyQuantiles& latency = calls.latency;
  const runtime::KernelProgress& kernels = statistics.kernels;
  nb::dict quantiles, called, made, memory, all;
  quantiles["p50"] = latency.p50;
  quantiles["p90"] = latency.p90;
  quantiles["p99"] = latency.p99;
  quantiles["p999"] = latency.p999;
  quantiles["most"] = latency.most;
  called["calls"] = calls.calls;
  called["failed"] = calls.failed;
  called["packed"] = calls.packed;
  called["padded"] = calls.padded;
  called["ragged"] = calls.ragged;
  called["tokens_given"] = calls.tokens_given;
  called["tokens_computed"] = calls.tokens_computed;
  called["tokens_useful"] = calls.tokens_useful;
  called["seconds"] = calls.seconds;
  called["latency"] = quantiles;
  made["entries"] = kernels.entries;
  made["from_cache"] = kernels.from_cache;
  made["compiled"] = kernels.compiled;
  made["failed"] = kernels.failed;
  made["pending"] = kernels.pending;
  memory["constant_bytes"] = statistics.memory.constant_bytes;
  memory["code_bytes"] = statistics.memory.code_bytes;
  memory["held_bytes"] = statistics.memory.held_bytes;
  all["copied_inputs"] = engine.copied_inputs();
  all["calls"] = called;
  all["kernels"] = made;
  all["memory"] = memory;
  return all;
}

nb::dict ceiling_of(const Engine& engine, const Shapes& shapes) {
  const MemoryCeiling ceiling = engine.model().memory_ceiling(shapes);
  nb::dict result;
  result["arena_bytes"] = ceiling.arena_bytes ? nb::cast(*ceiling.arena_bytes) : nb::none();
  result["unbounded_because"] = ceiling.unbounded_because;
  result["constant_bytes"] = ceiling.constant_bytes;
  return result;
}

nb::dict explanation_of(Engine& engine, const Shapes& shapes, int repeat) {
  const UnderWay under_way;
  static_cast<void>(engine.model().memory_ceiling(
      shapes));  // which knows the messages for shapes that do not fit
  std::vector<std::vector<std::int64_t>> extents;
  for (const InputInfo& input : engine.model().inputs()) {
    std::vector<std::int64_t>& dims = extents.emplace_back();
    if (const auto given = shapes.find(input.name); given != shapes.end()) dims = given->second;
    else  // of any shape: nothing reads it
      for (const ir::Dim& dim : input.dims) dims.push_back(dim.constant().value_or(0));
  }
  ModelExplanation explanation;
  interruptible([&](const std::shared_ptr<Cancellation>& cancellation) {
    explanation = explain_model(engine.model(), extents, repeat, cancellation.get());
  });
  nb::list launches;
  for (const LaunchExplanation& launch : explanation.call.launches)
    launches.append(dict_of(launch));
  nb::dict result;
  result["symbols"] = dict_of(explanation.call.symbols);
  result["launches"] = launches;
  result["call_seconds"] = explanation.call.call_seconds;
  result["arena_bytes"] = explanation.call.memory.arena;
  result["scratch_bytes"] = explanation.call.memory.scratch;
  result["output_bytes"] = explanation.call.memory.outputs;
  result["constant_bytes"] = explanation.call.constant_bytes;
  result["padding"] = explanation.padding;
  result["equal_dims"] = explanation.equal_dims;
  result["text"] = to_text(explanation);
  return result;
}

}  // namespace anydim::python
