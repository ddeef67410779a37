// Windows of which neighbours read the same lines, as those of a convolution or a pooling do.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/loops/loop_form.h"

namespace anydim::codegen_cpu {

// What rows share in a form with one pass over a window of known size: row r of the last outer
// iteration but one reads, at place p of inner iteration `place`, line row_step * r + place_step *
// p and no other.
struct SharedWindow {
  std::size_t place = 0;
  std::int64_t row_step = 1, place_step = 1;
  std::int64_t places = 1;  // of the inner iteration `place`
  // All that a row reads of a line is the same for each row that reads it, so that a line is
  // reduced once. Else there are weights.
  bool whole = false;
  // There are too many points for code for each of them: a loop goes over those of the other inner
  // iterations.
  bool looped = false;

  std::int64_t line(std::int64_t row, std::int64_t of_place) const {
    return row_step * row + place_step * of_place;
  }
  // That `rows` rows read.
  std::int64_t lines(std::int64_t rows) const { return line(rows - 1, places - 1) + 1; }
};

std::optional<SharedWindow> shared_window(const ir::RowForm& form);

// The program of a pass, its dims written over `line` where they tell a row and a place apart by
// their line alone.
ir::ScalarProgram over_lines(ir::ScalarProgram program, const ir::RowForm& form,
                             const SharedWindow& window, const ir::DimLeaf& line);

}  // namespace anydim::codegen_cpu
