#include "api/specialize.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>

#include "api/inputs.h"
#include "ir/error.h"
#include "ir/printable.h"
#include "ir/shapes/bind.h"
#include "ir/shapes/infer.h"

namespace anydim {

namespace {

ir::Function& entry_of(ir::Module& module) {
  internal_check(!module.functions.empty(), "a module has an entry function");
  return module.functions[0];
}

std::string quoted(const std::vector<std::string>& names) {
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

void fix_dim(const ir::Function& function, const InputShape& shape, std::size_t position,
             const ir::Dim& dim, std::map<std::string, ir::Dim>& values) {
  const std::int64_t extent = *shape.dims[position];
  const auto contradiction = [&](const std::string& why) {
    return Error(ErrorKind::Inputs, "--shape: dimension {} of input '{}' cannot be {}: {}",
                 position, ir::printable(shape.input), extent, why);
  };
  if (dim.is_constant()) {
    if (!dim.is_constant(extent))
      throw contradiction(fmt::format("the model demands {}", dim.to_string()));
    return;
  }
  if (dim.kind() != ir::Dim::Kind::Symbol)
    throw contradiction(
        fmt::format("the model computes it as {}; fix its symbols instead", dim.to_string()));
  const std::string& symbol = dim.leaf().symbol;
  const ir::SymbolInfo* known = function.symbols.find(symbol);
  const ir::SymbolInfo info = known == nullptr ? ir::SymbolInfo{} : *known;
  if (extent < info.low || extent > info.high || extent % info.multiple != 0) {
    const std::string multiple =
        info.multiple > 1 ? fmt::format(" and a multiple of {}", info.multiple) : "";
    throw contradiction(
        fmt::format("'{}' is in [{}, {}]{}", ir::printable(symbol), info.low, info.high, multiple));
  }
  const auto [found, first] = values.emplace(symbol, ir::Dim(extent));
  if (!first && !found->second.is_constant(extent)) {
    throw contradiction(fmt::format("'{}' is {} in another place", ir::printable(symbol),
                                    found->second.to_string()));
  }
}

}  // namespace

InputShape parse_input_shape(std::string_view text) {
  const auto wrong = [&] {
    return Error(ErrorKind::CommandLine,
                 "--shape {} is not NAME=EXTENTxEXTENT..., e.g. input_ids=2x?x7 ('?': "
                 "as the model has it)",
                 text);
  };
  const std::size_t equals = text.rfind('=');
  if (equals == std::string_view::npos || equals == 0) throw wrong();
  InputShape shape{std::string(text.substr(0, equals)), {}};
  std::string_view rest = text.substr(equals + 1);
  while (!rest.empty()) {
    if (rest.front() == '?') {
      shape.dims.emplace_back();
      rest.remove_prefix(1);
    } else {
      std::int64_t extent = 0;
      const auto [end, fault] = std::from_chars(rest.data(), rest.data() + rest.size(), extent);
      if (fault != std::errc{} || extent < 0) throw wrong();
      shape.dims.emplace_back(extent);
      rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    }
    if (rest.empty()) break;
    if (rest.front() != 'x' || rest.size() == 1) throw wrong();
    rest.remove_prefix(1);
  }
  return shape;
}

void narrow_dims(ir::Module& module, const std::vector<DimRange>& ranges) {
  ir::Function& function = entry_of(module);
  const std::vector<std::string> symbols = ir::parameter_symbols(function);
  for (const DimRange& range : ranges) {
    if (std::ranges::find(symbols, range.symbol) == symbols.end()) {
      throw Error(ErrorKind::CommandLine,
                  "--dim: the model's inputs have no dimension '{}'; they have {}",
                  ir::printable(range.symbol), quoted(symbols));
    }
    const ir::SymbolInfo* known = function.symbols.find(range.symbol);
    ir::SymbolInfo info = known == nullptr ? ir::SymbolInfo{} : *known;
    const std::int64_t low = std::max(info.low, range.low), high = std::min(info.high, range.high);
    if (low > high) {
      throw Error(ErrorKind::CommandLine,
                  "--dim: '{}' cannot be in [{}, {}]: the model has it in [{}, {}]",
                  ir::printable(range.symbol), range.low, range.high, info.low, info.high);
    }
    if (low != info.low || high != info.high)
      info.reason = fmt::format("--dim {}={}:{}", range.symbol, range.low, range.high);
    info.low = low;
    info.high = high;
    if (__builtin_mul_overflow(info.multiple / std::gcd(info.multiple, range.multiple),
                               range.multiple, &info.multiple)) {
      throw Error(ErrorKind::CommandLine,
                  "--dim: '{}' can be no multiple of {}: with the model's own multiple that "
                  "overflows 64 bits",
                  ir::printable(range.symbol), range.multiple);
    }
    function.symbols.declare(range.symbol, info);
  }
}

void fix_shapes(ir::Module& module, const std::vector<InputShape>& shapes) {
  ir::Function& function = entry_of(module);
  std::map<std::string, ir::Dim> values;
  for (const InputShape& shape : shapes) {
    std::vector<std::string> names;
    const ir::Value* parameter = nullptr;
    for (const ir::ValueId id : function.body.parameters) {
      names.push_back(function.values[id].name);
      if (names.back() == shape.input) parameter = &function.values[id];
    }
    if (parameter == nullptr) {
      throw Error(ErrorKind::CommandLine, "--shape: the model has no input '{}'; its inputs are {}",
                  ir::printable(shape.input), quoted(names));
    }
    const std::vector<ir::Dim>& dims = parameter->type.tensor.dims;
    if (dims.size() != shape.dims.size()) {
      throw Error(ErrorKind::CommandLine,
                  "--shape: input '{}' has rank {}, but {} extents are given",
                  ir::printable(shape.input), dims.size(), shape.dims.size());
    }
    for (std::size_t i = 0; i < dims.size(); ++i) {
      if (shape.dims[i]) fix_dim(function, shape, i, dims[i], values);
    }
  }
  if (values.empty()) return;
  ir::substitute_symbols(function, values);
}

void release_unread(ir::Module& module, const std::vector<ir::Tensor>& inputs) {
  ir::Function& entry = entry_of(module);
  const std::vector<InputInfo> declared = inputs_of(entry);
  for (std::size_t i = 0; i < std::min(inputs.size(), declared.size()); ++i) {
    if (!declared[i].any_shape) continue;
    ir::TensorType& type = entry.values[entry.body.parameters[i]].type.tensor;
    type.dims.assign(inputs[i].dims().begin(), inputs[i].dims().end());
  }
}

void fix_shapes(ir::Module& module, const std::vector<ir::Tensor>& inputs) {
  release_unread(module, inputs);
  ir::Module typed = module;
  ir::infer_types(typed);
  const ir::Function& entry = entry_of(typed);
  ir::bind_symbols(entry, inputs);
  std::vector<InputShape> shapes;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const ir::ValueId parameter = entry.body.parameters[i];
    InputShape& shape = shapes.emplace_back(entry.values[parameter].name);
    // Dims that are no symbols by themselves follow from those that are.
    const std::vector<ir::Dim>& dims = entry.tensor_type(parameter).dims;
    for (std::size_t axis = 0; axis < dims.size(); ++axis) {
      const bool fixed = dims[axis].kind() == ir::Dim::Kind::Symbol;
      shape.dims.push_back(fixed ? std::optional(inputs[i].dims()[axis]) : std::nullopt);
    }
  }
  fix_shapes(module, shapes);
}

}  // namespace anydim
