#include "passes/outline.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "ir/error.h"
#include "ir/region.h"

namespace anydim::passes {

using namespace ir;

namespace {

// Symbols that stand together wherever one of them stands, as n and m of a region that knows n + m
// and k * n + k * m alone: to it their sum is one symbol, and however many inputs a concat has
// joined before, what reads it is the same region.
class JointSymbols {
 public:
  void add(const Dim& dim) {
    if (dim.is_constant() || !known_.insert(dim).second) return;
    const std::size_t place = known_.size();
    if (dim.kind() == Dim::Kind::Symbol) uses_[dim.leaf().symbol].push_back({place, 1, {}});
    for (const Dim& operand : dim.operands()) add(operand);
    for (const Dim::Term& term : dim.terms()) {
      for (std::size_t i = 0; i < term.factors.size(); ++i) {
        const Dim& factor = term.factors[i];
        if (factor.kind() != Dim::Kind::Symbol) {
          add(factor);
          continue;
        }
        std::vector<Dim> others = term.factors;
        others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
        if (std::find(others.begin(), others.end(), factor) != others.end())
          powers_.insert(factor.leaf().symbol);
        uses_[factor.leaf().symbol].push_back({place, term.coefficient, std::move(others)});
      }
    }
  }

  // Each symbol's group, by the name of its first; a group of one is left out.
  std::map<std::string, std::vector<std::string>> groups() const {
    std::map<std::vector<Use>, std::vector<std::string>> alike;
    for (const auto& [symbol, uses] : uses_)
      if (!powers_.contains(symbol)) alike[uses].push_back(symbol);
    std::map<std::string, std::vector<std::string>> found;
    for (auto& [uses, symbols] : alike)
      if (symbols.size() > 1) found.emplace(symbols.front(), std::move(symbols));
    return found;
  }

 private:
  // In one dim: what the symbol is multiplied with.
  struct Use {
    std::size_t place = 0;
    std::int64_t coefficient = 1;
    std::vector<Dim> others;
    bool operator<(const Use& other) const {
      return std::tie(place, coefficient, others) <
             std::tie(other.place, other.coefficient, other.others);
    }
  };

  std::set<Dim> known_;
  std::map<std::string, std::vector<Use>> uses_;
  std::set<std::string> powers_;  // symbols multiplied with themselves
};

class Outliner {
 public:
  Outliner(const Function& function, std::span<const Binding> bindings) : function_(function) {
    JointSymbols joint;
    const auto add_type = [&](ValueId value) {
      if (value == no_value) return;
      for (const Dim& dim : function.tensor_type(value).dims) joint.add(dim);
    };
    for (const Binding& binding : bindings) {
      std::for_each(binding.operands.begin(), binding.operands.end(), add_type);
      std::for_each(binding.results.begin(), binding.results.end(), add_type);
      for (const Dim& dim : binding.dims) joint.add(dim);
    }
    for (const auto& [first, group] : joint.groups()) join(group);
  }

  Dim local(const Dim& dim) {
    return dim.substitute(
        [&](const DimLeaf& leaf) -> std::optional<Dim> { return local_symbol(leaf); });
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
  // To a power of two, so that sums of few and of many symbols make few different regions.
  static std::int64_t rounded_up(std::int64_t high) {
    constexpr std::int64_t largest_power = std::int64_t{1} << 62;
    if (high < 1) return high;
    return high > largest_power
               ? std::numeric_limits<std::int64_t>::max()
               : static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(high)));
  }

  // The first stands for the sum of all, the others for 0.
  void join(const std::vector<std::string>& group) {
    std::vector<Dim> dims;
    for (const std::string& symbol : group) {
      dims.push_back(Dim::symbol(symbol));
      if (dims.size() > 1) symbols_.emplace(dims.back().leaf(), Dim(0));
    }
    sums_.emplace(group.front(), sum(dims));
  }

  Dim local_symbol(const DimLeaf& leaf) {
    auto found = symbols_.find(leaf);
    if (found != symbols_.end()) return found->second;
    const auto joined = leaf.is_symbol() ? sums_.find(leaf.symbol) : sums_.end();
    std::string name = "s" + std::to_string(arguments_.size());
    SymbolInfo info;
    if (!leaf.is_symbol()) {
      // Elements of tensors are any numbers: nothing checks them before a kernel runs.
      info.low = std::numeric_limits<std::int64_t>::min();
      info.high = std::numeric_limits<std::int64_t>::max();
    } else if (joined != sums_.end()) {
      const Interval range = bounds(joined->second, function_.symbols);
      info.low = range.low;
      info.high = rounded_up(range.high);
      info.multiple = std::max<std::int64_t>(divisor(joined->second, function_.symbols), 1);
    } else if (const SymbolInfo* outer = function_.symbols.find(leaf.symbol)) {
      info.low = outer->low;
      info.high = outer->high;
      info.multiple = outer->multiple;
    }
    body_.symbols.declare(name, info);
    if (joined != sums_.end()) arguments_.push_back(joined->second);
    else
      arguments_.push_back(leaf.is_symbol() ? Dim::symbol(leaf.symbol)
                                            : Dim::value(leaf.value, leaf.element));
    return symbols_.emplace(leaf, Dim::symbol(name)).first->second;
  }

  const Function& function_;
  Function body_;
  std::map<ValueId, ValueId> values_;
  std::map<DimLeaf, Dim> symbols_;
  std::map<std::string, Dim> sums_;  // of joint symbols, by the first of them
  std::vector<Dim> arguments_;
};

bool is_notable(Op op) {
  const OpInfo& row = info(op);
  return row.has(traits::notable) || row.has(traits::composite) || row.has(traits::reduces);
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

Outlined outline(const Function& function, std::span<const Binding> bindings,
                 std::span<const ValueId> outputs, const StoredValues& stored) {
  Outlined result;
  Outliner outliner(function, bindings);
  std::vector<ValueId> inputs = inputs_of(bindings);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    outliner.body().body.parameters.push_back(outliner.value(inputs[i]));
    const Stored of_input = stored[inputs[i]];
    if (of_input != Stored::No) result.region.weights.push_back(static_cast<std::uint32_t>(i));
    if (of_input == Stored::In4Bits)
      result.region.weights_of_4_bits.push_back(static_cast<std::uint32_t>(i));
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
  for (std::size_t i = 0; i < outputs.size(); ++i)
    result.region.body.result_names.push_back("out" + std::to_string(i));
  result.region.name = name_region(bindings);
  result.region.body.name = result.region.name;
  seal(result.region);
  return result;
}

}  // namespace anydim::passes
