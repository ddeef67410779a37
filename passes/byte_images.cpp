#include "passes/byte_images.h"

#include <map>

#include "passes/views.h"

namespace anydim::passes {

using namespace ir;

std::set<ValueId> images_of_bytes(const Function& function) {
  std::map<ValueId, const Binding*> definitions;
  std::set<ValueId> images;
  for (const Binding& binding : function.body.bindings) {
    for (const ValueId result : binding.results) definitions.emplace(result, &binding);
    if (binding.op != Op::matmul || function.tensor_type(binding.results[0]).dtype != DType::I32)
      continue;
    bool windows = false;
    ValueId value = binding.operands[1];
    for (auto found = definitions.find(value); found != definitions.end();
         found = definitions.find(value)) {
      const Binding& move = *found->second;
      const bool widens = is_widening(function, move);
      if (!widens && !is_view(move.op) && move.op != Op::pad) break;
      windows = windows || move.op == Op::windows;
      value = move.operands[0];
    }
    const Value& image = function.values[value];
    if (windows && image.type.is_tensor() && size_of(image.type.tensor.dtype) == 1 &&
        image.type.tensor.rank() >= 3)
      images.insert(value);
  }
  return images;
}

}  // namespace anydim::passes
