// Attention over sequences laid end to end, and inputs that show attention's edges: one corpus for
// every device's kernels.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ir/tensor.h"

namespace anydim::tests {

// Two heads of 32 in one merged tensor. Parameters: rows [t, 192] of `dtype`, offsets [n], then,
// where wanted, a bias [2, t, t] of f32 and a list of work [n - 1, 2]. Result: [t, 64] of f32.
struct SegmentedAttention {
  std::string dtype = "f32";
  bool bias = false, work = false;
};
std::string text_of(const SegmentedAttention& attention);

// Sets the integers of a tensor, of which there are as many.
void fill(ir::Tensor& tensor, const std::vector<std::int64_t>& values);
// Cuts rows into sequences of several lengths, some of them empty; the last has what is left.
void fill_offsets(ir::Tensor& offsets, std::int64_t rows);
// A bias [.., rows, rows]: causal from the end, a row without any key, one with infinity, one with
// a NaN.
void fill_infinite_scores(ir::Tensor& bias);

// Five offsets, the list of work that belongs to them, and lists that do not, each with the first
// place that does not fit.
struct WrongLists {
  std::vector<std::int64_t> offsets, right;
  std::vector<std::pair<std::vector<std::int64_t>, std::int64_t>> wrong;
};
const WrongLists& wrong_lists();
// Four offsets that do not cut 50 rows, each with the number that the error slot has.
const std::vector<std::pair<std::vector<std::int64_t>, std::int64_t>>& wrong_offsets();

}  // namespace anydim::tests
