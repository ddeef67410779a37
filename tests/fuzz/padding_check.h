// One model of padding_model.h, whatever way its calls take.
//
// Every call is compared with the reference evaluator three times: with the model as documented
// (passes/hide_rows.h: nothing of hidden rows reaches others, where the padding is provably none;
// zeros in hidden rows), everywhere; with the model as it is, where rows take part; and, where a
// mask hides the ends of sequences, with each sequence cut to its rows, which no hidden row can
// reach. NaN must stand for NaN, but for the model as it is: a number may stand for its NaN or
// infinity in calls with hidden rows whose padding is provably none. Packed calls are compared with
// padded ones besides, and calls with the same where ids and numbers of hidden rows are others.
//
// Where activations are quantised by the range of the rows that take part, calls with hidden rows
// are not held against the model as it is (nor are calls with NaN and infinities in hidden rows
// where the model makes integers of them), and each sequence is run by itself before it is compared
// with the cut one: as the text alone would give.
//
// Numbers may differ by a tolerance and by some times what the evaluator's own result changes by
// when it computes with other last places.
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
  std::size_t ranged = 0;     // 1 where ranges are those of rows that take part
  std::size_t cut_calls = 0;  // compared with sequences cut to their rows
  std::size_t limited = 0;    // 1 where the proof rests on a limit of inputs that calls are held to
  std::size_t hidden_not_finite = 0;  // calls where a number stands for the model's NaN or infinity
  std::size_t unsteady = 0;  // calls where a number is beyond the tolerance, but not beyond what
                             // other last places change
};

// Kernels are kept in `cache`; empty: none is kept. Nothing is thrown: an error is a failure.
PaddingReport check_padding(const PaddingModel& model, std::uint64_t seed,
                            const std::filesystem::path& cache);

}  // namespace anydim::tests
