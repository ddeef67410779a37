// Row forms rewritten for machines that keep a row in registers, or not at all.
#pragma once

#include "ir/loops/loop_form.h"

namespace anydim::codegen_cuda {

// No scratch: what a stage kept is computed again by each stage that reads it.
ir::RowForm without_scratch(const ir::RowForm& form);
// Elements that several stages load at the same place of a row become scratch of the first of them.
ir::RowForm with_kept_loads(const ir::RowForm& form);

}  // namespace anydim::codegen_cuda
