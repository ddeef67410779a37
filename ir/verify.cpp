#include "ir/verify.h"

#include <fmt/format.h>

#include <set>

#include "ir/function_verifier.h"
#include "ir/printable.h"
#include "ir/quote.h"
#include "ir/text/print.h"

namespace anydim::ir {
namespace {

constexpr std::string_view kind_names[] = {"an integer", "a real",  "a string", "integers",
                                           "reals",      "a dtype", "a tensor"};

// The index of the alternative of Attribute that holds this kind.
std::size_t alternative(AttributeInfo::Kind kind) {
  switch (kind) {
    case AttributeInfo::Kind::Integer: return 0;
    case AttributeInfo::Kind::Real: return 1;
    case AttributeInfo::Kind::String: return 2;
    case AttributeInfo::Kind::Integers: return 3;
    case AttributeInfo::Kind::Reals: return 4;
    case AttributeInfo::Kind::DType: return 5;
    case AttributeInfo::Kind::Tensor: return 6;
  }
  return std::variant_npos;
}

std::string count_text(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

template <typename List>
void check_names(const List& list, std::string_view what, const VerifyOptions& options) {
  std::set<std::string_view> names;
  for (const auto& item : list) {
    if (!names.insert(item.name).second) {
      throw Error(options.kind, "{}{}the module has two {} named {}", options.stage,
                  options.stage.empty() ? "" : ": ", what, global_text(item.name));
    }
  }
}

}  // namespace

void FunctionVerifier::verify() {
  symbols();
  names();
  states_.assign(function_.values.size(), State::Undefined);
  for (const ValueId id : function_.body.parameters) define(id, "a parameter");
  bindings(function_.body);
  for (const ValueId id : function_.body.results) use(id, [] { return std::string("a result"); });
  const std::size_t named = function_.result_names.size();
  if (named != 0 && named != function_.body.results.size()) {
    fail("has {}, but {} of results", count_text(function_.body.results.size(), "result"),
         count_text(named, "name"));
  }
  types();
}

void FunctionVerifier::fail(const std::string& what) const {
  const std::string stage = options_.stage.empty() ? "" : options_.stage + ": ";
  const std::string place = binding_ == nullptr ? "" : ", " + describe(function_, *binding_);
  throw Error(options_.kind, "{}{} {}{}: {}", stage, keyword_, global_text(name_), place, what);
}

void FunctionVerifier::symbols() {
  for (const std::string& name : function_.symbols.names()) {
    const SymbolInfo& symbol = *function_.symbols.find(name);
    if (symbol.low > symbol.high)
      fail("symbol {} has the empty range [{}, {}]", symbol_text(name), symbol.low, symbol.high);
    if (symbol.multiple < 1)
      fail("symbol {} is a multiple of {}", symbol_text(name), symbol.multiple);
    if (symbol.below) {
      for (const DimLeaf& leaf : symbol.below->leaves()) {
        if (leaf.is_symbol())
          declared(leaf.symbol,
                   [&] { return fmt::format("the bound of symbol {}", symbol_text(name)); });
      }
    }
  }
}

void FunctionVerifier::names() {
  std::set<std::string_view> seen;
  for (const Value& value : function_.values) {
    if (!seen.insert(value.name).second) fail("has two values named {}", value_text(value.name));
  }
}

void FunctionVerifier::declared(const std::string& symbol, const Words& where) {
  if (!function_.symbols.contains(symbol)) {
    fail("{} uses the symbol {}, which the function does not declare", where(),
         symbol_text(symbol));
  }
}

void FunctionVerifier::define(ValueId id, std::string_view role) {
  if (id >= function_.values.size()) {
    fail("{} has the id {}, but there are {}", role, id,
         count_text(function_.values.size(), "value"));
  }
  if (states_[id] != State::Undefined) fail("{} is assigned a second time", name(id));
  states_[id] = State::InScope;
}

void FunctionVerifier::use(ValueId id, const Words& role) {
  if (id >= function_.values.size()) {
    fail("{} has the id {}, but there are {}", role(), id,
         count_text(function_.values.size(), "value"));
  }
  if (states_[id] == State::Undefined)
    fail("{}, {}, is not defined before this use", role(), name(id));
  if (states_[id] == State::OutOfScope)
    fail("{}, {}, is used outside the block that defines it", role(), name(id));
  if (binding_ != nullptr && for_callers_.contains(id))
    fail("{}, {}, has a rank that only a call tells: nothing but a result of the entry may be it",
         role(), name(id));
}

void FunctionVerifier::bindings(const Block& block) {
  for (const Binding& binding : block.bindings) {
    binding_ = &binding;
    operands(binding);
    attributes(binding);
    dims(binding);
    blocks(binding);
    binding_ = &binding;
    results(binding);
    if (binding.op == Op::drop_ones) {
      if (&block != &module_.functions.front().body)
        fail("stands where no result is a caller's: expected it in the entry, in no inner block");
      for_callers_.insert(binding.results[0]);
    }
    callee(binding);
    binding_ = nullptr;
  }
}

void FunctionVerifier::operands(const Binding& binding) {
  const OpInfo& row = info(binding.op);
  const auto minimum = static_cast<std::size_t>(row.minimum_operands);
  const std::size_t count = binding.operands.size();
  if (count < minimum ||
      (row.maximum_operands >= 0 && count > static_cast<std::size_t>(row.maximum_operands))) {
    std::string wanted = count_text(minimum, "operand");
    if (row.maximum_operands < 0) wanted = "at least " + wanted;
    if (row.maximum_operands > row.minimum_operands)
      wanted = fmt::format("{} to {} operands", minimum, row.maximum_operands);
    fail("takes {}, has {}", wanted, count);
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (binding.operands[i] != no_value) {
      use(binding.operands[i], [&] { return fmt::format("operand {}", i); });
      continue;
    }
    const bool optional =
        binding.op == Op::loop ? i < 2 : row.maximum_operands >= 0 && i >= minimum;
    if (!optional) fail("operand {} is none, which only optional operands can be", i);
  }
}

void FunctionVerifier::attributes(const Binding& binding) {
  for (const AttributeInfo& row : attributes_of(binding.op)) {
    const auto found = binding.attributes.find(row.name);
    if (found == binding.attributes.end()) {
      if (!row.optional) fail("attribute '{}' is missing", row.name);
    } else if (found->second.index() != alternative(row.kind)) {
      fail("attribute '{}' is {}, expected {}", row.name, kind_names[found->second.index()],
           kind_names[alternative(row.kind)]);
    }
  }
  for (const auto& [name, value] : binding.attributes) {
    if (find_attribute(binding.op, name) == nullptr) fail("has no attribute '{}'", printable(name));
  }
}

void FunctionVerifier::dims(const Binding& binding) {
  const auto expect = [&](std::size_t count) {
    if (binding.dims.size() != count)
      fail("carries {}, expected {}", count_text(binding.dims.size(), "dim"), count);
  };
  const bool any_number = binding.op == Op::shape || binding.op == Op::check_shape;
  const bool of_region = binding.op == Op::region && binding.callee < module_.regions.size();
  if (of_region) {
    expect(module_.regions[binding.callee].body.symbols.names().size());
  } else if (!any_number && binding.op != Op::region) {
    expect(binding.op == Op::dim ? 1 : binding.op == Op::bind || binding.op == Op::check ? 2 : 0);
  }
  if (binding.op == Op::bind &&
      (binding.dims[0].kind() != Dim::Kind::Symbol || !binding.dims[0].leaf().is_symbol())) {
    fail("opens a symbol, not {}", print(function_, binding.dims[0]));
  }
  for (const Dim& dim : binding.dims) {
    for (const DimLeaf& leaf : dim.leaves()) {
      if (leaf.is_symbol()) {
        declared(leaf.symbol, [&] { return fmt::format("the dim {}", print(function_, dim)); });
      } else {
        use(leaf.value,
            [&] { return fmt::format("the tensor in the dim {}", print(function_, dim)); });
      }
    }
  }
  if (binding.op == Op::check_shape && type_of(binding.operands[0]) != nullptr &&
      type_of(binding.operands[0])->rank() != binding.dims.size()) {
    fail("demands {} of {}, which is {}", count_text(binding.dims.size(), "dim"),
         name(binding.operands[0]), print(function_, function_.values[binding.operands[0]].type));
  }
}

void FunctionVerifier::results(const Binding& binding) {
  const OpInfo& row = info(binding.op);
  if (row.results >= 0 && binding.results.size() != static_cast<std::size_t>(row.results)) {
    fail("has {}, expected {}", count_text(binding.results.size(), "result"), row.results);
  }
  for (const ValueId id : binding.results) define(id, "a result");
}

void FunctionVerifier::types() {
  for (ValueId id = 0; id < function_.values.size(); ++id) {
    if (states_[id] == State::Undefined) continue;  // left over by a pass: nothing names it
    if (options_.types_inferred && function_.values[id].type.kind == Type::Kind::Unknown) {
      fail("{} has no type after inference", name(id));
    }
    type_symbols(function_.values[id].type, id);
  }
}

void FunctionVerifier::type_symbols(const Type& type, ValueId id) {
  for (const Dim& dim : type.tensor.dims) {
    for (const DimLeaf& leaf : dim.leaves()) {
      if (is_any_extent(dim)) continue;
      if (leaf.is_symbol()) {
        declared(leaf.symbol, [&] { return fmt::format("the type of {}", name(id)); });
      } else if (leaf.value >= function_.values.size() || states_[leaf.value] == State::Undefined) {
        fail("the type of {} reads a tensor that is not defined: {}", name(id),
             print(function_, dim));
      }
    }
  }
  for (const Type& element : type.elements) type_symbols(element, id);
  // Function types bind their own symbols.
  if (type.kind == Type::Kind::Function) return;
  for (const Type& result : type.results) type_symbols(result, id);
}

const TensorType* FunctionVerifier::type_of(ValueId id) const {
  return id < function_.values.size() && function_.values[id].type.is_tensor()
             ? &function_.values[id].type.tensor
             : nullptr;
}

std::string FunctionVerifier::name(ValueId id) const {
  return value_text(function_.values[id].name);
}

void verify(const Module& module, const VerifyOptions& options) {
  check_names(module.functions, "functions", options);
  check_names(module.regions, "regions", options);
  for (const Function& function : module.functions) {
    FunctionVerifier(module, function, "function", function.name, options).verify();
  }
  for (const Region& region : module.regions) {
    FunctionVerifier verifier(module, region.body, "region", region.name, options);
    verifier.verify();
    verifier.region(region);
  }
}

}  // namespace anydim::ir
