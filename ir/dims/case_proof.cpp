#include "ir/dims/case_proof.h"

#include <algorithm>
#include <optional>
#include <ranges>
#include <set>
#include <utility>

#include "ir/dims/dim_node.h"
#include "ir/error.h"

namespace anydim::ir {

using namespace detail;

namespace {

// An atom that is one of several dims, each under its own conditions.
struct Case {
  Dim value;
  std::vector<Dim> not_negative;
  std::optional<std::pair<Dim, Dim>> equal;  // the first may stand for the second
};

bool has_cases(const Dim& dim) {
  return dim.kind() == Dim::Kind::Select || dim.kind() == Dim::Kind::Broadcast ||
         dim.kind() == Dim::Kind::Min || dim.kind() == Dim::Kind::Max;
}

void add_equal(Case& one, const Dim& a, const Dim& b) {
  one.not_negative.push_back(a - b);
  one.not_negative.push_back(b - a);
  if (b.kind() == Dim::Kind::Symbol && !a.mentions(b.leaf())) one.equal = {a, b};
  else if (a.kind() == Dim::Kind::Symbol && !b.mentions(a.leaf())) one.equal = {b, a};
}

void add_cases(std::vector<Case>& cases, Comparison comparison, const Dim& a, const Dim& b,
               const Dim& value) {
  switch (comparison) {
    case Comparison::Less: cases.push_back({value, {b - a - 1}, {}}); return;
    case Comparison::LessEqual: cases.push_back({value, {b - a}, {}}); return;
    case Comparison::Equal: add_equal(cases.emplace_back(Case{value, {}, {}}), a, b); return;
    case Comparison::NotEqual:
      cases.push_back({value, {b - a - 1}, {}});
      cases.push_back({value, {a - b - 1}, {}});
      return;
  }
  internal_error("a comparison is one of the enumerators");
}

std::vector<Case> cases_of(const Dim& atom) {
  const std::vector<Dim>& parts = atom.operands();
  std::vector<Case> cases;
  if (atom.kind() == Dim::Kind::Select) {
    add_cases(cases, atom.comparison(), parts[0], parts[1], parts[2]);
    switch (atom.comparison()) {
      case Comparison::Less:
        add_cases(cases, Comparison::LessEqual, parts[1], parts[0], parts[3]);
        break;
      case Comparison::LessEqual:
        add_cases(cases, Comparison::Less, parts[1], parts[0], parts[3]);
        break;
      case Comparison::Equal:
        add_cases(cases, Comparison::NotEqual, parts[0], parts[1], parts[3]);
        break;
      case Comparison::NotEqual:
        add_cases(cases, Comparison::Equal, parts[0], parts[1], parts[3]);
        break;
    }
  } else if (atom.kind() == Dim::Kind::Broadcast) {
    add_cases(cases, Comparison::Equal, 1, parts[0], parts[1]);
    add_cases(cases, Comparison::Equal, 1, parts[1], parts[0]);
    add_cases(cases, Comparison::Equal, parts[0], parts[1], parts[0]);
  } else {
    for (const Dim& chosen : parts) {
      Case& one = cases.emplace_back(Case{chosen, {}, {}});
      for (const Dim& other : parts)
        if (!(other == chosen))
          one.not_negative.push_back(atom.kind() == Dim::Kind::Min ? other - chosen
                                                                   : chosen - other);
    }
  }
  return cases;
}

// The innermost atom with cases that has a value wherever the dim has one: a choice before what it
// chooses from.
std::optional<Dim> find_atom(const Dim& dim) {
  const std::size_t certain = dim.kind() == Dim::Kind::Select ? 2 : dim.operands().size();
  for (const Dim& operand : dim.operands() | std::views::take(certain))
    if (auto found = find_atom(operand)) return found;
  for (const Dim::Term& term : dim.terms())
    for (const Dim& factor : term.factors)
      if (auto found = find_atom(factor)) return found;
  return has_cases(dim) ? std::optional(dim) : std::nullopt;
}

void collect_remainders(const Dim& dim, std::set<Dim>& remainders) {
  if (dim.kind() == Dim::Kind::Mod) remainders.insert(dim);
  for (const Dim& operand : dim.operands()) collect_remainders(operand, remainders);
  for (const Dim::Term& term : dim.terms())
    for (const Dim& factor : term.factors) collect_remainders(factor, remainders);
}

Dim replaced(const Dim& dim, const Dim& atom, const Dim& value) {
  if (dim == atom) return value;
  if (dim.operands().empty() && dim.terms().empty()) return dim;
  return rebuild(dim, [&](const Dim& part) { return replaced(part, atom, value); }, nullptr);
}

// Those of `assumed` that share a leaf with the dim, or with one that does.
std::vector<Dim> related(const Dim& dim, const std::vector<Dim>& assumed) {
  std::set<DimLeaf> leaves = dim.leaves();
  std::vector<Dim> near;
  std::vector<bool> taken(assumed.size());
  for (bool more = true; std::exchange(more, false);) {
    for (std::size_t i = 0; i < assumed.size(); ++i) {
      if (taken[i] || std::ranges::none_of(
                          leaves, [&](const DimLeaf& leaf) { return assumed[i].mentions(leaf); }))
        continue;
      taken[i] = more = true;
      assumed[i].collect_leaves(leaves);
      near.push_back(assumed[i]);
    }
  }
  return near;
}

class CaseProof {
 public:
  explicit CaseProof(const SymbolTable& symbols) : symbols_(symbols) {}

