#include "ir/text/print.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <optional>
#include <set>
#include <type_traits>

#include "ir/quote.h"
#include "ir/renumber.h"
#include "ir/text/policy_text.h"
#include "ir/text/tensor_text.h"

namespace anydim::ir {
namespace {

template <typename Number>
void append_number(std::string& out, Number value) {
  std::array<char, 40> buffer;
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  out.append(buffer.data(), result.ptr);
}

// The label in front of a block.
std::string_view block_label(Op op, std::size_t index) {
  if (op == Op::branch) return index == 0 ? "then" : "else";
  return "body";
}

// Without its reason.
void append_symbol_info(std::string& out, const SymbolInfo& symbol,
                        const std::function<void(const Dim&)>& append_dim) {
  out += " in [";
  append_number(out, symbol.low);
  out += ", ";
  append_number(out, symbol.high);
  out += ']';
  if (symbol.multiple != 1) {
    out += " multiple ";
    append_number(out, symbol.multiple);
  }
  if (symbol.below) {
    out += " below ";
    append_dim(*symbol.below);
  }
  if (symbol.unbacked) out += " unbacked";
}

class FunctionPrinter {
 public:
  FunctionPrinter(std::string& out, const Module* module, const Function& function, bool canonical)
      : out_(out), module_(module), function_(function), canonical_(canonical) {
    if (canonical_) numbers_.assign(function.values.size(), unnumbered);
  }

  // `region`: whose body it is, if any.
  void definition(std::string_view keyword, const std::string& name, const Region* region) {
    if (!canonical_) {
      out_ += keyword;
      out_ += ' ';
      out_ += global_text(name);
    }
    out_ += '(';
    for (std::size_t i = 0; i < function_.body.parameters.size(); ++i) {
      if (i > 0) out_ += ", ";
      if (region != nullptr && region->is_weight(i))
        out_ += region->is_weight_of_4_bits(i) ? "weight i4 " : "weight ";
      typed_value(function_.body.parameters[i]);
    }
    out_ += ')';
    if (!canonical_) result_types();
    where();
    out_ += " {\n";
    bindings(function_.body, 1);
    indent(1);
    out_ += "return";
    for (std::size_t i = 0; i < function_.body.results.size(); ++i) {
      const ValueId id = function_.body.results[i];
      out_ += i == 0 ? " " : ", ";
      value(id);
      if (!canonical_) result_name(keyword, i);
    }
    out_ += "\n}\n";
  }

  void binding(const Binding& binding, int depth, bool with_blocks) {
    for (std::size_t i = 0; i < binding.results.size(); ++i) {
      if (i > 0) out_ += ", ";
      typed_value(binding.results[i]);
    }
    if (!binding.results.empty()) out_ += " = ";
    application(binding);
    if (!canonical_ && !binding.source.empty()) {
      out_ += " from ";
      out_ += quote(binding.source);
    }
    if (!with_blocks) return;
    for (std::size_t i = 0; i < binding.blocks.size(); ++i) {
      out_ += ' ';
      out_ += block_label(binding.op, i);
      block(binding.blocks[i], depth);
    }
  }

  void type(const Type& type) {
    switch (type.kind) {
      case Type::Kind::Unknown: out_ += '_'; return;
      case Type::Kind::Tensor:
        out_ += "Tensor[";
        dims(type.tensor.dims);
        out_ += ", ";
        out_ += name_of(type.tensor.dtype);
        out_ += ']';
        return;
      case Type::Kind::Tuple:
        out_ += "Tuple[";
        types(type.elements);
        out_ += ']';
        return;
      case Type::Kind::List:
        out_ += "List[";
        types(type.elements);
        out_ += ']';
        return;
      case Type::Kind::Function:
        out_ += "Function[(";
        types(type.elements);
        out_ += "), (";
        types(type.results);
        out_ += ")]";
        return;
    }
  }

