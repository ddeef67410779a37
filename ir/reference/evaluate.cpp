#include "ir/reference/evaluate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "ir/reference/evaluate_ops.h"
#include "ir/shapes/bind.h"
#include "ir/shapes/shape_rule.h"
#include "ir/text/print.h"

namespace anydim::ir {

Results evaluate_constant(const OpCall& call) { return tensor_attribute(call.binding, "value"); }

Results evaluate_shape_literal(const OpCall& call) {
  const std::vector<Dim>& dims = call.binding.dims;
  const bool scalar = call.binding.op == Op::dim;
  Tensor result(DType::I64, scalar ? Extents{} : Extents{static_cast<std::int64_t>(dims.size())});
  for (std::size_t i = 0; i < dims.size(); ++i)
    result.set_integer(static_cast<std::int64_t>(i), call.value_of(dims[i]));
  return result;
}

Results evaluate_shape_of(const OpCall& call) {
  const Extents& dims = call.operand(0).dims();
  return Tensor::of(DType::I64, {static_cast<std::int64_t>(dims.size())}, dims);
}

Results evaluate_with_function(const OpCall& call) {
  internal_error(
      fmt::format("{} is evaluated with its function", describe(call.function, call.binding)));
}

namespace {

using ValueOf = std::function<std::int64_t(const Dim&)>;

// Deeper recursion would exhaust the thread's stack before it told anybody why.
constexpr int deepest_call = 1000;

std::vector<Tensor> apply(const OpCall& call) {
  switch (call.binding.op) {
#define ANYDIM_OP(name, text, minimum, maximum, results, rule, evaluation, ...) \
  case Op::name: return evaluate_##evaluation(call).tensors;
#include "ir/ops.def"
#undef ANYDIM_OP
  }
  internal_error("an op is a row of ir/ops.def");
}

// A value of any type: a tensor, the elements of a list or tuple, or a function value with its
// first arguments.
struct Item {
  Tensor tensor;
  std::shared_ptr<const std::vector<Item>> elements;
  std::uint32_t callee = 0;

  Item() = default;
  Item(Tensor given) : tensor(std::move(given)) {}  // NOLINT: implicit on purpose
  static Item of(std::vector<Item> list, std::uint32_t callee = 0) {
    Item item;
    item.elements = std::make_shared<const std::vector<Item>>(std::move(list));
    item.callee = callee;
    return item;
  }
};
using Items = std::vector<Item>;

// One call of a function: its values and the symbols that are bound so far.
class Frame {
 public:
  Frame(const Module& module, const Function& function, SymbolValues symbols, int depth)
      : module_(module), function_(function), values_(function.values.size()),
        symbols_(std::move(symbols)), depth_(depth) {}

  Items run(Items inputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      set(function_.body.parameters[i], std::move(inputs[i]));
    run_block(function_.body);
    return results_of(function_.body);
  }

 private:
  void set(ValueId id, Item item) {
    if (item.elements == nullptr) bind_unbacked_symbols(id, item.tensor);
    values_[id] = std::move(item);
  }

  const Tensor& tensor(ValueId id) const { return values_[id].tensor; }
  const Items& elements(ValueId id) const {
    internal_check(values_[id].elements != nullptr, "list ops are given lists");
    return *values_[id].elements;
  }

  // An unbacked symbol is opened where a value first carries it, and means that value's actual
  // extent.
  void bind_unbacked_symbols(ValueId id, const Tensor& tensor) {
    const Type& type = function_.values[id].type;
    if (!type.is_tensor() || type.tensor.rank() != tensor.rank()) return;
    for (std::size_t i = 0; i < tensor.rank(); ++i) {
      const Dim& dim = type.tensor.dims[i];
      if (dim.kind() != Dim::Kind::Symbol) continue;
      const SymbolInfo* info = function_.symbols.find(dim.leaf().symbol);
      if (info != nullptr && info->unbacked)
        symbols_.insert_or_assign(dim.leaf().symbol, tensor.dims()[i]);
    }
  }