  bool prove(const Dim& dim, std::vector<Dim> assumed, int depth) {
    if (budget_-- <= 0) return false;
    add_remainders(dim, assumed);
    if (follows(dim, assumed) || contradict(assumed)) return true;
    if (depth == 0) return false;
    if (by_quotient(dim, assumed, depth)) return true;
    std::optional<Dim> atom = find_atom(dim);
    for (std::size_t i = 0; i < assumed.size() && !atom; ++i) atom = find_atom(assumed[i]);
    if (!atom) return false;
    return std::ranges::all_of(cases_of(*atom), [&](const Case& one) {
      const auto in_case = [&](const Dim& part) {
        const Dim chosen = replaced(part, *atom, one.value);
        return one.equal ? chosen.substitute({{one.equal->second.leaf(), one.equal->first}})
                         : chosen;
      };
      std::vector<Dim> known;
      for (const Dim& part : assumed) known.push_back(in_case(part));
      known.insert(known.end(), one.not_negative.begin(), one.not_negative.end());
      return prove(simplify(in_case(dim), symbols_), known, depth - 1);
    });
  }

 private:
  bool not_negative(const Dim& dim) const {
    return prove_less_equal(0, dim, symbols_) == Proof::Yes;
  }

  // 0 <= mod(x, y) < y where y is positive.
  void add_remainders(const Dim& dim, std::vector<Dim>& assumed) const {
    std::set<Dim> remainders;
    collect_remainders(dim, remainders);
    for (const Dim& remainder : remainders) {
      const Dim& divisor = remainder.operands()[1];
      if (divisor.constant() || !follows(divisor - 1, assumed)) continue;
      for (const Dim& known : {remainder, divisor - remainder - 1})
        if (std::ranges::find(assumed, known) == assumed.end()) assumed.push_back(known);
    }
  }

  // From ranges, or as a sum of something that is not negative and one or two of `assumed`, or as
  // half of one of them.
  bool follows(const Dim& dim, const std::vector<Dim>& assumed) const {
    if (not_negative(dim)) return true;
    for (std::size_t i = 0; i < assumed.size(); ++i) {
      const Dim rest = dim - assumed[i];
      if (not_negative(rest) || not_negative(rest + dim + 1)) return true;
      for (std::size_t j = i; j < assumed.size(); ++j)
        if (not_negative(rest - assumed[j])) return true;
    }
    return false;
  }

  bool contradict(const std::vector<Dim>& assumed) const {
    for (std::size_t i = 0; i < assumed.size(); ++i) {
      if (not_negative(Dim(-1) - assumed[i])) return true;
      for (std::size_t j = 0; j < i; ++j)
        if (not_negative(Dim(-1) - assumed[i] - assumed[j])) return true;
    }
    return false;
  }

  // rest - floor_div(x, y) >= 0 is x <= y * rest + y - 1, and rest + floor_div(x, y) >= 0 is
  // x + y * rest >= 0, where y is positive.
  bool by_quotient(const Dim& dim, const std::vector<Dim>& assumed, int depth) {
    std::set<Dim> quotients;
    const auto add = [&](const Dim& atom) {
      if (atom.kind() == Dim::Kind::FloorDiv) quotients.insert(atom);
    };
    add(dim);
    for (const Dim::Term& term : dim.terms())
      if (term.factors.size() == 1) add(term.factors[0]);
    return std::ranges::any_of(quotients, [&](const Dim& quotient) {
      const auto linear = linear_in(to_polynomial(dim), quotient);
      const Dim& x = quotient.operands()[0];
      const Dim& y = quotient.operands()[1];
      if (!linear || prove_less(0, y, symbols_) != Proof::Yes) return false;
      const Dim factor = make_sum(linear->factor), rest = make_sum(linear->rest);
      if (factor.is_constant(1)) return prove(x + y * rest, assumed, depth - 1);
      if (factor.is_constant(-1)) return prove(y * rest + y - 1 - x, assumed, depth - 1);
      return false;
    });
  }

  const SymbolTable& symbols_;
  int budget_ = 100;  // dims to look at
};

// b - a >= least
bool proven_apart(const Dim& a, const Dim& b, std::int64_t least, const std::vector<Dim>& assumed,
                  const SymbolTable& symbols) {
  constexpr int deepest = 10;
  try {
    const Dim dim = b - a - least;
    return CaseProof(symbols).prove(dim, related(dim, assumed), deepest);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::Internal) throw;
    return false;  // a difference leaves 64 bits
  }
}

}  // namespace

bool proven_less_equal(const Dim& a, const Dim& b, const std::vector<Dim>& assumed,
                       const SymbolTable& symbols) {
  return proven_apart(a, b, 0, assumed, symbols);
}

bool proven_less(const Dim& a, const Dim& b, const std::vector<Dim>& assumed,
                 const SymbolTable& symbols) {
  return proven_apart(a, b, 1, assumed, symbols);
}

}  // namespace anydim::ir
