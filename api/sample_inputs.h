// Inputs for calls of a model that were sampled, not received: for measuring.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/model.h"
#include "tuner/workload.h"

namespace anydim {

// The model as its callers see it, for sampling calls.
tuner::ModelShape shape_of(const Model& model);

class SampleInputs {
 public:
  // Before the module is compiled: what an integer input indexes tells which numbers it may hold.
  explicit SampleInputs(const ir::Module& module);

  // In the order of Model::inputs(), the same numbers on every machine: reals in [-1, 1), integers
  // below the extent that they index, and 1 where they index nothing (masks, most often). The mask
  // of a model that packs rows says which rows of each sequence take part.
  std::vector<ir::Tensor> make(const Model& model, const tuner::Call& call) const;

 private:
  std::vector<std::optional<std::int64_t>> bounds_;  // one an input: integers are below this
};

// Inputs in the order of Model::inputs(), as the model's program takes them: packed where it is,
// with what is appended to in storages of their own. Throws Error{Inputs} where a mask keeps the
// call from being packed.
std::vector<ir::Tensor> for_program(const Model& model, std::vector<ir::Tensor> inputs);

// What serves the model's calls.
std::shared_ptr<const runtime::Executable> program_of(const Model& model);

}  // namespace anydim
