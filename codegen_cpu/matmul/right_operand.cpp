#include "codegen_cpu/matmul/right_operand.h"

#include <algorithm>

#include "codegen_cpu/matmul/pack_emitter.h"
#include "codegen_cpu/matmul/unpack_weight.h"
#include "codegen_cpu/scalars/index_emitter.h"

namespace anydim::codegen_cpu {

RightOperand::RightOperand(KernelBuilder& kernel, const ir::MatmulForm& form,
                           const MatmulSchedule& schedule, const MatmulOperands& operands)
    : kernel_(kernel), form_(form), operands_(operands), schedule_(schedule),
      panel_(panel_columns(operands.product)) {}

ir::DType RightOperand::step_dtype() const {
  return operands_.product.scaled() && !unpacks() && !operands_.weight->in_4_bits
             ? operands_.product.right
             : form_.accumulate;
}

Dim RightOperand::packed_steps() const {
  return codegen_cpu::packed_steps(kernel_.target(), operands_.product, form_.k.extent);
}

Dim RightOperand::steps() const {
  return operands_.weight && !unpacks() ? Dim(operands_.weight->packed_steps) : packed_steps();
}

Dim RightOperand::rounded(const Dim& columns) const {
  return ir::ceil_div(columns, panel_) * panel_;
}

Dim RightOperand::block_columns() const {
  return schedule_.block_columns == 0 ? form_.n.extent : Dim(schedule_.block_columns);
}

bool RightOperand::rows_outermost() const {
  const auto columns = rounded(block_columns()).constant(), deep = steps().constant();
  return columns && deep && !unpacks() &&
         schedule_.rows_outermost(*columns, form_.gates() * *deep * bytes_of(step_dtype()));
}

void RightOperand::plan(Scope& root, ScratchLayout& scratch) {
  packed_steps_ = emit_index(kernel_, root, packed_steps());
  steps_ = emit_index(kernel_, root, steps());
  const std::int64_t element_bytes = bytes_of(form_.accumulate);
  if (unpacks()) {
    memory_ = scratch.reserve(
        kernel_, packed_steps() * (std::max(schedule_.columns, panel_) * element_bytes));
  } else if (!operands_.weight) {
    const Dim elements = rounded(block_columns()) * packed_steps() + panel_ * panel_;
    memory_ = scratch.reserve(kernel_, elements * (form_.gates() * element_bytes));
    gate_elements_ = emit_index(kernel_, root, elements);
    packed_.emplace(kernel_, "packed_right");
  }
}

void RightOperand::define_gate(Scope& scope, std::int64_t gate) const {
  if (form_.gate) scope.define(form_.gate->variable, kernel_.constant(gate));
}

Value* RightOperand::memory_of(Scope& scope, std::int64_t gate) const {
  if (gate == 0) return memory_;
  return kernel_.element_pointer(
      memory_, step_dtype(), kernel_.at(scope).CreateMul(gate_elements_, kernel_.constant(gate)));
}

void RightOperand::pack(Scope& task, const Columns& columns, Value* number) {
  if (!packed_) return;
  packed_->unless_packed(task, number, [&](Scope& scope) {
    for (std::int64_t gate = 0; gate < form_.gates(); ++gate) {
      Scope own(scope);
      define_gate(own, gate);
      pack_gate(own, columns, gate);
    }
  });
}

void RightOperand::pack_gate(Scope& scope, const Columns& columns, std::int64_t gate) {
  PackPanels pack{.program = form_.right,
                  .dtype = operands_.product.right,
                  .depths_of_step = operands_.product.depths(),
                  .column = form_.n,
                  .depth = form_.k,
                  .first_column = columns.first,
                  .first_depth = kernel_.constant(0),
                  .columns = columns.count,
                  .depths = emit_index(kernel_, kernel_.root(), form_.k.extent),
                  .steps = packed_steps_,
                  .to = memory_of(scope, gate),
                  .whole_depth = true,
                  .transposed = lies_transposed(kernel_.region(), form_.right, form_.n, form_.k,
                                                kernel_.symbols())};
  emit_pack_panels(kernel_, scope, pack);
}

void RightOperand::unpack(Scope& group, Value* column, Value* width) {
  auto& builder = kernel_.at(group);
  Value* panel = kernel_.constant(panel_);
  emit_unpack_panels(kernel_, group,
                     {.operands = operands_,
                      .panel = panel_,
                      .first = builder.CreateUDiv(column, panel),
                      .panels = schedule_.columns < panel_ ? kernel_.constant(1)
                                                           : builder.CreateUDiv(width, panel),
                      .depth = packed_steps_,
                      .to = memory_});
}

Value* RightOperand::panels(Scope& group, const Columns& task, Value* offset, std::int64_t gate) {
  Scope own(group);
  define_gate(own, gate);
  Value *base = nullptr, *column = offset;
  if (unpacks()) {
    auto& builder = kernel_.at(own);
    base = memory_;
    column = builder.CreateURem(builder.CreateAdd(offset, task.first), kernel_.constant(panel_));
  } else if (operands_.weight) {
    const PackedWeight& weight = *operands_.weight;
    column = kernel_.at(own).CreateAdd(offset, task.first);
    Dim point = 0;
    for (std::size_t i = 0; i < weight.batch.size(); ++i)
      point = point * weight.batch_extents[i] + Dim::of(weight.batch[i]);
    base = emit_pointer(kernel_, own, kernel_.buffer(static_cast<std::size_t>(weight.buffer)),
                        step_dtype(), point * (rounded(weight.columns) * weight.packed_steps));
  } else {
    base = memory_of(own, gate);
  }
  kernel_.at(own);
  return kernel_.element_pointer(base, step_dtype(),
                                 first_step_of_column(kernel_, panel_, column, steps_));
}

Value* RightOperand::panel_stride(Scope& scope) const {
  return kernel_.at(scope).CreateMul(steps_, kernel_.constant(panel_));
}

}  // namespace anydim::codegen_cpu
