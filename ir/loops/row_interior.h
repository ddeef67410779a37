// Where the conditions of a row's stages need not be asked: rows of windows that do not reach over
// the border of what they look at, as most of a convolution's or a pooling's do not.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "ir/dims/symbols.h"
#include "ir/loops/loop_form.h"

namespace anydim::ir {

// The rows of a form whose last outer iteration lies in [begin, end) where `not_negative` all are 0
// or more; the range is empty where `end` is not above `begin`. These dims are over symbols and the
// other outer iterations; `begin` and `end` are not negative, and may lie beyond the extent.
struct RowInterior {
  std::vector<RowStage> stages;  // of the form, without the conditions that hold in these rows
  std::vector<Dim> not_negative;
  Dim begin, end;
};

// nullopt where no condition can be left out, or where rows have no outer iteration.
std::optional<RowInterior> row_interior(const RowForm& form, const SymbolTable& symbols);
// The same along outer iteration `along` in place of the last, over the first `outside` of the
// others alone: conditions that mention further ones stay.
std::optional<RowInterior> row_interior(const RowForm& form, const SymbolTable& symbols,
                                        std::size_t along, std::size_t outside);

}  // namespace anydim::ir
