// Where rows of sequences stand among a value's dims.
#pragma once

#include <cstddef>
#include <optional>

#include "ir/type.h"

namespace anydim::passes {

// Which axes of a padded value count batch and sequence; equal where one axis counts their product.
struct RowAxes {
  std::size_t batch = 0, sequence = 0;
  bool merged() const { return batch == sequence; }
  bool leading() const { return batch == 0 && sequence <= 1; }
  // Axes of the packed value: the sequence's axis, moved up where the batch's stood before it.
  std::size_t rows() const { return sequence - (batch < sequence ? 1 : 0); }
  std::size_t packed(std::size_t axis) const { return axis - (!merged() && batch < axis ? 1 : 0); }
  bool operator==(const RowAxes&) const = default;
};

struct FoundRows {
  std::optional<RowAxes> axes{};  // none: no rows, or
  bool several = false;           // rows along more than one batch or sequence
};
FoundRows find_row_axes(const ir::Type& type, const ir::Dim& batch, const ir::Dim& sequence);

}  // namespace anydim::passes
