#include "ir/shapes/bind.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "ir/error.h"
#include "ir/printable.h"
#include "ir/text/print.h"

namespace anydim::ir {
namespace {

class Binder {
 public:
  Binder(const Function& function, std::span<const InputShape> inputs)
      : function_(function), inputs_(inputs) {}

  SymbolValues run() {
    const std::vector<ValueId>& parameters = function_.body.parameters;
    if (parameters.size() != inputs_.size()) {
      throw Error(ErrorKind::Inputs, "@{}: expected {} inputs, got {}.", function_.name,
                  parameters.size(), inputs_.size());
    }
    for (std::size_t i = 0; i < parameters.size(); ++i) check_form(i);
    for (std::size_t i = 0; i < parameters.size(); ++i) bind_plain_symbols(i);
    for (std::size_t i = 0; i < parameters.size(); ++i) check_dims(i);
    return std::move(values_);
  }

 private:
  struct Place {
    std::size_t input = 0;
    std::size_t dimension = 0;
  };

  std::string name_of_input(std::size_t input) const {
    return printable(function_.values[function_.body.parameters[input]].name);
  }
  const TensorType& type_of(std::size_t input) const {
    return function_.tensor_type(function_.body.parameters[input]);
  }

  [[noreturn]] void fail(Place place, const std::string& symbol, const std::string& expected,
                         const std::string& explanation = {}) const {
    throw Error(ErrorKind::Inputs, "input '{}', dimension {}{}: expected {}, got {}{}.",
                name_of_input(place.input), place.dimension,
                symbol.empty() ? "" : fmt::format(" ({})", symbol), expected,
                inputs_[place.input].dims[place.dimension], explanation);
  }

  void check_form(std::size_t input) const {
    const TensorType& type = type_of(input);
    const InputShape& given = inputs_[input];
    if (given.dtype != type.dtype) {
      throw Error(ErrorKind::Inputs, "input '{}': expected dtype {}, got {}.", name_of_input(input),
                  name_of(type.dtype), name_of(given.dtype));
    }
    if (given.dims.size() != type.rank()) {
      throw Error(ErrorKind::Inputs, "input '{}': expected rank {}, got rank {} with shape ({}).",
                  name_of_input(input), type.rank(), given.dims.size(),
                  fmt::join(given.dims, ", "));
    }
  }

  void bind_plain_symbols(std::size_t input) {
    const TensorType& type = type_of(input);
    for (std::size_t dimension = 0; dimension < type.rank(); ++dimension) {
      const Dim& dim = type.dims[dimension];
      if (dim.kind() != Dim::Kind::Symbol) continue;
      const std::string& symbol = dim.leaf().symbol;
      if (!values_.try_emplace(symbol, inputs_[input].dims[dimension]).second) continue;
      first_use_.emplace(symbol, Place{input, dimension});
      check_range(symbol, {input, dimension});
    }
  }

  void check_range(const std::string& symbol, Place place) const {
    const SymbolInfo& info = function_.symbols.info({.symbol = symbol});
    const std::int64_t got = values_.find(symbol)->second;
    const std::string shown = info.unbacked ? "" : symbol;
    const std::string reason =
        info.reason.empty() ? "" : fmt::format("; the range comes from {}", info.reason);
    if (info.low == info.high && got != info.low)
      fail(place, shown, fmt::format("{}", info.low), reason);
    if (got > info.high) fail(place, shown, fmt::format("at most {}", info.high), reason);
    if (got < info.low) fail(place, shown, fmt::format("at least {}", info.low), reason);
    if (info.multiple > 1 && got % info.multiple != 0)
      fail(place, shown, fmt::format("a multiple of {}", info.multiple), reason);
  }

  void check_dims(std::size_t input) const {
    const TensorType& type = type_of(input);
    for (std::size_t dimension = 0; dimension < type.rank(); ++dimension) {
      const Dim& dim = type.dims[dimension];
      const std::int64_t expected =
          dim.evaluate([&](const DimLeaf& leaf) { return value_of(leaf, input, dimension); });
      if (expected == inputs_[input].dims[dimension]) continue;
      if (dim.is_constant()) fail({input, dimension}, "", fmt::format("{}", expected));
      if (dim.kind() != Dim::Kind::Symbol) {
        fail({input, dimension}, "", fmt::format("{} = {}", print(function_, dim), expected));
      }
      const Place first = first_use_.find(dim.leaf().symbol)->second;
      fail({input, dimension}, dim.leaf().symbol,
           fmt::format("{} as in input '{}', dimension {}", expected, name_of_input(first.input),
                       first.dimension));
    }
  }

