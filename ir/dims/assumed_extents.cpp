#include "ir/dims/assumed_extents.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

namespace anydim::ir {

namespace {

using Wide = __int128;

std::optional<std::int64_t> narrowed(Wide value) {
  if (value < std::numeric_limits<std::int64_t>::min() ||
      value > std::numeric_limits<std::int64_t>::max())
    return std::nullopt;
  return static_cast<std::int64_t>(value);
}

Wide ceil_quotient(Wide a, Wide positive) {
  return a > 0 ? (a + positive - 1) / positive : a / positive;
}

}  // namespace

AssumedExtents::~AssumedExtents() {
  while (!before_.empty()) {
    Before& before = before_.back();
    if (before.info) symbols_.declare(before.leaf, std::move(*before.info));
    else symbols_.remove(before.leaf);
    before_.pop_back();
  }
}

void AssumedExtents::at_least(const Dim& dim, std::int64_t least) {
  switch (dim.kind()) {
    case Dim::Kind::Symbol:
    case Dim::Kind::Value: return raise(dim.leaf(), least);
    case Dim::Kind::Sum: {
      const auto& terms = dim.terms();
      if (terms.size() != 1 || terms[0].coefficient < 1) return;
      const Wide rest = static_cast<Wide>(least) - dim.constant_part();
      const auto of_product = narrowed(ceil_quotient(rest, terms[0].coefficient));
      if (!of_product) return;
      const std::vector<Dim>& factors = terms[0].factors;
      if (factors.size() == 1) return at_least(factors[0], *of_product);
      // None of several factors is 0 where their product is not.
      const auto is_count = [this](const Dim& factor) { return bounds(factor, symbols_).low >= 0; };
      if (*of_product >= 1 && std::ranges::all_of(factors, is_count))
        for (const Dim& factor : factors) at_least(factor, 1);
      return;
    }
    case Dim::Kind::FloorDiv: {
      const auto divisor = dim.operands()[1].constant();
      if (!divisor || *divisor < 1) return;
      if (const auto of_dividend = narrowed(static_cast<Wide>(least) * *divisor))
        at_least(dim.operands()[0], *of_dividend);
      return;
    }
    case Dim::Kind::Min:
      for (const Dim& operand : dim.operands()) at_least(operand, least);
      return;
    case Dim::Kind::Constant:
    case Dim::Kind::Mod:
    case Dim::Kind::Max:
    case Dim::Kind::Select:
    case Dim::Kind::Broadcast: return;
  }
}

void AssumedExtents::raise(const DimLeaf& leaf, std::int64_t least) {
  const SymbolInfo* known = symbols_.find(leaf);
  if (leaf.is_symbol() && known == nullptr) return;
  if (known != nullptr && (known->low >= least || known->high < least)) return;
  before_.push_back({leaf, known == nullptr ? std::nullopt : std::optional(*known)});
  SymbolInfo info;
  if (known != nullptr) info = *known;
  else info.high = std::numeric_limits<std::int64_t>::max();
  info.low = least;
  symbols_.declare(leaf, std::move(info));
}

}  // namespace anydim::ir
