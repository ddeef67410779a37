// The inside of dims: nodes, polynomials and the rules of canonical form, shared by the sources
// that implement ir/dims/dim.h and ir/dims/symbols.h. Nothing else includes this.
//
// Every rule takes `facts`: null in the public constructors, which know nothing of symbols;
// simplify() passes what ranges prove. So there is one set of rules, and simplified dims are
// canonical too.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/dims/dim.h"

namespace anydim::ir {

struct Dim::Node {
  Kind kind = Kind::Constant;
  Comparison comparison = Comparison::Equal;
  std::uint32_t depth = 0;  // atoms nested in each other
  std::uint32_t size = 1;   // nodes when written out as a tree
  std::size_t hash = 0;
  std::int64_t constant = 0;  // Constant, and a Sum's constant part
  DimLeaf leaf;
  std::vector<Term> terms;  // Sum: sorted, without zero coefficients
  std::vector<Dim> operands;
};

namespace detail {

class Facts;

// Beyond these an expression ends in an Error: no model needs them, and a hostile one would spend
// all time and memory.
inline constexpr std::uint32_t maximum_depth = 1000;
inline constexpr std::uint32_t maximum_size = 20000;
inline constexpr std::size_t maximum_products = 1 << 15;  // term pairs in one multiplication
inline constexpr std::size_t maximum_choices = 64;        // operands of one min or max

// Thrown where a coefficient leaves 64 bits; the caller that knows the expression turns it into an
// Error.
struct Overflow {};

std::int64_t checked_add(std::int64_t a, std::int64_t b);
std::int64_t checked_multiply(std::int64_t a, std::int64_t b);
std::int64_t floor_quotient(std::int64_t a, std::int64_t b);   // b != 0
std::int64_t floor_remainder(std::int64_t a, std::int64_t b);  // b != 0

// Throws Error{Inputs}: `what` happened to an expression, which is printed up to a sensible length.
[[noreturn]] void throw_overflow(const std::string& expression);
// At most a few hundred characters of the expression.
std::string abbreviated(const Dim& dim);

// Three-way order behind operator<.
int compare(const Dim& a, const Dim& b);
// Graded lexicographic order of monomials: higher degree first. Multiplying by a monomial keeps it.
int compare_monomials(const std::vector<Dim>& a, const std::vector<Dim>& b);

// terms sorted by monomial, each monomial once, no zero coefficient.
struct Polynomial {
  std::vector<Dim::Term> terms;
  std::int64_t constant = 0;
  bool is_zero() const { return terms.empty() && constant == 0; }
  bool is_constant() const { return terms.empty(); }
  std::int64_t coefficient_of(const std::vector<Dim>& monomial) const;  // 0 where absent
};

Polynomial to_polynomial(const Dim& dim);
Polynomial add(const Polynomial& a, const Polynomial& b, std::int64_t scale);  // a + scale * b
Polynomial multiply(const Polynomial& a, const Polynomial& b);
// Terms in any order, like ones several times, as a Polynomial has them.
std::vector<Dim::Term> collected(std::vector<Dim::Term> terms);
Polynomial multiply(const Polynomial& a, std::int64_t coefficient,
                    const std::vector<Dim>& monomial);
std::vector<Dim> merge_factors(const std::vector<Dim>& a, const std::vector<Dim>& b);
// The monomial without `divisor`'s factors; nullopt where it lacks one.
std::optional<std::vector<Dim>> remove_factors(const std::vector<Dim>& monomial,
                                               const std::vector<Dim>& divisor);
std::vector<Dim> common_factors(const std::vector<Dim>& a, const std::vector<Dim>& b);

// polynomial == factor * atom + rest, where no term holds the atom more than once.
struct Linear {
  Polynomial factor;
  Polynomial rest;
};
std::optional<Linear> linear_in(const Polynomial& polynomial, const Dim& atom);

// The polynomial as a dim. `from_polynomial` first puts divisions and remainders that belong
// together back into one.
Dim from_polynomial(Polynomial polynomial, Facts* facts);
Dim make_sum(Polynomial polynomial);
Dim make_atom(Dim::Kind kind, std::vector<Dim> operands, Comparison comparison = Comparison::Equal);
// k * mod(x, y) and k * y * floor_div(x, y) become k * x, and the other two ways round, where that
// leaves less.
Polynomial recombine_divisions(Polynomial polynomial, Facts* facts);

Dim add(const Dim& a, const Dim& b, Facts* facts);
Dim subtract(const Dim& a, const Dim& b, Facts* facts);
Dim multiply(const Dim& a, const Dim& b, Facts* facts);
Dim divide(const Dim& a, const Dim& b, Facts* facts);
Dim remainder(const Dim& a, const Dim& b, Facts* facts);
Dim choose(Dim::Kind kind, std::vector<Dim> operands, Facts* facts);  // Min or Max
Dim decide(Comparison comparison, const Dim& lhs, const Dim& rhs, const Dim& then,
           const Dim& otherwise, Facts* facts);
Dim join(std::vector<Dim> dims, Facts* facts);  // broadcast

// a - b where that is a constant that fits 64 bits.
std::optional<std::int64_t> constant_difference(const Dim& a, const Dim& b);

// Rebuilds a node from new operands (Sum: from new factors) with the rules above.
Dim rebuild(const Dim& dim, const std::function<Dim(const Dim&)>& operand, Facts* facts);

}  // namespace detail
}  // namespace anydim::ir
