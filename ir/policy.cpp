#include "ir/policy.h"

#include <algorithm>

#include "ir/error.h"

namespace anydim::ir {

std::string_view name_of(Policy policy) {
  switch (policy) {
    case Policy::Symbolic: return "symbolic";
    case Policy::Bucketed: return "bucketed";
    case Policy::Exact: return "exact";
    case Policy::Library: return "library";
  }
  internal_error("a policy is one of the enumerators");
}

std::optional<Policy> policy_of(std::string_view name) {
  for (const Policy policy : {Policy::Symbolic, Policy::Bucketed, Policy::Exact, Policy::Library})
    if (name == name_of(policy)) return policy;
  return std::nullopt;
}

const PolicyChoice* find_policy(const std::vector<PolicyChoice>& choices, std::string_view region) {
  const auto last = std::ranges::find_if(
      choices.rbegin(), choices.rend(),
      [&](const PolicyChoice& c) { return c.region.empty() || c.region == region; });
  return last == choices.rend() ? nullptr : &*last;
}

}  // namespace anydim::ir
