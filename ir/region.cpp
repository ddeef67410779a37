#include "ir/region.h"

#include "ir/print.h"

namespace anydim::ir {

std::string identity_of(const Region& region) {
  std::string identity = "weights";
  for (const std::uint32_t position : region.weights) identity += " " + std::to_string(position);
  identity += '\n';
  identity += print_canonical(region.body);
  return identity;
}

void seal(Region& region) { region.identity = identity_of(region); }

}  // namespace anydim::ir
