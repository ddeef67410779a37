// Putting quotients and remainders that belong together back into the number they came from:
// flattening two axes into one and taking the index apart again must leave the index.
#include <algorithm>
#include <cstdlib>
#include <limits>

#include "ir/dims/dim_node.h"

namespace anydim::ir::detail {

namespace {

bool is_division(const Dim& atom) {
  return atom.kind() == Dim::Kind::FloorDiv || atom.kind() == Dim::Kind::Mod;
}

bool is_remainder(const Dim& atom) { return atom.kind() == Dim::Kind::Mod; }

bool has_factor(const Polynomial& polynomial, bool (*of_kind)(const Dim&)) {
  return std::ranges::any_of(polynomial.terms, [&](const Dim::Term& term) {
    return std::ranges::any_of(term.factors, of_kind);
  });
}

std::int64_t ratio_of(std::int64_t a, std::int64_t b) {
  return a == std::numeric_limits<std::int64_t>::min()
             ? 0
             : a / b;  // the least integer has no counterpart to move to
}

// How many times `part` is in `whole`: positive or negative where all its monomials are there with
// one sign, else 0. Constants are everywhere and don't count.
std::int64_t multiplicity(const Polynomial& part, const Polynomial& whole) {
  std::int64_t least = 0;
  for (const Dim::Term& term : part.terms) {
    const std::int64_t ratio = ratio_of(whole.coefficient_of(term.factors), term.coefficient);
    if (ratio == 0 || (least != 0 && (ratio < 0) != (least < 0))) return 0;
    if (least == 0 || std::abs(ratio) < std::abs(least)) least = ratio;
  }
  return least;
}

// One group: rest * mod(x, y), rest * y * floor_div(x, y) and rest * x, of which the first two sum
// to the third. Moving t of both into the third leaves the fewest when t is the median; that is the
// canonical choice. True where something moved.
bool recombine_group(Polynomial& sum, const Dim& atom, const std::vector<Dim>& rest, Facts* facts) {
  const Dim& x = atom.operands()[0];
  const Dim& y = atom.operands()[1];
  const bool from_quotient = atom.kind() == Dim::Kind::FloorDiv;
  const Polynomial third = multiply(to_polynomial(x), 1, rest);
  const std::int64_t c = multiplicity(third, sum);
  // Two of the three must be there; sizes have quotients alone.
  if (c == 0 && from_quotient && !has_factor(sum, is_remainder)) return false;
  const Dim quotient = from_quotient ? atom : divide(x, y, facts);
  const Dim modulus = from_quotient ? remainder(x, y, facts) : atom;
  const Polynomial second = multiply(multiply(to_polynomial(y), to_polynomial(quotient)), 1, rest);
  const Polynomial first = multiply(to_polynomial(modulus), 1, rest);
  const std::int64_t a = multiplicity(first, sum);
  const std::int64_t b = multiplicity(second, sum);
  const std::int64_t low = std::min(a, b);
  const std::int64_t high = std::max(a, b);
  const std::int64_t moved = std::clamp(-c, low, high);  // the median of a, b, -c
  if (moved == 0) return false;
  sum = add(add(add(sum, first, checked_multiply(moved, -1)), second, checked_multiply(moved, -1)),
            third, moved);
  return true;
}

// A common factor of several terms: factor * (y * floor_div(x, y) + mod(x, y)) is factor * x, also
// where expanding the first product cancelled some of its terms.
bool recombine_factor(Polynomial& sum, const Dim& atom, Facts* facts) {
  const auto modulus = linear_in(sum, atom);
  if (!modulus || modulus->factor.terms.size() + (modulus->factor.constant != 0) < 2) return false;
  const Dim quotient = divide(atom.operands()[0], atom.operands()[1], facts);
  if (quotient.kind() != Dim::Kind::FloorDiv) return false;
  const auto both = linear_in(modulus->rest, quotient);
  if (!both) return false;
  const Polynomial expected = multiply(modulus->factor, to_polynomial(atom.operands()[1]));
  if (!add(both->factor, expected, -1).is_zero()) return false;
  sum = add(both->rest, multiply(modulus->factor, to_polynomial(atom.operands()[0])), 1);
  return true;
}

bool recombine_once(Polynomial& sum, Facts* facts) {
  for (std::size_t i = 0; i < sum.terms.size(); ++i) {
    const Dim::Term& term = sum.terms[i];
    for (std::size_t j = 0; j < term.factors.size(); ++j) {
      const Dim atom = term.factors[j];
      if (!is_division(atom)) continue;
      std::vector<Dim> rest = term.factors;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(j));
      if (atom.kind() == Dim::Kind::Mod) {
        if (recombine_factor(sum, atom, facts) || recombine_group(sum, atom, rest, facts))
          return true;
        continue;
      }
      // The other factors hold the divisor's leading monomial, or this quotient is not multiplied
      // by its divisor.
      const Polynomial divisor = to_polynomial(atom.operands()[1]);
      const std::vector<Dim> leading =
          divisor.terms.empty() ? std::vector<Dim>{} : divisor.terms.front().factors;
      const auto left = remove_factors(rest, leading);
      if (left && recombine_group(sum, atom, *left, facts)) return true;
    }
  }
  return false;
}

}  // namespace

Polynomial recombine_divisions(Polynomial polynomial, Facts* facts) {
  constexpr int most_groups = 16;
  constexpr std::size_t most_terms = 64;
  const bool small = polynomial.terms.size() <= most_terms &&
                     polynomial.terms.size() + (polynomial.constant != 0) >= 2;
  if (!small || !has_factor(polynomial, is_division)) return polynomial;
  for (int i = 0; i < most_groups && recombine_once(polynomial, facts); ++i) {
  }
  return polynomial;
}

}  // namespace anydim::ir::detail
