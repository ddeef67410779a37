// Inputs by name.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/program.h"
#include "ir/tensor.h"

namespace anydim {

using NamedTensors = std::map<std::string, ir::Tensor>;

struct InputInfo {
  std::string name;
  ir::DType dtype = ir::DType::F32;
  std::vector<ir::Dim> dims;
  bool any_shape = false;  // nothing reads it and its declared extents are constants: only its
                           // element type counts
};
std::vector<InputInfo> inputs_of(const ir::Program& program);
std::vector<InputInfo> inputs_of(const ir::Function& function);
// Results that are tensors.
std::vector<InputInfo> outputs_of(const ir::Function& function);
std::string to_string(const InputInfo& input);  // "input_ids: i64 (batch, sequence)"

// What a dim is in a call, where a number or one of the inputs' own dims tells it. `given` in the
// order of `inputs`, of their ranks.
std::optional<std::int64_t> extent_of(const ir::Dim& dim, const std::vector<InputInfo>& inputs,
                                      const std::vector<ir::Tensor>& given);

// In the order of `wanted`. bf16 inputs may come as their 16-bit patterns in u16. A random seed
// (ir::random_seed_parameter) that is left out is drawn. Throws
// Error{Inputs} for a name that the model lacks, an input that is missing, another dtype or rank
// (of any shape: dtype); extents are checked where symbols are bound.
std::vector<ir::Tensor> arrange_inputs(const std::vector<InputInfo>& wanted,
                                       const NamedTensors& given);

}  // namespace anydim
