// Evaluation and substitution.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "ir/dims/dim_node.h"
#include "ir/error.h"

namespace anydim::ir {

namespace detail {

namespace {

// A product of atoms is one term; only sums and constants among the new factors have to be
// multiplied out.
Polynomial rebuilt_term(const Dim::Term& term, const std::function<Dim(const Dim&)>& operand) {
  std::vector<Dim> factors;
  factors.reserve(term.factors.size());
  for (const Dim& factor : term.factors) factors.push_back(operand(factor));
  const auto is_atom = [](const Dim& factor) {
    return !factor.is_constant() && factor.kind() != Dim::Kind::Sum;
  };
  if (!std::ranges::all_of(factors, is_atom)) {
    Polynomial product{{}, term.coefficient};
    for (const Dim& factor : factors) product = multiply(product, to_polynomial(factor));
    return product;
  }
  std::ranges::sort(factors, [](const Dim& a, const Dim& b) { return compare(a, b) < 0; });
  Polynomial product;
  product.terms.push_back({term.coefficient, std::move(factors)});
  return product;
}

}  // namespace

Dim rebuild(const Dim& dim, const std::function<Dim(const Dim&)>& operand, Facts* facts) {
  const auto at = [&](std::size_t i) { return operand(dim.operands()[i]); };
  switch (dim.kind()) {
    case Dim::Kind::Constant:
    case Dim::Kind::Symbol:
    case Dim::Kind::Value: return dim;
    case Dim::Kind::Sum: {
      // Terms are collected and recombined once: the order of additions leaves no trace.
      std::int64_t constant = dim.constant_part();
      std::vector<Dim::Term> terms;
      terms.reserve(dim.terms().size());
      try {
        for (const Dim::Term& term : dim.terms()) {
          Polynomial product = rebuilt_term(term, operand);
          constant = checked_add(constant, product.constant);
          std::ranges::move(product.terms, std::back_inserter(terms));
        }
        return from_polynomial({collected(std::move(terms)), constant}, facts);
      } catch (const Overflow&) {
        throw_overflow(abbreviated(dim));
      }
    }
    case Dim::Kind::FloorDiv: return divide(at(0), at(1), facts);
    case Dim::Kind::Mod: return remainder(at(0), at(1), facts);
    case Dim::Kind::Min:
    case Dim::Kind::Max: {
      std::vector<Dim> operands;
      for (const Dim& each : dim.operands()) operands.push_back(operand(each));
      return choose(dim.kind(), std::move(operands), facts);
    }
    case Dim::Kind::Select: return decide(dim.comparison(), at(0), at(1), at(2), at(3), facts);
    case Dim::Kind::Broadcast: {
      // A chain of them at once: link by link, every one would be taken apart and put together
      // again.
      std::vector<Dim> operands;
      const Dim* chain = &dim;
      for (; chain->kind() == Dim::Kind::Broadcast; chain = &chain->operands()[0])
        operands.push_back(operand(chain->operands()[1]));
      operands.push_back(operand(*chain));
      return join(std::move(operands), facts);
    }
  }
  internal_error("a dim is of one of the kinds");
}

}  // namespace detail

using namespace detail;

namespace {

class Substitution {
 public:
  explicit Substitution(const std::function<std::optional<Dim>(const DimLeaf&)>& replacement)
      : replacement_(replacement) {}

  Dim apply(const Dim& dim) {
    if (dim.is_constant()) return dim;
    if (dim.kind() == Dim::Kind::Symbol || dim.kind() == Dim::Kind::Value)
      return replacement_(dim.leaf()).value_or(dim);
    const auto known = done_.find(&dim.node());
    if (known != done_.end()) return known->second;
    Dim result =
        changes(dim) ? rebuild(dim, [this](const Dim& part) { return apply(part); }, nullptr) : dim;
    done_.emplace(&dim.node(), result);
    return result;
  }

 private:
  // Children are visited (and remembered) first, so that what stays the same keeps its node.
  bool changes(const Dim& dim) {
    for (const Dim::Term& term : dim.terms()) {
      for (const Dim& factor : term.factors) {
        if (&apply(factor).node() != &factor.node()) return true;
      }
    }
    for (const Dim& operand : dim.operands()) {
      if (&apply(operand).node() != &operand.node()) return true;
    }
    return false;
  }

  const std::function<std::optional<Dim>(const DimLeaf&)>& replacement_;
  std::unordered_map<const Dim::Node*, Dim> done_;
};

struct ZeroDivision {};

class Evaluation {
 public:
  explicit Evaluation(const std::function<std::int64_t(const DimLeaf&)>& lookup)
      : lookup_(lookup) {}

