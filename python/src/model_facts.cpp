#include "python/src/model_facts.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include "python/src/arrays.h"

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

}  // namespace anydim::python
