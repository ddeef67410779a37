#include "ir/module.h"

#include <fmt/format.h>

#include <optional>

#include "ir/error.h"
#include "ir/number_text.h"
#include "ir/printable.h"

namespace anydim::ir {

namespace {

template <typename Number>
Number parse_default(std::string_view text) {
  const auto number = parsed_number<Number>(text);
  internal_check(number.has_value(), "a default in ir/ops.def reads as a number");
  return *number;
}

std::optional<Attribute> default_of(const AttributeInfo& attribute) {
  if (!attribute.default_text) return std::nullopt;
  const std::string_view text = *attribute.default_text;
  using Kind = AttributeInfo::Kind;
  switch (attribute.kind) {
    case Kind::Integer: return parse_default<std::int64_t>(text);
    case Kind::Real: return parse_default<double>(text);
    case Kind::String: return std::string(text);
    case Kind::DType: {
      const auto dtype = dtype_named(text);
      internal_check(dtype.has_value(), "a default in ir/ops.def names a dtype");
      return *dtype;
    }
    case Kind::Integers:
    case Kind::Reals:
    case Kind::Tensor: break;
  }
  internal_error("an attribute in ir/ops.def has a default of a kind that takes none");
}

// The table's defaults, parsed once on first use, by op.
const std::vector<Attributes>& defaults() {
  static const std::vector<Attributes> parsed = [] {
    std::vector<Attributes> all(all_ops().size());
    for (const OpInfo& row : all_ops()) {
      for (const AttributeInfo& attribute : attributes_of(row.op)) {
        if (auto value = default_of(attribute)) {
          all[static_cast<std::size_t>(row.op)].emplace(std::string(attribute.name),
                                                        *std::move(value));
        }
      }
    }
    return all;
  }();
  return parsed;
}

template <typename T>
const T& attribute_of(const Binding& binding, std::string_view name) {
  auto found = binding.attributes.find(name);
  if (found == binding.attributes.end()) {
    const Attributes& fallback = defaults()[static_cast<std::size_t>(info(binding.op).op)];
    found = fallback.find(name);
    if (found == fallback.end()) {
      internal_error(
          fmt::format("{} '{}' has attribute '{}'", info(binding.op).text, binding.source, name));
    }
  }
  const T* value = std::get_if<T>(&found->second);
  if (value == nullptr) {
    internal_error(fmt::format("{} '{}' has attribute '{}' of the kind that ir/ops.def gives it",
                               info(binding.op).text, binding.source, name));
  }
  return *value;
}

}  // namespace

ValueId Function::add_value(std::string name, Type type) {
  values.push_back({names_.unique(std::move(name), values), std::move(type)});
  return static_cast<ValueId>(values.size() - 1);
}

const TensorType& Function::tensor_type(ValueId id) const {
  internal_check(id < values.size(), "a value id belongs to its function");
  if (!values[id].type.is_tensor()) {
    internal_error(
        fmt::format("value %{} of function @{} is a tensor", values[id].name, this->name));
  }
  return values[id].type.tensor;
}

std::int64_t integer_attribute(const Binding& binding, std::string_view name) {
  return attribute_of<std::int64_t>(binding, name);
}
double real_attribute(const Binding& binding, std::string_view name) {
  return attribute_of<double>(binding, name);
}
const std::string& string_attribute(const Binding& binding, std::string_view name) {
  return attribute_of<std::string>(binding, name);
}
const std::vector<std::int64_t>& integers_attribute(const Binding& binding, std::string_view name) {
  return attribute_of<std::vector<std::int64_t>>(binding, name);
}

std::vector<std::int64_t> integers_or_ones(const Binding& binding, std::string_view name,
                                           std::size_t count) {
  return has_attribute(binding, name) ? integers_attribute(binding, name)
                                      : std::vector<std::int64_t>(count, 1);
}
DType dtype_attribute(const Binding& binding, std::string_view name) {
  return attribute_of<DType>(binding, name);
}
const Tensor& tensor_attribute(const Binding& binding, std::string_view name) {
  return attribute_of<Tensor>(binding, name);
}
bool has_attribute(const Binding& binding, std::string_view name) {
  return binding.attributes.contains(name);
}

namespace {

void substitute(Type& type, const std::map<std::string, Dim>& dims) {
  for (Dim& dim : type.tensor.dims) dim = dim.substitute(dims);
  for (Type& element : type.elements) substitute(element, dims);
  for (Type& result : type.results) substitute(result, dims);
}

void substitute(Block& block, const std::map<std::string, Dim>& dims) {
  for (Binding& binding : block.bindings) {
    for (Dim& dim : binding.dims) dim = dim.substitute(dims);
    for (Block& nested : binding.blocks) substitute(nested, dims);
  }
}

}  // namespace

void substitute_symbols(Function& function, const std::map<std::string, Dim>& dims) {
  for (Value& value : function.values) substitute(value.type, dims);
  substitute(function.body, dims);
  for (const auto& [symbol, dim] : dims) function.symbols.remove(symbol);
}

std::vector<std::string> parameter_symbols(const Function& function) {
  std::vector<std::string> symbols;
  for (const ValueId id : function.body.parameters)
    for (const Dim& dim : function.values[id].type.tensor.dims)
      for (const DimLeaf& leaf : dim.leaves())
        if (leaf.is_symbol() && std::ranges::find(symbols, leaf.symbol) == symbols.end())
          symbols.push_back(leaf.symbol);
  return symbols;
}

bool is_overwrite(Op op) { return op == Op::overwrite || op == Op::dyn_overwrite; }

bool is_in_place(const Binding& binding) {
  return is_overwrite(binding.op) && integer_attribute(binding, "in_place") != 0;
}

std::string describe(const Function& function, const Binding& binding) {
  std::string text(info(binding.op).text);
  if (!binding.source.empty()) text += fmt::format(" '{}'", printable(binding.source));
  for (std::size_t i = 0; i < binding.results.size(); ++i) {
    const ValueId id = binding.results[i];
    const bool named = id < function.values.size();
    text += fmt::format("{}%{}", i == 0 ? " (" : ", ",
                        named ? printable(function.values[id].name) : "?");
  }
  if (!binding.results.empty()) text += ')';
  return text;
}

}  // namespace anydim::ir
