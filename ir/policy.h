// What serves sizes that aren't known when a program is compiled: a setting apart from typing and
// from shape functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace anydim::ir {

enum class Policy {
  Symbolic,  // one kernel a region, extents as arguments
  Bucketed,  // a table of kernels over a total partition of the range; the default
  Exact,     // a bucket's kernel answers until one for the sizes met has been compiled beside the
             // calls
  Library,   // the device's library where it computes such a region, bucketed elsewhere; CUDA only
};

std::string_view name_of(Policy policy);
std::optional<Policy> policy_of(std::string_view name);

struct PolicyChoice {
  std::string region;  // its name after fusion (`explain` shows it); empty: every region
  Policy policy = Policy::Bucketed;

  bool operator==(const PolicyChoice&) const = default;
};

// The last choice that names the region or all of them; null where there is none.
const PolicyChoice* find_policy(const std::vector<PolicyChoice>& choices, std::string_view region);

}  // namespace anydim::ir
