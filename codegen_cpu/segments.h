// Rows of several sequences laid end to end (ir::Segments), as LLVM values.
#pragma once

#include "codegen_cpu/kernel_builder.h"
#include "ir/loops/loop_form.h"

namespace anydim::codegen_cpu {

struct SegmentRange {
  llvm::Value* first = nullptr;
  llvm::Value* last = nullptr;  // one past
};
// Rows of segment `number` (i64) of `rows` rows in all. Kept within them whatever the offsets say,
// so that no access leaves its buffer.
SegmentRange segment_range(KernelBuilder& kernel, Scope& scope, const ir::Segments& segments,
                           llvm::Value* number, llvm::Value* rows);

// The last segment that starts at `row` or before, by bisection; 0 where there is none.
llvm::Value* segment_of(KernelBuilder& kernel, Scope& scope, const ir::Segments& segments,
                        llvm::Value* row);

// Reports the first offset that breaks the rule of ir::Segments over `rows` rows; done once a
// launch, by the call that has task 0.
void check_offsets(KernelBuilder& kernel, const ir::Segments& segments, const ir::Dim& rows);
// The same of the first place of the list of work that breaks its rule. Tasks are taken as they
// lie: one is small, and threads take them in turn.
void check_work(KernelBuilder& kernel, const ir::Segments& segments);

}  // namespace anydim::codegen_cpu
