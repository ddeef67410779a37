// Sums of products: addition, multiplication, and putting divisions back together.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "ir/dim_node.h"
#include "ir/error.h"

namespace anydim::ir::detail {

std::int64_t checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) throw Overflow{};
  return sum;
}

std::int64_t checked_multiply(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) throw Overflow{};
  return product;
}

std::int64_t floor_quotient(std::int64_t a, std::int64_t b) {
  if (b == -1) return checked_multiply(a, -1);  // the one quotient that can overflow
  const std::int64_t quotient = a / b;
  return a % b != 0 && ((a < 0) != (b < 0)) ? quotient - 1 : quotient;
}

std::int64_t floor_remainder(std::int64_t a, std::int64_t b) {
  if (b == -1) return 0;
  const std::int64_t rest = a % b;
  return rest != 0 && ((rest < 0) != (b < 0)) ? rest + b : rest;
}

std::int64_t Polynomial::coefficient_of(const std::vector<Dim>& monomial) const {
  const auto found = std::ranges::lower_bound(
      terms, monomial, [](const auto& a, const auto& b) { return compare_monomials(a, b) < 0; }, &Dim::Term::factors);
  return found != terms.end() && found->factors == monomial ? found->coefficient : 0;
}

Polynomial to_polynomial(const Dim& dim) {
  switch (dim.kind()) {
    case Dim::Kind::Constant:
      return {{}, dim.constant_part()};
    case Dim::Kind::Sum:
      return {dim.terms(), dim.constant_part()};
    case Dim::Kind::Symbol:
    case Dim::Kind::Value:
    case Dim::Kind::FloorDiv:
    case Dim::Kind::Mod:
    case Dim::Kind::Min:
    case Dim::Kind::Max:
    case Dim::Kind::Select:
    case Dim::Kind::Broadcast:
      break;
  }
  return {{{1, {dim}}}, 0};
}

Polynomial add(const Polynomial& a, const Polynomial& b, std::int64_t scale) {
  Polynomial sum;
  sum.constant = checked_add(a.constant, checked_multiply(b.constant, scale));
  sum.terms.reserve(a.terms.size() + b.terms.size());
  auto x = a.terms.begin();
  auto y = b.terms.begin();
  while (x != a.terms.end() || y != b.terms.end()) {
    const int order = x == a.terms.end() ? 1 : y == b.terms.end() ? -1 : compare_monomials(x->factors, y->factors);
    if (order < 0) {
      sum.terms.push_back(*x++);
      continue;
    }
    const std::int64_t scaled = checked_multiply(y->coefficient, scale);
    const std::int64_t coefficient = order == 0 ? checked_add(x->coefficient, scaled) : scaled;
    if (coefficient != 0) sum.terms.push_back({coefficient, y->factors});
    if (order == 0) ++x;
    ++y;
  }
  return sum;
}

std::vector<Dim> merge_factors(const std::vector<Dim>& a, const std::vector<Dim>& b) {
  std::vector<Dim> merged;
  merged.reserve(a.size() + b.size());
  std::ranges::merge(a, b, std::back_inserter(merged), [](const Dim& x, const Dim& y) { return compare(x, y) < 0; });
  return merged;
}

std::optional<std::vector<Dim>> remove_factors(const std::vector<Dim>& monomial, const std::vector<Dim>& divisor) {
  if (divisor.size() > monomial.size()) return std::nullopt;
  std::vector<Dim> rest;
  auto next = divisor.begin();
  for (const Dim& factor : monomial) {
    if (next != divisor.end() && factor == *next)
      ++next;
    else
      rest.push_back(factor);
  }
  if (next != divisor.end()) return std::nullopt;
  return rest;
}

std::vector<Dim> common_factors(const std::vector<Dim>& a, const std::vector<Dim>& b) {
  std::vector<Dim> common;
  std::ranges::set_intersection(a, b, std::back_inserter(common), [](const Dim& x, const Dim& y) { return compare(x, y) < 0; });
  return common;
}