  std::int64_t value_of(const Dim& dim) const {
    return dim.evaluate([&](const DimLeaf& leaf) {
      if (!leaf.is_symbol()) return tensor(leaf.value).integer_at(leaf.element);
      const auto found = symbols_.find(leaf.symbol);
      if (found == symbols_.end()) {
        throw Error(ErrorKind::Inputs, "@{}: the symbol {} has no value where {} is needed.",
                    function_.name, leaf.symbol, print(function_, dim));
      }
      return found->second;
    });
  }

  void run_block(const Block& block) {
    for (const Binding& binding : block.bindings) run_binding(binding);
  }

  // Symbols that a block opens end with it.
  Items run_inner(const Block& block, Items inputs) {
    const SymbolValues outside = symbols_;
    for (std::size_t i = 0; i < inputs.size(); ++i) set(block.parameters[i], std::move(inputs[i]));
    run_block(block);
    symbols_ = outside;
    return results_of(block);
  }

  Items results_of(const Block& block) const {
    Items results;
    for (const ValueId id : block.results) results.push_back(values_[id]);
    return results;
  }

  void run_binding(const Binding& binding) {
    Items results = evaluate_any(binding);
    if (results.size() != binding.results.size()) {
      internal_error(
          fmt::format("{} gives {} results", describe(function_, binding), binding.results.size()));
    }
    for (std::size_t i = 0; i < results.size(); ++i) set(binding.results[i], std::move(results[i]));
  }

  Items evaluate_any(const Binding& binding) {
    if (binding.op == Op::check_shape) return {check_shape(binding)};
    if (binding.op == Op::check) return check(binding);
    if (binding.op == Op::assertion) return assertion(binding);
    if (binding.op == Op::bind) return bind(binding);
    if (binding.op == Op::call) return call(binding);
    if (binding.op == Op::branch)
      return run_inner(binding.blocks[tensor(binding.operands[0]).integer_at(0) != 0 ? 0 : 1], {});
    if (binding.op == Op::loop) return loop(binding);
    if (binding.op == Op::region) return region(binding);
    if (info(binding.op).has(traits::control)) return values(binding);
    std::vector<const Tensor*> operands;
    for (const ValueId id : binding.operands)
      operands.push_back(id == no_value ? nullptr : &tensor(id));
    const ValueOf value = [this](const Dim& dim) { return value_of(dim); };
    Items results;
    for (Tensor& result : evaluate_binding(function_, binding, operands, value))
      results.emplace_back(std::move(result));
    return results;
  }

  // ---- Lists, tuples and function values

  Items values(const Binding& binding) {
    switch (binding.op) {  // NOLINT: the rest of control flow
      case Op::closure: return {Item::of(operands_of(binding), binding.callee)};
      case Op::tuple:
      case Op::list: return {Item::of(operands_of(binding))};
      case Op::tuple_get:
        return {elements(binding.operands[0])
                    .at(static_cast<std::size_t>(integer_attribute(binding, "index")))};
      case Op::list_length: {
        const auto length = static_cast<std::int64_t>(elements(binding.operands[0]).size());
        return {Tensor::of<std::int64_t>(DType::I64, {}, {length})};
      }
      case Op::list_at: return {elements(binding.operands[0])[position(binding, 1, -1)]};
      case Op::list_insert: {
        Items list = elements(binding.operands[0]);
        const bool at_end = !given(binding, 2) || tensor(binding.operands[2]).integer_at(0) ==
                                                      static_cast<std::int64_t>(list.size());
        const std::size_t place = at_end ? list.size() : position(binding, 2, 0);
        list.insert(list.begin() + static_cast<std::ptrdiff_t>(place),
                    values_[binding.operands[1]]);
        return {Item::of(std::move(list))};
      }
      case Op::list_erase: {
        Items list = elements(binding.operands[0]);
        const std::size_t place = position(binding, 1, -1);
        list.erase(list.begin() + static_cast<std::ptrdiff_t>(place));
        return {Item::of(std::move(list))};
      }
      case Op::list_concat: return {list_concat(binding)};
      case Op::drop_ones: return {drop_ones(binding)};
      case Op::apply: {
        const Item& called = values_[binding.operands[0]];
        Items inputs = *called.elements;
        for (std::size_t i = 1; i < binding.operands.size(); ++i)
          inputs.push_back(values_[binding.operands[i]]);
        return call(binding, called.callee, std::move(inputs));
      }
      default: break;
    }
    internal_error(fmt::format("{} is evaluated with its function", describe(function_, binding)));
  }

