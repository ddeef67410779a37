// min, max, select and broadcast.

#include <algorithm>
#include <map>
#include <numeric>
#include <string>

#include "ir/dims/dim_node.h"
#include "ir/dims/facts.h"
#include "ir/error.h"

namespace anydim::ir::detail {

namespace {

bool before(const Dim& a, const Dim& b) { return compare(a, b) < 0; }

// a <= b for all values.
bool at_most(const Dim& a, const Dim& b, Facts* facts) {
  if (const auto difference = constant_difference(a, b)) return *difference <= 0;
  if (facts == nullptr) return false;
  if (facts->bounds(a).high <= facts->bounds(b).low) return true;
  try {
    return facts->not_negative(subtract(b, a, facts));
  } catch (const Error&) {
    return false;  // the difference leaves 64 bits: nothing is known
  }
}

// True where `dim` is min (max) of several of which one is `other`: max(min(a, b), a) is a.
bool absorbed_by(const Dim& dim, const Dim& other, Dim::Kind kind) {
  const Dim::Kind opposite = kind == Dim::Kind::Min ? Dim::Kind::Max : Dim::Kind::Min;
  return dim.kind() == opposite && std::ranges::find(dim.operands(), other) != dim.operands().end();
}

}  // namespace

Dim choose(Dim::Kind kind, std::vector<Dim> operands, Facts* facts) {
  std::vector<Dim> flat;
  for (Dim& operand : operands) {
    if (operand.kind() == kind)
      flat.insert(flat.end(), operand.operands().begin(), operand.operands().end());
    else flat.push_back(std::move(operand));
  }
  if (flat.size() > maximum_choices) {
    throw Error(
        ErrorKind::Unsupported,
        "a min or max of dims has more than {} operands; simplify the model's shape arithmetic",
        maximum_choices);
  }
  std::ranges::sort(flat, before);
  const std::int64_t neutral = kind == Dim::Kind::Min ? INT64_MAX : INT64_MIN;
  std::vector<Dim> kept;
  // `a` loses to `b` when b is always the one chosen of the two.
  const auto loses = [&](const Dim& a, const Dim& b) {
    return (kind == Dim::Kind::Min ? at_most(b, a, facts) : at_most(a, b, facts)) ||
           absorbed_by(a, b, kind);
  };
  for (const Dim& operand : flat) {
    if (operand.is_constant(neutral)) continue;
    if (std::ranges::any_of(kept, [&](const Dim& other) { return loses(operand, other); }))
      continue;
    std::erase_if(kept, [&](const Dim& other) { return loses(other, operand); });
    kept.push_back(operand);
  }
  if (kept.empty()) return neutral;
  if (kept.size() == 1) return kept.front();
  return make_atom(kind, std::move(kept));
}

namespace {

// lhs - rhs with its terms divided by their common divisor: positive terms, negated negative terms,
// and the constant not yet divided.
struct Condition {
  Polynomial left;
  Polynomial right;
  std::int64_t constant = 0;
  std::int64_t divisor = 1;
};

Condition balanced(const Polynomial& difference) {
  Condition condition;
  condition.constant = difference.constant;
  std::uint64_t divisor = 0;
  for (const Dim::Term& term : difference.terms) {
    if (term.coefficient == INT64_MIN) throw Overflow{};
    divisor = std::gcd(divisor, static_cast<std::uint64_t>(std::abs(term.coefficient)));
  }
  condition.divisor = static_cast<std::int64_t>(divisor);
  for (const Dim::Term& term : difference.terms) {
    const std::int64_t coefficient = term.coefficient / condition.divisor;
    if (coefficient > 0) condition.left.terms.push_back({coefficient, term.factors});
    else condition.right.terms.push_back({-coefficient, term.factors});
  }
  return condition;
}

Dim make_select(Comparison comparison, const Dim& lhs, const Dim& rhs, const Dim& then,
                const Dim& otherwise) {
  return make_atom(Dim::Kind::Select, {lhs, rhs, then, otherwise}, comparison);
}

// Whether something in the dim may be divided by 0.
bool may_divide_by_zero(const Dim& dim) {
  const Dim::Node& node = dim.node();
  if ((node.kind == Dim::Kind::FloorDiv || node.kind == Dim::Kind::Mod) &&
      !node.operands[1].is_constant())
    return true;
  return std::ranges::any_of(node.operands, may_divide_by_zero) ||
         std::ranges::any_of(node.terms, [](const Dim::Term& term) {
           return std::ranges::any_of(term.factors, may_divide_by_zero);
         });
}

// select(left == right, then, otherwise) in canonical form. Where a symbol is compared with a
// constant, `then` is written with the constant, and a select whose branches agree there is
// `otherwise`: select(n == 0, n * m, n) is n. select(n == 0, 0, floor_div(n, m)) stays: m may be 0
// there.
Dim equal_select(const Dim& left, const Dim& right, const Dim& then, const Dim& otherwise) {
  if (left.kind() != Dim::Kind::Symbol || !right.is_constant())
    return make_select(Comparison::Equal, left, right, then, otherwise);
  const std::map<std::string, Dim> known = {{left.leaf().symbol, right}};
  try {
    const Dim at_constant = then.substitute(known);
    if (at_constant == otherwise ||
        (at_constant == otherwise.substitute(known) && !may_divide_by_zero(otherwise)))
      return otherwise;
    return make_select(Comparison::Equal, left, right, at_constant, otherwise);
  } catch (const Error&) {
    return make_select(Comparison::Equal, left, right, then,
                       otherwise);  // a branch has no value there, e.g. divides by zero
  }
}

// lhs == rhs with like terms on one side, the constant on the right, and the leading term on the
// left.
Dim decide_equal(const Dim& lhs, const Dim& rhs, const Dim& then, const Dim& otherwise,
                 Facts* facts) {
  Polynomial difference =
      recombine_divisions(add(to_polynomial(lhs), to_polynomial(rhs), -1), facts);
  if (difference.is_constant()) return difference.constant == 0 ? then : otherwise;
  if (difference.terms.front().coefficient < 0) difference = multiply(difference, -1, {});
  Condition condition = balanced(difference);
  if (condition.constant % condition.divisor != 0) return otherwise;
  condition.right.constant = checked_multiply(condition.constant / condition.divisor, -1);
  if (facts != nullptr) {
    const Dim sum = make_sum(difference);
    const Interval range = facts->bounds(sum);
    const std::int64_t divisor = facts->divisor(make_sum(Polynomial{difference.terms, 0}));
    if (range.low == 0 && range.high == 0) return then;
    if (range.low > 0 || range.high < 0 || (divisor != 0 && difference.constant % divisor != 0))
      return otherwise;
    if (facts->not_negative(subtract(sum, 1, facts)) ||
        facts->not_negative(subtract(-1, sum, facts)))
      return otherwise;
  }
  return equal_select(make_sum(condition.left), make_sum(condition.right), then, otherwise);
}

// lhs < rhs without negative terms, the leading term on the left and the constant on the right: T <
// ceil(-constant / divisor).
Dim decide_less(const Dim& lhs, const Dim& rhs, const Dim& then, const Dim& otherwise,
                Facts* facts) {
  Polynomial difference =
      recombine_divisions(add(to_polynomial(lhs), to_polynomial(rhs), -1), facts);
  if (difference.is_constant()) return difference.constant < 0 ? then : otherwise;
  if (facts != nullptr) {
    const Dim sum = make_sum(difference);
    if (facts->not_negative(sum)) return otherwise;
    if (facts->not_negative(subtract(-1, sum, facts))) return then;
  }
  const bool opposite = difference.terms.front().coefficient < 0;
  if (opposite)
    // not (d < 0) is -d - 1 < 0
    difference = add(multiply(difference, -1, {}), Polynomial{{}, -1}, 1);
  Condition condition = balanced(difference);
  condition.right.constant =
      checked_multiply(floor_quotient(condition.constant, condition.divisor), -1);
  const Dim left = make_sum(std::move(condition.left));
  const Dim right = make_sum(std::move(condition.right));
  return opposite ? make_select(Comparison::Less, left, right, otherwise, then)
                  : make_select(Comparison::Less, left, right, then, otherwise);
}

}  // namespace

// Canonical selects compare by == or < only; != and <= swap the branches.
Dim decide(Comparison comparison, const Dim& lhs, const Dim& rhs, const Dim& then,
           const Dim& otherwise, Facts* facts) {
  if (then == otherwise) return then;
  if (lhs.is_constant() && rhs.is_constant()) {
    return holds(comparison, lhs.constant_part(), rhs.constant_part()) ? then : otherwise;
  }
  if (comparison == Comparison::NotEqual)
    return decide(Comparison::Equal, lhs, rhs, otherwise, then, facts);
  if (comparison == Comparison::LessEqual)
    return decide(Comparison::Less, rhs, lhs, otherwise, then, facts);
  try {
    return comparison == Comparison::Equal ? decide_equal(lhs, rhs, then, otherwise, facts)
                                           : decide_less(lhs, rhs, then, otherwise, facts);
  } catch (const Overflow&) {
    return make_select(comparison, lhs, rhs, then,
                       otherwise);  // the difference leaves 64 bits; the comparison itself doesn't
  }
}

Dim join(std::vector<Dim> dims, Facts* facts) {
  // Under its precondition broadcasting is commutative and associative, and 1 is neutral.
  std::vector<Dim> operands;
  const auto gather = [&](const Dim& dim, const auto& self) -> void {
    if (dim.kind() == Dim::Kind::Broadcast) {
      for (const Dim& operand : dim.operands()) self(operand, self);
    } else if (!dim.is_constant(1)) {
      operands.push_back(dim);
    }
  };
  for (const Dim& dim : dims) gather(dim, gather);
  if (operands.empty()) return 1;
  std::ranges::sort(operands, before);
  const auto repeated = std::ranges::unique(operands);
  operands.erase(repeated.begin(), repeated.end());
  const auto never_one = [&](const Dim& dim) {
    if (dim.is_constant()) return true;
    if (facts == nullptr) return false;
    const Interval range = facts->bounds(dim);
    return range.low > 1 || range.high < 1 || facts->divisor(dim) > 1;
  };
  if (const auto decided = std::ranges::find_if(operands, never_one); decided != operands.end())
    return *decided;
  Dim joined = operands.front();
  for (std::size_t i = 1; i < operands.size(); ++i)
    joined = make_atom(Dim::Kind::Broadcast, {joined, operands[i]});
  return joined;
}

}  // namespace anydim::ir::detail