Polynomial multiply(const Polynomial& a, std::int64_t coefficient, const std::vector<Dim>& monomial) {
  Polynomial product;
  if (coefficient == 0) return product;
  product.terms.reserve(a.terms.size() + 1);
  for (const Dim::Term& term : a.terms) {
    product.terms.push_back({checked_multiply(term.coefficient, coefficient), merge_factors(term.factors, monomial)});
  }
  const std::int64_t constant = checked_multiply(a.constant, coefficient);
  if (monomial.empty()) {
    product.constant = constant;
  } else if (constant != 0) {
    product.terms.push_back({constant, monomial});
    // Graded order: the others contain `monomial` and more, so this term is already in its place.
  }
  return product;
}

Polynomial multiply(const Polynomial& a, const Polynomial& b) {
  if (a.is_constant()) return multiply(b, a.constant, {});
  if (b.is_constant()) return multiply(a, b.constant, {});
  if (b.terms.size() == 1 && b.constant == 0) return multiply(a, b.terms[0].coefficient, b.terms[0].factors);
  if (a.terms.size() == 1 && a.constant == 0) return multiply(b, a.terms[0].coefficient, a.terms[0].factors);
  if (a.terms.size() * b.terms.size() > maximum_products) {
    throw Error(ErrorKind::Unsupported,
                fmt::format("a product of dim expressions with {} and {} terms is too large to expand; simplify the "
                            "model's shape arithmetic",
                            a.terms.size(), b.terms.size()));
  }
  Polynomial product = multiply(a, b.constant, {});
  std::vector<Dim::Term> all;
  all.reserve((a.terms.size() + 1) * b.terms.size());
  for (const Dim::Term& right : b.terms) {
    for (Dim::Term& term : multiply(a, right.coefficient, right.factors).terms) all.push_back(std::move(term));
  }
  std::ranges::sort(all, [](const auto& x, const auto& y) { return compare_monomials(x, y) < 0; }, &Dim::Term::factors);
  Polynomial merged;
  for (Dim::Term& term : all) {
    if (!merged.terms.empty() && merged.terms.back().factors == term.factors) {
      merged.terms.back().coefficient = checked_add(merged.terms.back().coefficient, term.coefficient);
    } else {
      merged.terms.push_back(std::move(term));
    }
  }
  std::erase_if(merged.terms, [](const Dim::Term& term) { return term.coefficient == 0; });
  return add(product, merged, 1);
}

namespace {

bool is_division(const Dim& atom) { return atom.kind() == Dim::Kind::FloorDiv || atom.kind() == Dim::Kind::Mod; }

std::int64_t ratio_of(std::int64_t a, std::int64_t b) {
  return a == std::numeric_limits<std::int64_t>::min() ? 0 : a / b;  // the least integer has no counterpart to move to
}

// How many times `part` is in `whole`: positive or negative where all its monomials are there with one sign, else 0. A constant part
// counts only where `part` is nothing else.
std::int64_t multiplicity(const Polynomial& part, const Polynomial& whole) {
  if (part.terms.empty()) return part.constant == 0 ? 0 : ratio_of(whole.constant, part.constant);
  std::int64_t least = 0;
  for (const Dim::Term& term : part.terms) {
    const std::int64_t ratio = ratio_of(whole.coefficient_of(term.factors), term.coefficient);
    if (ratio == 0 || (least != 0 && (ratio < 0) != (least < 0))) return 0;
    if (least == 0 || std::abs(ratio) < std::abs(least)) least = ratio;
  }
  return least;
}

// One group: rest * mod(x, y), rest * y * floor_div(x, y) and rest * x, of which the first two sum to the third. Moving t of both into the
// third leaves the fewest when t is the median; that is the canonical choice. True where something moved.
bool recombine_group(Polynomial& sum, const Dim& atom, const std::vector<Dim>& rest, Facts* facts) {
  const Dim& x = atom.operands()[0];
  const Dim& y = atom.operands()[1];
  const bool from_quotient = atom.kind() == Dim::Kind::FloorDiv;
  const Dim quotient = from_quotient ? atom : divide(x, y, facts);
  const Dim modulus = from_quotient ? remainder(x, y, facts) : atom;
  const Polynomial third = multiply(to_polynomial(x), 1, rest);
  const Polynomial second = multiply(multiply(to_polynomial(y), to_polynomial(quotient)), 1, rest);
  const Polynomial first = multiply(to_polynomial(modulus), 1, rest);
  const std::int64_t a = multiplicity(first, sum);
  const std::int64_t b = multiplicity(second, sum);
  const std::int64_t c = multiplicity(third, sum);
  const std::int64_t low = std::min(a, b);
  const std::int64_t high = std::max(a, b);
  const std::int64_t moved = std::clamp(-c, low, high);  // the median of a, b, -c
  if (moved == 0) return false;
  sum = add(add(add(sum, first, checked_multiply(moved, -1)), second, checked_multiply(moved, -1)), third, moved);
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
        if (recombine_group(sum, atom, rest, facts)) return true;
        continue;
      }
      // The other factors hold the divisor's leading monomial, or this quotient is not multiplied by its divisor.
      const Polynomial divisor = to_polynomial(atom.operands()[1]);
      const std::vector<Dim> leading = divisor.terms.empty() ? std::vector<Dim>{} : divisor.terms.front().factors;
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
  const bool small = polynomial.terms.size() <= most_terms && polynomial.terms.size() + (polynomial.constant != 0) >= 2;
  if (!small ||
      std::ranges::none_of(polynomial.terms, [](const Dim::Term& term) { return std::ranges::any_of(term.factors, is_division); })) {
    return polynomial;
  }
  for (int i = 0; i < most_groups && recombine_once(polynomial, facts); ++i) {
  }
  return polynomial;
}