  Tensor drop_ones(const Binding& binding) const {
    const Tensor& given = tensor(binding.operands[0]);
    Extents ones = given.dims();
    if (binding.operands.size() > 1)
      for (std::size_t i = 0; i < ones.size(); ++i)
        ones[i] = tensor(binding.operands[1]).integer_at(static_cast<std::int64_t>(i));
    const auto result = std::ranges::find(function_.body.results, binding.results[0]);
    const auto output = static_cast<std::size_t>(result - function_.body.results.begin());
    const std::string& name = output < function_.result_names.size()
                                  ? function_.result_names[output]
                                  : function_.values[binding.results[0]].name;
    return {given.dtype(), without_ones(name, given.dims(), ones), given.bytes(), given.owner()};
  }

  static bool given(const Binding& binding, std::size_t operand) {
    return operand < binding.operands.size() && binding.operands[operand] != no_value;
  }

  // Always the position of an element that there is.
  std::size_t position(const Binding& binding, std::size_t operand, std::int64_t otherwise) const {
    const auto count = static_cast<std::int64_t>(elements(binding.operands[0]).size());
    const std::int64_t wanted =
        given(binding, operand) ? tensor(binding.operands[operand]).integer_at(0) : otherwise;
    if (wanted < -count || wanted >= count) {
      throw Error(ErrorKind::Inputs, "{}: expected a position from {} to {}, got {}",
                  describe(function_, binding), -count, count - 1, wanted);
    }
    return static_cast<std::size_t>(wanted < 0 ? wanted + count : wanted);
  }

  Tensor list_concat(const Binding& binding) const {
    const Items& list = elements(binding.operands[0]);
    if (list.empty()) {
      throw Error(ErrorKind::Inputs, "{}: expected a list of at least one tensor, got an empty one",
                  describe(function_, binding));
    }
    const bool new_axis = integer_attribute(binding, "new_axis") != 0;
    const auto rank = static_cast<std::int64_t>(list[0].tensor.rank() + (new_axis ? 1 : 0));
    std::int64_t axis = integer_attribute(binding, "axis");
    if (axis < 0) axis += rank;
    std::vector<Tensor> parts;
    for (const Item& item : list) {
      Extents dims = item.tensor.dims();
      if (new_axis) dims.insert(dims.begin() + axis, 1);
      parts.emplace_back(item.tensor.dtype(), dims, item.tensor.bytes(), item.tensor.owner());
      for (std::size_t i = 0; i < dims.size(); ++i) {
        if (dims[i] == parts[0].dims()[i] || (!new_axis && static_cast<std::int64_t>(i) == axis))
          continue;
        throw Error(ErrorKind::Inputs,
                    "{}: the list's tensors have shapes ({}) and ({}); expected equal extents{}",
                    describe(function_, binding), fmt::join(list[0].tensor.dims(), ", "),
                    fmt::join(item.tensor.dims(), ", "),
                    new_axis ? "" : fmt::format(" but for dimension {}", axis));
      }
    }
    Binding concat{.op = Op::concat};
    concat.attributes.emplace("axis", axis);
    concat.results = binding.results;
    std::vector<const Tensor*> operands;
    for (const Tensor& part : parts) operands.push_back(&part);
    return evaluate_binding(function_, concat, operands, {})[0];
  }

  Items operands_of(const Binding& binding) const {
    Items operands;
    for (const ValueId id : binding.operands)
      operands.push_back(id == no_value ? Item() : values_[id]);
    return operands;
  }

