// Kernels of windows that share lines: some rows at once, lanes along the last outer iteration.
#pragma once

#include "codegen_cpu/kernel_kind.h"
#include "codegen_cpu/rows/rows_schedule.h"
#include "codegen_cpu/rows/shared_window.h"

namespace anydim::codegen_cpu {

// The sums of a row come in one order on every level and for any number of rows at once.
EmittedKernel emit_windows(KernelBuilder& kernel, const ir::RowForm& form,
                           const RowsSchedule& schedule, const SharedWindow& window);

}  // namespace anydim::codegen_cpu
