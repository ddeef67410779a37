#include "codegen_cpu/kernel_kind.h"
#include "ir/error.h"

namespace anydim::codegen_cpu {

std::optional<ir::PackedLayout> KernelKind::packed_layout(const PlanInputs&, std::size_t) const {
  return std::nullopt;
}

ir::Tensor KernelKind::pack(const PlanInputs&, std::size_t, const ir::PackedLayout&,
                            const ir::Tensor&, const ir::Backend::Allocate&) const {
  internal_error("this kind of kernel packs no weights");
}

std::vector<std::size_t> KernelKind::overwritable(const PlanInputs&) const { return {}; }

const KernelKind& kernel_kind_of(const ir::LoopForm& form) {
  static const auto kinds = [] {
    std::vector<std::unique_ptr<KernelKind>> all;
#define ANYDIM_KERNEL_KIND(name, Form) all.push_back(make_##name##_kind());
#include "ir/loops/kernel_kinds.def"
#undef ANYDIM_KERNEL_KIND
    return all;
  }();
  return *kinds[form.kind.index()];
}

}  // namespace anydim::codegen_cpu
