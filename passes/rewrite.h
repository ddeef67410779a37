// Replacing values and dropping bindings: the one mechanism that passes rewrite blocks with.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "ir/module.h"

namespace anydim::passes {

// Collects value-for-value replacements and applies them to a whole function at once: operands,
// results of blocks (nested ones too) and the tensor elements that dims and types mention.
// Replacements chain: a by b and b by c reads c.
class Replacements {
 public:
  explicit Replacements(const ir::Function& function) : by_(function.values.size(), ir::no_value) {}

  void replace(ir::ValueId old, ir::ValueId with);
  ir::ValueId resolve(ir::ValueId value) const;
  bool empty() const { return !any_; }
  void apply(ir::Function& function) const;
  void apply(ir::Binding& binding) const;  // operands and dims, not nested blocks

 private:
  ir::Dim resolve(const ir::Dim& dim) const;
  void apply(ir::Block& block) const;

  std::vector<ir::ValueId> by_;
  bool any_ = false;
};

// Bytes up to which constants are compared by their bits. Larger ones are the same where they are
// the same memory or come from the same place of a file.
inline constexpr std::size_t compared_by_bits = 4096;
bool same_attributes(const ir::Attributes& a, const ir::Attributes& b);

// Whether results have extents that only the data tells: symbols that the binding opens.
bool opens_extents(const ir::Function& function, const ir::Binding& binding);

// Whether all that the binding gives is one tensor, of an op without blocks.
bool has_one_tensor(const ir::Function& function, const ir::Binding& binding);

// By value: how often bindings read it, in blocks inside others too, or blocks give it.
std::vector<std::size_t> count_reads(const ir::Function& function);

// Drops bindings without effect whose results nobody reads: not bind, not check_shape, nothing
// whose elements a dim mentions, nothing that opens a symbol that is still mentioned.
void drop_dead(ir::Function& function);

// Of a block and those inside it, which come first: gives each binding to `rewrite`, which puts
// what is to stand in its place into the block, or says false where the binding stays.
void rewrite_bindings(
    ir::Block& block,
    const std::function<bool(ir::Binding& binding, std::vector<ir::Binding>& into)>& rewrite);

// Where `rewrite` says that it changed a function, what nobody reads there is dropped, and the
// module's types are inferred again.
void rewrite_functions(ir::Module& module, const std::function<bool(ir::Function&)>& rewrite);

}  // namespace anydim::passes
