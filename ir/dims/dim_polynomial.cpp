// Sums of products: addition and multiplication.
#include <fmt/format.h>

#include <algorithm>

#include "ir/dims/dim_node.h"
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
      terms, monomial, [](const auto& a, const auto& b) { return compare_monomials(a, b) < 0; },
      &Dim::Term::factors);
  return found != terms.end() && found->factors == monomial ? found->coefficient : 0;
}

Polynomial to_polynomial(const Dim& dim) {
  switch (dim.kind()) {
    case Dim::Kind::Constant: return {{}, dim.constant_part()};
    case Dim::Kind::Sum: return {dim.terms(), dim.constant_part()};
    case Dim::Kind::Symbol:
    case Dim::Kind::Value:
    case Dim::Kind::FloorDiv:
    case Dim::Kind::Mod:
    case Dim::Kind::Min:
    case Dim::Kind::Max:
    case Dim::Kind::Select:
    case Dim::Kind::Broadcast: break;
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
    const int order = x == a.terms.end()   ? 1
                      : y == b.terms.end() ? -1
                                           : compare_monomials(x->factors, y->factors);
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
  std::ranges::merge(a, b, std::back_inserter(merged),
                     [](const Dim& x, const Dim& y) { return compare(x, y) < 0; });
  return merged;
}

std::optional<std::vector<Dim>> remove_factors(const std::vector<Dim>& monomial,
                                               const std::vector<Dim>& divisor) {
  if (divisor.size() > monomial.size()) return std::nullopt;
  std::vector<Dim> rest;
  auto next = divisor.begin();
  for (const Dim& factor : monomial) {
    if (next != divisor.end() && factor == *next) ++next;
    else rest.push_back(factor);
  }
  if (next != divisor.end()) return std::nullopt;
  return rest;
}

std::vector<Dim> common_factors(const std::vector<Dim>& a, const std::vector<Dim>& b) {
  std::vector<Dim> common;
  std::ranges::set_intersection(a, b, std::back_inserter(common),
                                [](const Dim& x, const Dim& y) { return compare(x, y) < 0; });
  return common;
}

Polynomial multiply(const Polynomial& a, std::int64_t coefficient,
                    const std::vector<Dim>& monomial) {
  Polynomial product;
  if (coefficient == 0) return product;
  product.terms.reserve(a.terms.size() + 1);
  for (const Dim::Term& term : a.terms) {
    product.terms.push_back(
        {checked_multiply(term.coefficient, coefficient), merge_factors(term.factors, monomial)});
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

std::vector<Dim::Term> collected(std::vector<Dim::Term> terms) {
  const auto before = [](const Dim::Term& x, const Dim::Term& y) {
    return compare_monomials(x.factors, y.factors) < 0;
  };
  if (!std::ranges::is_sorted(terms, before)) std::ranges::sort(terms, before);
  std::vector<Dim::Term> merged;
  merged.reserve(terms.size());
  for (Dim::Term& term : terms) {
    if (!merged.empty() && merged.back().factors == term.factors) {
      merged.back().coefficient = checked_add(merged.back().coefficient, term.coefficient);
    } else {
      merged.push_back(std::move(term));
    }
  }
  std::erase_if(merged, [](const Dim::Term& term) { return term.coefficient == 0; });
  return merged;
}

Polynomial multiply(const Polynomial& a, const Polynomial& b) {
  if (a.is_constant()) return multiply(b, a.constant, {});
  if (b.is_constant()) return multiply(a, b.constant, {});
  if (b.terms.size() == 1 && b.constant == 0)
    return multiply(a, b.terms[0].coefficient, b.terms[0].factors);
  if (a.terms.size() == 1 && a.constant == 0)
    return multiply(b, a.terms[0].coefficient, a.terms[0].factors);
  if (a.terms.size() * b.terms.size() > maximum_products) {
    throw Error(ErrorKind::Unsupported,
                "a product of dim expressions with {} and {} terms is too large to "
                "expand; simplify the model's shape arithmetic",
                a.terms.size(), b.terms.size());
  }
  Polynomial product = multiply(a, b.constant, {});
  std::vector<Dim::Term> all;
  all.reserve((a.terms.size() + 1) * b.terms.size());
  for (const Dim::Term& right : b.terms) {
    for (Dim::Term& term : multiply(a, right.coefficient, right.factors).terms)
      all.push_back(std::move(term));
  }
  return add(product, {collected(std::move(all)), 0}, 1);
}

std::optional<Linear> linear_in(const Polynomial& polynomial, const Dim& atom) {
  Linear linear{{}, {{}, polynomial.constant}};
  for (const Dim::Term& term : polynomial.terms) {
    const auto power = std::ranges::count(term.factors, atom);
    if (power > 1) return std::nullopt;
    if (power == 0) {
      linear.rest.terms.push_back(term);
      continue;
    }
    auto others = *remove_factors(term.factors, {atom});
    if (others.empty()) linear.factor.constant = term.coefficient;
    else linear.factor.terms.push_back({term.coefficient, std::move(others)});
  }
  return linear;
}

Dim from_polynomial(Polynomial polynomial, Facts* facts) {
  return make_sum(recombine_divisions(std::move(polynomial), facts));
}

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
    throw_overflow(
        fmt::format("({}) {} ({})", abbreviated(a), sign == 1 ? '+' : '-', abbreviated(b)));
  }
}

}  // namespace

Dim add(const Dim& a, const Dim& b, Facts* facts) { return sum_of(a, b, 1, facts); }
Dim subtract(const Dim& a, const Dim& b, Facts* facts) { return sum_of(a, b, -1, facts); }

Dim multiply(const Dim& a, const Dim& b, Facts* facts) {
  try {
    if (a.is_constant(1)) return b;
    if (b.is_constant(1)) return a;
    if (a.is_constant() && b.is_constant())
      return checked_multiply(a.constant_part(), b.constant_part());
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
    return terms.size() == 1 && terms[0].coefficient == 1 && terms[0].factors.size() == 1 &&
           terms[0].factors[0] == atom;
  };
  std::int64_t difference = 0;
  if (!same_terms() || __builtin_sub_overflow(a.constant_part(), b.constant_part(), &difference))
    return std::nullopt;
  return difference;
}

}  // namespace anydim::ir::detail
