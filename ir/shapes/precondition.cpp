// What follows from a precondition: a proof, a narrower range, a message.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "ir/error.h"
#include "ir/printable.h"
#include "ir/shapes/relation_text.h"
#include "ir/shapes/shape_rule.h"
#include "ir/text/print.h"

namespace anydim::ir {
namespace {

// As the enumerators stand.
constexpr std::string_view relation_names[] = {"equal",      "broadcastable", "expands_to",
                                               "less_equal", "greater_equal", "not_zero",
                                               "multiple_of"};

Proof negated(Proof proof) {
  return proof == Proof::Yes ? Proof::No : proof == Proof::No ? Proof::Yes : Proof::Unknown;
}

Proof any_of(std::initializer_list<Proof> proofs) {
  if (std::ranges::find(proofs, Proof::Yes) != proofs.end()) return Proof::Yes;
  return std::ranges::find(proofs, Proof::Unknown) != proofs.end() ? Proof::Unknown : Proof::No;
}

Proof prove_multiple(const Dim& left, const Dim& right, const SymbolTable& symbols) {
  const Proof zero = prove_equal(right, 0, symbols);
  if (zero == Proof::Yes) return Proof::No;
  if (left.is_constant(0)) return negated(zero);
  if (const std::optional<std::int64_t> constant = right.constant()) {
    const std::int64_t remainder = left.constant_part();
    if (divisor(left - remainder, symbols) % *constant == 0)
      return remainder % *constant == 0 ? Proof::Yes : Proof::No;
  } else if (zero == Proof::Unknown) {
    return Proof::Unknown;
  }
  return prove_equal(simplify(mod(left, right), symbols), 0, symbols);
}

// The highest value that the symbol can take where the precondition holds: tried by assuming more
// and looking for a contradiction.
std::optional<std::int64_t> implied_high(const Precondition& precondition, const Dim& symbol,
                                         const Dim& other, const SymbolTable& symbols) {
  const SymbolInfo& info = symbols.info(symbol.leaf());
  const std::int64_t candidate = std::max<std::int64_t>(bounds(other, symbols).high, 1);
  if (candidate >= info.high) return std::nullopt;
  SymbolTable beyond = symbols;
  SymbolInfo assumed = info;
  assumed.low = std::max(info.low, candidate + 1);
  beyond.declare(symbol.leaf().symbol, assumed);
  if (prove(precondition, beyond) != Proof::No) return std::nullopt;
  return candidate;
}

// The least value of the symbol for which the precondition is not refuted, where it is for its
// lowest: ranges from there on are tried that double in length while they are refuted as a whole.
// nullopt also where many tries come to no end.
std::optional<std::int64_t> least_possible(const Precondition& precondition,
                                           const std::string& symbol, const SymbolInfo& info,
                                           const SymbolTable& symbols) {
  const auto refuted = [&](std::int64_t low, std::int64_t high) {
    SymbolTable assumed = symbols;
    SymbolInfo within = info;
    within.low = low;
    within.high = high;
    assumed.declare(symbol, std::move(within));
    return prove(precondition, assumed) == Proof::No;
  };
  const bool ordered = precondition.relation == Relation::LessEqual ||
                       precondition.relation == Relation::GreaterEqual;
  // An equality may be refuted for every second number.
  if (!ordered)
    return info.low == 0 && info.high > 0 && refuted(0, 0) ? std::optional<std::int64_t>(1)
                                                           : std::nullopt;
  constexpr int most_tries = 128;
  std::int64_t least = info.low, length = 1;
  for (int tries = 0; tries < most_tries; ++tries) {
    // How many values come after `least`: one must be left.
    const std::uint64_t after =
        static_cast<std::uint64_t>(info.high) - static_cast<std::uint64_t>(least);
    const bool fits = static_cast<std::uint64_t>(length) <= after;
    if (fits && refuted(least, least + length - 1)) {
      least += length;
      if (length <= std::numeric_limits<std::int64_t>::max() / 2) length *= 2;
    } else if (length > 1) {
      length /= 2;
    } else {
      return least > info.low ? std::optional(least) : std::nullopt;
    }
  }
  return std::nullopt;
}

bool narrow_symbol(const Precondition& precondition, const Dim& symbol, const Dim& other,
                   SymbolTable& symbols, const std::string& source) {
  if (symbol.kind() != Dim::Kind::Symbol) return false;
  Interval range;
  if (precondition.relation == Relation::Equal && other.is_constant()) {
    range = {*other.constant(), *other.constant()};
  } else if (const std::optional<std::int64_t> high =
                 implied_high(precondition, symbol, other, symbols)) {
    range.high = *high;
  } else {
    return false;
  }
  return symbols.narrow(symbol.leaf().symbol, range, source);
}

std::string with_purpose(const std::string& text, const Precondition& precondition) {
  return precondition.purpose.empty() ? text
                                      : fmt::format("{}, for {}", text, precondition.purpose);
}

}  // namespace

std::string expectation(Relation relation, std::string_view right) {
  switch (relation) {
    case Relation::Equal: return std::string(right);
    case Relation::Broadcastable:
    case Relation::ExpandsTo: return fmt::format("{} or 1", right);
    case Relation::LessEqual: return fmt::format("at most {}", right);
    case Relation::GreaterEqual: return fmt::format("at least {}", right);
    case Relation::NonZero: return "a number other than 0";
    case Relation::MultipleOf:
      return right == "0" ? "a multiple of a number other than 0"
                          : fmt::format("a multiple of {}", right);
  }
  internal_error("a relation is one of the enumerators");
}

bool holds(Relation relation, std::int64_t left, std::int64_t right) {
  switch (relation) {
    case Relation::Equal: return left == right;
    case Relation::Broadcastable: return left == right || left == 1 || right == 1;
    case Relation::ExpandsTo: return left == right || left == 1;
    case Relation::LessEqual: return left <= right;
    case Relation::GreaterEqual: return left >= right;
    case Relation::NonZero: return left != 0;
    case Relation::MultipleOf: return right == -1 || (right != 0 && left % right == 0);
  }
  internal_error("a relation is one of the enumerators");
}

std::string violation(Relation relation, std::string_view what, std::int64_t left,
                      std::int64_t right) {
  return fmt::format("{}: expected {}, got {}", what, expectation(relation, std::to_string(right)),
                     left);
}

std::string_view name_of(Relation relation) {
  return relation_names[static_cast<std::size_t>(relation)];
}

std::optional<Relation> relation_named(std::string_view name) {
  const auto found = std::ranges::find(relation_names, name);
  if (found == std::end(relation_names)) return std::nullopt;
  return static_cast<Relation>(found - std::begin(relation_names));
}

Precondition precondition_of(const Binding& check) {
  const std::string& relation = string_attribute(check, "relation");
  const std::optional<Relation> found = relation_named(relation);
  if (!found)
    throw Error(ErrorKind::Malformed, "check: there is no relation '{}'", printable(relation));
  return {*found, check.dims.at(0), check.dims.at(1), string_attribute(check, "what")};
}

Binding check_of(const Precondition& precondition, const std::string& source) {
  Binding check{.op = Op::check, .dims = {precondition.left, precondition.right}};
  check.attributes.emplace("relation", std::string(name_of(precondition.relation)));
  check.attributes.emplace(
      "what", fmt::format("{}: {}", source, with_purpose(precondition.what, precondition)));
  return check;
}

Proof prove(const Precondition& precondition, const SymbolTable& symbols) {
  const auto& [relation, left, right, what, purpose] = precondition;
  switch (relation) {
    case Relation::Equal: return prove_equal(left, right, symbols);
    case Relation::Broadcastable:
      return any_of({prove_equal(left, right, symbols), prove_equal(left, 1, symbols),
                     prove_equal(right, 1, symbols)});
    case Relation::ExpandsTo:
      return any_of({prove_equal(left, right, symbols), prove_equal(left, 1, symbols)});
    case Relation::LessEqual: return prove_less_equal(left, right, symbols);
    case Relation::GreaterEqual: return prove_less_equal(right, left, symbols);
    case Relation::NonZero: return negated(prove_equal(left, 0, symbols));
    case Relation::MultipleOf: return prove_multiple(left, right, symbols);
  }
  internal_error("every relation has a proof");
}

bool narrow_from(const Precondition& precondition, SymbolTable& symbols,
                 const std::string& source) {
  const std::string reason = with_purpose(source, precondition);
  const auto& [relation, left, right, what, purpose] = precondition;
  if (relation == Relation::GreaterEqual && right.is_constant() && left.kind() == Dim::Kind::Symbol)
    return symbols.narrow(left.leaf().symbol, {.low = *right.constant()}, reason);
  if (relation == Relation::LessEqual && left.is_constant() && right.kind() == Dim::Kind::Symbol)
    return symbols.narrow(right.leaf().symbol, {.low = *left.constant()}, reason);
  const bool from_left = narrow_symbol(precondition, left, right, symbols, reason);
  const bool symmetric = relation == Relation::Equal || relation == Relation::Broadcastable;
  return (symmetric && narrow_symbol(precondition, right, left, symbols, reason)) || from_left;
}

bool narrow_from_below(const Precondition& precondition,
                       const std::function<bool(const std::string&)>& may_narrow,
                       SymbolTable& symbols, const std::string& source) {
  for (const Dim& side : {precondition.left, precondition.right}) {
    for (const DimLeaf& leaf : side.leaves()) {
      const SymbolInfo* known = leaf.is_symbol() ? symbols.find(leaf.symbol) : nullptr;
      if (known == nullptr || !may_narrow(leaf.symbol)) continue;
      const auto least = least_possible(precondition, leaf.symbol, *known, symbols);
      if (least)
        return symbols.narrow(leaf.symbol, {.low = *least}, with_purpose(source, precondition));
    }
  }
  return false;
}

std::string to_string(const Precondition& precondition, const Function& function) {
  const auto& [relation, left, right, what, purpose] = precondition;
  const bool broadcasts =
      relation == Relation::Broadcastable && !(left.is_constant() && right.is_constant());
  const std::string wanted = print(function, right);
  return fmt::format("{}: expected {}, got {}", with_purpose(what, precondition),
                     broadcasts ? wanted + " or one of both 1" : expectation(relation, wanted),
                     print(function, left));
}

}  // namespace anydim::ir