  Tensor check_shape(const Binding& binding) {
    const Tensor& tensor = values_[binding.operands[0]].tensor;
    if (tensor.rank() != binding.dims.size()) {
      throw Error(ErrorKind::Inputs, "@{}: {}: %{}: expected rank {}, got {}.", function_.name,
                  describe(function_, binding), function_.values[binding.operands[0]].name,
                  binding.dims.size(), tensor.rank());
    }
    for (std::size_t i = 0; i < binding.dims.size(); ++i) {
      const Dim& dim = binding.dims[i];
      const std::int64_t got = tensor.dims()[i];
      if (dim.kind() == Dim::Kind::Symbol && symbols_.try_emplace(dim.leaf().symbol, got).second)
        continue;
      const std::int64_t expected = value_of(dim);
      if (expected != got)
        throw Error(
            ErrorKind::Inputs,
            violation(Relation::Equal, shape_check_text(function_, binding, i), got, expected));
    }
    return tensor;
  }

  Items check(const Binding& binding) const {
    const Precondition wanted = precondition_of(binding);
    const std::int64_t left = value_of(wanted.left), right = value_of(wanted.right);
    if (holds(wanted.relation, left, right)) return {};
    throw Error(ErrorKind::Inputs, violation(wanted.relation, wanted.what, left, right));
  }

  Items assertion(const Binding& binding) const {
    const Tensor& condition = tensor(binding.operands[0]);
    std::int64_t element = 0;
    while (element < condition.elements() && condition.integer_at(element) != 0) ++element;
    if (element == condition.elements()) return {};
    std::vector<ShownTensor> shown;
    for (std::size_t i = 1; i < binding.operands.size(); ++i) {
      const Tensor& given = tensor(binding.operands[i]);
      ShownTensor& one = shown.emplace_back(function_.values[binding.operands[i]].name,
                                            given.dtype(), given.dims());
      for (std::int64_t e = 0; e < std::min(given.elements(), shown_elements); ++e)
        one.first.push_back(
            {given.dtype(),
             {},
             given.bytes().subspan(static_cast<std::size_t>(e) * size_of(given.dtype()),
                                   size_of(given.dtype())),
             given.owner()});
    }
    throw Error(ErrorKind::Inputs, assertion_failed(describe(function_, binding),
                                                    string_attribute(binding, "message"), shown));
  }

  Items bind(const Binding& binding) {
    const std::int64_t value = tensor(binding.operands[0]).integer_at(0);
    const std::int64_t highest = value_of(binding.dims[1]);
    const std::string what = bind_text(function_, binding);
    if (value < 0)
      throw Error(ErrorKind::Inputs, violation(Relation::GreaterEqual, what, value, 0));
    if (value > highest)
      throw Error(ErrorKind::Inputs, violation(Relation::LessEqual, what, value, highest));
    symbols_.insert_or_assign(binding.dims[0].leaf().symbol, value);
    return {};
  }

  Items call(const Binding& binding) { return call(binding, binding.callee, operands_of(binding)); }

  Items call(const Binding& binding, std::uint32_t index, Items inputs) {
    if (depth_ >= deepest_call) {
      throw Error(ErrorKind::Resource, "{}: calls nest more than {} deep.",
                  describe(function_, binding), deepest_call);
    }
    const Function& callee = module_.functions[index];
    // Symbols come from the parameters that are tensors.
    Function tensors;
    tensors.name = callee.name;
    tensors.symbols = callee.symbols;
    std::vector<InputShape> shapes;
    for (std::size_t i = 0; i < callee.body.parameters.size(); ++i) {
      const Value& parameter = callee.values[callee.body.parameters[i]];
      if (!parameter.type.is_tensor()) continue;
      tensors.body.parameters.push_back(tensors.add_value(parameter.name, parameter.type));
      shapes.push_back({inputs[i].tensor.dtype(), inputs[i].tensor.dims()});
    }
    SymbolValues symbols = bind_symbols(tensors, shapes);
    return Frame(module_, callee, std::move(symbols), depth_ + 1).run(std::move(inputs));
  }

  Items region(const Binding& binding) {
    const Function& body = module_.regions[binding.callee].body;
    const std::vector<std::string>& names = body.symbols.names();
    internal_check(names.size() == binding.dims.size(),
                   "a region binding gives a dim for every symbol of the region");
    SymbolValues symbols;
    for (std::size_t i = 0; i < names.size(); ++i)
      symbols.emplace(names[i], value_of(binding.dims[i]));
    return Frame(module_, body, std::move(symbols), depth_ + 1).run(operands_of(binding));
  }

