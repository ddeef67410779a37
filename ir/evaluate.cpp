#include "ir/evaluate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "ir/bind.h"
#include "ir/evaluate_ops.h"
#include "ir/print.h"

namespace anydim::ir {
namespace {

using ValueOf = std::function<std::int64_t(const Dim&)>;

// Deeper recursion would exhaust the thread's stack before it told anybody why.
constexpr int deepest_call = 1000;

Tensor shape_literal(const OpCall& call) {
  const std::vector<Dim>& dims = call.binding.dims;
  const bool scalar = call.binding.op == Op::dim;
  Tensor result(DType::I64, scalar ? Extents{} : Extents{static_cast<std::int64_t>(dims.size())});
  for (std::size_t i = 0; i < dims.size(); ++i) result.set_integer(static_cast<std::int64_t>(i), call.value_of(dims[i]));
  return result;
}

std::vector<Tensor> apply(const OpCall& call) {
  switch (call.binding.op) {
    case Op::constant: return {tensor_attribute(call.binding, "value")};
    case Op::shape:
    case Op::dim: return {shape_literal(call)};
    case Op::shape_of: {
      const Extents& dims = call.operand(0).dims();
      return {Tensor::of(DType::I64, {static_cast<std::int64_t>(dims.size())}, dims)};
    }
    case Op::full:
    case Op::dyn_full: return {evaluate_full(call)};
    case Op::zeros:
    case Op::dyn_zeros:
    case Op::ones:
    case Op::dyn_ones: return {evaluate_filled(call)};
    case Op::arange:
    case Op::dyn_arange: return {evaluate_arange(call)};

    case Op::abs:
    case Op::neg:
    case Op::sign:
    case Op::floor:
    case Op::ceil:
    case Op::round:
    case Op::sqrt:
    case Op::reciprocal:
    case Op::exp:
    case Op::log:
    case Op::sin:
    case Op::cos:
    case Op::tan:
    case Op::asin:
    case Op::acos:
    case Op::atan:
    case Op::sinh:
    case Op::cosh:
    case Op::asinh:
    case Op::acosh:
    case Op::atanh:
    case Op::tanh:
    case Op::sigmoid:
    case Op::erf:
    case Op::relu:
    case Op::gelu:
    case Op::gelu_tanh:
    case Op::is_nan:
    case Op::is_inf:
    case Op::logical_not:
    case Op::bit_not:
    case Op::cast:
    case Op::add:
    case Op::sub:
    case Op::mul:
    case Op::div:
    case Op::mod:
    case Op::pow:
    case Op::min:
    case Op::max:
    case Op::equal:
    case Op::less:
    case Op::less_equal:
    case Op::greater:
    case Op::greater_equal:
    case Op::logical_and:
    case Op::logical_or:
    case Op::logical_xor:
    case Op::bit_and:
    case Op::bit_or:
    case Op::bit_xor:
    case Op::shift_left:
    case Op::shift_right:
    case Op::where: return {evaluate_elementwise(call)};

    case Op::reshape:
    case Op::dyn_reshape: return {evaluate_reshape(call)};
    case Op::flatten: return {evaluate_flatten(call)};
    case Op::broadcast_to:
    case Op::dyn_broadcast_to: return {evaluate_broadcast_to(call)};
    case Op::expand_dims:
    case Op::dyn_expand_dims: return {evaluate_expand_dims(call)};
    case Op::squeeze:
    case Op::dyn_squeeze: return {evaluate_squeeze(call)};
    case Op::transpose: return {evaluate_transpose(call)};
    case Op::concat: return {evaluate_concat(call)};
    case Op::strided_slice:
    case Op::dyn_strided_slice: return {evaluate_slice(call)};
    case Op::split:
    case Op::dyn_split: return evaluate_split(call);
    case Op::tile:
    case Op::dyn_tile: return {evaluate_tile(call)};
    case Op::repeat:
    case Op::dyn_repeat: return {evaluate_repeat(call)};
    case Op::pad:
    case Op::dyn_pad: return {evaluate_pad(call)};
    case Op::trilu:
    case Op::dyn_trilu: return {evaluate_trilu(call)};
    case Op::gather: return {evaluate_gather(call)};
    case Op::gather_elements: return {evaluate_gather_elements(call)};
    case Op::gather_nd: return {evaluate_gather_nd(call)};
    case Op::scatter_elements:
    case Op::scatter_nd: return {evaluate_scatter(call)};
    case Op::one_hot:
    case Op::dyn_one_hot: return {evaluate_one_hot(call)};
    case Op::resize:
    case Op::dyn_resize: return {evaluate_resize(call)};

    case Op::reduce_sum:
    case Op::reduce_mean:
    case Op::reduce_max:
    case Op::reduce_min:
    case Op::reduce_prod:
    case Op::dyn_reduce_sum:
    case Op::dyn_reduce_mean:
    case Op::dyn_reduce_max:
    case Op::dyn_reduce_min:
    case Op::dyn_reduce_prod: return {evaluate_reduce(call)};
    case Op::arg_max:
    case Op::arg_min: return {evaluate_arg(call)};
    case Op::cumulative_sum:
    case Op::dyn_cumulative_sum: return {evaluate_cumulative_sum(call)};
    case Op::top_k:
    case Op::dyn_top_k: return evaluate_top_k(call);

    case Op::matmul: return {evaluate_matmul(call)};
    case Op::softmax:
    case Op::log_softmax: return {evaluate_softmax(call)};
    case Op::layer_norm: return {evaluate_layer_norm(call)};
    case Op::segment_sum:
    case Op::segment_max:
    case Op::segment_min: return {evaluate_segment_reduce(call)};
    case Op::attention: return {evaluate_attention(call)};

    case Op::check_shape:
    case Op::bind:
    case Op::call:
    case Op::branch:
    case Op::loop:
    case Op::region: break;
  }
  internal_error(fmt::format("{} is evaluated with its function", describe(call.function, call.binding)));
}

// One call of a function: its values and the symbols that are bound so far.
class Frame {
 public:
  Frame(const Module& module, const Function& function, SymbolValues symbols, int depth)
      : module_(module), function_(function), values_(function.values.size()), symbols_(std::move(symbols)), depth_(depth) {}

