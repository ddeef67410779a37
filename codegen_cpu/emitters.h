// What emitters of kernels share.
#pragma once

#include "codegen_cpu/kernel_builder.h"
#include "codegen_cpu/kernel_kind.h"
#include "codegen_cpu/scalars/scalar_emitter.h"
#include "ir/loops/loop_form.h"
#include "ir/schedule.h"

namespace anydim::codegen_cpu {

// The kernel of one region and bucket: what its kind emits, compiled. `rewrite` is given
// the module before it is optimised: tests replace instructions there that their processor lacks.
ir::CompiledKernel compile_form(const Target& target, const ir::Region& region,
                                const ir::LoopForm& form, const ir::Bucket& bucket,
                                const ir::Schedule& schedule,
                                const std::function<void(llvm::Module&)>& rewrite = {});

// The stages of one row, vectorised along the last inner iteration. Symbols of the row are defined
// in `row`.
struct RowStages {
  const std::vector<ir::Iteration>& inner;
  const std::vector<ir::RowStage>& stages;
  const std::vector<ir::DType>& scratch;  // dtype of each Scratch slot
  std::int32_t accumulators = 0;
  std::vector<llvm::Value*> scratch_bases;  // address of each slot's vector for this row
  unsigned width = 1;                       // lanes
  unsigned unroll = 1;                      // vectors a step of the loop
  // Where rows are segments: which, and the iteration that counts them.
  const ir::Segments* segments = nullptr;
  ir::DimLeaf segment_variable{};
};
// What a reduction of `dtype` starts from, which joined to any value gives that value.
llvm::Constant* neutral(KernelBuilder& kernel, ir::Reduce reduce, ir::DType dtype);
// Partial results of a reduction whose lanes are rows; their latencies overlap.
std::int64_t chains_across(const std::vector<ir::Iteration>& inner, bool segments);
void emit_row_stages(KernelBuilder& kernel, Scope& row, const RowStages& stages);
// Emits the stages of some rows, each with scratch vectors of its own, stage by stage: one row's
// chains of operations fill the time that another's take. Scopes are of one block.
void emit_row_stages(KernelBuilder& kernel, std::span<Scope* const> rows,
                     std::span<const RowStages> stages);

}  // namespace anydim::codegen_cpu
