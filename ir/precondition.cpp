// What follows from a precondition: a proof, a narrower range, a message.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ir/error.h"
#include "ir/print.h"
#include "ir/printable.h"
#include "ir/shape_rule.h"

namespace anydim::ir {
namespace {

// As the enumerators stand.
constexpr std::string_view relation_names[] = {"equal", "broadcastable", "expands_to", "less_equal", "not_zero", "multiple_of"};

Proof negated(Proof proof) { return proof == Proof::Yes ? Proof::No : proof == Proof::No ? Proof::Yes : Proof::Unknown; }

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
    if (divisor(left - remainder, symbols) % *constant == 0) return remainder % *constant == 0 ? Proof::Yes : Proof::No;
  } else if (zero == Proof::Unknown) {
    return Proof::Unknown;
  }
  return prove_equal(simplify(mod(left, right), symbols), 0, symbols);
}

// The highest value that the symbol can take where the precondition holds: tried by assuming more and looking for a contradiction.
std::optional<std::int64_t> implied_high(const Precondition& precondition, const Dim& symbol, const Dim& other,
                                         const SymbolTable& symbols) {
  const SymbolInfo* known = symbols.find(symbol.leaf().symbol);
  const SymbolInfo info = known != nullptr ? *known : SymbolInfo{};
  const std::int64_t candidate = std::max<std::int64_t>(bounds(other, symbols).high, 1);
  if (candidate >= info.high) return std::nullopt;
  SymbolTable beyond = symbols;
  SymbolInfo assumed = info;
  assumed.low = std::max(info.low, candidate + 1);
  beyond.declare(symbol.leaf().symbol, assumed);
  if (prove(precondition, beyond) != Proof::No) return std::nullopt;
  return candidate;
}

bool narrow_symbol(const Precondition& precondition, const Dim& symbol, const Dim& other, SymbolTable& symbols, const std::string& source) {
  if (symbol.kind() != Dim::Kind::Symbol) return false;
  Interval range;
  if (precondition.relation == Precondition::Relation::Equal && other.is_constant()) {
    range = {*other.constant(), *other.constant()};
  } else if (const std::optional<std::int64_t> high = implied_high(precondition, symbol, other, symbols)) {
    range.high = *high;
  } else {
    return false;
  }
  return symbols.narrow(symbol.leaf().symbol, range, source);
}

}  // namespace

Precondition precondition_of(const Binding& check) {
  const std::string& relation = string_attribute(check, "relation");
  const auto found = std::ranges::find(relation_names, relation);
  if (found == std::end(relation_names))
    throw Error(ErrorKind::Malformed, fmt::format("check: there is no relation '{}'", printable(relation)));
  return {static_cast<Precondition::Relation>(found - std::begin(relation_names)), check.dims.at(0), check.dims.at(1),
          string_attribute(check, "what")};
}

Binding check_of(const Precondition& precondition, const std::string& source) {
  Binding check{.op = Op::check, .dims = {precondition.left, precondition.right}};
  check.attributes.emplace("relation", std::string(relation_names[static_cast<std::size_t>(precondition.relation)]));
  check.attributes.emplace("what", fmt::format("{}: {}", source, precondition.what));
  return check;
}

Proof prove(const Precondition& precondition, const SymbolTable& symbols) {
  const auto& [relation, left, right, what] = precondition;
  switch (relation) {
    case Precondition::Relation::Equal: return prove_equal(left, right, symbols);
    case Precondition::Relation::Broadcastable:
      return any_of({prove_equal(left, right, symbols), prove_equal(left, 1, symbols), prove_equal(right, 1, symbols)});
    case Precondition::Relation::ExpandsTo: return any_of({prove_equal(left, right, symbols), prove_equal(left, 1, symbols)});
    case Precondition::Relation::LessEqual: return prove_less_equal(left, right, symbols);
    case Precondition::Relation::NonZero: return negated(prove_equal(left, 0, symbols));
    case Precondition::Relation::MultipleOf: return prove_multiple(left, right, symbols);
  }
  internal_error("every relation has a proof");
}

bool narrow_from(const Precondition& precondition, SymbolTable& symbols, const std::string& source) {
  const auto& [relation, left, right, what] = precondition;
  if (relation == Precondition::Relation::LessEqual && left.is_constant() && right.kind() == Dim::Kind::Symbol) {
    return symbols.narrow(right.leaf().symbol, {.low = *left.constant()}, source);
  }
  const bool from_left = narrow_symbol(precondition, left, right, symbols, source);
  const bool symmetric = relation == Precondition::Relation::Equal || relation == Precondition::Relation::Broadcastable;
  return (symmetric && narrow_symbol(precondition, right, left, symbols, source)) || from_left;
}

std::string to_string(const Precondition& precondition, const Function& function) {
  const auto& [relation, left, right, what] = precondition;
  const auto text = [&](const Dim& dim) { return print(function, dim); };
  std::string expected;
  switch (relation) {
    case Precondition::Relation::Equal: expected = text(right); break;
    case Precondition::Relation::Broadcastable:
      expected =
          left.is_constant() && right.is_constant() ? fmt::format("{} or 1", text(right)) : fmt::format("{} or one of both 1", text(right));
      break;
    case Precondition::Relation::ExpandsTo: expected = fmt::format("{} or 1", text(right)); break;
    case Precondition::Relation::LessEqual: expected = fmt::format("at most {}", text(right)); break;
    case Precondition::Relation::NonZero: expected = "a number other than 0"; break;
    case Precondition::Relation::MultipleOf: expected = fmt::format("a multiple of {}", text(right)); break;
  }
  return fmt::format("{}: expected {}, got {}", what, expected, text(left));
}

}  // namespace anydim::ir