  void dim(const Dim& dim) {
    if (is_any_extent(dim) || (closed_ && mentions_closed(dim))) {
      out_ += '?';
      return;
    }
    if (const auto constant = dim.constant()) {
      append_number(out_, *constant);
      return;
    }
    const std::vector<ValueId> values = values_of(dim);
    if (values.size() < 2 ||
        std::is_sorted(values.begin(), values.end(),
                       [this](ValueId a, ValueId b) { return rank(a) < rank(b); })) {
      out_ += dim.to_string([this](ValueId id) { return value_name(id); });
      return;
    }
    // Dims sort their tensors by id; the text sorts them by definition, so that it doesn't depend
    // on the numbering.
    const Dim ranked = dim.substitute([this](const DimLeaf& leaf) -> std::optional<Dim> {
      if (leaf.is_symbol()) return std::nullopt;
      return Dim::value(rank(leaf.value), leaf.element);
    });
    out_ += ranked.to_string(
        [this](ValueId rank) { return value_name(rank < order_.size() ? order_[rank] : rank); });
  }

 private:
  static constexpr std::uint32_t unnumbered = ~std::uint32_t{0};

  void indent(int depth) { out_.append(2 * static_cast<std::size_t>(depth), ' '); }

  // In order of id.
  static std::vector<ValueId> values_of(const Dim& dim) {
    std::vector<ValueId> values;
    for (const DimLeaf& leaf : dim.leaves()) {
      if (!leaf.is_symbol()) values.push_back(leaf.value);
    }
    std::sort(values.begin(), values.end());
    return values;
  }

  // The value's place in the order of definitions.
  ValueId rank(ValueId id) {
    if (order_.size() != function_.values.size()) {
      order_ = definition_order(function_);
      ranks_.resize(order_.size());
      for (ValueId i = 0; i < order_.size(); ++i) ranks_[order_[i]] = i;
    }
    return id < ranks_.size() ? ranks_[id] : id;
  }

  // With the %.
  std::string value_name(ValueId id) {
    if (id == no_value) return "none";
    if (id >= function_.values.size()) return "%<" + std::to_string(id) + ">";
    if (!canonical_) return value_text(function_.values[id].name);
    if (numbers_[id] == unnumbered) numbers_[id] = next_number_++;
    return "%" + std::to_string(numbers_[id]);
  }

  void value(ValueId id) { out_ += value_name(id); }

  void typed_value(ValueId id) {
    value(id);
    if (id >= function_.values.size()) return;
    const Type& known = function_.values[id].type;
    if (known.kind == Type::Kind::Unknown) return;
    out_ += ": ";
    type(known);
  }

  void dims(const std::vector<Dim>& list) {
    out_ += '(';
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (i > 0) out_ += ", ";
      dim(list[i]);
    }
    out_ += ')';
  }

