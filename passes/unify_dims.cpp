#include "passes/unify_dims.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "ir/dims/affine.h"
#include "ir/error.h"
#include "ir/shapes/infer.h"

namespace anydim::passes {

using namespace ir;

namespace {

bool demands_agreement(Relation relation) {
  return relation == Relation::Equal || relation == Relation::Broadcastable ||
         relation == Relation::ExpandsTo;
}

// What is known of a symbol that is both; nullopt where nothing can be.
std::optional<SymbolInfo> both(const SymbolInfo& a, const SymbolInfo& b) {
  SymbolInfo info = a.low >= b.low && a.high <= b.high ? a : b;
  info.low = std::max(a.low, b.low);
  info.high = std::min(a.high, b.high);
  if (info.low > info.high || __builtin_mul_overflow(a.multiple / std::gcd(a.multiple, b.multiple),
                                                     b.multiple, &info.multiple))
    return std::nullopt;
  return info;
}

// Whether every value of the dim is one that the symbol may have.
bool is_within(const Dim& dim, const SymbolInfo& info, const SymbolTable& symbols) {
  const Interval range = bounds(dim, symbols);
  return info.multiple == 1 && range.low >= info.low &&
         (range.high <= info.high || info.high == default_symbol_maximum);
}

// Whether the dim depends on which of two sizes is repeated, which may be known once other symbols
// are one.
bool has_broadcast(const Dim& dim) {
  return any_part(dim, [](const Dim& part) { return part.kind() == Dim::Kind::Broadcast; });
}

// Whether inputs have symbols apart: where one has all that there are, exporters named them alike,
// and the module need not be inferred to know that.
bool has_symbols_apart(const Function& function) {
  const std::size_t all = parameter_symbols(function).size();
  return std::ranges::none_of(function.body.parameters, [&](ValueId id) {
    std::set<DimLeaf> leaves;
    for (const Dim& dim : function.values[id].type.tensor.dims) dim.collect_leaves(leaves);
    return std::cmp_equal(std::ranges::count_if(leaves, &DimLeaf::is_symbol), all);
  });
}

// Both without the terms that they share: past_1 + sequence and past_0 + sequence are equal where
// past_1 and past_0 are.
std::pair<Dim, Dim> without_shared_terms(const Dim& left, const Dim& right) {
  const Dim difference = left - right;
  if (difference.kind() != Dim::Kind::Sum) return {left, right};
  const std::int64_t constant = difference.constant_part();
  Dim more = std::max<std::int64_t>(constant, 0), less = more - constant;
  for (const Dim::Term& term : difference.terms()) {
    const Dim factors = product(term.factors);
    if (term.coefficient > 0) more = more + term.coefficient * factors;
    else less = less - term.coefficient * factors;
  }
  return {more, less};
}

// Where `dim` is the least of several, `other` among them, the symbol in `dim` that is no less than
// `other`: the length of a mask that is cut to the text's.
std::optional<Dim> cut_symbol(const Dim& dim, const Dim& other) {
  const std::vector<Dim>& among = dim.operands();
  if (dim.kind() != Dim::Kind::Min || std::ranges::find(among, other) == among.end())
    return std::nullopt;
  const auto found = std::ranges::find_if(
      among, [&](const Dim& one) { return one.kind() == Dim::Kind::Symbol && !(one == other); });
  return found == among.end() ? std::nullopt : std::optional(*found);
}

// What a symbol may be written as.
enum class As { Symbol, Expression };

// Symbols that one function writes as other dims, found one after the other.
class Unifier {
 public:
  Unifier(Function& function, As allowed)
      : function_(function), allowed_(allowed), symbols_(parameter_symbols(function)) {}

  void agree(const Dim& a, const Dim& b) {
    auto [left, right] = without_shared_terms(a.substitute(found_), b.substitute(found_));
    if (left == right || !is_of_parameters(left) || !is_of_parameters(right)) return;
    if (const auto symbol = cut_symbol(left, right)) left = *symbol;
    else if (const auto other = cut_symbol(right, left)) right = *other;
    // The symbol that comes first stays.
    if (place(left) < place(right)) std::swap(left, right);
    if (!write(left, right)) write(right, left);
  }

