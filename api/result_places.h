// Results in memory that the caller chose.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/tensor.h"

namespace anydim {

// Where a result is to lie, row-major; without bytes' data: wherever it likes. What it holds after
// a call that threw is not said.
struct ResultPlace {
  ir::DType dtype = ir::DType::F32;
  std::vector<std::int64_t> dims{};
  std::span<std::byte> bytes{};
  bool room = false;  // as many bytes as the result may take: its extents are the call's, and
                      // `dims` is not read
  bool given() const { return bytes.data() != nullptr; }
};

// Throws Error{Inputs} for more places than results, and for a place of other bytes than its shape
// has, or that shares memory with an input or another place.
void check_places(std::span<const ResultPlace> places, const std::vector<std::string>& names,
                  const std::vector<ir::Tensor>& inputs);
// For runtime::Context::run.
std::vector<std::span<std::byte>> bytes_of(std::span<const ResultPlace> places);
// Copies results that do not lie in their place yet; they are there then, and the tensors share it.
// Throws Error{Inputs} where a place's dtype or dims are not the result's. A result for which there
// is too little room stays where it is.
void settle(std::vector<ir::Tensor>& results, std::span<const ResultPlace> places,
            const std::vector<std::string>& names);

}  // namespace anydim