  std::vector<Tensor> run(std::vector<Tensor> inputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i) set(function_.body.parameters[i], std::move(inputs[i]));
    run_block(function_.body);
    return results_of(function_.body);
  }

 private:
  void set(ValueId id, Tensor tensor) {
    bind_opaque_symbols(id, tensor);
    values_[id] = std::move(tensor);
  }

  // An opaque symbol is opened where a value first carries it, and means that value's actual extent.
  void bind_opaque_symbols(ValueId id, const Tensor& tensor) {
    const Type& type = function_.values[id].type;
    if (!type.is_tensor() || type.tensor.rank() != tensor.rank()) return;
    for (std::size_t i = 0; i < tensor.rank(); ++i) {
      const Dim& dim = type.tensor.dims[i];
      if (dim.kind() != Dim::Kind::Symbol) continue;
      const SymbolInfo* info = function_.symbols.find(dim.leaf().symbol);
      if (info != nullptr && info->opaque) symbols_.insert_or_assign(dim.leaf().symbol, tensor.dims()[i]);
    }
  }

  std::int64_t value_of(const Dim& dim) const {
    return dim.evaluate([&](const DimLeaf& leaf) {
      if (!leaf.is_symbol()) return values_[leaf.value].integer_at(leaf.element);
      const auto found = symbols_.find(leaf.symbol);
      if (found == symbols_.end()) {
        throw Error(ErrorKind::Inputs,
                    fmt::format("@{}: the symbol {} has no value where {} is needed.", function_.name, leaf.symbol, print(function_, dim)));
      }
      return found->second;
    });
  }

