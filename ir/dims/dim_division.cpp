// Floor division and mod. Each rule holds for every nonzero divisor unless it says that it needs a
// positive one; where a divisor is zero the expression has no value, so a rule may give it one.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ir/dims/dim_node.h"
#include "ir/dims/facts.h"

namespace anydim::ir::detail {

namespace {

struct Monomial {
  std::int64_t coefficient = 1;
  std::vector<Dim> factors;
  bool is_one() const { return coefficient == 1 && factors.empty(); }
  Dim dim() const { return make_sum(multiply(Polynomial{{}, 1}, coefficient, factors)); }
};

// The coefficient is positive. Zero coefficients count as divisible by everything.
std::int64_t common_coefficient(std::int64_t a, std::int64_t b) {
  const std::uint64_t common =
      std::gcd(a < 0 ? 0 - static_cast<std::uint64_t>(a) : static_cast<std::uint64_t>(a),
               b < 0 ? 0 - static_cast<std::uint64_t>(b) : static_cast<std::uint64_t>(b));
  if (common > static_cast<std::uint64_t>(INT64_MAX)) throw Overflow{};
  return static_cast<std::int64_t>(common);
}

// The greatest monomial that divides every term.
Monomial content(const Polynomial& polynomial) {
  Monomial common{0, {}};
  bool first = true;
  for (const Dim::Term& term : polynomial.terms) {
    common.coefficient = common_coefficient(common.coefficient, term.coefficient);
    common.factors = first ? term.factors : common_factors(common.factors, term.factors);
    first = false;
  }
  if (polynomial.constant != 0) {
    common.coefficient = common_coefficient(common.coefficient, polynomial.constant);
    common.factors.clear();
  }
  return common;
}

Monomial common(const Monomial& a, const Monomial& b) {
  return {common_coefficient(a.coefficient, b.coefficient), common_factors(a.factors, b.factors)};
}

// Every term divided by a monomial that divides it.
Polynomial divide_exactly(const Polynomial& polynomial, const Monomial& divisor) {
  if (divisor.is_one()) return polynomial;
  Polynomial quotient;
  for (const Dim::Term& term : polynomial.terms) {
    const std::int64_t coefficient = term.coefficient / divisor.coefficient;
    auto factors = *remove_factors(term.factors, divisor.factors);
    if (factors.empty()) quotient.constant = coefficient;
    else quotient.terms.push_back({coefficient, std::move(factors)});
  }
  if (polynomial.constant != 0) quotient.constant = polynomial.constant / divisor.coefficient;
  return quotient;
}

std::int64_t leading_coefficient(const Polynomial& polynomial) {
  return polynomial.terms.empty() ? polynomial.constant : polynomial.terms.front().coefficient;
}

Polynomial negated(const Polynomial& polynomial) { return multiply(polynomial, -1, {}); }

struct Split {
  Polynomial quotient;
  Polynomial rest;
};

Polynomial monomial_polynomial(std::int64_t coefficient, const std::vector<Dim>& factors) {
  return multiply(Polynomial{{}, 1}, coefficient, factors);
}

std::size_t terms_of(const Polynomial& polynomial) {
  return polynomial.terms.size() + (polynomial.constant != 0 ? 1 : 0);
}

// Division by a polynomial of several terms: long division where that leaves fewer terms, else
// single steps that do.
Split split_long(const Polynomial& a, const Polynomial& b) {
  constexpr int most_steps = 64;
  const Dim::Term& pivot = b.terms.front();
  const auto step = [&](Split& state, const std::vector<Dim>& monomial) {
    const auto factors = remove_factors(monomial, pivot.factors);
    const std::int64_t coefficient = state.rest.coefficient_of(monomial) / pivot.coefficient;
    if (!factors || coefficient == 0) return false;
    state.quotient = add(state.quotient, monomial_polynomial(coefficient, *factors), 1);
    state.rest = add(state.rest, multiply(b, coefficient, *factors), -1);
    return true;
  };
  Split whole{{}, a};
  std::size_t next = 0;
  for (int steps = 0; steps < most_steps && next < whole.rest.terms.size(); ++steps) {
    const std::vector<Dim> monomial = whole.rest.terms[next].factors;
    const bool divided = step(whole, monomial);
    if (!divided || whole.rest.coefficient_of(monomial) != 0) ++next;
  }
  if (terms_of(whole.rest) < terms_of(a)) return whole;
  Split parts{{}, a};
  for (const Dim::Term& term : a.terms) {
    Split tried = parts;
    if (step(tried, term.factors) && terms_of(tried.rest) < terms_of(parts.rest))
      parts = std::move(tried);
  }
  return parts;
}

// a == quotient * b + rest. A one-term b takes from each term what it divides (coefficients rounded
// towards zero, so that signs stay and bounds stay tight; a constant over a constant rounded down).
Split split(const Polynomial& a, const Polynomial& b) {
  Split result{{}, a};
  if (b.is_constant()) {
    Polynomial whole;
    for (const Dim::Term& term : a.terms) {
      if (term.coefficient == INT64_MIN && b.constant == -1) throw Overflow{};
      if (const std::int64_t times = term.coefficient / b.constant; times != 0)
        whole.terms.push_back({times, term.factors});
    }
    whole.constant = floor_quotient(a.constant, b.constant);
    result.rest = add(a, multiply(whole, b.constant, {}), -1);
    result.quotient = std::move(whole);
    return result;
  }
  if (b.terms.size() > 1 || b.constant != 0) return split_long(a, b);
  const Dim::Term& pivot = b.terms.front();
  for (const Dim::Term& term : a.terms) {
    auto factors = remove_factors(term.factors, pivot.factors);
    const std::int64_t coefficient = term.coefficient / pivot.coefficient;
    if (!factors || coefficient == 0) continue;
    result.quotient = add(result.quotient, monomial_polynomial(coefficient, *factors), 1);
    result.rest = add(result.rest, multiply(b, coefficient, *factors), -1);
  }
  return result;
}

bool positive(const Dim& dim, Facts* facts) {
  if (dim.is_constant()) return dim.constant_part() > 0;
  return facts != nullptr && facts->positive(dim);
}

// 0 <= dim < end
bool in_range(const Dim& dim, const Dim& end, Facts* facts) {
  if (dim.is_constant() && end.is_constant())
    return dim.constant_part() >= 0 && dim.constant_part() < end.constant_part();
  return facts != nullptr && facts->in_range(dim, end);
}

bool all_negative(const Polynomial& polynomial) {
  return !polynomial.terms.empty() &&
         std::ranges::all_of(polynomial.terms,
                             [](const Dim::Term& term) { return term.coefficient < 0; });
}

// a == scale * upper + lower with 0 <= lower < scale, where scale also divides the divisor: then
// floor_div(a, scale * b) is floor_div(upper, b) and mod(a, scale * b) is scale * mod(upper, b) +
// lower, for positive scale and b.
struct Scaled {
  Monomial scale;
  Polynomial upper;
  Polynomial lower;
};

std::optional<Scaled> find_scale(const Polynomial& a, const Polynomial& b, Facts* facts) {
  const Monomial available = content(b);
  std::vector<Monomial> candidates;
  for (const Dim::Term& term : a.terms) {
    Monomial candidate = common({term.coefficient, term.factors}, available);
    const auto same = [&](const Monomial& other) {
      return other.coefficient == candidate.coefficient && other.factors == candidate.factors;
    };
    if (!candidate.is_one() && std::ranges::none_of(candidates, same))
      candidates.push_back(std::move(candidate));
  }
  for (const Monomial& scale : candidates) {
    Scaled scaled{scale, {}, {}};
    for (const Dim::Term& term : a.terms) {
      const bool divisible =
          term.coefficient % scale.coefficient == 0 && remove_factors(term.factors, scale.factors);
      (divisible ? scaled.upper : scaled.lower).terms.push_back(term);
    }
    scaled.lower.constant = a.constant;
    if (scale.factors.empty()) {
      scaled.lower.constant = floor_remainder(a.constant, scale.coefficient);
      scaled.upper.constant = checked_add(a.constant, -scaled.lower.constant);
    }
    const Dim scale_dim = scale.dim();
    const Dim divisor_left = make_sum(divide_exactly(b, scale));
    if (!positive(scale_dim, facts) || !positive(divisor_left, facts)) continue;
    if (!in_range(make_sum(scaled.lower), scale_dim, facts)) continue;
    scaled.upper = divide_exactly(scaled.upper, scale);
    return scaled;
  }
  return std::nullopt;
}

// The constant that floor_div(a, b) is known to be.
std::optional<std::int64_t> known_quotient(const Dim& quotient, Facts* facts) {
  if (facts == nullptr) return std::nullopt;
  const Interval range = facts->bounds(quotient);
  if (range.low != range.high) return std::nullopt;
  return range.low;
}

// Numerator and divisor without what both rules share: the divisor's leading coefficient positive,
// no common monomial.
struct Fraction {
  Polynomial a;
  Polynomial b;
  std::int64_t sign = 1;
  Monomial scale;
};

Fraction reduced(const Dim& a, const Dim& b) {
  Fraction fraction{to_polynomial(a), to_polynomial(b), 1, {}};
  if (leading_coefficient(fraction.b) < 0) {
    fraction.sign = -1;
    fraction.a = negated(fraction.a);
    fraction.b = negated(fraction.b);
  }
  fraction.scale = common(content(fraction.a), content(fraction.b));
  fraction.a = divide_exactly(fraction.a, fraction.scale);
  fraction.b = divide_exactly(fraction.b, fraction.scale);
  return fraction;
}

// A divisor b > 0 as b - 1 for the rule that turns negative numerators round: floor_div(-x, b) ==
// -floor_div(x + b - 1, b).
Polynomial turned(const Polynomial& a, const Polynomial& b) {
  return add(add(negated(a), b, 1), Polynomial{{}, 1}, -1);
}

Dim quotient_of(const Polynomial& a, const Polynomial& b, Facts* facts);
Dim remainder_of(const Polynomial& a, const Polynomial& b, Facts* facts);

// floor_div(floor_div(x, y) + k, b) == floor_div(x + k * y, y * b) for positive b.
std::optional<Dim> nested_quotient(const Polynomial& a, const Polynomial& b, Facts* facts) {
  if (a.terms.size() != 1 || a.terms[0].coefficient != 1 || a.terms[0].factors.size() != 1)
    return std::nullopt;
  const Dim& inner = a.terms[0].factors[0];
  if (inner.kind() != Dim::Kind::FloorDiv) return std::nullopt;
  const Polynomial y = to_polynomial(inner.operands()[1]);
  const Polynomial x = add(to_polynomial(inner.operands()[0]), y, a.constant);
  return divide(from_polynomial(x, facts), from_polynomial(multiply(y, b), facts), facts);
}

// floor_div(mod(x, z * b), b) == mod(floor_div(x, b), z) for positive z and b.
std::optional<Dim> quotient_of_mod(const Polynomial& a, const Polynomial& b, Facts* facts) {
  if (a.terms.size() != 1 || a.constant != 0 || a.terms[0].coefficient != 1 ||
      a.terms[0].factors.size() != 1) {
    return std::nullopt;
  }
  const Dim& inner = a.terms[0].factors[0];
  if (inner.kind() != Dim::Kind::Mod) return std::nullopt;
  const Split parts = split(to_polynomial(inner.operands()[1]), b);
  if (!parts.rest.is_zero()) return std::nullopt;
  const Dim z = make_sum(parts.quotient);
  if (!positive(z, facts)) return std::nullopt;
  return remainder(divide(inner.operands()[0], make_sum(b), facts), z, facts);
}

// mod(k * mod(x, y) + r, b) == mod(k * x + r, b) where b divides k * y.
std::optional<Dim> mod_of_mod(const Polynomial& a, const Polynomial& b, Facts* facts) {
  for (const Dim::Term& term : a.terms) {
    for (std::size_t i = 0; i < term.factors.size(); ++i) {
      const Dim inner = term.factors[i];
      if (inner.kind() != Dim::Kind::Mod) continue;
      std::vector<Dim> rest = term.factors;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
      const Polynomial removed =
          multiply(to_polynomial(inner.operands()[1]), term.coefficient, rest);
      if (!split(removed, b).rest.is_zero()) continue;
      Polynomial replaced = add(a, multiply(to_polynomial(inner), term.coefficient, rest), -1);
      replaced =
          add(replaced, multiply(to_polynomial(inner.operands()[0]), term.coefficient, rest), 1);
      return remainder(from_polynomial(replaced, facts), make_sum(b), facts);
    }
  }
  return std::nullopt;
}

// For a reduced numerator and divisor of which no multiple is left in the numerator.
Dim quotient_of(const Polynomial& a, const Polynomial& b, Facts* facts) {
  if (a.is_zero()) return 0;
  const Dim divisor = make_sum(b);
  const Dim numerator = make_sum(a);
  const bool divisor_positive = positive(divisor, facts);
  if (in_range(numerator, divisor, facts)) return 0;
  if (divisor_positive && all_negative(a)) {
    return subtract(0, divide(make_sum(turned(a, b)), divisor, facts), facts);
  }
  if (divisor_positive) {
    if (auto nested = nested_quotient(a, b, facts)) return *std::move(nested);
    if (auto inner = quotient_of_mod(a, b, facts)) return *std::move(inner);
    if (auto scaled = find_scale(a, b, facts)) {
      return divide(from_polynomial(scaled->upper, facts),
                    make_sum(divide_exactly(b, scaled->scale)), facts);
    }
  }
  Dim quotient = make_atom(Dim::Kind::FloorDiv, {numerator, divisor});
  if (const auto known = known_quotient(quotient, facts)) return *known;
  return quotient;
}

Dim remainder_of(const Polynomial& a, const Polynomial& b, Facts* facts) {
  if (a.is_zero()) return 0;
  const Dim divisor = make_sum(b);
  const Dim numerator = make_sum(a);
  const bool divisor_positive = positive(divisor, facts);
  if (in_range(numerator, divisor, facts)) return from_polynomial(a, facts);
  if (auto inner = mod_of_mod(a, b, facts)) return *std::move(inner);
  if (divisor_positive && all_negative(a)) {
    const Dim rest = remainder(make_sum(turned(a, b)), divisor, facts);
    return subtract(subtract(divisor, 1, facts), rest, facts);
  }
  if (divisor_positive) {
    if (auto scaled = find_scale(a, b, facts)) {
      const Dim rest = remainder(from_polynomial(scaled->upper, facts),
                                 make_sum(divide_exactly(b, scaled->scale)), facts);
      return add(multiply(scaled->scale.dim(), rest, facts), from_polynomial(scaled->lower, facts),
                 facts);
    }
  }
  if (facts != nullptr) {
    if (const auto known =
            known_quotient(make_atom(Dim::Kind::FloorDiv, {numerator, divisor}), facts)) {
      return subtract(numerator, multiply(divisor, *known, facts), facts);
    }
  }
  return make_atom(Dim::Kind::Mod, {numerator, divisor});
}

}  // namespace

Dim divide(const Dim& a, const Dim& b, Facts* facts) {
  if (b.is_constant(0))
    return make_atom(Dim::Kind::FloorDiv, {a, b});  // has no value; evaluation says so
  if (b.is_constant(1)) return a;
  if (a.is_constant(0)) return 0;
  if (a == b) return 1;
  try {
    if (a.is_constant() && b.is_constant())
      return floor_quotient(a.constant_part(), b.constant_part());
    const Fraction fraction = reduced(a, b);
    const Split parts = split(fraction.a, fraction.b);
    if (parts.quotient.is_zero()) return quotient_of(parts.rest, fraction.b, facts);
    // What is left may have common factors anew.
    const Dim rest =
        parts.rest.is_zero() ? Dim(0) : divide(make_sum(parts.rest), make_sum(fraction.b), facts);
    return add(from_polynomial(parts.quotient, facts), rest, facts);
  } catch (const Overflow&) {
    throw_overflow(fmt::format("floor_div({}, {})", abbreviated(a), abbreviated(b)));
  }
}

Dim remainder(const Dim& a, const Dim& b, Facts* facts) {
  if (b.is_constant(0)) return make_atom(Dim::Kind::Mod, {a, b});
  if (b.is_constant(1) || b.is_constant(-1) || a.is_constant(0) || a == b) return 0;
  try {
    if (a.is_constant() && b.is_constant())
      return floor_remainder(a.constant_part(), b.constant_part());
    const Fraction fraction = reduced(a, b);
    const Split parts = split(fraction.a, fraction.b);
    const Dim rest = parts.quotient.is_zero()
                         ? remainder_of(parts.rest, fraction.b, facts)
                         : remainder(make_sum(parts.rest), make_sum(fraction.b), facts);
    Monomial scale = fraction.scale;
    scale.coefficient = checked_multiply(scale.coefficient, fraction.sign);
    return scale.is_one() ? rest : multiply(scale.dim(), rest, facts);
  } catch (const Overflow&) {
    throw_overflow(fmt::format("mod({}, {})", abbreviated(a), abbreviated(b)));
  }
}

}  // namespace anydim::ir::detail
