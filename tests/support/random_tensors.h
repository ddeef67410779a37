// Inputs for tests, drawn from a generator that the test seeds.
#pragma once

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "api/anydim.h"

namespace anydim::tests {

// Whole numbers from 0 (floats: from -2) up, `below` of them: so few that many elements are equal
// and some are zero.
inline ir::Tensor random_numbers(ir::DType dtype, std::vector<std::int64_t> dims,
                                 std::mt19937& random, std::int64_t below) {
  ir::Tensor tensor(dtype, std::move(dims));
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    const auto number = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(below));
    if (ir::is_float(dtype)) tensor.set_real(i, static_cast<double>(number) - 2);
    else tensor.set_integer(i, number);
  }
  return tensor;
}

// Inputs of an encoder over a vocabulary of 90: texts of half of `length`, their masks, and token
// types of 0.
inline std::vector<ir::Tensor> random_texts(const std::vector<InputInfo>& inputs,
                                            std::int64_t batch, std::int64_t length,
                                            unsigned seed) {
  std::mt19937 random(seed);
  std::vector<ir::Tensor> tensors;
  for (const InputInfo& input : inputs) {
    ir::Tensor tensor(input.dtype, {batch, length});
    for (std::int64_t i = 0; i < tensor.elements(); ++i) {
      if (input.name == "attention_mask") tensor.set_integer(i, i % length <= length / 2 ? 1 : 0);
      if (input.name == "input_ids")
        tensor.set_integer(i, static_cast<std::int64_t>(random() % 90));
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace anydim::tests