  void types(const std::vector<Type>& list) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (i > 0) out_ += ", ";
      type(list[i]);
    }
  }

  bool mentions_closed(const Dim& dim) const {
    for (const DimLeaf& leaf : dim.leaves()) {
      if (!leaf.is_symbol()) return true;
      const SymbolInfo* known = function_.symbols.find(leaf.symbol);
      if (known != nullptr && known->unbacked && !closed_->contains(leaf.symbol)) return true;
    }
    return false;
  }

  // Symbols that were opened inside close to `?` here; the parameters' own are in scope for the
  // caller.
  void result_types() {
    const auto& results = function_.body.results;
    if (results.empty()) return;
    for (const ValueId id : results) {
      if (id >= function_.values.size() || function_.values[id].type.kind == Type::Kind::Unknown)
        return;
    }
    std::set<DimLeaf> leaves;
    for (const ValueId id : function_.body.parameters) {
      if (id < function_.values.size()) collect(function_.values[id].type, leaves);
    }
    closed_.emplace();
    for (const DimLeaf& leaf : leaves) closed_->insert(leaf.symbol);
    out_ += " -> ";
    if (results.size() > 1) out_ += '(';
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (i > 0) out_ += ", ";
      type(function_.values[results[i]].type);
    }
    if (results.size() > 1) out_ += ')';
    closed_.reset();
  }

  static void collect(const Type& type, std::set<DimLeaf>& leaves) {
    for (const Dim& dim : type.tensor.dims) dim.collect_leaves(leaves);
    for (const Type& element : type.elements) collect(element, leaves);
    for (const Type& result : type.results) collect(result, leaves);
  }

  void where() {
    const auto& names = function_.symbols.names();
    if (names.empty()) return;
    out_ += "\n  where ";
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (i > 0) out_ += names.size() > 3 ? ",\n        " : ", ";
      const SymbolInfo& symbol = *function_.symbols.find(names[i]);
      out_ += symbol_text(names[i]);
      append_symbol_info(out_, symbol, [this](const Dim& below) { dim(below); });
      if (!symbol.reason.empty() && !canonical_) {
        out_ += " because ";
        out_ += quote(symbol.reason);
      }
    }
  }

  // A function's result is named after its value, a region's has no name, unless said otherwise.
  void result_name(std::string_view keyword, std::size_t index) {
    if (index >= function_.result_names.size()) return;
    const std::string& name = function_.result_names[index];
    const ValueId id = function_.body.results[index];
    const bool usual = keyword == "region"
                           ? name.empty()
                           : id < function_.values.size() && function_.values[id].name == name;
    if (usual) return;
    out_ += " as ";
    out_ += quote(name);
  }

  void bindings(const Block& block, int depth) {
    for (const Binding& item : block.bindings) {
      indent(depth);
      binding(item, depth, true);
      out_ += '\n';
    }
  }

  void block(const Block& block, int depth) {
    if (!block.parameters.empty()) {
      out_ += '(';
      for (std::size_t i = 0; i < block.parameters.size(); ++i) {
        if (i > 0) out_ += ", ";
        typed_value(block.parameters[i]);
      }
      out_ += ')';
    }
    out_ += " {\n";
    bindings(block, depth + 1);
    indent(depth + 1);
    out_ += "yield";
    for (std::size_t i = 0; i < block.results.size(); ++i) {
      out_ += i == 0 ? " " : ", ";
      value(block.results[i]);
    }
    out_ += '\n';
    indent(depth);
    out_ += '}';
  }

  void application(const Binding& binding) {
    if (binding.op == Op::bind) return bind(binding);
    out_ += info(binding.op).text;
    if (binding.op == Op::call || binding.op == Op::closure || binding.op == Op::region) {
      out_ += ' ';
      callee(binding);
    }
    out_ += '(';
    bool first = true;
    const auto separate = [&] {
      if (!first) out_ += ", ";
      first = false;
    };
    for (const ValueId id : binding.operands) {
      separate();
      value(id);
    }
    if (binding.op == Op::shape || binding.op == Op::dim || binding.op == Op::check) {
      for (const Dim& item : binding.dims) {
        separate();
        dim(item);
      }
    } else if (binding.op == Op::check_shape) {
      separate();
      dims(binding.dims);
    } else if (binding.op == Op::constant) {
      value_of_constant(binding);
    }
    out_ += ')';
    attributes(binding);
    if (binding.op == Op::region && !binding.dims.empty()) region_dims(binding);
  }

  // `bind k = %scalar where k <= 4*n`
  void bind(const Binding& binding) {
    out_ += "bind ";
    if (!binding.dims.empty()) dim(binding.dims[0]);
    out_ += " =";
    for (const ValueId id : binding.operands) {
      out_ += ' ';
      value(id);
    }
    if (binding.dims.size() < 2) return;
    out_ += " where ";
    dim(binding.dims[0]);
    out_ += " <= ";
    dim(binding.dims[1]);
  }

  void callee(const Binding& binding) {
    const auto name = [&](const auto& list) {
      out_ += binding.callee < list.size() ? global_text(list[binding.callee].name)
                                           : "@<" + std::to_string(binding.callee) + ">";
    };
    if (module_ == nullptr) {
      out_ += "@<" + std::to_string(binding.callee) + ">";
    } else if (binding.op != Op::region) {
      name(module_->functions);
    } else {
      name(module_->regions);
    }
  }

  void region_dims(const Binding& binding) {
    const Region* region = module_ != nullptr && binding.callee < module_->regions.size()
                               ? &module_->regions[binding.callee]
                               : nullptr;
    out_ += " [";
    for (std::size_t i = 0; i < binding.dims.size(); ++i) {
      if (i > 0) out_ += ", ";
      const bool named = region != nullptr && i < region->body.symbols.names().size();
      out_ += named ? symbol_text(region->body.symbols.names()[i]) : "<" + std::to_string(i) + ">";
      out_ += " = ";
      dim(binding.dims[i]);
    }
    out_ += ']';
  }

  void value_of_constant(const Binding& binding) {
    const auto found = binding.attributes.find("value");
    if (found == binding.attributes.end() || !std::holds_alternative<Tensor>(found->second)) return;
    const auto& tensor = std::get<Tensor>(found->second);
    if (canonical_) return append_tensor_bits(out_, tensor);
    const bool named = !binding.results.empty() && binding.results[0] < function_.values.size();
    append_tensor(out_, tensor,
                  named ? function_.values[binding.results[0]].name : std::string_view{});
  }

  void attributes(const Binding& binding) {
    bool first = true;
    for (const auto& [name, attribute] : binding.attributes) {
      if (binding.op == Op::constant && name == "value" &&
          std::holds_alternative<Tensor>(attribute))
        continue;
      out_ += first ? " {" : ", ";
      first = false;
      out_ += name;
      out_ += " = ";
      std::visit([this](const auto& held) { attribute_value(held); }, attribute);
    }
    if (!first) out_ += '}';
  }

  template <typename Held>
  void attribute_value(const Held& held) {
    if constexpr (std::is_arithmetic_v<Held>) {
      append_number(out_, held);
    } else if constexpr (std::is_same_v<Held, std::string>) {
      out_ += quote(held);
    } else if constexpr (std::is_same_v<Held, DType>) {
      out_ += name_of(held);
    } else if constexpr (std::is_same_v<Held, Tensor>) {
      append_tensor(out_, held, {});
    } else {
      out_ += '(';
      for (std::size_t i = 0; i < held.size(); ++i) {
        if (i > 0) out_ += ", ";
        append_number(out_, held[i]);
      }
      out_ += ')';
    }
  }

  std::string& out_;
  const Module* module_;
  const Function& function_;
  bool canonical_;
  std::vector<std::uint32_t> numbers_;  // canonical: by ValueId, in order of appearance
  std::uint32_t next_number_ = 0;
  std::vector<ValueId> order_;                   // of definitions; filled where a dim needs it
  std::vector<ValueId> ranks_;                   // the inverse of order_
  std::optional<std::set<std::string>> closed_;  // while result types print: symbols that stay open
};

}  // namespace

