// Regions of every kind of kernel, as texts: the corpus of map, rows and matmul regions and what it
// lacks.
#pragma once

#include <string>
#include <vector>

namespace anydim::tests {

std::vector<std::string> loop_form_case_names();
std::string loop_form_case(const std::string& name);

}  // namespace anydim::tests
