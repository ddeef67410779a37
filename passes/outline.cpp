#include "passes/outline.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "ir/error.h"
#include "ir/loop_form.h"
#include "ir/region.h"

namespace anydim::passes {

using namespace ir;

namespace {

class Outliner {
 public:
  explicit Outliner(const Function& function) : function_(function) {}

  Dim local(const Dim& dim) {
    return dim.substitute([&](const DimLeaf& leaf) -> std::optional<Dim> { return local_symbol(leaf); });
  }

  Type local(const Type& type) {
    internal_check(type.is_tensor(), "regions compute tensors");
    TensorType result{type.tensor.dtype, {}};
    for (const Dim& dim : type.tensor.dims) result.dims.push_back(local(dim));
    return result;
  }

  ValueId value(ValueId outer) {
    if (outer == no_value) return no_value;
    auto found = values_.find(outer);
    if (found != values_.end()) return found->second;
    ValueId id = static_cast<ValueId>(body_.values.size());
    body_.values.push_back({"v" + std::to_string(id), local(function_.values[outer].type)});
    values_.emplace(outer, id);
    return id;
  }

  Function take() { return std::move(body_); }
  Function& body() { return body_; }
  std::vector<Dim> take_arguments() { return std::move(arguments_); }

 private:
  Dim local_symbol(const DimLeaf& leaf) {
    auto found = symbols_.find(leaf);
    if (found != symbols_.end()) return found->second;
    std::string name = "s" + std::to_string(symbols_.size());
    SymbolInfo info;
    if (!leaf.is_symbol()) {
      // Elements of tensors are any numbers: nothing checks them before a kernel runs.
      info.low = std::numeric_limits<std::int64_t>::min();
      info.high = std::numeric_limits<std::int64_t>::max();
    } else if (const SymbolInfo* outer = function_.symbols.find(leaf.symbol)) {
      info.low = outer->low;
      info.high = outer->high;
      info.multiple = outer->multiple;
    }
    body_.symbols.declare(name, info);
    arguments_.push_back(leaf.is_symbol() ? Dim::symbol(leaf.symbol) : Dim::value(leaf.value, leaf.element));
    return symbols_.emplace(leaf, Dim::symbol(name)).first->second;
  }

  const Function& function_;
  Function body_;
  std::map<ValueId, ValueId> values_;
  std::map<DimLeaf, Dim> symbols_;
  std::vector<Dim> arguments_;
};

bool is_notable(Op op) {
  return op == Op::matmul || op == Op::attention || op == Op::gather || op == Op::concat || op == Op::resize || op == Op::cumulative_sum ||
         op == Op::scatter_elements || op == Op::scatter_nd || op == Op::compact || op == Op::argsort || op == Op::gelu ||
         op == Op::gelu_tanh || info(op).has(traits::composite) || info(op).has(traits::reduces);
}

std::string name_region(std::span<const Binding> bindings) {
  std::string name;
  int count = 0;
  for (const Binding& binding : bindings) {
    std::string text(info(binding.op).text);
    if (!is_notable(binding.op) || name.find(text) != std::string::npos || count++ == 3) continue;
    name += (name.empty() ? "" : "_") + text;
  }
  if (name.empty()) name = info(bindings.back().op).text;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

}  // namespace

std::vector<ValueId> inputs_of(std::span<const Binding> bindings) {
  std::vector<ValueId> inputs;
  std::set<ValueId> known;
  for (const Binding& binding : bindings) {
    for (ValueId operand : binding.operands)
      if (operand != no_value && known.insert(operand).second) inputs.push_back(operand);
    known.insert(binding.results.begin(), binding.results.end());
  }
  return inputs;
}

Outlined outline(const Function& function, std::span<const Binding> bindings, std::span<const ValueId> outputs,
                 const std::vector<bool>& constants) {
  Outlined result;
  Outliner outliner(function);
  std::vector<ValueId> inputs = inputs_of(bindings);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    outliner.body().body.parameters.push_back(outliner.value(inputs[i]));
    if (constants[inputs[i]]) result.region.weights.push_back(static_cast<std::uint32_t>(i));
  }
  std::vector<Binding> body;
  for (const Binding& binding : bindings) {
    Binding copy = binding;
    for (ValueId& operand : copy.operands) operand = outliner.value(operand);
    for (ValueId& id : copy.results) id = outliner.value(id);
    for (Dim& dim : copy.dims) dim = outliner.local(dim);
    body.push_back(std::move(copy));
  }
  result.call.op = Op::region;
  result.call.operands = std::move(inputs);
  result.call.results.assign(outputs.begin(), outputs.end());
  for (ValueId output : outputs) outliner.body().body.results.push_back(outliner.value(output));
  result.call.dims = outliner.take_arguments();
  result.region.body = outliner.take();
  result.region.body.body.bindings = std::move(body);
  for (std::size_t i = 0; i < outputs.size(); ++i) result.region.body.result_names.push_back("out" + std::to_string(i));
  result.region.name = name_region(bindings);
  result.region.body.name = result.region.name;
  result.region.keys = bucket_keys(derive_loop_form(result.region));
  seal(result.region);
  return result;
}

}  // namespace anydim::passes
