// The corpus's cases, a list a kernel kind or two (tests/support/region_cases.h).
#pragma once

#include <vector>

#include "tests/support/region_cases.h"

namespace anydim::tests {

std::vector<RegionCase> map_cases();
std::vector<RegionCase> rows_cases();
std::vector<RegionCase> window_cases();  // rows whose points are windows
std::vector<RegionCase> ordered_cases();
std::vector<RegionCase> compact_cases();
std::vector<RegionCase> sort_cases();
std::vector<RegionCase> matmul_cases();
std::vector<RegionCase> attention_cases();

}  // namespace anydim::tests
