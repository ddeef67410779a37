// Small encoders that try to fool the proof of padding removal: masks by circuits in every dtype,
// fills and scores of every size, biases between rows, layouts, poolings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/tensor.h"

namespace anydim::tests {

struct PaddingModel {
  std::string text;      // a module
  std::string what;      // how its mask is made, for counting
  std::size_t mask = 0;  // input of dims (batch, sequence)
  ir::DType mask_dtype = ir::DType::I64;
  bool narrow = false;   // it computes in f16 or bf16, which kernels may carry out in f32
  bool brittle = false;  // where rows are no ordinary numbers it overflows or cancels in floats,
                         // and not in doubles
  bool reads_length = false;  // results are not those of sequences cut to their rows
  bool wraps_sizes = false;  // its arithmetic on sizes leaves 64 bits, where programs compute as if
                             // there were more
  bool rounds = false;       // last places may decide to which 8-bit integer a number is rounded
  bool eight_bits = false;   // casts to integers make numbers of NaN on the way
  bool real_rows = false;    // input 1 + mask's position holds rows of real numbers
  // Entries by which the model's author means a row that takes part, or not; nothing where the
  // circuit means nothing.
  std::optional<std::int64_t> kept_entry{}, hidden_entry{};
};

PaddingModel padding_model(std::uint64_t seed);

// Inputs with a mask of each kind: all, none, one row, at the end, at the front, inside, an empty
// sequence, hidden first rows, an entry of 2.
struct PaddingCall {
  std::string kind;
  std::vector<ir::Tensor> inputs;
  bool zero_or_one = true;  // of the mask's entries
};
std::vector<PaddingCall> padding_calls(const PaddingModel& model, std::uint64_t seed);

// The call with other ids and numbers in the rows (by position in batch x sequence) given.
PaddingCall changed_rows(const PaddingModel& model, const PaddingCall& call,
                         const std::vector<bool>& rows);

}  // namespace anydim::tests
