#include "runtime/input_binding.h"

#include <algorithm>
#include <optional>

#include "ir/error.h"
#include "ir/shapes/bind.h"

namespace anydim::runtime {

namespace {

constexpr std::size_t maximum_values = 64;

// The symbol of a dim that is one, or one and a constant.
std::optional<std::string> symbol_of(const ir::Dim& dim) {
  if (dim.kind() == ir::Dim::Kind::Symbol) return dim.leaf().symbol;
  if (dim.kind() != ir::Dim::Kind::Sum || dim.terms().size() != 1) return std::nullopt;
  const ir::Dim::Term& term = dim.terms()[0];
  if (term.coefficient != 1 || term.factors.size() != 1 ||
      term.factors[0].kind() != ir::Dim::Kind::Symbol)
    return std::nullopt;
  return term.factors[0].leaf().symbol;
}

}  // namespace

bool are_constants(std::span<const ir::Dim> dims) {
  return std::ranges::all_of(dims, [](const ir::Dim& dim) { return dim.is_constant(); });
}

bool takes_any_shape(const ir::Code::Input& input) {
  return input.buffer < 0 && are_constants(input.dims);
}

InputBinding::InputBinding(const ir::Program& program) : program_(program) {
  function_.name = "main";
  function_.symbols = program.entry().symbols;
  for (std::size_t i = 0; i < program.entry().inputs.size(); ++i) {
    const ir::Code::Input& input = program.entry().inputs[i];
    if (takes_any_shape(input)) continue;
    bound_.push_back(i);
    function_.body.parameters.push_back(
        function_.add_value(input.name, ir::TensorType{input.dtype, input.dims}));
    for (std::size_t d = 0; d < input.dims.size(); ++d) {
      Step step{.input = static_cast<std::uint32_t>(i), .dim = static_cast<std::uint32_t>(d)};
      const ir::Dim& dim = input.dims[d];
      if (const auto constant = dim.constant()) {
        step.low = *constant;
      } else if (const auto symbol = symbol_of(dim)) {
        const auto [found, first] =
            positions_.emplace(*symbol, static_cast<std::int32_t>(positions_.size()));
        step.value = found->second;
        if (!first && dim.constant_part() == 0) {
          step.kind = Step::Kind::Compare;
        } else if (first) {
          step.kind = Step::Kind::Bind;
          step.offset = dim.constant_part();
          const ir::SymbolInfo* known = program.entry().symbols.find(*symbol);
          const ir::SymbolInfo info = known == nullptr ? ir::SymbolInfo{} : *known;
          step.low = info.low, step.high = info.high, step.multiple = info.multiple;
          if (info.below) quick_ = false;
        } else {
          step.kind = Step::Kind::Expression;
          step.expected = dim;
        }
      } else {
        step.kind = Step::Kind::Expression;
        step.expected = dim;
        for (const ir::DimLeaf& leaf : dim.leaves())
          if (!leaf.is_symbol() || !positions_.contains(leaf.symbol))
            quick_ = false;  // to be solved for
      }
      steps_.push_back(step);
    }
  }
  values_ = positions_.size();
  if (values_ > maximum_values) quick_ = false;
  for (std::size_t slot = 0; slot < program.entry().leaf_symbols.size(); ++slot) {
    const std::string& symbol = program.entry().leaf_symbols[slot];
    if (symbol.empty()) continue;
    const auto found = positions_.find(symbol);
    if (found == positions_.end()) quick_ = false;  // solved from an expression
    else leaves_.push_back({static_cast<std::int32_t>(slot), found->second});
  }
}

void InputBinding::bind(std::span<const ir::Tensor> inputs, std::span<std::int64_t> slots) const {
  if (!quick_ || !bind_quickly(inputs, slots)) bind_slowly(inputs, slots);
}

bool InputBinding::bind_quickly(std::span<const ir::Tensor> inputs,
                                std::span<std::int64_t> slots) const {
  if (inputs.size() != program_.entry().inputs.size()) return false;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].dtype() != program_.entry().inputs[i].dtype) return false;
  for (const std::size_t i : bound_)
    if (inputs[i].rank() != program_.entry().inputs[i].dims.size()) return false;
  std::int64_t values[maximum_values];
  for (const Step& step : steps_) {
    const std::int64_t extent = inputs[step.input].dims()[step.dim];
    switch (step.kind) {
      case Step::Kind::Constant:
        if (extent != step.low) return false;
        break;
      case Step::Kind::Bind: {
        const std::int64_t value = extent - step.offset;
        if (value < step.low || value > step.high ||
            (step.multiple > 1 && value % step.multiple != 0))
          return false;
        values[step.value] = value;
        break;
      }
      case Step::Kind::Expression:
        if (extent != step.expected.evaluate([&](const ir::DimLeaf& leaf) {
              return values[positions_.find(leaf.symbol)->second];
            }))
          return false;
        break;
      case Step::Kind::Compare:
        if (extent != values[step.value]) return false;
        break;
    }
  }
  for (const Leaf& leaf : leaves_) slots[static_cast<std::size_t>(leaf.slot)] = values[leaf.value];
  return true;
}

void InputBinding::bind_slowly(std::span<const ir::Tensor> inputs,
                               std::span<std::int64_t> slots) const {
  if (inputs.size() != program_.entry().inputs.size())
    throw Error(ErrorKind::Inputs, "@main: expected {} inputs, got {}.",
                program_.entry().inputs.size(), inputs.size());
  std::vector<ir::InputShape> shapes;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!takes_any_shape(program_.entry().inputs[i]))
      shapes.push_back({inputs[i].dtype(), inputs[i].dims()});
    else if (inputs[i].dtype() != program_.entry().inputs[i].dtype)
      throw Error(ErrorKind::Inputs, "input '{}': expected dtype {}, got {}.",
                  program_.entry().inputs[i].name, ir::name_of(program_.entry().inputs[i].dtype),
                  ir::name_of(inputs[i].dtype()));
  }
  const ir::SymbolValues values = ir::bind_symbols(function_, shapes);
  for (std::size_t slot = 0; slot < program_.entry().leaf_symbols.size(); ++slot) {
    const std::string& symbol = program_.entry().leaf_symbols[slot];
    if (symbol.empty()) continue;
    const auto found = values.find(symbol);
    internal_check(found != values.end(), "a leaf's symbol is bound by the inputs");
    slots[slot] = found->second;
  }
}

}  // namespace anydim::runtime
