// One block on its way into kernels: what all stages of fusion ask of it.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "ir/backend.h"
#include "ir/module.h"
#include "passes/fusion_graph.h"
#include "passes/outline.h"
#include "passes/stored_values.h"
#include "passes/subgraph_key.h"

namespace anydim::passes {

struct FunctionFacts {
  StoredValues stored;
  std::unordered_set<ir::ValueId> in_types;
  bool joins_rows = true;                // Backend::joins_rows_to_products()
  bool rounds_when_read = false;         // Backend::rounds_keys_and_values()
  const ir::Backend* backend = nullptr;  // asked about single regions; null: none is
};

// Bindings of one kernel, by position in the block; no more than `most_members`, as deriving its
// form takes time and stack by their number.
using Members = std::set<std::size_t>;
inline constexpr std::size_t most_members = 512;

// By binding of the block the group that it belongs to, or -1.
using Groups = std::vector<std::ptrdiff_t>;

// What a subgraph is as one kernel.
struct KernelOf {
  std::optional<Outlined> kernel;  // its region carries its form; nothing: it cannot be one
  std::string reason;              // why not, naming the binding
};

class FusionBlock {
 public:
  // All that it is given outlives it.
  FusionBlock(const ir::Function& function, ir::Block& block, const FunctionFacts& facts);

  const ir::Function& function() const { return function_; }
  const ir::Block& block() const { return block_; }
  const FunctionFacts& facts() const { return facts_; }
  const FusionGraph& graph() const { return *graph_; }
  const ir::Binding& binding(std::size_t position) const { return block_.bindings[position]; }

  std::vector<ir::Binding> bindings_of(const Members& members) const;
  SubgraphKey key_of(const std::vector<ir::Binding>& bindings,
                     const std::vector<ir::ValueId>& outputs) const;
  // Lasts as long as the block; found once for subgraphs of equal keys, so that operands and
  // results of the call may be those of another.
  const KernelOf& kernel_of(const std::vector<ir::Binding>& bindings,
                            const std::vector<ir::ValueId>& outputs) const;
  // Whether the members can be one kernel that gives the outputs, and a small one.
  bool has_form(const Members& members, const std::vector<ir::ValueId>& outputs) const;
  // Whether that is a product with gates, which the backend computes at once.
  bool has_gates(const Members& members, const std::vector<ir::ValueId>& outputs) const;
  // Literals that members read belong to their kernel: they cost nothing, and an op is understood
  // only together with all of them.
  void add_literals(Members& members) const;

  // Whether others read its elements several times each, directly or through views.
  bool is_read_often(ir::ValueId value) const;
  // Where the value is made real of 8-bit integers, centred and scaled by single numbers: the
  // bindings that do so, the last first. It takes less time to do again than to read four times the
  // bytes.
  std::vector<std::size_t> made_real_by(ir::ValueId value) const;

  // Puts each group's members side by side, with the groups.
  void put_together(Groups& groups);
  void replace(std::vector<ir::Binding> bindings) { block_.bindings = std::move(bindings); }

 private:
  const ir::Function& function_;
  ir::Block& block_;
  const FunctionFacts& facts_;
  std::optional<FusionGraph> graph_;
  mutable std::map<SubgraphKey, KernelOf> kernels_;  // models repeat their layers
};

}  // namespace anydim::passes
