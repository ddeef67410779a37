#include <algorithm>
#include <span>

#include "ir/error.h"
#include "tests/support/region_case_lists.h"

namespace anydim::tests {
namespace {

std::span<const RegionCase> all_cases() {
  static const std::vector<RegionCase> cases = [] {
    std::vector<RegionCase> all;
    const auto add = [&](const char* kind, const std::vector<RegionCase>& list) {
      for (const RegionCase& one : list) all.emplace_back(one).kind = kind;
    };
    add("map", map_cases());
    add("rows", rows_cases());
    add("rows", window_cases());
    add("ordered", ordered_cases());
    add("compact", compact_cases());
    add("sort", sort_cases());
    add("matmul", matmul_cases());
    add("attention", attention_cases());
    return all;
  }();
  return cases;
}

}  // namespace

const RegionCase& region_case(const std::string& name) {
  const auto found = std::ranges::find(all_cases(), name, &RegionCase::name);
  internal_check(found != all_cases().end(), "the corpus has a case of this name");
  return *found;
}

std::vector<std::string> region_case_names(const std::vector<std::string>& kinds) {
  std::vector<std::string> names;
  for (const RegionCase& one : all_cases())
    if (kinds.empty() || std::ranges::find(kinds, one.kind) != kinds.end())
      names.push_back(one.name);
  return names;
}

}  // namespace anydim::tests
