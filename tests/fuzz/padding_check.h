// One model of padding_model.h: packed calls against padded ones and the reference evaluator, where rows take part, with other ids in hidden rows, and zeros there.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "tests/fuzz/padding_model.h"

namespace anydim::tests {

struct PaddingReport {
  std::string failure{};  // the first: call, what and where; empty: none
  std::string padded_because{}, hidden_rows_kept_because{};
  std::size_t calls = 0, packed_calls = 0;
  // Calls where the evaluator's rows that take part are NaN or infinite because of hidden rows, and the program's are numbers.
  std::size_t hidden_not_finite = 0;
  // Results differ, but the evaluator's own do as much when every computed float is changed in its last places.
  std::size_t unstable = 0;
};

// Kernels are kept in `cache`; empty: none is kept. Nothing is thrown: an error is a failure.
PaddingReport check_padding(const PaddingModel& model, std::uint64_t seed, const std::filesystem::path& cache);

}  // namespace anydim::tests
