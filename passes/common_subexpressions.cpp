// Bindings of equal op, operands, attributes and dims become one. Large constants are equal where
// they share memory or origin.

#include "ir/hash.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace anydim::passes {

using namespace ir;

namespace {

bool same(const Binding& a, const Binding& b) {
  if (a.op != b.op || a.operands != b.operands || a.dims != b.dims || a.callee != b.callee ||
      a.results.size() != b.results.size())
    return false;
  return same_attributes(a.attributes, b.attributes);
}

std::size_t hash_of(const Binding& binding) {
  std::size_t hash = static_cast<std::size_t>(binding.op);
  const auto mix = [&](std::uint64_t value) { hash = mixed(hash, value); };
  for (ValueId operand : binding.operands) mix(operand);
  for (const Dim& dim : binding.dims) mix(dim.hash());
  for (const auto& [name, attribute] : binding.attributes) {
    mix(fnv1a(name));
    if (const auto* number = std::get_if<std::int64_t>(&attribute))
      mix(static_cast<std::size_t>(*number));
    if (const auto* list = std::get_if<std::vector<std::int64_t>>(&attribute))
      for (std::int64_t number : *list) mix(static_cast<std::size_t>(number));
    if (const auto* tensor = std::get_if<Tensor>(&attribute)) {
      for (std::int64_t dim : tensor->dims()) mix(static_cast<std::size_t>(dim));
      if (tensor->byte_size() <= compared_by_bits)
        mix(fnv1a({reinterpret_cast<const char*>(tensor->bytes().data()), tensor->bytes().size()}));
    }
  }
  return hash;
}

class Scope {
 public:
  // Bindings of a nested block see those of the blocks around it.
  Scope(const Function& function, Replacements& replacements, const Scope* outer)
      : function_(function), replacements_(replacements), outer_(outer) {}

  void run(Block& block) {
    std::vector<Binding> kept;
    for (Binding& binding : block.bindings) {
      replacements_.apply(binding);
      for (Block& nested : binding.blocks) Scope(function_, replacements_, this).run(nested);
      // What opens a symbol stays: dims mention it.
      bool pure = !info(binding.op).has(traits::control) && binding.op != Op::bind &&
                  !opens_extents(function_, binding);
      if (pure && !binding.results.empty()) {
        std::size_t hash = hash_of(binding);
        if (const Binding* first = find(hash, binding)) {
          for (std::size_t i = 0; i < binding.results.size(); ++i)
            replacements_.replace(binding.results[i], first->results[i]);
          continue;
        }
        known_.emplace(hash, binding);
      }
      kept.push_back(std::move(binding));
    }
    block.bindings = std::move(kept);
  }

 private:
  const Binding* find(std::size_t hash, const Binding& binding) const {
    auto [begin, end] = known_.equal_range(hash);
    for (auto entry = begin; entry != end; ++entry)
      if (same(entry->second, binding)) return &entry->second;
    return outer_ != nullptr ? outer_->find(hash, binding) : nullptr;
  }

  const Function& function_;
  Replacements& replacements_;
  const Scope* outer_;
  std::unordered_multimap<std::size_t, Binding> known_;
};

}  // namespace

void common_subexpressions(Module& module, PassContext&) {
  for (Function& function : module.functions) {
    Replacements replacements(function);
    Scope(function, replacements, nullptr).run(function.body);
    replacements.apply(function);
  }
}

}  // namespace anydim::passes
