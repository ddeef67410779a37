#include "passes/remove_padding.h"

#include <utility>

#include "ir/infer.h"

namespace anydim::passes {

PackingResult remove_padding(const ir::Module& module, PackedForm form) {
  try {
    PackedModule packed;
    packed.module.functions.push_back(RowPacker(module.functions.at(0), form).run(packed.plan));
    ir::infer_types(packed.module);
    return {.packed = std::move(packed)};
  } catch (const CannotPack& cannot) {
    return {.reason = cannot.reason};
  }
}

}  // namespace anydim::passes