  void run_block(const Block& block) {
    for (const Binding& binding : block.bindings) run_binding(binding);
  }

  // Symbols that a block opens end with it.
  std::vector<Tensor> run_inner(const Block& block, std::vector<Tensor> inputs) {
    const SymbolValues outside = symbols_;
    for (std::size_t i = 0; i < inputs.size(); ++i) set(block.parameters[i], std::move(inputs[i]));
    run_block(block);
    symbols_ = outside;
    return results_of(block);
  }

  std::vector<Tensor> results_of(const Block& block) const {
    std::vector<Tensor> results;
    for (const ValueId id : block.results) results.push_back(values_[id]);
    return results;
  }

  void run_binding(const Binding& binding) {
    std::vector<Tensor> results = evaluate_any(binding);
    if (results.size() != binding.results.size()) {
      internal_error(fmt::format("{} gives {} results", describe(function_, binding), binding.results.size()));
    }
    for (std::size_t i = 0; i < results.size(); ++i) set(binding.results[i], std::move(results[i]));
  }

  std::vector<Tensor> evaluate_any(const Binding& binding) {
    if (binding.op == Op::check_shape) return {check_shape(binding)};
    if (binding.op == Op::bind) return bind(binding);
    if (binding.op == Op::call) return call(binding);
    if (binding.op == Op::branch) return run_inner(binding.blocks[values_[binding.operands[0]].integer_at(0) != 0 ? 0 : 1], {});
    if (binding.op == Op::loop) return loop(binding);
    if (binding.op == Op::region) return region(binding);
    std::vector<const Tensor*> operands;
    for (const ValueId id : binding.operands) operands.push_back(id == no_value ? nullptr : &values_[id]);
    const ValueOf value = [this](const Dim& dim) { return value_of(dim); };
    return evaluate_binding(function_, binding, operands, value);
  }

  std::vector<Tensor> operands_of(const Binding& binding) const {
    std::vector<Tensor> operands;
    for (const ValueId id : binding.operands) operands.push_back(id == no_value ? Tensor() : values_[id]);
    return operands;
  }

  Tensor check_shape(const Binding& binding) {
    const Tensor& tensor = values_[binding.operands[0]];
    if (tensor.rank() != binding.dims.size()) {
      throw Error(ErrorKind::Inputs, fmt::format("@{}: {}: %{}: expected rank {}, got {}.", function_.name, describe(function_, binding),
                                                 function_.values[binding.operands[0]].name, binding.dims.size(), tensor.rank()));
    }
    for (std::size_t i = 0; i < binding.dims.size(); ++i) {
      const Dim& dim = binding.dims[i];
      const std::int64_t got = tensor.dims()[i];
      if (dim.kind() == Dim::Kind::Symbol && symbols_.try_emplace(dim.leaf().symbol, got).second) continue;
      const std::int64_t expected = value_of(dim);
      if (expected != got) throw Error(ErrorKind::Inputs, shape_check_failed(function_, binding, i, expected, got));
    }
    return tensor;
  }

  std::vector<Tensor> bind(const Binding& binding) {
    const std::int64_t value = values_[binding.operands[0]].integer_at(0);
    const std::int64_t highest = value_of(binding.dims[1]);
    if (value < 0 || value > highest) {
      throw Error(ErrorKind::Inputs,
                  fmt::format("@{}: {}: {} bound to %{}: expected from 0 to {}, got {}.", function_.name, describe(function_, binding),
                              print(function_, binding.dims[0]), function_.values[binding.operands[0]].name, highest, value));
    }
    symbols_.insert_or_assign(binding.dims[0].leaf().symbol, value);
    return {};
  }

  std::vector<Tensor> call(const Binding& binding) {
    if (depth_ >= deepest_call) {
      throw Error(ErrorKind::Resource, fmt::format("{}: calls nest more than {} deep.", describe(function_, binding), deepest_call));
    }
    const Function& callee = module_.functions[binding.callee];
    std::vector<Tensor> inputs = operands_of(binding);
    SymbolValues symbols = bind_symbols(callee, inputs);
    return Frame(module_, callee, std::move(symbols), depth_ + 1).run(std::move(inputs));
  }

