// Running sums by a block, or several, a row.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen_cuda/loops/ordered_stages.h"

namespace anydim::codegen_cuda {

// The step that the carry's next value adds to the one before; nothing where it is not such a sum.
std::optional<std::int32_t> addend_of(const ir::OrderedStage& stage,
                                      const ir::OrderedStage::Carry& carry);

// Writes a stage whose carries are all such sums and whose updates go to places of their own. A
// block takes `threads * items` points at a time and carries the sum of the earlier ones; with
// `split`, a launch before finds what each block's part of a row has together, and the parts are
// added in order.
std::vector<ir::DeviceLaunch> write_scan(KernelWriter& kernel, const ir::OrderedForm& form,
                                         const ir::OrderedStage& stage,
                                         const OrderedSchedule& fields, const std::string& stem,
                                         OrderedWorkspace& workspace);

}  // namespace anydim::codegen_cuda
