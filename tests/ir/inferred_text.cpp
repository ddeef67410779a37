#include "tests/ir/inferred_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "ir/quote.h"
#include "ir/text/print.h"

namespace anydim::ir::test {
namespace {

Function without_types(Function function) {
  for (Value& value : function.values) value = {.name = std::move(value.name), .type = {}};
  return function;
}

// The type that a literal spells.
std::optional<Type> spelled_type(const Binding& binding) {
  if (binding.op == Op::dim) return TensorType{DType::I64, {}};
  if (binding.op == Op::shape)
    return TensorType{DType::I64, {static_cast<std::int64_t>(binding.dims.size())}};
  if (binding.op != Op::constant) return std::nullopt;
  const Tensor& value = tensor_attribute(binding, "value");
  return TensorType{value.dtype(), {value.dims().begin(), value.dims().end()}};
}

class FunctionText {
 public:
  FunctionText(const Module& before_module, const Function& before, const Module& after_module,
               const Function& after)
      : before_(before), after_module_(after_module), after_(after),
        untyped_after_(without_types(after)) {
    list(before_module, without_types(before), before.body);
  }

  std::string text() {
    const std::string parameters = typed(after_, after_.body.parameters);
    if (parameters != typed(before_, before_.body.parameters)) text_ += "(" + parameters + ")\n";
    for (const std::string& name : after_.symbols.names()) symbol(name, *after_.symbols.find(name));
    block(after_.body, 0);
    for (const std::string& binding : unmatched_) text_ += "gone: " + binding + "\n";
    return text_;
  }

 private:
  void list(const Module& module, const Function& untyped, const Block& block) {
    for (const Binding& binding : block.bindings) {
      unmatched_.push_back(print(module, untyped, binding));
      for (const Block& inner : binding.blocks) list(module, untyped, inner);
    }
  }

  void symbol(const std::string& name, const SymbolInfo& info) {
    std::string line = fmt::format("{} in [{}, {}]", symbol_text(name), info.low, info.high);
    if (info.multiple != 1) line += fmt::format(" multiple {}", info.multiple);
    if (info.below) line += " below " + print(after_, *info.below);
    if (info.unbacked) line += " unbacked";
    if (!info.reason.empty()) line += " because " + quote(info.reason);
    const SymbolInfo* known = before_.symbols.find(name);
    const bool same = known != nullptr && known->low == info.low && known->high == info.high &&
                      known->multiple == info.multiple && known->below == info.below &&
                      known->unbacked == info.unbacked && known->reason == info.reason;
    if (!same) text_ += line + "\n";
  }

  static std::string typed(const Function& function, const std::vector<ValueId>& values) {
    std::string text;
    for (const ValueId id : values) {
      const Value& value = function.values[id];
      text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", value_text(value.name),
                          print(function, value.type));
    }
    return text;
  }

  void binding(const Binding& binding, const std::string& indent) {
    const auto found = std::ranges::find(unmatched_, print(after_module_, untyped_after_, binding));
    if (found == unmatched_.end()) {
      text_ += indent + print(after_module_, after_, binding) + "\n";
      return;
    }
    unmatched_.erase(found);
    const std::optional<Type> spelled = spelled_type(binding);
    if (!binding.results.empty() &&
        !(spelled && *spelled == after_.values[binding.results[0]].type))
      text_ += indent + typed(after_, binding.results) + "\n";
  }

  void block(const Block& block, std::size_t depth) {
    const std::string indent(2 * depth, ' ');
    if (depth > 0 && !block.parameters.empty())
      text_ += indent + "(" + typed(after_, block.parameters) + ")\n";
    for (const Binding& one : block.bindings) {
      binding(one, indent);
      for (const Block& inner : one.blocks) this->block(inner, depth + 1);
    }
  }

  const Function& before_;
  const Module& after_module_;
  const Function& after_;
  Function untyped_after_;
  std::vector<std::string> unmatched_;  // bindings of `before`, without types
  std::string text_;
};

}  // namespace

std::string inferred_text(const Module& before, const Module& after,
                          const InferenceResult& inferred) {
  std::string text;
  const bool named = after.functions.size() + after.regions.size() > 1;
  const auto append = [&](const std::string& name, const Function& old, const Function& function,
                          const FunctionInference& found) {
    if (named) text += name + "\n";
    text += FunctionText(before, old, after, function).text();
    for (const Requirement& requirement : found.requirements)
      text += fmt::format("check {}: {}\n", requirement.source,
                          to_string(requirement.precondition, function));
  };
  for (std::size_t i = 0; i < after.functions.size(); ++i)
    append("@" + after.functions[i].name, before.functions.at(i), after.functions[i],
           inferred.functions.at(i));
  for (std::size_t i = 0; i < after.regions.size(); ++i)
    append("@" + after.regions[i].name, before.regions.at(i).body, after.regions[i].body,
           inferred.regions.at(i));
  for (const std::string& warning : inferred.warnings) text += "warning: " + warning + "\n";
  return text;
}

}  // namespace anydim::ir::test
