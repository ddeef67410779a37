// The regions that fusion has made of a module, each once.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>

#include "ir/module.h"
#include "passes/subgraph_key.h"

namespace anydim::passes {

class FusedRegions {
 public:
  explicit FusedRegions(ir::Module& module);

  // Whether this subgraph shall read its scalar constants, as there are enough kernels already that
  // differ from it in these alone.
  bool reads_scalars(const SubgraphKey& without_scalars, SubgraphKey whole);
  // The number of the module's region that is equal; added where there is none.
  std::uint32_t intern(const ir::Region& region);

 private:
  ir::Module& module_;
  std::unordered_map<std::string, std::uint32_t> numbers_;  // by identity
  // subgraphs by what they are without their scalar constants
  std::map<SubgraphKey, std::set<SubgraphKey>> alike_;
};

}  // namespace anydim::passes
