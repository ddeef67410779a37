#include "ir/loops/digits.h"

#include <algorithm>
#include <map>
#include <optional>

namespace anydim::ir {

namespace {

// What the variable itself was divided by to give `dim`: 1 for the variable; nothing where it isn't
// of that form.
std::optional<Dim> divided_by(const Dim& dim, const DimLeaf& variable) {
  switch (dim.kind()) {  // NOLINT: the others are no digit
    case Dim::Kind::Symbol: return dim.leaf() == variable ? std::optional(Dim(1)) : std::nullopt;
    case Dim::Kind::FloorDiv: {
      if (dim.operands()[1].mentions(variable)) return std::nullopt;
      const auto inner = divided_by(dim.operands()[0], variable);
      return inner ? std::optional(*inner * dim.operands()[1]) : std::nullopt;
    }
    case Dim::Kind::Mod: return divided_by(dim.operands()[0], variable);
    default: return std::nullopt;
  }
}

void collect(const Dim& dim, const DimLeaf& variable, std::vector<Dim>& found) {
  if (!dim.mentions(variable)) return;
  switch (dim.kind()) {
    case Dim::Kind::Constant:
    case Dim::Kind::Symbol:
    case Dim::Kind::Value: return;
    case Dim::Kind::Sum:
      for (const Dim::Term& term : dim.terms())
        for (const Dim& factor : term.factors) collect(factor, variable, found);
      return;
    case Dim::Kind::FloorDiv:
    case Dim::Kind::Mod: {
      const auto before = divided_by(dim.operands()[0], variable);
      if (before && !dim.operands()[1].mentions(variable))
        found.push_back(*before * dim.operands()[1]);
      break;
    }
    default: break;
  }
  for (const Dim& operand : dim.operands()) collect(operand, variable, found);
}

}  // namespace

std::vector<Dim> digit_extents(std::span<const Dim> dims, const DimLeaf& variable,
                               const SymbolTable& symbols) {
  std::vector<Dim> found;
  for (const Dim& dim : dims) collect(dim, variable, found);
  const auto divides = [&](const Dim& a, const Dim& b) {
    return simplify(mod(b, a), symbols).is_constant(0);
  };
  std::vector<Dim> extents;
  for (const Dim& extent : found) {
    if (std::ranges::find(extents, extent) != extents.end()) continue;
    const auto larger =
        std::ranges::find_if(extents, [&](const Dim& other) { return divides(extent, other); });
    extents.insert(larger, extent);
  }
  for (std::size_t i = 1; i < extents.size(); ++i)
    if (!divides(extents[i - 1], extents[i])) return {};
  return extents;
}

std::vector<Dim> digit_extents(const ScalarProgram& program, const DimLeaf& variable,
                               const SymbolTable& symbols) {
  std::vector<Dim> dims;
  for (const ScalarStep& step : program.steps)
    for_each_dim(step, [&](const Dim& dim) { dims.push_back(dim); });
  return digit_extents(dims, variable, symbols);
}

Digits split(const Iteration& iteration, const std::vector<Dim>& extents,
             const std::function<DimLeaf()>& fresh, SymbolTable& symbols) {
  Digits result{.variable = iteration.variable, .digits = {}, .weights = {}, .value = {}};
  Dim above = iteration.extent;
  for (std::size_t i = extents.size() + 1; i-- > 0;) {
    const Dim weight = i == 0 ? Dim(1) : extents[i - 1];
    const Dim extent = simplify(ceil_div(above, weight), symbols);
    result.digits.push_back(declare_iteration(fresh(), extent, symbols));
    result.weights.push_back(weight);
    result.value = result.value + result.digits.back().index() * weight;
    above = weight;
  }
  return result;
}

Dim over_digits(const Dim& index, const Digits& digits, const SymbolTable& symbols) {
  if (!index.mentions(digits.variable)) return index;
  // A division by a weight is a sum of digits whether or not the weight is known to be more than 0,
  // which simplify() would need to know.
  const std::function<Dim(const Dim&)> divided = [&](const Dim& dim) -> Dim {
    if (!dim.mentions(digits.variable)) return dim;
    const auto part = [&](std::size_t i) { return divided(dim.operands()[i]); };
    switch (dim.kind()) {
      case Dim::Kind::Constant:
      case Dim::Kind::Symbol:
      case Dim::Kind::Value: return dim;
      case Dim::Kind::Sum: {
        Dim total = dim.constant_part();
        for (const Dim::Term& term : dim.terms()) {
          Dim product = term.coefficient;
          for (const Dim& factor : term.factors) product = product * divided(factor);
          total = total + product;
        }
        return total;
      }
      case Dim::Kind::FloorDiv:
      case Dim::Kind::Mod: {
        const bool whole = dim.kind() == Dim::Kind::FloorDiv;
        Dim high, low;
        bool found = dim.operands()[0] == Dim::of(digits.variable);
        if (found) {
          const auto weight = std::ranges::find(digits.weights, dim.operands()[1]);
          found = weight != digits.weights.end();
          for (std::size_t i = 0; found && i < digits.digits.size(); ++i) {
            const Dim index = digits.digits[i].index();
            if (digits.weights.begin() + static_cast<std::ptrdiff_t>(i) > weight)
              low = low + index * digits.weights[i];
            else if (digits.weights[i] == *weight) high = high + index;
            else high = high + index * simplify(floor_div(digits.weights[i], *weight), symbols);
          }
        }
        if (found) return whole ? high : low;
        return whole ? floor_div(part(0), part(1)) : mod(part(0), part(1));
      }
      case Dim::Kind::Min:
      case Dim::Kind::Max: {
        Dim best = part(0);
        for (std::size_t i = 1; i < dim.operands().size(); ++i)
          best = dim.kind() == Dim::Kind::Min ? min(best, part(i)) : max(best, part(i));
        return best;
      }
      case Dim::Kind::Select: return select(dim.comparison(), part(0), part(1), part(2), part(3));
      case Dim::Kind::Broadcast: return broadcast(part(0), part(1));
    }
    return dim;
  };
  return simplify(
      divided(index).substitute(std::map<DimLeaf, Dim>{{digits.variable, digits.value}}), symbols);
}

ScalarProgram over_digits(const ScalarProgram& program, const Digits& digits,
                          const SymbolTable& symbols) {
  ScalarProgram result = program;
  for (ScalarStep& step : result.steps)
    for_each_dim(step, [&](Dim& dim) { dim = over_digits(dim, digits, symbols); });
  return result;
}

}  // namespace anydim::ir