  Items loop(const Binding& binding) {
    const Block& body = binding.blocks[0];
    Items operands = operands_of(binding);
    const bool counted = binding.operands[0] != no_value;
    const std::int64_t trips = counted ? operands[0].tensor.integer_at(0) : 0;
    bool goes_on = binding.operands[1] == no_value || operands[1].tensor.integer_at(0) != 0;
    Items carried(operands.begin() + 2, operands.end());
    std::vector<std::vector<Tensor>> scanned(binding.results.size() - carried.size());
    for (std::int64_t i = 0; goes_on && (!counted || i < trips); ++i) {
      Items inputs{Tensor::of<std::int64_t>(DType::I64, {}, {i}),
                   Tensor::of<std::int64_t>(DType::Bool, {}, {1})};
      inputs.insert(inputs.end(), carried.begin(), carried.end());
      const Items outputs = run_inner(body, std::move(inputs));
      goes_on = outputs[0].tensor.integer_at(0) != 0;
      const auto after_carried = outputs.begin() + 1 + static_cast<std::ptrdiff_t>(carried.size());
      for (std::size_t j = 0; j < scanned.size(); ++j)
        scanned[j].push_back(after_carried[static_cast<std::ptrdiff_t>(j)].tensor);
      carried.assign(outputs.begin() + 1, after_carried);
    }
    Items results = std::move(carried);
    for (std::size_t j = 0; j < scanned.size(); ++j) {
      results.push_back(stacked(binding, scanned[j], binding.results[results.size()]));
    }
    return results;
  }

  // The elements of a scan along a new first dimension. Without iterations the result's type gives
  // dtype and dims, as far as it does.
  Tensor stacked(const Binding& binding, const std::vector<Tensor>& elements,
                 ValueId result) const {
    if (elements.empty()) {
      const TensorType& type = function_.tensor_type(result);
      Extents dims{0};
      for (std::size_t i = 1; i < type.rank(); ++i) {
        const bool known = std::ranges::all_of(type.dims[i].leaves(), [&](const DimLeaf& leaf) {
          return leaf.is_symbol() && symbols_.contains(leaf.symbol);
        });
        dims.push_back(known ? value_of(type.dims[i]) : 0);
      }
      return {type.dtype, dims};
    }
    Tensor result_tensor(elements[0].dtype(), [&] {
      Extents dims = elements[0].dims();
      dims.insert(dims.begin(), static_cast<std::int64_t>(elements.size()));
      return dims;
    }());
    std::byte* to = result_tensor.mutable_bytes().data();
    for (const Tensor& element : elements) {
      if (element.dims() != elements[0].dims()) {
        throw Error(ErrorKind::Inputs,
                    "{}: scanned values have shapes ({}) and ({}); expected one shape.",
                    describe(function_, binding), fmt::join(elements[0].dims(), ", "),
                    fmt::join(element.dims(), ", "));
      }
      to = std::ranges::copy(element.bytes(), to).out;
    }
    return result_tensor;
  }

  const Module& module_;
  const Function& function_;
  Items values_;
  SymbolValues symbols_;
  int depth_;
};

}  // namespace

std::vector<Tensor> evaluate_binding(const Function& function, const Binding& binding,
                                     std::span<const Tensor* const> operands,
                                     const ValueOf& value_of) {
  return apply({function, binding, operands, value_of});
}

std::vector<Tensor> evaluate(const Module& module, const Function& function,
                             std::vector<Tensor> inputs) {
  SymbolValues symbols = bind_symbols(function, inputs);
  Items items;
  for (Tensor& input : inputs) items.emplace_back(std::move(input));
  std::vector<Tensor> results;
  for (Item& item : Frame(module, function, std::move(symbols), 0).run(std::move(items))) {
    if (item.elements != nullptr)
      throw Error(ErrorKind::Unsupported, "@{}: a result is no tensor", function.name);
    results.push_back(std::move(item.tensor));
  }
  return results;
}

}  // namespace anydim::ir
