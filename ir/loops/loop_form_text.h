// Parts of the texts of loop forms and kernels.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/loops/kernel_header.h"
#include "ir/loops/loop_form.h"

namespace anydim::ir::loop_form_text {

// One line each: the types of parameters and results, the symbols, the checks.
std::string header(const KernelHeader& header);
std::string checks(const std::vector<KernelCheck>& checks);  // a line each

std::string listed(const std::vector<Dim>& dims);                       // "$m0, 2*$n0"
std::string listed(const std::vector<Iteration>& space);                // "$m0 < n, $n0 < 384"
std::string conditions(const std::vector<ScalarStep::Condition>& all);  // "0 < n and n < 9"
std::string where(const std::vector<ScalarStep::Condition>& all);  // " where 0 < n", "" for none
// "load 0[$m0, $k0]", "add(#1, #2)"; `operands`: what they are called.
std::string describe_step(const ScalarStep& step, const std::vector<std::string>& operands);
// "positions to 0, count to 1"; -1: not wanted
std::string compaction(std::int32_t positions, std::int32_t count);
std::string segments(const Segments& segments);
std::string_view name_of(Reduce reduce);
std::string_view name_of(KernelCheck::Kind kind);

}  // namespace anydim::ir::loop_form_text
