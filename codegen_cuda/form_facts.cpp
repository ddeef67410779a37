#include "codegen_cuda/form_facts.h"

#include "codegen_cuda/rows/row_passes.h"
#include "codegen_cuda/work.h"
#include "ir/error.h"
#include "ir/loops/segment_rows.h"

namespace anydim::codegen_cuda {

std::shared_ptr<const FormFacts> derive_facts(const CudaTarget& target, const ir::Region& region,
                                              const ir::LoopForm& form) {
  FormFacts facts;
  if (const auto* matmul = std::get_if<ir::MatmulForm>(&form.kind)) {
    if (!matmul->rows.empty())
      throw Error(
          ErrorKind::Unsupported,
          "the region {} computes a product and what needs its rows whole (a layer norm, a softmax "
          "of the result) in one kernel, as CPUs do; on CUDA those are kernels of their own: "
          "compile the model, or a text of it from before the pass `fuse`, for the GPU",
          region.name);
    if (matmul->gate)
      throw Error(
          ErrorKind::Unsupported,
          "the region {} computes a product and a gate of its columns in one kernel, as CPUs do; "
          "on CUDA those are kernels of their own: compile the model, or a text of it from before "
          "the pass `fuse`, for the GPU",
          region.name);
    facts.tensor = tensor_operands(region, *matmul, form.symbols);
    if (target.tf32) facts.tf32 = tf32_operands(region, *matmul, form.symbols);
    if (target.has_wgmma() && facts.tensor)
      facts.tma = tma_operands(region, *matmul, *facts.tensor, form.symbols);
    facts.points = ir::points_of(matmul->batch);
  }
  if (const auto* attention = std::get_if<ir::AttentionForm>(&form.kind)) {
    facts.attention = attention_operands(region, *attention, form.symbols);
    facts.score = attention_score(*attention, form.symbols);
    facts.key_range = key_range(*attention, form.symbols);
    facts.points = ir::points_of(attention->batch);
    if (attention->segments)
      facts.sequence_rows = ir::mean_segment_rows(*attention->segments, attention->row.extent);
  }
  const auto place = [&](auto kind) {
    ir::LoopForm one = form;
    one.kind = std::move(kind);
    facts.placed.push_back(ir::place_kernel(one));
  };
  if (const auto* rows = std::get_if<ir::RowForm>(&form.kind)) {
    const ir::RowForm kept = with_kept_loads(*rows);
    for (const ir::DType dtype : kept.scratch)
      facts.kept_registers += ir::size_of(dtype) > 4 ? 2 : 1;
    place(kept);
    place(without_scratch(*rows));
  }
  if (const auto* map = std::get_if<ir::MapForm>(&form.kind))
    for (const ir::MapPart& part : map->parts) place(ir::MapForm{{part}});
  return std::make_shared<const FormFacts>(std::move(facts));
}

}  // namespace anydim::codegen_cuda
