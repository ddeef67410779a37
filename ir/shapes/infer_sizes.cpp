// Sizes of tensors that are too large to carry along as expressions, or elements of tensors.
#include <algorithm>
#include <utility>

#include "ir/shapes/function_inference.h"

namespace anydim::ir {

namespace {

bool is_large(const Dim& size) {
  return size.kind() == Dim::Kind::Value || size.size() > largest_carried_size;
}

// What is computed of a large extent would be larger still, without end: exporters of detectors
// clamp, pad and divide the sizes of one step in the next. And where elements of tensors, or what
// has a name already (`has_name(leaf)`), may make an extent negative for all that is known, all
// that is computed of it would ask whether they do.
bool is_unwieldy(const Dim& size, const SymbolTable& symbols, const auto& has_name) {
  const auto unproven = [&](const DimLeaf& leaf) {
    return leaf.is_element() || (leaf.is_symbol() && has_name(leaf));
  };
  // Choices among elements and multiples of them, as reshapes and tiles have, stay what they are.
  const bool computed =
      size.kind() == Dim::Kind::FloorDiv ||
      (size.kind() == Dim::Kind::Sum && (size.terms().size() > 1 || size.constant_part() != 0));
  return is_large(size) || (computed && std::ranges::any_of(size.leaves(), unproven) &&
                            bounds(size, symbols).low < 0);
}

}  // namespace

ValueId FunctionInferrer::add_value(const std::string& name, Type type) {
  const ValueId id = function_.add_value(name, std::move(type));
  constants_.resize(function_.values.size(), nullptr);
  result_.shape_data.resize(function_.values.size());
  visible_.resize(function_.values.size(), false);
  return id;
}

// To an unwieldy extent a symbol is bound, which is what everything after mentions; a large
// element of a tensor stands for itself.
bool FunctionInferrer::needs_name(const Dim& size) const {
  return is_unwieldy(size, function_.symbols,
                     [&](const DimLeaf& leaf) { return bound_symbols_.contains(leaf.symbol); });
}

void FunctionInferrer::name_sizes(const Binding& binding) {
  if (kind_ != Kind::Function) return;
  if (binding.op == Op::bind) return note_name(binding);
  for (const ValueId id : binding.results) {
    if (!function_.values[id].type.is_tensor()) continue;
    for (std::size_t axis = 0; axis < function_.tensor_type(id).rank(); ++axis) {
      Dim extent = function_.tensor_type(id).dims[axis];
      if (extent.is_constant()) continue;
      const auto kept = kept_name(id, axis);
      extent = kept ? *kept : by_names(extent);
      if (needs_name(extent)) extent = bound_to(extent, id, binding.source);
      function_.values[id].type.tensor.dims[axis] = extent;
    }
    ShapeData& elements = result_.shape_data[id];
    if (!elements || info(binding.op).has(traits::literal)) continue;
    for (std::size_t i = 0; i < elements->size(); ++i) {
      Dim& element = (*elements)[i];
      if (!is_large(element)) continue;
      const Dim itself = Dim::value(id, static_cast<std::int64_t>(i));
      element = named(element).value_or(element.kind() == Dim::Kind::Value ? element : itself);
    }
  }
}

void FunctionInferrer::find_names(const Block& block, NamedSizes& known) {
  const auto has_name = [&](const DimLeaf& leaf) { return known.names.contains(leaf.symbol); };
  for (const Binding& binding : block.bindings) {
    if (binding.op == Op::dim && is_unwieldy(binding.dims[0], function_.symbols, has_name))
      known.values.insert(binding.results[0]);
    if (binding.op == Op::bind && known.values.contains(binding.operands[0]))
      known.names.insert(binding.dims[0].leaf().symbol);
    for (const Block& inner : binding.blocks) find_names(inner, known);
    if (known.names.empty()) continue;
    for (const ValueId id : binding.results) {
      if (function_.values[id].declared != Value::Declared::Nothing) continue;
      const std::vector<Dim>& dims = function_.values[id].type.tensor.dims;
      for (std::size_t axis = 0; axis < dims.size(); ++axis)
        if (dims[axis].kind() == Dim::Kind::Symbol &&
            known.names.contains(dims[axis].leaf().symbol))
          named_places_.emplace(std::pair(id, axis), dims[axis]);
    }
  }
}

// By what passes have simplified since, a size that has a name may be another expression, large or
// not. Literals and other types mention the symbol, so it stays.
std::optional<Dim> FunctionInferrer::kept_name(ValueId value, std::size_t axis) const {
  const auto name = named_places_.find({value, axis});
  const bool bound = name != named_places_.end() && bound_.contains(name->second.leaf().symbol);
  return bound ? std::optional(name->second) : std::nullopt;
}

std::optional<Dim> FunctionInferrer::named(const Dim& size) const {
  const auto found = std::ranges::find(named_, size, &std::pair<Dim, Dim>::first);
  return found == named_.end() ? std::nullopt : std::optional(found->second);
}

// Elements of tensors by the symbols that were bound to them.
Dim FunctionInferrer::by_names(const Dim& dim) const {
  if (named_.empty() || dim.is_constant()) return dim;
  return dim.substitute(
      [&](const DimLeaf& leaf) { return leaf.is_element() ? named(Dim::of(leaf)) : std::nullopt; });
}

// `value` is the one that has the size, and whose scope the symbol shares.
Dim FunctionInferrer::bound_to(const Dim& size, ValueId value, const std::string& source) {
  if (const auto known = named(size)) return *known;
  const std::int64_t most =
      std::clamp<std::int64_t>(bounds(size, function_.symbols).high, 0, default_symbol_maximum);
  const Dim symbol = function_.symbols.fresh("d");
  SymbolInfo info;
  info.unbacked = true;
  function_.symbols.declare(symbol.leaf().symbol, info);
  opener_of_.emplace(symbol.leaf().symbol, value);
  Binding computed{.op = Op::dim, .dims = {size}, .source = source};
  computed.results = {add_value(function_.values[value].name + "_extent", Type())};
  Binding bind{
      .op = Op::bind, .operands = computed.results, .dims = {symbol, most}, .source = source};
  infer_binding(computed);
  infer_binding(bind);
  note_name(bind);
  to_insert_.push_back(std::move(computed));
  to_insert_.push_back(std::move(bind));
  return symbol;
}

// A bind of an earlier inference, or of a module's author.
void FunctionInferrer::note_name(const Binding& bind) {
  const ShapeData& bound = result_.shape_data[bind.operands[0]];
  if (bound && bound->size() == 1 && needs_name(bound->front())) {
    named_.emplace_back(bound->front(), bind.dims[0]);
    bound_symbols_.insert(bind.dims[0].leaf().symbol);
  }
}

}  // namespace anydim::ir
