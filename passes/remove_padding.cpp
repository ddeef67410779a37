#include "passes/remove_padding.h"

#include <utility>

#include "ir/infer.h"

namespace anydim::passes {

namespace {

PackingResult packed_by(const ir::Module& module, PackedForm form, MaskReading reading) {
  try {
    PackedModule packed;
    packed.module.functions.push_back(RowPacker(module.functions.at(0), form, reading).run(packed.plan));
    ir::infer_types(packed.module);
    return {.packed = std::move(packed)};
  } catch (const CannotPack& cannot) {
    return {.reason = cannot.reason};
  }
}

}  // namespace

PackingResult remove_padding(const ir::Module& module, PackedForm form) {
  PackingResult any = packed_by(module, form, MaskReading::Any);
  if (any.packed) return any;
  PackingResult entries = packed_by(module, form, MaskReading::Entries);
  return entries.packed ? std::move(entries) : std::move(any);
}

}  // namespace anydim::passes
