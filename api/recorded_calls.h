// Calls whose inputs were kept as files, FOLDER/CALL/INPUT.npy, for tuning on the values that a
// model was really given.
#pragma once

#include <filesystem>
#include <vector>

#include "api/anydim.h"
#include "api/sample_inputs.h"

namespace anydim {

constexpr std::size_t most_kept_calls = 256;

// Adds a call under a name that its inputs' contents give, so that equal calls are kept once;
// written whole under another name, then renamed. False: the folder holds most_kept_calls others.
// Throws Error{Write}, and Error{CommandLine} where two inputs would share a file.
bool keep_call(const std::filesystem::path& folder, const std::vector<InputInfo>& inputs,
               const std::vector<ir::Tensor>& tensors);

// In the order of `inputs`. Throws Error{Malformed} for a file that cannot be read, Error{Inputs}
// for an input that does not fit.
std::vector<ir::Tensor> read_call(const std::filesystem::path& call,
                                  const std::vector<InputInfo>& inputs);

// The folder's calls, by name, each of weight 1; those that their mask keeps from being packed are
// left out of a packed model's. Throws Error{Malformed} where there is none, Error{Inputs} where
// none is left, and what read_call throws.
tuner::Workload recorded_workload(const std::filesystem::path& folder,
                                  const std::vector<InputInfo>& inputs,
                                  const tuner::ModelShape& model);

}  // namespace anydim
