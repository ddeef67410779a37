// Names of ir that are as common in this folder as its own.
#pragma once

#include "ir/loops/loop_form.h"

namespace anydim::codegen_cpu {

using ir::Dim;
using ir::DimLeaf;
using ir::DType;
using ir::Op;
using ir::ScalarStep;

}  // namespace anydim::codegen_cpu
