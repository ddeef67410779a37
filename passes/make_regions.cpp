#include "passes/make_regions.h"

#include <algorithm>
#include <string>

#include "ir/error.h"
#include "passes/fusible.h"
#include "passes/outline.h"

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

}  // namespace

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

}  // namespace anydim::passes
