// All schedules that the emitters make right kernels of, by skeleton: what a search by measurement chooses among. codegen_cpu/plans.h has the few that the
// cost models would take.
#pragma once

#include <vector>

#include "codegen_cpu/plans.h"

namespace anydim::codegen_cpu {

std::vector<ir::Schedule> map_space(const PlanInputs& inputs, const ir::Bucket& bucket);
std::vector<ir::Schedule> rows_space(const PlanInputs& inputs, const ir::Bucket& bucket);
std::vector<ir::Schedule> matmul_space(const PlanInputs& inputs, const ir::Bucket& bucket);
std::vector<ir::Schedule> attention_space(const PlanInputs& inputs, const ir::Bucket& bucket);
std::vector<ir::Schedule> ordered_space();

}  // namespace anydim::codegen_cpu
