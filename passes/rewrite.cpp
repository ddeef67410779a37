#include "passes/rewrite.h"

#include <algorithm>
#include <bit>
#include <set>
#include <string>

#include "ir/shapes/infer.h"

namespace anydim::passes {

using namespace ir;

namespace {

bool same(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.dims() != b.dims()) return false;
  if (a.shares(b)) return true;
  if (a.byte_size() <= compared_by_bits) return a.same_bits(b);
  return a.origin() == b.origin() && !(a.origin() == TensorOrigin{}) && a.owner() == b.owner();
}

// Signs of zeros count, and a NaN is itself.
bool same_number(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

bool same(const Attribute& a, const Attribute& b) {
  if (a.index() != b.index()) return false;
  if (const Tensor* tensor = std::get_if<Tensor>(&a)) return same(*tensor, std::get<Tensor>(b));
  return std::visit(
      [&](const auto& left) {
        using Kind = std::decay_t<decltype(left)>;
        if constexpr (std::is_same_v<Kind, Tensor>) return false;
        else if constexpr (std::is_same_v<Kind, double>)
          return same_number(left, std::get<Kind>(b));
        else if constexpr (std::is_same_v<Kind, std::vector<double>>)
          return std::ranges::equal(left, std::get<Kind>(b), same_number);
        else return left == std::get<Kind>(b);
      },
      a);
}

}  // namespace

bool same_attributes(const Attributes& a, const Attributes& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && same(x.second, y.second);
  });
}

void Replacements::replace(ValueId old, ValueId with) {
  if (old >= by_.size()) by_.resize(old + 1, no_value);
  by_[old] = with;
  any_ = true;
}

ValueId Replacements::resolve(ValueId value) const {
  while (value != no_value && value < by_.size() && by_[value] != no_value) value = by_[value];
  return value;
}

Dim Replacements::resolve(const Dim& dim) const {
  if (dim.is_constant() || dim.kind() == Dim::Kind::Symbol) return dim;
  return dim.substitute([&](const DimLeaf& leaf) -> std::optional<Dim> {
    if (leaf.is_symbol() || resolve(leaf.value) == leaf.value) return std::nullopt;
    return Dim::value(resolve(leaf.value), leaf.element);
  });
}

void Replacements::apply(Binding& binding) const {
  for (ValueId& operand : binding.operands) operand = resolve(operand);
  for (Dim& dim : binding.dims) dim = resolve(dim);
}

void Replacements::apply(Block& block) const {
  for (Binding& binding : block.bindings) {
    apply(binding);
    for (Block& nested : binding.blocks) apply(nested);
  }
  for (ValueId& result : block.results) result = resolve(result);
}

void Replacements::apply(Function& function) const {
  if (!any_) return;
  apply(function.body);
  for (Value& value : function.values)
    if (value.type.is_tensor())
      for (Dim& dim : value.type.tensor.dims) dim = resolve(dim);
}

namespace {

// What is read: values, and symbols that dims mention.
struct Live {
  std::vector<bool> values;
  std::set<std::string> symbols;

  void mark(const Dim& dim) {
    for (const DimLeaf& leaf : dim.leaves()) {
      if (leaf.is_symbol()) symbols.insert(leaf.symbol);
      else values[leaf.value] = true;
    }
  }
};

bool has_effect(const Binding& binding) {
  return binding.op == Op::bind || binding.op == Op::check_shape;
}

}  // namespace

namespace {

void count_reads(const Block& block, std::vector<std::size_t>& reads) {
  for (const Binding& binding : block.bindings) {
    for (const ValueId operand : binding.operands)
      if (operand != no_value) ++reads[operand];
    for (const Block& nested : binding.blocks) count_reads(nested, reads);
  }
  for (const ValueId result : block.results) ++reads[result];
}

}  // namespace

std::vector<std::size_t> count_reads(const Function& function) {
  std::vector<std::size_t> reads(function.values.size());
  count_reads(function.body, reads);
  return reads;
}

bool has_one_tensor(const Function& function, const Binding& binding) {
  return binding.results.size() == 1 && binding.blocks.empty() &&
         function.values[binding.results[0]].type.is_tensor();
}

bool opens_extents(const Function& function, const Binding& binding) {
  if (info(binding.op).has(traits::opens)) return true;
  if (binding.op != Op::dyn_arange) return false;
  const Type& type = function.values[binding.results[0]].type;
  return type.is_tensor() && is_float(type.tensor.dtype) && !type.tensor.dims[0].is_constant();
}

namespace {

// Whether the binding opens a symbol that somebody mentions.
bool opens_live(const Function& function, const Binding& binding, const Live& live) {
  if (!info(binding.op).has(traits::control) && !opens_extents(function, binding)) return false;
  return std::ranges::any_of(binding.results, [&](ValueId id) {
    const Type& type = function.values[id].type;
    return type.is_tensor() && std::ranges::any_of(type.tensor.dims, [&](const Dim& dim) {
             if (dim.kind() != Dim::Kind::Symbol || !live.symbols.contains(dim.leaf().symbol))
               return false;
             const SymbolInfo* symbol = function.symbols.find(dim.leaf().symbol);
             return symbol != nullptr && symbol->unbacked;
           });
  });
}

void drop_dead(Function& function, Block& block, Live& live) {
  for (ValueId result : block.results) live.values[result] = true;
  std::vector<Binding> kept;
  for (std::size_t i = block.bindings.size(); i-- > 0;) {
    Binding& binding = block.bindings[i];
    bool wanted = has_effect(binding) || binding.results.empty() ||
                  opens_live(function, binding, live) ||
                  std::any_of(binding.results.begin(), binding.results.end(),
                              [&](ValueId id) { return live.values[id]; });
    if (!wanted) continue;
    for (Block& nested : binding.blocks) drop_dead(function, nested, live);
    for (ValueId operand : binding.operands)
      if (operand != no_value) live.values[operand] = true;
    for (const Dim& dim : binding.dims) live.mark(dim);
    for (ValueId result : binding.results)
      if (function.values[result].type.is_tensor())
        for (const Dim& dim : function.values[result].type.tensor.dims) live.mark(dim);
    kept.push_back(std::move(binding));
  }
  std::reverse(kept.begin(), kept.end());
  block.bindings = std::move(kept);
}

}  // namespace

void drop_dead(Function& function) {
  Live live{std::vector<bool>(function.values.size(), false), {}};
  drop_dead(function, function.body, live);
}

void rewrite_bindings(Block& block,
                      const std::function<bool(Binding&, std::vector<Binding>&)>& rewrite) {
  std::vector<Binding> result;
  for (Binding& binding : block.bindings) {
    for (Block& nested : binding.blocks) rewrite_bindings(nested, rewrite);
    if (!rewrite(binding, result)) result.push_back(std::move(binding));
  }
  block.bindings = std::move(result);
}

void rewrite_functions(Module& module, const std::function<bool(Function&)>& rewrite) {
  bool changed = false;
  for (Function& function : module.functions) {
    if (!rewrite(function)) continue;
    drop_dead(function);
    changed = true;
  }
  if (changed) infer_types(module);
}

}  // namespace anydim::passes
