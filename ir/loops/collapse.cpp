#include <algorithm>
#include <optional>

#include "ir/dims/affine.h"
#include "ir/loops/derive.h"
#include "ir/loops/digits.h"

namespace anydim::ir::derive {

namespace {

// True where `symbol` stands inside a division, a modulo or another atom that is not a plain
// product.
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

LoopRole role_of(const Iteration& iteration) {
  return static_cast<LoopRole>(iteration.variable.value);
}

// Outer and inner become one iteration when no access then needs to take the joined index apart
// again.
class Join {
 public:
  Join(const Iteration& outer, const Iteration& inner, AccessContext& context) : context_(context) {
    joined_ = context_.iterate(role_of(outer), outer.extent * inner.extent);
    const Dim joined = joined_.index();
    replacement_.emplace(outer.variable, floor_div(joined, inner.extent));
    replacement_.emplace(inner.variable, mod(joined, inner.extent));
  }

  const Iteration& joined() const { return joined_; }
  bool touches(const Dim& dim) const {
    for (const DimLeaf& leaf : dim.leaves())
      if (replacement_.contains(leaf)) return true;
    return false;
  }
  bool plain(const Dim& dim) const { return !inside_atom(rewritten(dim), joined_.variable); }
  Dim rewritten(const Dim& dim) const {
    return touches(dim) ? simplify(dim.substitute(replacement_), context_.symbols) : dim;
  }

 private:
  AccessContext& context_;
  Iteration joined_;
  std::map<DimLeaf, Dim> replacement_;
};

// Reads and writes of all programs.
class Accesses {
 public:
  Accesses(std::span<ScalarProgram*> programs, std::span<std::vector<Store>*> stores,
           std::span<const std::vector<Dim>> buffer_dims = {},
           std::span<const std::vector<Dim>> output_dims = {})
      : programs_(programs), stores_(stores), buffer_dims_(buffer_dims), output_dims_(output_dims) {
  }

  // Every dim of a read, a write or anything else in the programs.
  std::vector<Dim> dims() const {
    std::vector<Dim> found;
    for (const ScalarProgram* program : programs_)
      for (const ScalarStep& step : program->steps)
        for_each_dim(step, [&](const Dim& dim) { found.push_back(dim); });
    for (const std::vector<Store>* list : stores_)
      for (const Store& store : *list)
        found.insert(found.end(), store.index.begin(), store.index.end());
    return found;
  }

  // Calls `access(index, dims)` for every read and write, `other(dim)` for every other dim that may
  // mention a loop variable, until one answers false.
  bool all(const auto& access, const auto& other) const {
    for (const ScalarProgram* program : programs_) {
      for (const ScalarStep& step : program->steps) {
        if (const auto* load = std::get_if<step::Load>(&step.kind)) {
          if (!access(load->index, buffer_dims_[static_cast<std::size_t>(load->buffer)]))
            return false;
        } else if (any_dim(step, [&](const Dim& dim) { return !other(dim); })) {
          return false;
        }
      }
    }
    for (const std::vector<Store>* list : stores_)
      for (const Store& store : *list)
        if (!access(store.index, output_dims_[static_cast<std::size_t>(store.output)]))
          return false;
    return true;
  }

  void rewrite(const auto& rewritten) {
    for (ScalarProgram* program : programs_) {
      for (ScalarStep& step : program->steps) {
        for_each_dim(step, [&](Dim& dim) { dim = rewritten(dim); });
      }
    }
    for (std::vector<Store>* list : stores_)
      for (Store& store : *list)
        for (Dim& dim : store.index) dim = rewritten(dim);
  }

 private:
  std::span<ScalarProgram*> programs_;
  std::span<std::vector<Store>*> stores_;
  std::span<const std::vector<Dim>> buffer_dims_, output_dims_;
};

Dim offset_of(const std::vector<Dim>& index, const std::vector<Dim>& dims) {
  Dim offset = 0;
  for (std::size_t i = 0; i < dims.size(); ++i) offset = offset * dims[i] + index[i];
  return offset;
}

// For every access and iteration what multiplies its variable; nothing where something else
// mentions it.
class Strides {
 public:
  Strides(const std::vector<Iteration>& space, const Accesses& accesses)
      : space_(space), used_elsewhere_(space.size(), false) {
    accesses.all(
        [&](const std::vector<Dim>& index, const std::vector<Dim>& dims) {
          const Dim offset = offset_of(index, dims);
          std::vector<std::optional<Dim>>& row = rows_.emplace_back();
          for (const Iteration& iteration : space) {
            const auto affine = affine_in(offset, iteration.variable);
            row.push_back(affine ? std::optional(affine->stride) : std::nullopt);
          }
          return true;
        },
        [&](const Dim& dim) {
          for (std::size_t i = 0; i < space.size(); ++i)
            used_elsewhere_[i] = used_elsewhere_[i] || dim.mentions(space[i].variable);
          return true;
        });
  }

  // Whether every access steps through iterations `outer` and the one after it as through one run.
  bool continue_each_other(std::size_t outer) const {
    const std::size_t inner = outer + 1;
    return !used_elsewhere_[outer] && !used_elsewhere_[inner] &&
           std::ranges::all_of(rows_, [&](const auto& row) {
             return row[outer] && row[inner] && *row[outer] == *row[inner] * space_[inner].extent;
           });
  }

