// The interface that every kind of kernel implements, and what can be decided about a region
// without generating code: schedules, costs, layouts. No LLVM behind these.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "codegen_cpu/names.h"
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
  // As ir::Backend::gates_product.
  virtual bool gates(const PlanInputs&) const { return false; }
  // As ir::Backend::overwritable.
  virtual std::vector<std::size_t> overwritable(const PlanInputs& inputs) const;
};

// A kind that computes every form of one alternative of ir::LoopForm::kind.
template <typename Form>
class KindOf : public KernelKind {
 protected:
  static const Form& form_of(const ir::LoopForm& form) { return std::get<Form>(form.kind); }
};

// The class of a kind, and what fills a kernel of its form and says how many tasks and how much
// scratch it has.
#define ANYDIM_KERNEL_KIND(name, Form)                                 \
  std::unique_ptr<KernelKind> make_##name##_kind();                    \
  EmittedKernel emit_form(KernelBuilder& kernel, const ir::Form& form, \
                          const ir::Schedule& schedule);
#include "ir/loops/kernel_kinds.def"
#undef ANYDIM_KERNEL_KIND

const KernelKind& kernel_kind_of(const ir::LoopForm& form);

// The loop form of `region` as this folder's plans and emitters read it.
ir::LoopForm prepared(const Target& target, const ir::Region& region, ir::LoopForm form);

// ir::known_at of an extent of a product or of attention, which always is a constant or a key.
std::int64_t extent_at(const PlanInputs& inputs, const ir::Dim& extent,
                       std::span<const std::int64_t> keys);
// ir::estimated_at of the points of a loop form's iteration space.
double points_at(const PlanInputs& inputs, std::span<const ir::Iteration> space,
                 std::span<const std::int64_t> keys);

}  // namespace anydim::codegen_cpu
