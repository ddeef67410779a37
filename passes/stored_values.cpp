#include "passes/stored_values.h"

#include <algorithm>

namespace anydim::passes {

using namespace ir;

namespace {

bool fits_4_bits(const Tensor& constant) {
  if (constant.dtype() != DType::I8 || constant.elements() < fewest_in_4_bits) return false;
  const Tensor opened = constant.opened();
  auto rest = opened.as<std::int8_t>();
  while (!rest.empty()) {
    const auto part = rest.first(std::min<std::size_t>(rest.size(), fewest_in_4_bits));
    unsigned beyond = 0;  // all elements are asked, which is faster than to stop at the first
    for (const std::int8_t element : part) beyond |= static_cast<unsigned>(element + 8) & ~15U;
    if (beyond != 0) return false;
    rest = rest.subspan(part.size());
  }
  return true;
}

void find(const Block& block, StoredValues& stored) {
  for (const Binding& binding : block.bindings) {
    if (binding.op == Op::constant)
      stored[binding.results[0]] =
          fits_4_bits(tensor_attribute(binding, "value")) ? Stored::In4Bits : Stored::Yes;
    for (const Block& nested : binding.blocks) find(nested, stored);
  }
}

}  // namespace

StoredValues stored_values(const Function& function) {
  StoredValues stored(function.values.size(), Stored::No);
  find(function.body, stored);
  return stored;
}

}  // namespace anydim::passes
