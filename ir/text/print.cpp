#include "ir/text/print.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <type_traits>
#include <utility>

#include "ir/number_text.h"
#include "ir/quote.h"
#include "ir/renumber.h"
#include "ir/text/policy_text.h"
#include "ir/text/tensor_text.h"

namespace anydim::ir {
namespace {

// The label in front of a block.
std::string_view block_label(Op op, std::size_t index) {
  if (op == Op::branch) return index == 0 ? "then" : "else";
  return "body";
}

// Without its reason.
void append_symbol_info(std::string& out, const SymbolInfo& symbol,
                        const std::function<void(const Dim&)>& append_dim) {
  out += fmt::format(" in [{}, {}]", symbol.low, symbol.high);
  if (symbol.multiple != 1) out += fmt::format(" multiple {}", symbol.multiple);
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
    if (!canonical_) write(keyword, ' ', global_text(name));
    std::size_t position = 0;
    list('(', function_.body.parameters, ')', [&](ValueId id) {
      if (region != nullptr && region->is_weight(position))
        out_ += region->is_weight_of_4_bits(position) ? "weight i4 " : "weight ";
      ++position;
      typed_value(id);
    });
    if (!canonical_) result_types();
    where();
    out_ += " {\n";
    bindings(function_.body, 1);
    indent(1);
    out_ += function_.body.results.empty() ? "return" : "return ";
    std::size_t result = 0;
    separated(function_.body.results, [&](ValueId id) {
      value(id);
      if (!canonical_) result_name(keyword, result);
      ++result;
    });
    out_ += "\n}\n";
  }

  void binding(const Binding& binding, int depth, bool with_blocks) {
    separated(binding.results, [this](ValueId id) { typed_value(id); });
    if (!binding.results.empty()) out_ += " = ";
    application(binding);
    if (!canonical_ && !binding.source.empty()) write(" from ", quote(binding.source));
    if (!with_blocks) return;
    for (std::size_t i = 0; i < binding.blocks.size(); ++i) {
      write(' ', block_label(binding.op, i));
      block(binding.blocks[i], depth);
    }
  }

  void type(const Type& type) {
    switch (type.kind) {
      case Type::Kind::Unknown: out_ += '_'; return;
      case Type::Kind::Tensor:
        out_ += "Tensor[";
        dims(type.tensor.dims);
        write(", ", name_of(type.tensor.dtype), ']');
        return;
      case Type::Kind::Tuple: return types("Tuple[", type.elements, ']');
      case Type::Kind::List: return types("List[", type.elements, ']');
      case Type::Kind::Function:
        types("Function[(", type.elements, ')');
        return types(", (", type.results, ")]");
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

  template <typename... Parts>
  void write(const Parts&... parts) {
    ((out_ += parts), ...);
  }

  template <typename List, typename Append>
  void separated(const List& list, Append&& append) {
    bool first = true;
    for (const auto& one : list) {
      if (!std::exchange(first, false)) out_ += ", ";
      append(one);
    }
  }

  template <typename Open, typename List, typename Close, typename Append>
  void list(const Open& open, const List& list, const Close& close, Append&& append) {
    out_ += open;
    separated(list, append);
    out_ += close;
  }

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

  void dims(const std::vector<Dim>& all) {
    list('(', all, ')', [this](const Dim& one) { dim(one); });
  }

  template <typename Open, typename Close>
  void types(const Open& open, const std::vector<Type>& all, const Close& close) {
    list(open, all, close, [this](const Type& one) { type(one); });
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
    const bool several = results.size() > 1;
    list(several ? " -> (" : " -> ", results, several ? ")" : "",
         [this](ValueId id) { type(function_.values[id].type); });
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
      if (!symbol.reason.empty() && !canonical_) write(" because ", quote(symbol.reason));
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
    if (!usual) write(" as ", quote(name));
  }

  void bindings(const Block& block, int depth) {
    for (const Binding& item : block.bindings) {
      indent(depth);
      binding(item, depth, true);
      out_ += '\n';
    }
  }

  void block(const Block& block, int depth) {
    if (!block.parameters.empty())
      list('(', block.parameters, ')', [this](ValueId id) { typed_value(id); });
    out_ += " {\n";
    bindings(block, depth + 1);
    indent(depth + 1);
    list(block.results.empty() ? "yield" : "yield ", block.results, '\n',
         [this](ValueId id) { value(id); });
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
    separated(binding.operands, [this](ValueId id) { value(id); });
    const bool lists_dims =
        binding.op == Op::shape || binding.op == Op::dim || binding.op == Op::check;
    const bool follows = (lists_dims && !binding.dims.empty()) || binding.op == Op::check_shape;
    if (follows && !binding.operands.empty()) out_ += ", ";
    if (lists_dims) {
      separated(binding.dims, [this](const Dim& one) { dim(one); });
    } else if (binding.op == Op::check_shape) {
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
                                           : fmt::format("@<{}>", binding.callee);
    };
    if (module_ == nullptr) name(std::span<const Function>());  // none is known
    else if (binding.op == Op::region) name(module_->regions);
    else name(module_->functions);
  }

  void region_dims(const Binding& binding) {
    const Region* region = module_ != nullptr && binding.callee < module_->regions.size()
                               ? &module_->regions[binding.callee]
                               : nullptr;
    std::size_t i = 0;
    list(" [", binding.dims, ']', [&](const Dim& given) {
      const bool named = region != nullptr && i < region->body.symbols.names().size();
      write(named ? symbol_text(region->body.symbols.names()[i]) : fmt::format("<{}>", i), " = ");
      ++i;
      dim(given);
    });
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
      write(std::exchange(first, false) ? " {" : ", ", name, " = ");
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
      list('(', held, ')', [this](auto number) { append_number(out_, number); });
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

template <typename Write>
std::string printed(const Module* module, const Function& function, Write&& write) {
  std::string out;
  FunctionPrinter printer(out, module, function, false);
  write(printer);
  return out;
}

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
  const auto append = [&](const auto& definition) {
    if (!out.empty()) out += '\n';
    out += print(module, definition);
  };
  std::ranges::for_each(module.functions, append);
  std::ranges::for_each(module.regions, append);
  return out;
}

std::string print(const Module& module, const Function& function) {
  return printed(&module, function,
                 [&](FunctionPrinter& out) { out.definition("fn", function.name, nullptr); });
}

std::string print(const Module& module, const Region& region) {
  return printed(&module, region.body,
                 [&](FunctionPrinter& out) { out.definition("region", region.name, &region); });
}

std::string print(const Module& module, const Function& function, const Binding& binding) {
  return printed(&module, function, [&](FunctionPrinter& out) { out.binding(binding, 0, false); });
}

std::string print(const Type& type) { return print(Function(), type); }

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
  return printed(nullptr, function, [&](FunctionPrinter& out) { out.type(type); });
}

std::string print(const Function& function, const Dim& dim) {
  return printed(nullptr, function, [&](FunctionPrinter& out) { out.dim(dim); });
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
