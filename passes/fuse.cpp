// Groups bindings into regions, each one kernel.
//
// Every tensor computation of every function becomes a region; what is left outside are large
// constants, control flow, bind and check_shape. Types must be inferred, shapes literals
// (literal_shapes) and results computed by ops of their own (own_results). Block by block, nested
// ones first: anchors grow forwards (grow_products.h), from the results backwards each kernel takes
// in its producers (collect_kernels.h), and kernels become regions. Equal regions are one region of
// the module.
#include <algorithm>

#include "ir/error.h"
#include "passes/collect_kernels.h"
#include "passes/fused_regions.h"
#include "passes/fusible.h"
#include "passes/fusion_block.h"
#include "passes/grow_products.h"
#include "passes/outline.h"
#include "passes/pass.h"
#include "passes/stored_values.h"

namespace anydim::passes {

using namespace ir;

namespace {

// The binding that runs this work as a region.
Binding call_of(const FusionBlock& block, const std::vector<Binding>& list,
                const std::vector<ValueId>& outputs, FusedRegions& regions) {
  const auto& [kernel, reason] = block.kernel_of(list, outputs);
  if (!kernel)
    throw Error(ErrorKind::Unsupported,
                "cannot compile " + describe(block.function(), list.back()) + ": " + reason);
  Binding call = kernel->call;
  call.operands = inputs_of(list);
  call.results = outputs;
  call.callee = regions.intern(kernel->region);
  return call;
}

// The block's new bindings, in order. `parts`: the last one first, as collect_kernels() gives them.
// Throws Error{Unsupported} where a binding has no kernel.
std::vector<Binding> make_regions(const FusionBlock& block, const std::vector<BlockPart>& parts,
                                  FusedRegions& regions) {
  std::vector<Binding> bindings;
  for (const BlockPart& part : parts) {
    if (const auto* position = std::get_if<std::size_t>(&part)) {
      bindings.push_back(block.binding(*position));
      continue;
    }
    const auto& [members, outputs] = std::get<FusedKernel>(part);
    const std::vector<Binding> list = block.bindings_of(members);
    const auto anchor =
        std::ranges::find_if(list, [](const Binding& binding) { return is_anchor(binding.op); });
    bindings.push_back(call_of(block, list, outputs, regions));
    bindings.back().source = anchor != list.end() ? anchor->source : list.back().source;
  }
  std::ranges::reverse(bindings);
  return bindings;
}

void fuse_block(FusedRegions& regions, Function& function, Block& block,
                const FunctionFacts& facts) {
  for (Binding& binding : block.bindings)
    for (Block& nested : binding.blocks) fuse_block(regions, function, nested, facts);
  FusionBlock fused(function, block, facts);
  Groups groups = grow_products(fused);
  fused.put_together(groups);
  fused.replace(make_regions(fused, collect_kernels(fused, groups, regions), regions));
}

}  // namespace

void fuse(Module& module, PassContext& context) {
  FusedRegions regions(module);
  for (Function& function : module.functions) {
    const FunctionFacts known{
        .stored = stored_values(function),
        .in_types = values_in_types(function),
        .joins_rows = !context.backend || context.backend->joins_rows_to_products(),
        .rounds_when_read = context.backend && context.backend->rounds_keys_and_values(),
        .backend = context.backend};
    fuse_block(regions, function, function.body, known);
  }
}

}  // namespace anydim::passes
