#include "passes/make_regions.h"

#include <algorithm>
#include <map>
#include <utility>

#include "ir/error.h"
#include "ir/loops/loop_form.h"
#include "passes/fusible.h"
#include "passes/outline.h"

namespace anydim::passes {

using namespace ir;

namespace {

using Calls = std::map<SubgraphKey, Binding>;

// The binding that runs this work as a region, made where no equal subgraph came before.
Binding call_of(const FusionBlock& block, const std::vector<Binding>& list,
                const std::vector<ValueId>& outputs, FusedRegions& regions, Calls& calls) {
  SubgraphKey key = block.key_of(list, outputs);
  if (const auto found = calls.find(key); found != calls.end()) {
    Binding call = found->second;
    call.operands = inputs_of(list);
    call.results = outputs;
    return call;
  }
  const LoopFormResult form = derive_loop_form(block.function(), list, inputs_of(list), outputs);
  if (!form.form)
    throw Error(ErrorKind::Unsupported,
                "cannot compile " + describe(block.function(), list.back()) + ": " + form.reason);
  Outlined outlined = outline(block.function(), list, outputs, block.facts().constants);
  outlined.call.callee = regions.intern(std::move(outlined.region));
  calls.emplace(std::move(key), outlined.call);
  return std::move(outlined.call);
}

}  // namespace

std::vector<Binding> make_regions(const FusionBlock& block, const std::vector<BlockPart>& parts,
                                  FusedRegions& regions) {
  Calls calls;
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
    bindings.push_back(call_of(block, list, outputs, regions, calls));
    bindings.back().source = anchor != list.end() ? anchor->source : list.back().source;
  }
  std::ranges::reverse(bindings);
  return bindings;
}

}  // namespace anydim::passes
