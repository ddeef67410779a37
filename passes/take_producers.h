// Producers that a kernel computes itself where it reads them.
#pragma once

#include <unordered_set>
#include <vector>

#include "passes/fusion_block.h"
#include "passes/product_operands.h"

namespace anydim::passes {

// What is read by all that stands behind, as fusion goes from the results to the front of a block.
class NeededValues {
 public:
  explicit NeededValues(const FusionGraph& graph) : graph_(graph) {}
  void add(ir::ValueId value) { read_.insert(value); }
  bool contains(ir::ValueId value) const { return graph_.escapes(value) || read_.contains(value); }

 private:
  const FusionGraph& graph_;
  std::unordered_set<ir::ValueId> read_;
};

// Views and widening conversions are always taken, as they never exist in memory, but for borders
// of the image's own elements under windows that a reduction reads often; element-wise work where
// no one else reads it and no resampling mixes it, and the cheap arithmetic of an attention mask
// even where several layers read it. Operands of products stay in memory: they are read once for
// every tile.
class ProducerTaker {
 public:
  // All that it is given outlives it.
  ProducerTaker(const FusionBlock& block, const Groups& groups, const NeededValues& needed)
      : block_(block), groups_(groups), needed_(needed),
        products_(block.function(), block.block(), block.facts().stored) {}

  // Takes producers into the kernel: all that may come at once, as most often they fit; else fewer,
  // down to one at a time.
  void take(Members& members, const std::vector<ir::ValueId>& outputs) const;

 private:
  struct Growth;

  void join(Growth& grown, std::size_t source) const;
  std::optional<std::size_t> next_producer(Growth& grown, const Members& refused,
                                           const std::set<ir::ValueId>& product_operands) const;
  bool may_take(const Members& members, std::size_t source, bool feeds_product) const;
  bool slide_elsewhere(const ir::Binding& pad) const;
  bool is_rounded_when_read(const Members& members, const ir::Binding& binding) const;
  bool lies_in_memory(ir::ValueId value) const;
  bool attends(const Members& members) const;
  bool is_read_only_in(const Members& members, const ir::Binding& binding) const;
  bool is_mask_arithmetic(const Members& members, const ir::Binding& binding) const;

  const FusionBlock& block_;
  const Groups& groups_;
  const NeededValues& needed_;
  ProductOperands products_;
};

}  // namespace anydim::passes
