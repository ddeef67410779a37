// The interface that every kind of kernel implements, and what can be decided about a region
// without generating code: schedules, costs, layouts. No LLVM behind these.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "codegen_cpu/target.h"
#include "ir/backend.h"
#include "ir/kernel_kind.h"
#include "ir/loops/loop_form.h"

namespace anydim::codegen_cpu {

class AccessStrides;
class KernelBuilder;
class LeftReuse;

struct PlanInputs {
  const Target& target;
  const ir::Region& region;
  const ir::LoopForm& form;  // as prepared() gives it
  AccessStrides& strides;    // of this form
  LeftReuse& left_reuse;     // of this form
  int threads = 1;           // that an estimate or candidates are for
  // what an estimate counts beside its schedule's own; null: nothing
  const ir::SharedLaunch* shared = nullptr;
};

struct EmittedKernel {
  ir::Dim tasks;  // over the region's symbols
  ir::Dim scratch_bytes;
};

class KernelKind : public ir::KernelKind<PlanInputs> {
 public:
  // As ir::Backend::packed_layout and ir::Backend::pack, which is asked where there is a layout.
  virtual std::optional<ir::PackedLayout> packed_layout(const PlanInputs& inputs,
                                                        std::size_t parameter) const;
  virtual ir::Tensor pack(const PlanInputs& inputs, std::size_t parameter,
                          const ir::PackedLayout& layout, const ir::Tensor& weight,
                          const ir::Backend::Allocate& allocate) const;
  // As ir::Backend::overwritable.
  virtual std::vector<std::size_t> overwritable(const PlanInputs& inputs) const;
  // Fills a kernel and says how many tasks and how much scratch it has.
  virtual EmittedKernel emit(KernelBuilder& kernel, const ir::LoopForm& form,
                             const ir::Schedule& schedule) const = 0;
};

// A kind that computes every form of one alternative of ir::LoopForm::kind.
template <typename Form>
class KindOf : public KernelKind {
 public:
  bool accepts(const PlanInputs& inputs) const override {
    return std::holds_alternative<Form>(inputs.form.kind);
  }
  EmittedKernel emit(KernelBuilder& kernel, const ir::LoopForm& form,
                     const ir::Schedule& schedule) const override {
    return emit_form(kernel, form_of(form), schedule);
  }

 protected:
  static const Form& form_of(const ir::LoopForm& form) { return std::get<Form>(form.kind); }
  virtual EmittedKernel emit_form(KernelBuilder& kernel, const Form& form,
                                  const ir::Schedule& schedule) const = 0;
};

#define ANYDIM_KERNEL_KIND(name, Form) std::unique_ptr<KernelKind> make_##name##_kind();
#include "ir/loops/kernel_kinds.def"
#undef ANYDIM_KERNEL_KIND

// The one that computes the form, of all there are (ir/loops/kernel_kinds.def): every form has one.
const KernelKind& kernel_kind_of(const PlanInputs& inputs);

// Emitters that stand in files of their own; the others are methods of their kinds.
EmittedKernel emit_map(KernelBuilder& kernel, const ir::MapForm& form,
                       const ir::Schedule& schedule);
EmittedKernel emit_rows(KernelBuilder& kernel, const ir::RowForm& form,
                        const ir::Schedule& schedule);
EmittedKernel emit_matmul(KernelBuilder& kernel, const ir::MatmulForm& form,
                          const ir::Schedule& schedule);
EmittedKernel emit_attention(KernelBuilder& kernel, const ir::AttentionForm& form,
                             const ir::Schedule& schedule);
EmittedKernel emit_ordered(KernelBuilder& kernel, const ir::OrderedForm& form,
                           const ir::Schedule& schedule);

// The loop form of `region` as this folder's plans and emitters read it.
ir::LoopForm prepared(const Target& target, const ir::Region& region, ir::LoopForm form);

// ir::known_at of an extent of a product or of attention, which always is a constant or a key.
std::int64_t extent_at(const PlanInputs& inputs, const ir::Dim& extent,
                       std::span<const std::int64_t> keys);
// ir::estimated_at of the points of a loop form's iteration space.
double points_at(const PlanInputs& inputs, std::span<const ir::Iteration> space,
                 std::span<const std::int64_t> keys);

}  // namespace anydim::codegen_cpu
