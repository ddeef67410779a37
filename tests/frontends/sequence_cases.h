// Graphs with sequences and optionals inside, from tensors to tensors: what ONNX's node tests of
// these operators hold is no tensor.
#pragma once

#include <string>
#include <vector>

#include "ir/tensor.h"
#include "tests/frontends/model_builder.h"

namespace anydim::frontends {

struct SequenceCase {
  std::string name;
  ModelBuilder builder;
  std::vector<ir::Tensor> inputs;
  std::vector<ir::Tensor> wanted;  // by the operator's definition; tests/models/exports.py holds
                                   // nine of the operators against ONNX Runtime
};

std::vector<SequenceCase> sequence_cases();

}  // namespace anydim::frontends