Dim from_polynomial(Polynomial polynomial, Facts* facts) { return make_sum(recombine_divisions(std::move(polynomial), facts)); }

namespace {

Dim sum_of(const Dim& a, const Dim& b, std::int64_t sign, Facts* facts) {
  try {
    if (b.is_constant(0)) return a;
    if (a.is_constant() && b.is_constant()) {
      return checked_add(a.constant_part(), checked_multiply(b.constant_part(), sign));
    }
    if (sign == 1 && a.is_constant(0)) return b;
    return from_polynomial(add(to_polynomial(a), to_polynomial(b), sign), facts);
  } catch (const Overflow&) {
    throw_overflow(fmt::format("({}) {} ({})", abbreviated(a), sign == 1 ? '+' : '-', abbreviated(b)));
  }
}

}  // namespace

Dim add(const Dim& a, const Dim& b, Facts* facts) { return sum_of(a, b, 1, facts); }
Dim subtract(const Dim& a, const Dim& b, Facts* facts) { return sum_of(a, b, -1, facts); }

Dim multiply(const Dim& a, const Dim& b, Facts* facts) {
  try {
    if (a.is_constant(1)) return b;
    if (b.is_constant(1)) return a;
    if (a.is_constant() && b.is_constant()) return checked_multiply(a.constant_part(), b.constant_part());
    if (a.is_constant(0) || b.is_constant(0)) return 0;
    return from_polynomial(multiply(to_polynomial(a), to_polynomial(b)), facts);
  } catch (const Overflow&) {
    throw_overflow(fmt::format("({}) * ({})", abbreviated(a), abbreviated(b)));
  }
}

std::optional<std::int64_t> constant_difference(const Dim& a, const Dim& b) {
  const auto same_terms = [&] {
    const bool plain_a = a.kind() != Dim::Kind::Sum && !a.is_constant();
    const bool plain_b = b.kind() != Dim::Kind::Sum && !b.is_constant();
    if (plain_a && plain_b) return a == b;
    if (!plain_a && !plain_b) return a.terms() == b.terms();
    const Dim& atom = plain_a ? a : b;
    const std::vector<Dim::Term>& terms = plain_a ? b.terms() : a.terms();
    return terms.size() == 1 && terms[0].coefficient == 1 && terms[0].factors.size() == 1 && terms[0].factors[0] == atom;
  };
  std::int64_t difference = 0;
  if (!same_terms() || __builtin_sub_overflow(a.constant_part(), b.constant_part(), &difference)) return std::nullopt;
  return difference;
}

}  // namespace anydim::ir::detail