  std::int64_t value(const Dim& dim) {
    const auto at = [&](std::size_t i) { return value(dim.operands()[i]); };
    switch (dim.kind()) {
      case Dim::Kind::Constant: return dim.constant_part();
      case Dim::Kind::Symbol:
      case Dim::Kind::Value: return lookup_(dim.leaf());
      case Dim::Kind::Sum: return sum(dim);
      case Dim::Kind::FloorDiv: {
        const std::int64_t divisor = nonzero(at(1));
        return floor_quotient(at(0), divisor);
      }
      case Dim::Kind::Mod: {
        const std::int64_t divisor = nonzero(at(1));
        return floor_remainder(at(0), divisor);
      }
      case Dim::Kind::Min:
      case Dim::Kind::Max: {
        std::int64_t best = at(0);
        for (std::size_t i = 1; i < dim.operands().size(); ++i) {
          best = dim.kind() == Dim::Kind::Min ? std::min(best, at(i)) : std::max(best, at(i));
        }
        return best;
      }
      case Dim::Kind::Select: {
        const std::int64_t lhs = at(0);
        const std::int64_t rhs = at(1);
        return at(holds(dim.comparison(), lhs, rhs) ? 2 : 3);  // the other branch may have no value
      }
      case Dim::Kind::Broadcast: {
        const std::int64_t first = at(0);
        return first == 1 ? at(1) : first;
      }
    }
    internal_error("a dim is of one of the kinds");
  }

 private:
  static std::int64_t nonzero(std::int64_t divisor) {
    if (divisor == 0) throw ZeroDivision{};
    return divisor;
  }

  // Summed in 128 bits: only a sum that itself leaves 64 bits is an error, whatever the order of
  // its terms.
  std::int64_t sum(const Dim& dim) {
    __int128 total = dim.constant_part();
    for (const Dim::Term& term : dim.terms()) {
      __int128 product = term.coefficient;
      for (const Dim& factor : term.factors) {
        if (__builtin_mul_overflow(product, static_cast<__int128>(value(factor)), &product))
          throw Overflow{};
      }
      if (__builtin_add_overflow(total, product, &total)) throw Overflow{};
    }
    if (total > INT64_MAX || total < INT64_MIN) throw Overflow{};
    return static_cast<std::int64_t>(total);
  }

  const std::function<std::int64_t(const DimLeaf&)>& lookup_;
};

// " for n = 3, m = 0": the values with which an evaluation failed.
std::string values_text(const Dim& dim, const std::function<std::int64_t(const DimLeaf&)>& lookup) {
  std::string text;
  for (const DimLeaf& leaf : dim.leaves()) {
    text += text.empty() ? " for " : ", ";
    text +=
        fmt::format("{} = {}", leaf.is_symbol() ? leaf.symbol : ir::to_string(leaf), lookup(leaf));
    if (text.size() > 300) return text + ", ...";
  }
  return text;
}

}  // namespace

Dim Dim::substitute(const std::function<std::optional<Dim>(const DimLeaf&)>& replacement) const {
  return Substitution(replacement).apply(*this);
}

Dim Dim::substitute(const std::map<std::string, Dim>& symbols) const {
  return substitute([&](const DimLeaf& leaf) -> std::optional<Dim> {
    if (!leaf.is_symbol()) return std::nullopt;
    const auto found = symbols.find(leaf.symbol);
    if (found == symbols.end()) return std::nullopt;
    return found->second;
  });
}

Dim Dim::substitute(const std::map<DimLeaf, Dim>& leaves) const {
  return substitute([&](const DimLeaf& leaf) -> std::optional<Dim> {
    const auto found = leaves.find(leaf);
    if (found == leaves.end()) return std::nullopt;
    return found->second;
  });
}

std::int64_t Dim::evaluate(const std::function<std::int64_t(const DimLeaf&)>& lookup) const {
  try {
    return Evaluation(lookup).value(*this);
  } catch (const Overflow&) {
    throw Error(ErrorKind::Inputs, "the dim expression {} leaves the range of 64-bit integers{}",
                abbreviated(*this), values_text(*this, lookup));
  } catch (const ZeroDivision&) {
    throw Error(ErrorKind::Inputs, "the dim expression {} divides by zero{}", abbreviated(*this),
                values_text(*this, lookup));
  }
}

}  // namespace anydim::ir
