// A model tuned from Python, and the processes that measure for it.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "python/src/engine.h"

namespace anydim::python {

// As anydim.tune says it. `source`, `folder`, `options`, `level`: as of CompiledModel. `settings`:
// words of api/tune_settings.h. `worker`: program and arguments of measuring processes. `progress`:
// called with a dict, or None. Interruptible: what was measured is kept. Returns a dict.
nanobind::dict tune_model(nanobind::object source, const std::optional<std::string>& folder,
                          const Words& options, const Words& settings,
                          std::vector<std::int64_t> lengths,
                          std::vector<std::map<std::string, std::vector<std::int64_t>>> shapes,
                          std::vector<std::string> worker, nanobind::object progress, int level);

// Keeps a call's inputs in the folder, for tuning on them. False: the folder holds as many others
// as it may.
bool record_call(const std::string& folder, nanobind::handle inputs);

// What measuring processes do until their standard input ends.
void serve_tuning();

}  // namespace anydim::python
