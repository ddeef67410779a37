// Groups bindings into regions, each one kernel.
//
// Every tensor computation of every function becomes a region; what is left outside are large
// constants, control flow, bind and check_shape. Types must be inferred, shapes literals
// (literal_shapes) and results computed by ops of their own (own_results). Block by block, nested
// ones first: anchors grow forwards (grow_products.h), from the results backwards each kernel takes
// in its producers (collect_kernels.h), and kernels become regions (make_regions.h). Equal regions
// are one region of the module.
#include "passes/collect_kernels.h"
#include "passes/fused_regions.h"
#include "passes/fusion_block.h"
#include "passes/grow_products.h"
#include "passes/make_regions.h"
#include "passes/pass.h"
#include "passes/stored_values.h"

namespace anydim::passes {

using namespace ir;

namespace {

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
        .rounds_when_read = context.backend && context.backend->rounds_keys_and_values()};
    fuse_block(regions, function, function.body, known);
  }
}

}  // namespace anydim::passes
