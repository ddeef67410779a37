#include "api/equal_dims.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "api/append.h"
#include "ir/error.h"
#include "ir/printable.h"

namespace anydim {

EqualDims::EqualDims(const std::vector<InputInfo>& inputs, std::vector<passes::EqualDim> equal)
    : equal_(std::move(equal)) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    for (std::size_t axis = 0; axis < inputs[i].dims.size(); ++axis)
      if (const ir::Dim& dim = inputs[i].dims[axis]; dim.kind() == ir::Dim::Kind::Symbol)
        places_.try_emplace(dim.leaf().symbol, Place{i, axis});
}

template <typename Extent>
bool EqualDims::all(const Extent& extent) const {
  bool known = true;
  const auto value = [&](const std::string& symbol) -> std::int64_t {
    const auto place = places_.find(symbol);
    const std::optional<std::int64_t> found =
        place == places_.end() ? std::nullopt : extent(place->second);
    known = known && found;
    return found.value_or(1);
  };
  try {
    return std::ranges::all_of(equal_, [&](const passes::EqualDim& equal) {
      const std::int64_t left = value(equal.symbol),
                         right = equal.dim.kind() == ir::Dim::Kind::Symbol
                                     ? value(equal.dim.leaf().symbol)
                                     : equal.dim.evaluate([&](const ir::DimLeaf& leaf) {
                                         return value(leaf.symbol);
                                       });
      return left == right || !known;
    });
  } catch (const Error&) {  // sizes beyond 64 bits
    return false;
  }
}

bool EqualDims::hold(const std::vector<ir::Tensor>& inputs) const {
  return all([&](Place place) -> std::optional<std::int64_t> {
    if (place.input >= inputs.size() || place.axis >= inputs[place.input].rank())
      return std::nullopt;
    return inputs[place.input].dims()[place.axis];
  });
}

bool EqualDims::hold(const std::vector<std::vector<std::int64_t>>& extents) const {
  return all([&](Place place) -> std::optional<std::int64_t> {
    if (place.input >= extents.size() || place.axis >= extents[place.input].size())
      return std::nullopt;
    return extents[place.input][place.axis];
  });
}

std::string EqualDims::text() const {
  std::string text;
  for (const passes::EqualDim& equal : equal_)
    append(text, "{}{} = {}", text.empty() ? "" : "; ", ir::printable(equal.symbol),
           ir::printable(equal.dim.to_string()));
  return text;
}

EqualDims take_dims_as_equal(ir::Module& module) {
  std::vector<InputInfo> inputs = inputs_of(module.functions.at(0));
  passes::UnifiedModule unified = passes::unify_dims(std::move(module));
  module = std::move(unified.module);
  return unified.equal.empty() ? EqualDims() : EqualDims(inputs, std::move(unified.equal));
}

}  // namespace anydim
