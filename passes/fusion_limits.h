// How large a kernel may grow by fusion.
#pragma once

#include "ir/loops/loop_form.h"

namespace anydim::passes {

bool is_small(const ir::LoopForm& form);

}  // namespace anydim::passes
