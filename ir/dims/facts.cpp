// Bounds and divisors of dims, and simplification with them.
#include "ir/dims/facts.h"

#include <algorithm>
#include <numeric>

#include "ir/error.h"

namespace anydim::ir::detail {

namespace {

using Wide = __int128;

constexpr std::int64_t least = INT64_MIN;
constexpr std::int64_t most = INT64_MAX;

// Intervals are computed in 128 bits and cut back to 64: a dim whose value leaves 64 bits has no
// value.
struct WideInterval {
  Wide low;
  Wide high;
};

constexpr Wide edge = static_cast<Wide>(1)
                      << 63;  // one more than the largest value, so that its negation stays covered

WideInterval widened(Interval range) { return {range.low, range.high}; }

Wide cut(Wide value) { return std::clamp(value, -edge, edge); }

Interval narrowed(WideInterval range) {
  return {static_cast<std::int64_t>(std::clamp<Wide>(range.low, least, most)),
          static_cast<std::int64_t>(std::clamp<Wide>(range.high, least, most))};
}

WideInterval multiplied(WideInterval a, WideInterval b) {
  const std::initializer_list<Wide> corners = {a.low * b.low, a.low * b.high, a.high * b.low,
                                               a.high * b.high};
  return {cut(std::min(corners)), cut(std::max(corners))};
}

// An even power of one factor is not negative.
WideInterval powered(WideInterval base, std::size_t power) {
  WideInterval result{1, 1};
  for (std::size_t i = 0; i < power; ++i) result = multiplied(result, base);
  if (power % 2 == 0 && base.low < 0) {
    result.low = base.high > 0 ? 0 : result.low;
    if (base.high > 0) {
      const Wide reach = std::max(-base.low, base.high);
      WideInterval highest{1, 1};
      for (std::size_t i = 0; i < power; ++i) highest = multiplied(highest, {reach, reach});
      result.high = highest.high;
    }
  }
  return result;
}

Wide floor_quotient_wide(Wide a, Wide b) {
  const Wide quotient = a / b;
  return a % b != 0 && ((a < 0) != (b < 0)) ? quotient - 1 : quotient;
}

Interval hull(Interval a, Interval b) { return {std::min(a.low, b.low), std::max(a.high, b.high)}; }

std::int64_t common_divisor(std::int64_t a, std::int64_t b) {
  if (a == least || b == least) return 1;
  return std::gcd(a, b);
}

}  // namespace

Facts::Facts(const SymbolTable& symbols, std::initializer_list<Dim> subjects) : symbols_(symbols) {
  for (const Dim& subject : subjects) assume_loops(subject);
}

void Facts::assume_loops(const Dim& subject) {
  for (const DimLeaf& leaf : subject.leaves()) {
    if (leaf.is_element()) continue;
    const SymbolInfo* info = symbols_.find(leaf);
    if (info == nullptr || !info->below || !open_.insert(leaf).second) continue;
    if (info->low < most) assume_not_empty(*info->below, info->low + 1);
    assume_loops(*info->below);
    open_.erase(leaf);
  }
}

// Raises lower bounds of symbols from extent >= lowest.
void Facts::assume_not_empty(const Dim& extent, std::int64_t lowest) {
  if (extent.kind() == Dim::Kind::Min) {
    for (const Dim& operand : extent.operands()) assume_not_empty(operand, lowest);
    return;
  }
  const Polynomial polynomial = to_polynomial(extent);
  if (polynomial.terms.empty()) return;
  const auto divided_by = [](const Dim& atom) {  // a positive number, or 0
    const auto by =
        atom.kind() == Dim::Kind::FloorDiv ? atom.operands()[1].constant() : std::nullopt;
    return std::max<std::int64_t>(by.value_or(0), 0);
  };
  const auto raise = [&](const Dim& atom, Wide low) {
    if (low < least || low > most) return;
    if (atom.kind() != Dim::Kind::Symbol) {
      // floor_div(a, b) >= n where a >= n * b.
      const Wide dividend = low * divided_by(atom);
      if (dividend >= least && dividend <= most)
        assume_not_empty(atom.operands()[0], static_cast<std::int64_t>(dividend));
      return;
    }
    const auto [place, added] = raised_.emplace(atom.leaf(), static_cast<std::int64_t>(low));
    if (!added) place->second = std::max(place->second, static_cast<std::int64_t>(low));
  };
  const auto is_bounded = [&](const Dim& atom) {
    return atom.kind() == Dim::Kind::Symbol || divided_by(atom) > 0;
  };
  const auto is_count = [&](const Dim& factor) {
    if (factor.kind() != Dim::Kind::Symbol) return is_bounded(factor) && bounds(factor).low >= 0;
    const SymbolInfo* info = symbols_.find(factor.leaf());
    return info == nullptr || info->low >= 0;
  };
  const Dim::Term& first = polynomial.terms[0];
  if (lowest >= 1 && polynomial.constant == 0) {
    // A factor of every term of something that is not zero is not zero.
    std::vector<Dim> common = first.factors;
    for (const Dim::Term& term : polynomial.terms) common = common_factors(common, term.factors);
    for (const Dim& factor : common) {
      if (is_count(factor)) raise(factor, 1);
    }
  }
  if (polynomial.terms.size() == 1 && first.coefficient >= 1 && first.factors.size() == 1 &&
      is_bounded(first.factors[0])) {
    const Wide rest = static_cast<Wide>(lowest) - polynomial.constant;
    raise(first.factors[0], -floor_quotient_wide(-rest, first.coefficient));
  }
}

Interval Facts::symbol_bounds(const DimLeaf& leaf) {
  if (const auto known = symbol_bounds_.find(leaf); known != symbol_bounds_.end())
    return known->second;
  const bool cyclic = !open_.empty();
  const Interval range = compute_symbol_bounds(leaf);
  if (!cyclic) symbol_bounds_.emplace(leaf, range);
  return range;
}

Interval Facts::compute_symbol_bounds(const DimLeaf& leaf) {
  const SymbolInfo& info = symbols_.info(leaf);
  Interval range{info.low, info.high};
  if (const auto raised = raised_.find(leaf); raised != raised_.end())
    range.low = std::max(range.low, raised->second);
  if (info.below && open_.insert(leaf).second) {
    const std::int64_t end = bounds(*info.below).high;
    if (end > least) range.high = std::min(range.high, end - 1);
    open_.erase(leaf);
  }
  if (info.multiple > 1) {
    const Wide low =
        -floor_quotient_wide(-static_cast<Wide>(range.low), info.multiple) * info.multiple;
    const Wide high = floor_quotient_wide(range.high, info.multiple) * info.multiple;
    if (low <= most) range.low = static_cast<std::int64_t>(low);
    if (high >= least) range.high = static_cast<std::int64_t>(high);
  }
  range.high = std::max(range.low, range.high);  // an empty range has no values to enclose
  return range;
}

Interval Facts::bounds(const Dim& dim) {
  if (dim.is_constant()) return {dim.constant_part(), dim.constant_part()};
  if (const auto known = bounds_.find(dim); known != bounds_.end()) return known->second;
  const bool cyclic = !open_.empty();  // then what is found may rest on an unfinished symbol
  const Interval range = compute_bounds(dim);
  if (!cyclic) bounds_.emplace(dim, range);
  return range;
}

Interval Facts::quotient_bounds(const Dim& dim) {
  const WideInterval a = widened(bounds(dim.operands()[0]));
  const WideInterval b = widened(bounds(dim.operands()[1]));
  WideInterval result{edge, -edge};
  // Monotone in each operand on either side of a zero divisor.
  const auto include = [&](Wide low, Wide high) {
    if (low > high) return;
    for (const Wide x : {a.low, a.high}) {
      for (const Wide y : {low, high}) {
        const Wide quotient = floor_quotient_wide(x, y);
        result = {std::min(result.low, quotient), std::max(result.high, quotient)};
      }
    }
  };
  include(std::max<Wide>(b.low, 1), b.high);
  include(b.low, std::min<Wide>(b.high, -1));
  if (result.low > result.high) return {};
  return narrowed(result);
}

Interval Facts::mod_bounds(const Dim& dim) {
  const Interval a = bounds(dim.operands()[0]);
  const Interval b = bounds(dim.operands()[1]);
  Interval range{0, 0};
  if (b.high > 0) range.high = b.high - 1;
  if (b.low < 0) range.low = b.low + 1;
  if (b.low > 0 && a.low >= 0) {
    if (a.high < b.low) return a;
    range.high = std::min(range.high, a.high);
  }
  if (b.low > 0 && b.low == b.high) {
    // All multiples of g: the largest remainder is one too.
    const std::int64_t step = common_divisor(divisor(dim.operands()[0]), b.low);
    if (step > 0) range.high = std::min(range.high, b.low - step);
  }
  return range;
}

Interval Facts::compute_bounds(const Dim& dim) {
  switch (dim.kind()) {
    case Dim::Kind::Constant: return {dim.constant_part(), dim.constant_part()};
    case Dim::Kind::Symbol: return symbol_bounds(dim.leaf());
    case Dim::Kind::Value:
      return symbols_.find(dim.leaf()) == nullptr ? Interval{} : symbol_bounds(dim.leaf());
    case Dim::Kind::Sum: {
      WideInterval sum{dim.constant_part(), dim.constant_part()};
      for (const Dim::Term& term : dim.terms()) {
        WideInterval product{term.coefficient, term.coefficient};
        for (std::size_t i = 0; i < term.factors.size();) {
          std::size_t end = i + 1;
          while (end < term.factors.size() && term.factors[end] == term.factors[i]) ++end;
          product = multiplied(product, powered(widened(bounds(term.factors[i])), end - i));
          i = end;
        }
        // The partial sums stay uncut: at most a few thousand terms of 64 bits each.
        sum = {sum.low + product.low, sum.high + product.high};
      }
      return narrowed(sum);
    }
    case Dim::Kind::FloorDiv: return quotient_bounds(dim);
    case Dim::Kind::Mod: return mod_bounds(dim);
    case Dim::Kind::Min:
    case Dim::Kind::Max: {
      Interval range = bounds(dim.operands()[0]);
      for (const Dim& operand : dim.operands()) {
        const Interval other = bounds(operand);
        if (dim.kind() == Dim::Kind::Min)
          range = {std::min(range.low, other.low), std::min(range.high, other.high)};
        else range = {std::max(range.low, other.low), std::max(range.high, other.high)};
      }
      return range;
    }
    case Dim::Kind::Select: return hull(bounds(dim.operands()[2]), bounds(dim.operands()[3]));
    case Dim::Kind::Broadcast: return hull(bounds(dim.operands()[0]), bounds(dim.operands()[1]));
  }
  internal_error("a dim is of one of the kinds");
}

std::int64_t Facts::divisor(const Dim& dim) {
  const auto of_all = [&](std::size_t first, std::size_t last) {
    std::int64_t common = 0;
    for (std::size_t i = first; i < last && common != 1; ++i)
      common = common_divisor(common, divisor(dim.operands()[i]));
    return common;
  };
  switch (dim.kind()) {
    case Dim::Kind::Constant: return common_divisor(dim.constant_part(), 0);
    case Dim::Kind::Symbol: {
      const Interval range = symbol_bounds(dim.leaf());
      if (range.low == range.high) return common_divisor(range.low, 0);
      const SymbolInfo* info = symbols_.find(dim.leaf());
      return info == nullptr ? 1 : std::max<std::int64_t>(info->multiple, 1);
    }
    case Dim::Kind::Value: return 1;
    case Dim::Kind::Sum: {
      std::int64_t common = common_divisor(dim.constant_part(), 0);
      for (const Dim::Term& term : dim.terms()) {
        std::int64_t product = common_divisor(term.coefficient, 0);
        for (const Dim& factor : term.factors) {
          std::int64_t next = 0;
          if (!__builtin_mul_overflow(product, divisor(factor), &next)) product = next;
        }
        common = common_divisor(common, product);
      }
      return common;
    }
    case Dim::Kind::FloorDiv: {
      const auto by = dim.operands()[1].constant();
      if (!by || *by <= 0) return 1;
      const std::int64_t whole = divisor(dim.operands()[0]);
      return whole % *by == 0 ? whole / *by : 1;
    }
    case Dim::Kind::Mod:
    case Dim::Kind::Min:
    case Dim::Kind::Max:
    case Dim::Kind::Broadcast: return of_all(0, dim.operands().size());
    case Dim::Kind::Select: return of_all(2, 4);
  }
  internal_error("a dim is of one of the kinds");
}

// A sum without divisions of which no factor changes: no rule applies, and it need not be built
// anew.
bool Facts::is_settled_sum(const Dim& dim) {
  if (dim.kind() != Dim::Kind::Sum) return false;
  const auto settled = [this](const Dim& factor) {
    if (factor.kind() == Dim::Kind::FloorDiv || factor.kind() == Dim::Kind::Mod) return false;
    return simplified(factor) == factor;
  };
  if (!std::ranges::all_of(dim.terms(), [&](const Dim::Term& term) {
        return std::ranges::all_of(term.factors, settled);
      })) {
    return false;
  }
  const Interval range = bounds(dim);
  return range.low != range.high;
}

Dim Facts::simplified(const Dim& dim) {
  if (dim.is_constant() || dim.kind() == Dim::Kind::Value) return dim;
  if (dim.kind() == Dim::Kind::Symbol) {
    const Interval range = symbol_bounds(dim.leaf());
    return range.low == range.high ? Dim(range.low) : dim;
  }
  if (const auto known = simplified_.find(dim); known != simplified_.end()) return known->second;
  if (is_settled_sum(dim)) return dim;
  Dim result = rebuild(dim, [this](const Dim& part) { return simplified(part); }, this);
  if (const Interval range = bounds(result); range.low == range.high) result = range.low;
  simplified_.emplace(dim, result);
  return result;
}

Dim Facts::settled(const Dim& dim) {
  constexpr int most_passes = 4;
  Dim result = dim;
  for (int pass = 0; pass < most_passes; ++pass) {
    Dim next = simplified(result);
    if (next == result) break;
    result = std::move(next);
    simplified_.clear();
  }
  return result;
}

bool Facts::in_range(const Dim& dim, const Dim& end) {
  const Interval inner = bounds(dim);
  const Interval outer = bounds(end);
  if (inner.low >= 0 && inner.high < outer.low) return true;
  if (inner.high < 0 || inner.low >= outer.high) return false;
  try {
    return (inner.low >= 0 || not_negative(dim)) && not_negative(end - 1 - dim);
  } catch (const Error&) {
    return false;  // the difference leaves 64 bits
  }
}

}  // namespace anydim::ir::detail
