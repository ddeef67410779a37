// The sizes of a model's calls, for tuning by what a service really met.
#pragma once

#include <cstdint>
#include <vector>

#include "api/model.h"
#include "tuner/trace.h"

namespace anydim {

// An empty trace of this model, for tuner::TraceRecorder and ModelContext::record.
tuner::Trace trace_of(const Model& model);
// Values of the trace's symbols in a call. `inputs` in the order of Model::inputs().
std::vector<std::int64_t> traced_values(const Model& model, const std::vector<ir::Tensor>& inputs);

}  // namespace anydim
