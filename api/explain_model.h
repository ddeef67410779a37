// What a call of a model would do for given extents, and why, as people read it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/explain.h"
#include "api/model.h"

namespace anydim {

struct ModelExplanation {
  CallExplanation call;
  std::string padding;     // "removed: .." or "kept: .." and why
  std::string equal_dims;  // EqualDims::text() of what serves the call; empty: all calls alike
};

// A call of made-up numbers, once every kernel is there; `extents` of every input, in the order of
// Model::inputs(). Throws Error{Inputs} where they do not fit, and what `cancellation` (null: none)
// asks for. `scaling`: numbers of threads to plan for beside (scale_launches), which also throws.
ModelExplanation explain_model(const Model& model,
                               const std::vector<std::vector<std::int64_t>>& extents, int repeat,
                               const Cancellation* cancellation = nullptr,
                               ExplanationDepth depth = ExplanationDepth::Usual,
                               const ThreadScalingOptions& scaling = {});

std::string padding_text(const Model& model);
std::string to_text(const ModelExplanation& explanation);

}  // namespace anydim