  const std::map<std::string, Dim>& found() const { return found_; }

 private:
  bool is_of_parameters(const Dim& dim) const {
    return !dim.is_constant() && std::ranges::all_of(dim.leaves(), [&](const DimLeaf& leaf) {
      return leaf.is_symbol() && std::ranges::find(symbols_, leaf.symbol) != symbols_.end();
    });
  }

  std::ptrdiff_t place(const Dim& dim) const {
    return dim.kind() != Dim::Kind::Symbol
               ? -1
               : std::ranges::find(symbols_, dim.leaf().symbol) - symbols_.begin();
  }

  bool write(const Dim& symbol, const Dim& as) {
    if (symbol.kind() != Dim::Kind::Symbol || as.mentions(symbol.leaf())) return false;
    const std::string& name = symbol.leaf().symbol;
    const SymbolInfo info = function_.symbols.info(symbol.leaf());
    if (as.kind() == Dim::Kind::Symbol) {
      const auto joined = both(function_.symbols.info(as.leaf()), info);
      if (!joined) return false;
      function_.symbols.declare(as.leaf().symbol, *joined);
    } else if (allowed_ == As::Symbol || has_broadcast(as) ||
               !is_within(as, info, function_.symbols)) {
      return false;
    }
    const std::map<std::string, Dim> one{{name, as}};
    for (auto& [other, dim] : found_) dim = dim.substitute(one);
    found_.emplace(name, as);
    return true;
  }

  Function& function_;
  As allowed_;
  std::vector<std::string> symbols_;
  std::map<std::string, Dim> found_;
};

// What the module's inference demands before a binding of the entry's own block, which always runs;
// nullopt where it refuses the module, which is for the pipeline to say of what is kept of it.
std::optional<std::vector<Precondition>> demands_of_entry(Module typed) {
  InferenceResult facts;
  try {
    facts = infer_types(typed);
  } catch (const Error&) {
    return std::nullopt;
  }
  std::set<ValueId> own;
  for (const Binding& binding : typed.functions[0].body.bindings)
    own.insert(binding.results.begin(), binding.results.end());
  std::vector<Precondition> demands;
  for (const Requirement& requirement : facts.functions.at(0).requirements)
    if (own.contains(requirement.value) && demands_agreement(requirement.precondition.relation))
      demands.push_back(requirement.precondition);
  return demands;
}

// Writes symbols of the entry as what `demands` has them agree with.
std::map<std::string, Dim> unify_once(Module& module, const std::vector<Precondition>& demands,
                                      As allowed) {
  Unifier unifier(module.functions[0], allowed);
  try {
    for (const Precondition& demand : demands) unifier.agree(demand.left, demand.right);
    substitute_symbols(module.functions[0], unifier.found());
  } catch (const Error&) {  // expressions beyond 64 bits
    return {};
  }
  return unifier.found();
}

}  // namespace

std::optional<UnifiedModule> unify_dims(const Module& module) {
  if (!has_symbols_apart(module.functions.at(0))) return std::nullopt;
  std::optional<UnifiedModule> unified;
  auto demands = demands_of_entry(module);
  // With fewer symbols inference knows more: expressions wait until no two symbols are one.
  for (As allowed = As::Symbol; demands && !demands->empty();) {
    Module next = unified ? unified->module : module;
    const std::map<std::string, Dim> found = unify_once(next, *demands, allowed);
    if (found.empty()) {
      if (allowed == As::Expression) break;
      allowed = As::Expression;
      continue;
    }
    demands = demands_of_entry(next);
    if (!demands) break;  // dims that are one contradict what they allowed apart
    if (!unified) unified.emplace();
    unified->module = std::move(next);
    for (EqualDim& before : unified->equal) before.dim = before.dim.substitute(found);
    for (const auto& [symbol, dim] : found) unified->equal.push_back({symbol, dim});
    allowed = As::Symbol;
  }
  return unified;
}

void unify_dims(Module& module, PassContext& context) {
  if (auto unified = unify_dims(module)) module = std::move(unified->module);
  else if (context.options.warn) context.options.warn("there are no dims to write as one");
}

}  // namespace anydim::passes
