#include "ir/dims/symbols.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/dims/facts.h"
#include "ir/error.h"
#include "ir/printable.h"

namespace anydim::ir {

using namespace detail;

void SymbolTable::declare(const std::string& name, SymbolInfo info) {
  internal_check(!name.empty(), "a declared symbol has a name");
  if (!infos_.contains(name)) order_.push_back(name);
  infos_.insert_or_assign(name, std::move(info));
}

Dim SymbolTable::fresh(std::string_view stem) {
  const auto name_with = [&](std::size_t suffix) {
    return suffix == 0 ? std::string(stem) : fmt::format("{}_{}", stem, suffix);
  };
  // Suffixes in use are mostly an unbroken run, so its end is found by doubling and halving, not
  // one by one.
  std::size_t taken = 0;
  std::size_t free = 0;
  for (std::size_t step = 1; contains(name_with(free)); step *= 2) {
    taken = free;
    free += step;
  }
  while (free > taken + 1) {
    const std::size_t middle = taken + (free - taken) / 2;
    (contains(name_with(middle)) ? taken : free) = middle;
  }
  std::string name = name_with(free);
  SymbolInfo info;
  info.unbacked = true;
  declare(name, std::move(info));
  return Dim::symbol(std::move(name));
}

const SymbolInfo* SymbolTable::find(std::string_view name) const {
  const auto found = infos_.find(name);
  return found == infos_.end() ? nullptr : &found->second;
}

void SymbolTable::declare(const DimLeaf& leaf, SymbolInfo info) {
  if (leaf.is_symbol()) declare(leaf.symbol, std::move(info));
  else variables_.insert_or_assign(leaf, std::move(info));
}

const SymbolInfo* SymbolTable::find(const DimLeaf& leaf) const {
  if (leaf.is_symbol()) return find(std::string_view(leaf.symbol));
  const auto found = variables_.find(leaf);
  return found == variables_.end() ? nullptr : &found->second;
}

const SymbolInfo& SymbolTable::info(const DimLeaf& leaf) const {
  static const SymbolInfo undeclared;
  const SymbolInfo* found = find(leaf);
  return found == nullptr ? undeclared : *found;
}

bool SymbolTable::narrow(const std::string& name, Interval range, const std::string& reason) {
  if (!contains(name)) declare(name);
  SymbolInfo& info = infos_.find(name)->second;
  const Interval met{std::max(info.low, range.low), std::min(info.high, range.high)};
  if (met.low > met.high) {
    const auto because = [](const std::string& text) {
      return text.empty() ? std::string("as declared") : text;
    };
    throw Error(
        ErrorKind::Unsupported,
        "dimension '{}' can have no value: it is in [{}, {}] ({}), but must be in [{}, {}] ({})",
        printable(name), info.low, info.high, because(info.reason), range.low, range.high,
        because(reason));
  }
  if (met.low == info.low && met.high == info.high) return false;
  info.low = met.low;
  info.high = met.high;
  info.reason = reason;
  return true;
}

void SymbolTable::remove(std::string_view name) {
  const auto found = infos_.find(name);
  if (found == infos_.end()) return;
  infos_.erase(found);
  std::erase(order_, name);
}

void SymbolTable::remove(const DimLeaf& leaf) {
  if (leaf.is_symbol()) remove(leaf.symbol);
  else variables_.erase(leaf);
}

Interval bounds(const Dim& dim, const SymbolTable& symbols) {
  return Facts(symbols, {dim}).bounds(dim);
}

Interval bounds_by(const Dim& dim, const Dim& known, const Interval& range,
                   const SymbolTable& symbols) {
  if (dim == known) return range;
  const auto product_of = [](const Dim& of) -> std::optional<Dim::Term> {
    Polynomial polynomial = to_polynomial(of);
    if (polynomial.constant != 0 || polynomial.terms.size() != 1) return std::nullopt;
    return std::move(polynomial.terms.front());
  };
  const auto product = product_of(dim), divisor = product_of(known);
  if (!product || !divisor || product->coefficient <= 0 || divisor->coefficient <= 0) return {};
  const auto rest = remove_factors(product->factors, divisor->factors);
  if (!rest) return {};
  constexpr Interval unbounded;
  std::optional<std::int64_t> low = product->coefficient, high = low;
  const auto multiply = [](std::optional<std::int64_t>& value, std::int64_t factor) {
    const bool bounded = value && factor != unbounded.high;
    std::int64_t result = 0;
    if (bounded && !__builtin_mul_overflow(*value, factor, &result)) value = result;
    else value.reset();
  };
  for (const Dim& factor : *rest) {
    const Interval of_factor = bounds(factor, symbols);
    if (of_factor.low < 0) return {};
    multiply(low, of_factor.low);
    multiply(high, of_factor.high);
  }
  multiply(low, range.low);
  multiply(high, range.high);
  // dim == coefficient * rest * known / known's own coefficient
  Interval found;
  if (low) found.low = *low / divisor->coefficient;
  if (high) found.high = *high / divisor->coefficient;
  return found;
}

std::int64_t divisor(const Dim& dim, const SymbolTable& symbols) {
  return Facts(symbols, {dim}).divisor(dim);
}

Dim simplify(const Dim& dim, const SymbolTable& symbols) {
  if (dim.is_constant()) return dim;
  return Facts(symbols, {dim}).settled(dim);
}

namespace {

// a - b, simplified; nothing where it leaves 64 bits.
std::optional<Dim> difference(const Dim& a, const Dim& b, Facts& facts) {
  try {
    return facts.simplified(a - b);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// dim >= 0; No where dim < 0 always.
Proof prove_not_negative(const Dim& dim, Facts& facts) {
  const Interval range = facts.bounds(dim);
  if (range.low >= 0) return Proof::Yes;
  if (range.high < 0) return Proof::No;
  try {
    if (facts.not_negative(dim)) return Proof::Yes;
    if (facts.not_negative(Dim(-1) - dim)) return Proof::No;
  } catch (const Error&) {
  }
  return Proof::Unknown;
}

Proof negated(Proof proof) {
  if (proof == Proof::Unknown) return proof;
  return proof == Proof::Yes ? Proof::No : Proof::Yes;
}

// A symbol against a constant, the question asked most: whether an extent is 1.
std::optional<Proof> symbol_equals(const Dim& a, const Dim& b, const SymbolTable& symbols) {
  if (b.kind() == Dim::Kind::Symbol)
    return a.is_constant() ? symbol_equals(b, a, symbols) : std::nullopt;
  if (a.kind() != Dim::Kind::Symbol || !b.is_constant()) return std::nullopt;
  const SymbolInfo& info = symbols.info(a.leaf());
  if (info.below) return std::nullopt;
  const std::int64_t value = b.constant_part();
  if (value < info.low || value > info.high || (info.multiple > 1 && value % info.multiple != 0))
    return Proof::No;
  return info.low == info.high ? Proof::Yes : Proof::Unknown;
}

}  // namespace

Proof prove_equal(const Dim& a, const Dim& b, const SymbolTable& symbols) {
  if (a == b) return Proof::Yes;
  if (a.is_constant() && b.is_constant()) return Proof::No;
  if (const auto decided = symbol_equals(a, b, symbols)) return *decided;
  Facts facts(symbols, {a, b});
  if (facts.seen_both_ways(a, b)) return Proof::Unknown;
  const auto apart = difference(a, b, facts);
  if (!apart) return Proof::Unknown;
  if (apart->is_constant()) return apart->is_constant(0) ? Proof::Yes : Proof::No;
  const Interval range = facts.bounds(*apart);
  if (range.low == 0 && range.high == 0) return Proof::Yes;
  if (range.low > 0 || range.high < 0) return Proof::No;
  // A multiple of d that is k away from another multiple of d, k not a multiple of d.
  const std::int64_t constant = apart->constant_part();
  if (constant != 0) {
    const std::int64_t steps = facts.divisor(*apart - constant);
    if (steps > 1 && constant % steps != 0) return Proof::No;
  }
  try {
    if (facts.not_negative(*apart - 1) || facts.not_negative(Dim(-1) - *apart)) return Proof::No;
    if (facts.not_negative(*apart) && facts.not_negative(Dim(0) - *apart)) return Proof::Yes;
  } catch (const Error&) {
  }
  return Proof::Unknown;
}

Proof prove_less(const Dim& a, const Dim& b, const SymbolTable& symbols) {
  if (a.is_constant() && b.is_constant())
    return a.constant_part() < b.constant_part() ? Proof::Yes : Proof::No;
  return negated(prove_less_equal(b, a, symbols));
}

Proof prove_less_equal(const Dim& a, const Dim& b, const SymbolTable& symbols) {
  if (a == b) return Proof::Yes;
  if (a.is_constant() && b.is_constant())
    return a.constant_part() <= b.constant_part() ? Proof::Yes : Proof::No;
  Facts facts(symbols, {a, b});
  const auto apart = difference(b, a, facts);
  return apart ? prove_not_negative(*apart, facts) : Proof::Unknown;
}

Proof prove(Comparison comparison, const Dim& a, const Dim& b, const SymbolTable& symbols) {
  switch (comparison) {
    case Comparison::Equal: return prove_equal(a, b, symbols);
    case Comparison::NotEqual: return negated(prove_equal(a, b, symbols));
    case Comparison::Less: return prove_less(a, b, symbols);
    case Comparison::LessEqual: return prove_less_equal(a, b, symbols);
  }
  internal_error("a comparison is one of the enumerators");
}

}  // namespace anydim::ir