  std::int64_t value_of(const DimLeaf& leaf, std::size_t input, std::size_t dimension) const {
    const auto found = leaf.is_symbol() ? values_.find(leaf.symbol) : values_.end();
    if (found != values_.end()) return found->second;
    throw Error(ErrorKind::Unsupported,
                "input '{}', dimension {}: {} depends on something that no input's "
                "dimension gives by itself.",
                name_of_input(input), dimension, print(function_, type_of(input).dims[dimension]));
  }

  const Function& function_;
  std::span<const InputShape> inputs_;
  SymbolValues values_;
  std::map<std::string, Place, std::less<>> first_use_;
};

}  // namespace

SymbolValues bind_symbols(const Function& function, std::span<const InputShape> inputs) {
  return Binder(function, inputs).run();
}

SymbolValues bind_symbols(const Function& function, std::span<const Tensor> inputs) {
  std::vector<InputShape> shapes;
  for (const Tensor& input : inputs) shapes.push_back({input.dtype(), input.dims()});
  return bind_symbols(function, shapes);
}

std::string node_name(const Function& function, const Binding& binding) {
  if (!binding.source.empty() || binding.results.empty())
    return fmt::format("'{}'", binding.source);
  return "%" + function.values[binding.results[0]].name;
}

std::string index_out_of_range(const std::string& what, const std::string& node, std::int64_t index,
                               std::int64_t extent) {
  if (extent == 0)
    return fmt::format("{} of {}: nothing can be chosen from a dim without elements, got {}", what,
                       node, index);
  return fmt::format("{} of {}: expected from {} to {}, got {}", what, node, -extent, extent - 1,
                     index);
}

std::string division_by_zero(const std::string& what, const std::string& node) {
  return fmt::format("{} of {}: the divisor is 0", what, node);
}

std::string offsets_misfit(const std::string& what, const std::string& node, std::int64_t rows,
                           std::int64_t first) {
  return fmt::format(
      "{} of {}: they must start with 0, never fall, and end with {}; the first that does not fit "
      "is {}",
      what, node, rows, first);
}

std::string work_misfit(const std::string& what, const std::string& node, std::int64_t sequences,
                        std::int64_t place) {
  return fmt::format(
      "{} of {}: it must list the {} sequences, longest first and equal ones in their order, each "
      "with how many rows come before it; the first place that does not fit is {}",
      what, node, sequences, place);
}

std::string shape_check_text(const Function& function, const Binding& check,
                             std::size_t dimension) {
  const Dim& demanded = check.dims[dimension];
  const std::string symbol =
      demanded.is_constant() ? "" : fmt::format(" ({})", print(function, demanded));
  const std::string whose = has_attribute(check, "what")
                                ? string_attribute(check, "what")
                                : "%" + function.values[check.operands[0]].name;
  return fmt::format("{}: dimension {}{} of {}", describe(function, check), dimension, symbol,
                     whose);
}

std::string bind_text(const Function& function, const Binding& bind) {
  return fmt::format("{}: {} bound to %{}", describe(function, bind), print(function, bind.dims[0]),
                     function.values[bind.operands[0]].name);
}

std::string assertion_failed(const std::string& node, const std::string& message,
                             std::span<const ShownTensor> shown) {
  std::string text = fmt::format("{}: {}", node, message);
  for (const ShownTensor& tensor : shown) {
    text += fmt::format("\n  %{}: {} =", tensor.name, shape_text(tensor.dtype, tensor.dims));
    for (const Tensor& element : tensor.first)
      text += is_float(tensor.dtype) ? fmt::format(" {}", element.real_at(0))
                                     : fmt::format(" {}", element.integer_at(0));
    if (element_count(tensor.dims) > static_cast<std::int64_t>(tensor.first.size())) text += " ...";
  }
  return text;
}

std::vector<std::int64_t> without_ones(std::string_view output, std::span<const std::int64_t> dims,
                                       std::span<const std::int64_t> ones) {
  internal_check(ones.size() == dims.size(), "every dim of an output is kept or dropped");
  std::vector<std::int64_t> kept;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (ones[i] != 1) kept.push_back(dims[i]);
    else if (dims[i] != 1)
      throw Error(ErrorKind::Inputs, "output '{}' drops dimension {}: expected 1, got {}",
                  printable(output), i, dims[i]);
  }
  return kept;
}

std::string shape_text(DType dtype, std::span<const std::int64_t> dims) {
  return fmt::format("{} ({})", name_of(dtype), fmt::join(dims, ", "));
}

}  // namespace anydim::ir
