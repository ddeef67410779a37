#include "ir/derive.h"

namespace anydim::ir::derive {

namespace {

// True where `symbol` stands inside a division, a modulo or another atom that is not a plain product.
bool inside_atom(const Dim& dim, const DimLeaf& symbol) {
  switch (dim.kind()) {
    case Dim::Kind::Constant:
    case Dim::Kind::Symbol:
    case Dim::Kind::Value: return false;
    case Dim::Kind::Sum:
      for (const Dim::Term& term : dim.terms())
        for (const Dim& factor : term.factors)
          if (factor.kind() != Dim::Kind::Symbol && factor.mentions(symbol)) return true;
      return false;
    default: return dim.mentions(symbol);
  }
}

// Outer and inner become one iteration when no access then needs to take the joined index apart again.
class Join {
 public:
  Join(const Iteration& outer, const Iteration& inner, AccessContext& context) : context_(context) {
    joined_.symbol = outer.symbol + inner.symbol;
    joined_.extent = outer.extent * inner.extent;
    context_.iterate(joined_.symbol, joined_.extent);
    Dim joined = Dim::symbol(joined_.symbol);
    replacement_.emplace(outer.symbol, floor_div(joined, inner.extent));
    replacement_.emplace(inner.symbol, mod(joined, inner.extent));
    leaf_ = joined.leaf();
  }

  const Iteration& joined() const { return joined_; }
  bool touches(const Dim& dim) const {
    for (const DimLeaf& leaf : dim.leaves())
      if (leaf.is_symbol() && replacement_.contains(leaf.symbol)) return true;
    return false;
  }
  bool plain(const Dim& dim) const { return !inside_atom(rewritten(dim), leaf_); }
  bool plain_access(const std::vector<Dim>& index, const std::vector<Dim>& dims) const {
    Dim offset = 0;
    for (std::size_t i = 0; i < dims.size(); ++i) offset = offset * dims[i] + index[i];
    return plain(offset);
  }
  Dim rewritten(const Dim& dim) const { return touches(dim) ? simplify(dim.substitute(replacement_), context_.symbols) : dim; }

 private:
  AccessContext& context_;
  Iteration joined_;
  DimLeaf leaf_;
  std::map<std::string, Dim> replacement_;
};

}  // namespace

void collapse(std::vector<Iteration>& space, AccessContext& context, std::span<ScalarProgram*> programs,
              std::span<std::vector<Store>*> stores, std::span<const std::vector<Dim>> buffer_dims,
              std::span<const std::vector<Dim>> output_dims) {
  for (std::size_t i = space.size(); i-- > 1;) {
    SymbolTable before = context.symbols;
    Join join(space[i - 1], space[i], context);
    bool possible = true;
    for (ScalarProgram* program : programs) {
      for (const ScalarStep& step : program->steps) {
        if (step.kind == ScalarStep::Kind::Load)
          possible = possible && join.plain_access(step.index, buffer_dims[static_cast<std::size_t>(step.buffer)]);
        else
          for (const Dim& dim : step.index) possible = possible && join.plain(dim);
        for (const auto& condition : step.conditions) possible = possible && join.plain(condition.left) && join.plain(condition.right);
      }
    }
    for (const std::vector<Store>* list : stores)
      for (const Store& store : *list)
        possible = possible && join.plain_access(store.index, output_dims[static_cast<std::size_t>(store.output)]);
    if (!possible) {
      context.symbols = std::move(before);
      continue;
    }
    for (ScalarProgram* program : programs) {
      for (ScalarStep& step : program->steps) {
        for (Dim& dim : step.index) dim = join.rewritten(dim);
        for (auto& condition : step.conditions) {
          condition.left = join.rewritten(condition.left);
          condition.right = join.rewritten(condition.right);
        }
      }
    }
    for (std::vector<Store>* list : stores)
      for (Store& store : *list)
        for (Dim& dim : store.index) dim = join.rewritten(dim);
    space[i - 1] = join.joined();
    space.erase(space.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

}  // namespace anydim::ir::derive
