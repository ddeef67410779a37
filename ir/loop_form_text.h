// Parts of the texts of loop forms and kernels.
#pragma once

#include <string>
#include <vector>

#include "ir/loop_form.h"

namespace anydim::ir::loop_form_text {

std::string listed(const std::vector<Dim>& dims);         // "$m0, 2*$n0"
std::string listed(const std::vector<Iteration>& space);  // "$m0 < n, $n0 < 384"
std::string where(const std::vector<ScalarStep::Condition>& conditions);
std::string describe_step(const ScalarStep& step);  // "load 0[$m0, $k0]"

}  // namespace anydim::ir::loop_form_text