 private:
  const std::vector<Iteration>& space_;
  std::vector<std::vector<std::optional<Dim>>> rows_;
  std::vector<bool> used_elsewhere_;
};

// Iterations [first, last] as one.
void join_run(std::vector<Iteration>& space, std::size_t first, std::size_t last,
              AccessContext& context, Accesses& accesses) {
  Dim extent = 1;
  for (std::size_t i = first; i <= last; ++i) extent = extent * space[i].extent;
  const Iteration joined = context.iterate(role_of(space[first]), extent);
  const Dim index = joined.index();
  std::map<DimLeaf, Dim> replacement;
  Dim below = 1;
  for (std::size_t i = last + 1; i-- > first;) {
    const Dim quotient = floor_div(index, below);
    replacement.emplace(space[i].variable, i == first ? quotient : mod(quotient, space[i].extent));
    below = below * space[i].extent;
  }
  accesses.rewrite([&](const Dim& dim) {
    if (dim.kind() == Dim::Kind::Symbol) {
      const auto found = replacement.find(dim.leaf());
      return found == replacement.end() ? dim : found->second;
    }
    const auto leaves = dim.leaves();
    const bool touched = std::ranges::any_of(
        leaves, [&](const DimLeaf& leaf) { return replacement.contains(leaf); });
    return touched ? simplify(dim.substitute(replacement), context.symbols) : dim;
  });
  space[first] = joined;
  space.erase(space.begin() + static_cast<std::ptrdiff_t>(first) + 1,
              space.begin() + static_cast<std::ptrdiff_t>(last) + 1);
}

// Proofs about divisions of an index grow fast with the number of loops that it is taken apart
// into.
constexpr std::size_t most_proven = 8;

// Divisions by constants are cheaper than loops shorter than this.
constexpr std::int64_t least_constant_weight = 32;

// Weights of the iteration's digits that take it apart without a rest.
std::vector<Dim> weights_of(const Iteration& iteration, std::span<const Dim> dims,
                            const SymbolTable& symbols) {
  std::vector<Dim> weights = digit_extents(dims, iteration.variable, symbols);
  std::erase_if(weights, [](const Dim& weight) {
    return weight.constant().value_or(least_constant_weight) < least_constant_weight;
  });
  Dim above = iteration.extent;
  for (std::size_t i = weights.size(); i-- > 0;) {
    const Dim extent = simplify(floor_div(above, weights[i]), symbols);
    if (!(extent * weights[i] == above) || extent.is_constant(1)) return {};
    above = weights[i];
  }
  return weights;
}

}  // namespace

void take_apart(std::vector<Iteration>& space, AccessContext& context,
                std::span<ScalarProgram*> programs, std::span<std::vector<Store>*> stores) {
  Accesses accesses(programs, stores);
  std::vector<Iteration> apart;
  for (const Iteration& iteration : space) {
    const std::vector<Dim> weights = weights_of(iteration, accesses.dims(), context.symbols);
    if (weights.empty()) {
      apart.push_back(iteration);
      continue;
    }
    const auto fresh = [&] {
      return context.iterate(role_of(iteration), iteration.extent).variable;
    };
    const Digits digits = split(iteration, weights, fresh, context.symbols);
    accesses.rewrite([&](const Dim& dim) { return over_digits(dim, digits, context.symbols); });
    apart.insert(apart.end(), digits.digits.begin(), digits.digits.end());
  }
  space = std::move(apart);
}

void collapse(std::vector<Iteration>& space, AccessContext& context,
              std::span<ScalarProgram*> programs, std::span<std::vector<Store>*> stores,
              std::span<const std::vector<Dim>> buffer_dims,
              std::span<const std::vector<Dim>> output_dims) {
  Accesses accesses(programs, stores, buffer_dims, output_dims);
  if (space.size() > 1) {
    std::vector<bool> continues;  // into the next
    const Strides strides(space, accesses);
    for (std::size_t i = 0; i + 1 < space.size(); ++i)
      continues.push_back(strides.continue_each_other(i));
    for (std::size_t last = space.size(); last-- > 0;) {
      std::size_t first = last;
      while (first > 0 && continues[first - 1]) --first;
      if (first < last) join_run(space, first, last, context, accesses);
      last = first;
    }
  }
  for (std::size_t i = space.size(); i-- > 1;) {
    if (space.size() > most_proven) break;
    SymbolTable before = context.symbols;
    const Join join(space[i - 1], space[i], context);
    const bool possible = accesses.all(
        [&](const std::vector<Dim>& index, const std::vector<Dim>& dims) {
          return join.plain(offset_of(index, dims));
        },
        [&](const Dim& dim) { return join.plain(dim); });
    if (!possible) {
      context.symbols = std::move(before);
      continue;
    }
    accesses.rewrite([&](const Dim& dim) { return join.rewritten(dim); });
    space[i - 1] = join.joined();
    space.erase(space.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

}  // namespace anydim::ir::derive
