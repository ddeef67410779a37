#include "runtime/input_binding.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <utility>

#include "ir/bind.h"
#include "ir/error.h"

namespace anydim::runtime {

namespace {

constexpr std::size_t maximum_values = 64;

}  // namespace

InputBinding::InputBinding(const ir::Program& program) : program_(program) {
  function_.name = "main";
  function_.symbols = program.symbols;
  std::map<std::string, std::int32_t> positions;
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const ir::Program::Input& input = program.inputs[i];
    function_.body.parameters.push_back(function_.add_value(input.name, ir::TensorType{input.dtype, input.dims}));
    for (std::size_t d = 0; d < input.dims.size(); ++d) {
      Step step{.input = static_cast<std::uint32_t>(i), .dim = static_cast<std::uint32_t>(d)};
      const ir::Dim& dim = input.dims[d];
      if (const auto constant = dim.constant()) {
        step.low = *constant;
      } else if (dim.kind() == ir::Dim::Kind::Symbol) {
        const std::string& symbol = dim.leaf().symbol;
        const auto [found, first] = positions.emplace(symbol, static_cast<std::int32_t>(positions.size()));
        step.kind = first ? Step::Kind::Bind : Step::Kind::Compare;
        step.value = found->second;
        const ir::SymbolInfo* known = program.symbols.find(symbol);
        const ir::SymbolInfo info = known == nullptr ? ir::SymbolInfo{} : *known;
        step.low = info.low, step.high = info.high, step.multiple = info.multiple;
        if (info.below) quick_ = false;
      } else {
        quick_ = false;
      }
      steps_.push_back(step);
    }
  }
  values_ = positions.size();
  if (values_ > maximum_values) quick_ = false;
  for (std::size_t slot = 0; slot < program.leaf_symbols.size(); ++slot) {
    const std::string& symbol = program.leaf_symbols[slot];
    if (symbol.empty()) continue;
    const auto found = positions.find(symbol);
    if (found == positions.end()) quick_ = false;  // solved from an expression
    else leaves_.push_back({static_cast<std::int32_t>(slot), found->second});
  }
}

void InputBinding::bind(std::span<const ir::Tensor> inputs, std::span<std::int64_t> slots) const {
  if (!quick_ || !bind_quickly(inputs, slots)) bind_slowly(inputs, slots);
}

bool InputBinding::bind_quickly(std::span<const ir::Tensor> inputs, std::span<std::int64_t> slots) const {
  if (inputs.size() != program_.inputs.size()) return false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].dtype() != program_.inputs[i].dtype || inputs[i].rank() != program_.inputs[i].dims.size()) return false;
  }
  std::int64_t values[maximum_values];
  for (const Step& step : steps_) {
    const std::int64_t extent = inputs[step.input].dims()[step.dim];
    switch (step.kind) {
      case Step::Kind::Constant:
        if (extent != step.low) return false;
        break;
      case Step::Kind::Bind:
        if (extent < step.low || extent > step.high || (step.multiple > 1 && extent % step.multiple != 0)) return false;
        values[step.value] = extent;
        break;
      case Step::Kind::Compare:
        if (extent != values[step.value]) return false;
        break;
    }
  }
  for (const Leaf& leaf : leaves_) slots[static_cast<std::size_t>(leaf.slot)] = values[leaf.value];
  return true;
}

void InputBinding::bind_slowly(std::span<const ir::Tensor> inputs, std::span<std::int64_t> slots) const {
  const ir::SymbolValues values = ir::bind_symbols(function_, inputs);
  for (std::size_t slot = 0; slot < program_.leaf_symbols.size(); ++slot) {
    const std::string& symbol = program_.leaf_symbols[slot];
    if (symbol.empty()) continue;
    const auto found = values.find(symbol);
    internal_check(found != values.end(), "a leaf's symbol is bound by the inputs");
    slots[slot] = found->second;
  }
}

}  // namespace anydim::runtime
