// Operators with inputs and expected outputs, for what ONNX's node tests leave out: newer opsets,
// older forms, mixed element types.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ir/tensor.h"
#include "tests/frontends/model_builder.h"

namespace anydim::frontends {

using Dims = std::vector<std::int64_t>;

inline ir::Tensor reals(Dims dims, const std::vector<double>& values,
                        ir::DType dtype = ir::DType::F32) {
  return ir::Tensor::of(dtype, std::move(dims), values);
}
inline ir::Tensor integers(Dims dims, const std::vector<std::int64_t>& values,
                           ir::DType dtype = ir::DType::I64) {
  return ir::Tensor::of(dtype, std::move(dims), values);
}
// Quarters from -1.25 to 1.25 in no order that a mistake in strides would keep.
ir::Tensor pattern(Dims dims, std::int64_t seed);

struct CaseOperand {
  ir::Tensor tensor;
  bool constant = false;  // an initialiser rather than an input
  // A letter for each dim that is a symbol (the same letter: the same symbol), a dot for each that
  // is a number. Empty: a symbol of its own for each.
  std::string dims{};
  bool left_out = false;
};

inline const CaseOperand left_out{.tensor = {}, .left_out = true};

struct ValueCase {
  std::string op;
  int opset;
  std::vector<CaseOperand> operands;
  std::function<void(NodeBuilder&)> attributes;
  std::vector<ir::Tensor> wanted;
  std::string domain{};
  std::vector<std::size_t> outputs{};  // which of the node's are wanted; empty: the first ones
  int version = 1;                     // of the domain
};

inline void no_attributes(NodeBuilder&) {}

std::vector<ValueCase> value_cases();
void add_newer_cases(std::vector<ValueCase>& cases);        // newer_cases.cpp
void add_runtime_attention(std::vector<ValueCase>& cases);  // runtime_attention_cases.cpp
void add_runtime_experts(std::vector<ValueCase>& cases);    // runtime_expert_cases.cpp
void add_runtime_states(std::vector<ValueCase>& cases);     // runtime_state_cases.cpp
void add_quantised_cases(std::vector<ValueCase>& cases);    // quantised_cases.cpp
void add_classical_cases(std::vector<ValueCase>& cases);    // classical_cases.cpp
void add_sampling_cases(std::vector<ValueCase>& cases);     // sampling_cases.cpp

}  // namespace anydim::frontends