  std::vector<Tensor> region(const Binding& binding) {
    const Function& body = module_.regions[binding.callee].body;
    const std::vector<std::string>& names = body.symbols.names();
    internal_check(names.size() == binding.dims.size(), "a region binding gives a dim for every symbol of the region");
    SymbolValues symbols;
    for (std::size_t i = 0; i < names.size(); ++i) symbols.emplace(names[i], value_of(binding.dims[i]));
    return Frame(module_, body, std::move(symbols), depth_ + 1).run(operands_of(binding));
  }

  std::vector<Tensor> loop(const Binding& binding) {
    const Block& body = binding.blocks[0];
    std::vector<Tensor> operands = operands_of(binding);
    const bool counted = binding.operands[0] != no_value;
    const std::int64_t trips = counted ? operands[0].integer_at(0) : 0;
    bool goes_on = binding.operands[1] == no_value || operands[1].integer_at(0) != 0;
    std::vector<Tensor> carried(operands.begin() + 2, operands.end());
    std::vector<std::vector<Tensor>> scanned(binding.results.size() - carried.size());
    for (std::int64_t i = 0; goes_on && (!counted || i < trips); ++i) {
      std::vector<Tensor> inputs{Tensor::of<std::int64_t>(DType::I64, {}, {i}), Tensor::of<std::int64_t>(DType::Bool, {}, {1})};
      inputs.insert(inputs.end(), carried.begin(), carried.end());
      const std::vector<Tensor> outputs = run_inner(body, std::move(inputs));
      goes_on = outputs[0].integer_at(0) != 0;
      const auto after_carried = outputs.begin() + 1 + static_cast<std::ptrdiff_t>(carried.size());
      for (std::size_t j = 0; j < scanned.size(); ++j) scanned[j].push_back(after_carried[static_cast<std::ptrdiff_t>(j)]);
      carried.assign(outputs.begin() + 1, after_carried);
    }
    std::vector<Tensor> results = std::move(carried);
    for (std::size_t j = 0; j < scanned.size(); ++j) {
      results.push_back(stacked(binding, scanned[j], binding.results[results.size()]));
    }
    return results;
  }

  // The elements of a scan along a new first dimension. Without iterations the result's type gives dtype and dims, as far as it does.
  Tensor stacked(const Binding& binding, const std::vector<Tensor>& elements, ValueId result) const {
    if (elements.empty()) {
      const TensorType& type = function_.tensor_type(result);
      Extents dims{0};
      for (std::size_t i = 1; i < type.rank(); ++i) {
        const bool known = std::ranges::all_of(type.dims[i].leaves(),
                                               [&](const DimLeaf& leaf) { return leaf.is_symbol() && symbols_.contains(leaf.symbol); });
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
                    fmt::format("{}: scanned values have shapes ({}) and ({}); expected one shape.", describe(function_, binding),
                                fmt::join(elements[0].dims(), ", "), fmt::join(element.dims(), ", ")));
      }
      to = std::ranges::copy(element.bytes(), to).out;
    }
    return result_tensor;
  }

  const Module& module_;
  const Function& function_;
  std::vector<Tensor> values_;
  SymbolValues symbols_;
  int depth_;
};

}  // namespace

std::vector<Tensor> evaluate_binding(const Function& function, const Binding& binding, std::span<const Tensor* const> operands,
                                     const ValueOf& value_of) {
  return apply({function, binding, operands, value_of});
}

std::vector<Tensor> evaluate(const Module& module, const Function& function, std::vector<Tensor> inputs) {
  SymbolValues symbols = bind_symbols(function, inputs);
  return Frame(module, function, std::move(symbols), 0).run(std::move(inputs));
}

}  // namespace anydim::ir
