#include "api/equal_dims.h"

#include <algorithm>
#include <functional>
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

template <typename Inputs, typename DimsOf>
bool EqualDims::all(const Inputs& inputs, DimsOf dims_of) const {
  bool known = true;
  const auto value = [&](const std::string& symbol) -> std::int64_t {
    const auto found = places_.find(symbol);
    if (found != places_.end() && found->second.input < inputs.size()) {
      const std::vector<std::int64_t>& dims = dims_of(inputs[found->second.input]);
      if (found->second.axis < dims.size()) return dims[found->second.axis];
    }
    known = false;
    return 1;
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
  return all(inputs, [](const ir::Tensor& input) -> const auto& { return input.dims(); });
}

bool EqualDims::hold(const std::vector<std::vector<std::int64_t>>& extents) const {
  return all(extents, std::identity());
}

std::string EqualDims::text() const {
  std::string text;
  for (const passes::EqualDim& equal : equal_)
    append(text, "{}{} = {}", text.empty() ? "" : "; ", ir::printable(equal.symbol),
           ir::printable(equal.dim.to_string()));
  return text;
}

EqualDims take_dims_as_equal(ir::Module& module, ir::Module* before) {
  std::optional<passes::UnifiedModule> unified = passes::unify_dims(module);
  if (!unified) return {};
  EqualDims equal(inputs_of(module.functions.at(0)), std::move(unified->equal));
  std::swap(module, unified->module);
  if (before != nullptr) *before = std::move(unified->module);
  return equal;
}

}  // namespace anydim
