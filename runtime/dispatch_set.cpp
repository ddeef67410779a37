#include "runtime/dispatch_set.h"

#include <map>
#include <utility>

#include "ir/error.h"

namespace anydim::runtime {

DispatchSet::DispatchSet(const ir::Program& program, std::vector<ir::DispatchTable> all,
                         const KernelMaker& maker)
    : tables(std::move(all)) {
  internal_check(tables.size() == program.kernels.size(), "there is a table for every kernel");
  for (std::size_t k = 0; k < tables.size(); ++k) {
    std::map<KernelKey, std::size_t> known;
    const std::vector<ir::DispatchTable::Entry>& entries = tables[k].entries;
    lookups.emplace_back(tables[k]);
    std::vector<std::size_t>& own = code.emplace_back();
    for (std::size_t e = 0; e < entries.size(); ++e) {
      const KernelKey key = maker.key_of(program.kernels[k].region, entries[e]);
      const auto [found, fresh] = known.try_emplace(key, codes.size());
      if (fresh)
        codes.push_back({static_cast<std::int32_t>(k), static_cast<std::int32_t>(e), key, false});
      codes[found->second].general = codes[found->second].general || e + 1 == entries.size();
      own.push_back(found->second);
    }
  }
  wanted = std::vector<std::atomic<std::uint32_t>>(codes.size());
}

}  // namespace anydim::runtime
