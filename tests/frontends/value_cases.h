// Operators with inputs and expected outputs, for what ONNX's node tests leave out: newer opsets, older forms, mixed element types.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/tensor.h"
#include "tests/frontends/model_builder.h"

namespace anydim::frontends {

struct CaseOperand {
  ir::Tensor tensor;
  bool constant = false;  // an initialiser rather than an input
};

struct ValueCase {
  std::string op;
  int opset;
  std::vector<CaseOperand> operands;
  std::function<void(NodeBuilder&)> attributes;
  std::vector<ir::Tensor> wanted;
};

std::vector<ValueCase> value_cases();

}  // namespace anydim::frontends