std::string print(const std::vector<PolicyChoice>& policies) {
  std::string out;
  for (const PolicyChoice& choice : policies)
    out.append("policy ")
        .append(choice.region.empty() ? "" : global_text(choice.region) + " ")
        .append(name_of(choice.policy))
        .append("\n");
  return out;
}

std::string print(const Module& module) {
  std::string out = print(module.policies);
  for (const Function& function : module.functions) {
    if (!out.empty()) out += '\n';
    FunctionPrinter(out, &module, function, false).definition("fn", function.name, nullptr);
  }
  for (const Region& region : module.regions) {
    if (!out.empty()) out += '\n';
    FunctionPrinter(out, &module, region.body, false).definition("region", region.name, &region);
  }
  return out;
}

std::string print(const Module& module, const Function& function) {
  std::string out;
  FunctionPrinter(out, &module, function, false).definition("fn", function.name, nullptr);
  return out;
}

std::string print(const Module& module, const Region& region) {
  std::string out;
  FunctionPrinter(out, &module, region.body, false).definition("region", region.name, &region);
  return out;
}

std::string print(const Module& module, const Function& function, const Binding& binding) {
  std::string out;
  FunctionPrinter(out, &module, function, false).binding(binding, 0, false);
  return out;
}

std::string print(const Type& type) {
  const Function none;
  return print(none, type);
}

std::string print(const SymbolTable& symbols) {
  std::string out;
  for (const std::string& name : symbols.names()) {
    out += (out.empty() ? "" : ", ") + symbol_text(name);
    const SymbolInfo& symbol = *symbols.find(name);
    append_symbol_info(out, symbol, [&](const Dim& below) { out += below.to_string(); });
    if (!symbol.reason.empty()) out += " because " + quote(symbol.reason);
  }
  return out;
}

std::string print(const Function& function, const Type& type) {
  std::string out;
  FunctionPrinter(out, nullptr, function, false).type(type);
  return out;
}

std::string print(const Function& function, const Dim& dim) {
  std::string out;
  FunctionPrinter(out, nullptr, function, false).dim(dim);
  return out;
}

std::string print(const Tensor& tensor) {
  std::string out;
  append_tensor(out, tensor, {});
  return out;
}

std::string print_canonical(const Function& body) {
  std::string out;
  FunctionPrinter(out, nullptr, body, true).definition({}, {}, {});
  return out;
}

}  // namespace anydim::ir
