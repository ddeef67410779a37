#include "passes/remove_padding.h"

#include <utility>

#include "ir/shapes/infer.h"

namespace anydim::passes {

namespace {

PackingResult packed_by(RowPacker& packer) {
  try {
    PackedModule packed;
    packed.module.functions.push_back(packer.run(packed.plan));
    ir::infer_types(packed.module);
    return {.packed = std::move(packed)};
  } catch (const CannotPack& cannot) {
    return {.reason = cannot.reason};
  }
}

}  // namespace

PackingResult remove_padding(const ir::Module& module, PackedForm form) {
  RowPacker any(module.functions.at(0), form, MaskReading::Any);
  PackingResult result = packed_by(any);
  if (result.packed || !any.asks_question()) return result;
  RowPacker entries(module.functions.at(0), form, MaskReading::Entries);
  PackingResult other = packed_by(entries);
  return other.packed ? std::move(other) : std::move(result);
}

// In the form PackedForm::Exact.
void remove_padding(ir::Module& module, PassContext& context) {
  PackingResult result = remove_padding(module, PackedForm::Exact);
  if (result.packed) module = std::move(result.packed->module);
  else if (context.options.warn) context.options.warn("the model stays padded: " + result.reason);
}

}  // namespace anydim::passes
