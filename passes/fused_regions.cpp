#include "passes/fused_regions.h"

#include <utility>

namespace anydim::passes {

using namespace ir;

namespace {

// So many subgraphs that differ in nothing but the numbers of their scalar constants get a kernel
// each; where there are more, the numbers become inputs of one kernel.
constexpr std::size_t most_alike = 16;

}  // namespace

FusedRegions::FusedRegions(Module& module) : module_(module) {
  for (std::size_t i = 0; i < module.regions.size(); ++i)
    numbers_.emplace(module.regions[i].identity, static_cast<std::uint32_t>(i));
}

bool FusedRegions::reads_scalars(const SubgraphKey& without_scalars, SubgraphKey whole) {
  std::set<SubgraphKey>& alike = alike_[without_scalars];
  if (alike.size() >= most_alike) return !alike.contains(whole);
  alike.insert(std::move(whole));
  return false;
}

std::uint32_t FusedRegions::intern(const Region& region) {
  const auto [found, fresh] =
      numbers_.try_emplace(region.identity, static_cast<std::uint32_t>(module_.regions.size()));
  if (!fresh) return found->second;
  Region& named = module_.regions.emplace_back(region);
  named.name += "_" + std::to_string(found->second);
  named.body.name = named.name;
  return found->second;
}

}  // namespace anydim::passes
