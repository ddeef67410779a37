// A short search that proves dim >= 0 where plain bounds, which forget that two places name the
// same symbol, do not.
//
// Each step replaces one thing by a bound that is an expression, so that what stands in several
// places can cancel: a symbol by the end of its range in which the dim is least, min and max by an
// operand, select by each branch, quotients and remainders by their defining inequalities.
#include <algorithm>

#include "ir/dims/facts.h"
#include "ir/error.h"

namespace anydim::ir::detail {

std::optional<int> Facts::sign(const Dim& dim) {
  const Interval range = bounds(dim);
  if (range.low == 0 && range.high == 0) return 0;
  if (range.low >= 0) return 1;
  if (range.high <= 0) return -1;
  return std::nullopt;
}

namespace {

// The direction that two have in common; nothing where they differ.
std::optional<int> combined(std::optional<int> a, std::optional<int> b) {
  if (!a || !b) return std::nullopt;
  if (*a == 0) return b;
  if (*b == 0 || *a == *b) return a;
  return std::nullopt;
}

}  // namespace

std::optional<int> Facts::sum_direction(const Dim& dim, const DimLeaf& symbol) {
  // As a polynomial in the symbol: n * m - n rises with n where m - 1 >= 0, which term by term
  // would not show.
  const Dim atom = Dim::of(symbol);
  if (const auto linear = linear_in(to_polynomial(dim), atom)) {
    const Dim factor = make_sum(linear->factor);
    if (!factor.mentions(symbol) && !make_sum(linear->rest).mentions(symbol)) return sign(factor);
  }
  std::optional<int> all = 0;
  for (const Dim::Term& term : dim.terms()) {
    // A product of factors of one sign each moves like each factor times the signs of the others.
    std::optional<int> of_term = 0;
    for (std::size_t i = 0; i < term.factors.size() && of_term; ++i) {
      std::optional<int> moves = direction(term.factors[i], symbol);
      if (!moves) return std::nullopt;
      if (*moves == 0) continue;
      int total = *moves * (term.coefficient < 0 ? -1 : 1);
      for (std::size_t j = 0; j < term.factors.size(); ++j) {
        if (j == i) continue;
        const auto other = sign(term.factors[j]);
        if (!other) return std::nullopt;
        total *= *other;
      }
      of_term = combined(of_term, total);
    }
    all = combined(all, of_term);
    if (!all) return std::nullopt;
  }
  return all;
}

std::optional<int> Facts::direction(const Dim& dim, const DimLeaf& symbol) {
  if (!dim.mentions(symbol)) return 0;
  switch (dim.kind()) {
    case Dim::Kind::Constant:
    case Dim::Kind::Value: return 0;
    case Dim::Kind::Symbol: return 1;
    case Dim::Kind::Sum: return sum_direction(dim, symbol);
    case Dim::Kind::FloorDiv: {
      const Dim& by = dim.operands()[1];
      if (by.mentions(symbol)) return std::nullopt;
      const Interval range = bounds(by);
      if (range.low < 1 && range.high > -1) return std::nullopt;
      const auto moves = direction(dim.operands()[0], symbol);
      if (!moves) return std::nullopt;
      return range.low >= 1 ? *moves : -*moves;
    }
    case Dim::Kind::Min:
    case Dim::Kind::Max: {
      std::optional<int> all = 0;
      for (const Dim& operand : dim.operands()) all = combined(all, direction(operand, symbol));
      return all;
    }
    case Dim::Kind::Select:
      if (dim.operands()[0].mentions(symbol) || dim.operands()[1].mentions(symbol))
        return std::nullopt;
      return combined(direction(dim.operands()[2], symbol), direction(dim.operands()[3], symbol));
    case Dim::Kind::Mod:
    case Dim::Kind::Broadcast: return std::nullopt;
  }
  internal_error("a dim is of one of the kinds");
}

// Puts a symbol's end of range in its place. Where a symbol is below an extent, that goes first: as
// long as it is there, the extent's own symbols cannot be replaced without loss.
std::optional<Dim> Facts::without_a_symbol(const Dim& dim, bool loops) {
  const std::set<DimLeaf> leaves = dim.leaves();
  const auto bounds_another = [&](const DimLeaf& leaf) {
    return std::ranges::any_of(leaves, [&](const DimLeaf& other) {
      const SymbolInfo* info = other == leaf || other.is_element() ? nullptr : symbols_.find(other);
      return info != nullptr && info->below && info->below->mentions(leaf);
    });
  };
  for (const DimLeaf& leaf : leaves) {
    if (leaf.is_element()) continue;
    const SymbolInfo* info = symbols_.find(leaf);
    const bool loop = info != nullptr && info->below && !info->below->mentions(leaf);
    if (loops && (!loop || bounds_another(leaf))) continue;
    const auto moves = direction(dim, leaf);
    if (!moves || *moves == 0) continue;
    const Interval range = symbol_bounds(leaf);
    std::optional<Dim> worst;
    if (*moves > 0) worst = range.low;
    else if (loop) worst = *info->below - 1;
    else if (range.high < INT64_MAX) worst = range.high;
    if (worst) return dim.substitute(std::map<DimLeaf, Dim>{{leaf, *worst}});
  }
  return std::nullopt;
}

// The value of a symbol in one try: ends of the range and something between, obeying `below` and
// `multiple` where it can.
std::int64_t Facts::choose_sample(const DimLeaf& leaf, std::size_t sample) {
  const SymbolInfo* info = symbols_.find(leaf);
  const Interval range = symbol_bounds(leaf);
  const std::int64_t spread = (leaf.is_symbol() ? static_cast<std::int64_t>(leaf.symbol.back())
                                                : leaf.value + leaf.element) %
                              7;
  const bool loop = info != nullptr && info->below;
  const Samples wanted = {range.low, 1, 6 + spread, 1000 + 17 * spread,
                          loop ? 1000000 : 1 + spread % 2};
  std::int64_t high = range.high;
  if (info != nullptr && info->below && sample != 0 && open_.insert(leaf).second) {
    high = std::min(high, sampled(*info->below, sample).value_or(high) - 1);
    open_.erase(leaf);
  }
  std::int64_t value = std::clamp(wanted[sample], range.low, std::max(range.low, high));
  if (info != nullptr && info->multiple > 1)
    value = std::max(range.low, value - value % info->multiple);
  return value;
}

std::int64_t Facts::sample_of(const DimLeaf& leaf, std::size_t sample) {
  if (leaf.is_element()) {
    const std::int64_t value = static_cast<std::int64_t>(sample) * 3;
    const SymbolInfo* info = symbols_.find(leaf);
    return info == nullptr ? value : std::max(value, info->low);
  }
  if (const auto known = samples_.find(leaf); known != samples_.end()) return known->second[sample];
  if (!open_.empty()) return choose_sample(leaf, sample);
  Samples chosen{};
  for (std::size_t i = 0; i < chosen.size(); ++i) chosen[i] = choose_sample(leaf, i);
  samples_.emplace(leaf, chosen);
  return chosen[sample];
}

std::optional<std::int64_t> Facts::sampled(const Dim& dim, std::size_t sample) {
  try {
    return dim.evaluate([&](const DimLeaf& leaf) { return sample_of(leaf, sample); });
  } catch (const Error&) {
    return std::nullopt;  // no value there: it says nothing
  }
}

// Whether a few values show that dim >= 0 does not always hold, which saves most searches that
// would fail.
bool Facts::refuted(const Dim& dim) {
  for (std::size_t sample = 0; sample < Samples{}.size(); ++sample) {
    if (sampled(dim, sample).value_or(0) < 0 && takes_place(dim, sample)) return true;
  }
  return false;
}

// Whether the loops whose variables `dim` mentions have the points that the sample gives them.
bool Facts::takes_place(const Dim& dim, std::size_t sample) {
  return std::ranges::all_of(dim.leaves(), [&](const DimLeaf& leaf) {
    const SymbolInfo* info = leaf.is_element() ? nullptr : symbols_.find(leaf);
    if (info == nullptr || !info->below) return true;
    const auto end = sampled(*info->below, sample);
    return end && sample_of(leaf, sample) < *end;
  });
}

bool Facts::seen_both_ways(const Dim& a, const Dim& b) {
  bool equal = false;
  bool unequal = false;
  for (std::size_t sample = 0; sample < Samples{}.size() && !(equal && unequal); ++sample) {
    const auto x = sampled(a, sample);
    const auto y = sampled(b, sample);
    if (x && y) (*x == *y ? equal : unequal) = true;
  }
  return equal && unequal;
}

bool Facts::search_atom(const Dim& dim, const Dim& atom, int depth) {
  const auto linear = linear_in(to_polynomial(dim), atom);
  if (!linear) return false;
  const Dim factor = make_sum(linear->factor);
  const Dim rest = make_sum(linear->rest);
  const auto with = [&](const Dim& value) { return factor * value + rest; };
  const auto holds = [&](const Dim& value) { return search(with(value), depth - 1); };
  const std::optional<int> of_factor = sign(factor);
  const std::vector<Dim>& operands = atom.operands();
  switch (atom.kind()) {
    case Dim::Kind::Constant:
    case Dim::Kind::Symbol:
    case Dim::Kind::Value:
    case Dim::Kind::Sum: return false;
    case Dim::Kind::Min:
    case Dim::Kind::Max: {
      // Where the least value is wanted from above (or the most from below), any operand will do;
      // else each must.
      const bool any = of_factor && (*of_factor < 0) == (atom.kind() == Dim::Kind::Min);
      return any ? std::ranges::any_of(operands, holds) : std::ranges::all_of(operands, holds);
    }
    case Dim::Kind::Select: return holds(operands[2]) && holds(operands[3]);
    case Dim::Kind::Broadcast: return holds(operands[0]) && holds(operands[1]);
    case Dim::Kind::Mod:
      if (!of_factor || !positive(operands[1])) return false;
      if (*of_factor >= 0) return holds(0);
      return holds(operands[1] - 1) || (bounds(operands[0]).low >= 0 && holds(operands[0]));
    case Dim::Kind::FloorDiv: {
      // x - y + 1 <= y * quotient <= x, and dim >= 0 follows from y * dim > -y.
      const Dim& x = operands[0];
      const Dim& y = operands[1];
      if (!of_factor || !positive(y)) return false;
      const Dim product = *of_factor >= 0 ? x - y + 1 : x;
      return search(factor * product + y * rest + y - 1, depth - 1);
    }
  }
  internal_error("a dim is of one of the kinds");
}

bool Facts::search(const Dim& dim, int depth) {
  if (budget_-- <= 0) return false;
  const Interval range = bounds(dim);
  if (range.low >= 0) return true;
  if (range.high < 0 || depth == 0) return false;
  if (const auto next = without_a_symbol(dim, true)) return search(*next, depth);
  std::set<Dim> atoms;
  if (dim.kind() != Dim::Kind::Sum) atoms.insert(dim);
  for (const Dim::Term& term : dim.terms()) atoms.insert(term.factors.begin(), term.factors.end());
  for (const Dim& atom : atoms) {
    if (search_atom(dim, atom, depth)) return true;
  }
  const auto next = without_a_symbol(dim, false);
  return next && search(*next, depth);
}

bool Facts::not_negative(const Dim& dim) {
  constexpr int most_steps = 40;
  constexpr int deepest = 5;
  constexpr std::uint32_t largest = 400;  // nodes: beyond, a proof is not worth its time
  if (bounds(dim).low >= 0) return true;
  if (bounds(dim).high < 0 || dim.node().size > largest || refuted(dim)) return false;
  budget_ = most_steps;
  try {
    return search(dim, deepest);
  } catch (const Error&) {
    return false;  // a step leaves 64 bits, as an end of the range of a symbol without bounds does
                   // with anything added
  }
}

}  // namespace anydim::ir::detail
