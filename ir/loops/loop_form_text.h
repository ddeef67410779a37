// Parts of the texts of loop forms and kernels.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/loops/loop_form.h"

namespace anydim::ir::loop_form_text {

std::string listed(const std::vector<Dim>& dims);         // "$m0, 2*$n0"
std::string listed(const std::vector<Iteration>& space);  // "$m0 < n, $n0 < 384"
std::string where(const std::vector<ScalarStep::Condition>& conditions);
// "load 0[$m0, $k0]", "add(#1, #2)"; `operands`: what they are called.
std::string describe_step(const ScalarStep& step, const std::vector<std::string>& operands);
std::string_view name_of(Reduce reduce);

}  // namespace anydim::ir::loop_form_text
