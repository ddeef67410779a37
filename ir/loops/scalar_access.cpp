#include "ir/loops/scalar_access.h"

#include <algorithm>

#include "ir/loops/scalar_program.h"
#include "ir/loops/scalar_simplify.h"

namespace anydim::ir {

namespace {

using Condition = ScalarStep::Condition;

constexpr std::size_t maximum_steps = 4096;
// An element may be computed from so many values, each through the one before: building its program
// takes stack by their number.
constexpr int deepest_chain = 2048;

[[noreturn]] void refuse(const Subgraph& subgraph, const Binding& binding, const std::string& why) {
  throw NoLoopForm{why + ": " + describe(*subgraph.function, binding)};
}

}  // namespace

std::size_t axis_from_front(const Binding& binding, std::size_t rank) {
  std::int64_t axis = integer_attribute(binding, "axis");
  return static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis);
}

std::int32_t AccessContext::add_buffer(ValueId value) {
  const auto position = static_cast<std::int32_t>(buffers.size());
  buffers.emplace(value, position);
  return position;
}

Iteration AccessContext::iterate(LoopRole role, const Dim& extent) {
  return declare(loop_leaf(role, iterations[role]++), extent);
}

Iteration AccessContext::declare(const DimLeaf& variable, const Dim& extent) {
  return declare_iteration(variable, extent, symbols);
}

void ProgramBuilder::provide(ValueId value, std::variant<step::Accumulated, step::Scratch> slot) {
  const DType dtype = context_.subgraph->tensor(value).dtype;
  provided_[value] = std::visit([&](const auto& kind) { return push({dtype, kind}); }, slot);
}

void ProgramBuilder::provide(ValueId value, const Index& index, step::Accumulated slot) {
  memo_[{value, index}] = push({context_.subgraph->tensor(value).dtype, slot});
}

std::int32_t ProgramBuilder::push(ScalarStep step) {
  if (steps_.size() >= maximum_steps)
    throw NoLoopForm{"the scalar program grows beyond 4096 steps"};
  steps_.push_back(std::move(step));
  return static_cast<std::int32_t>(steps_.size() - 1);
}

std::int32_t ProgramBuilder::apply(Op op, DType dtype, std::vector<std::int32_t> operands) {
  return push({dtype, step::Apply{op}, std::move(operands)});
}

std::int32_t ProgramBuilder::extent(const Dim& dim) {
  if (auto constant = dim.constant())
    return push({DType::I64, step::Constant{.integer = *constant}});
  return push({DType::I64, step::Extent{dim}});
}

std::int32_t ProgramBuilder::element(ValueId value, const Index& index) {
  if (auto found = provided_.find(value); found != provided_.end()) return found->second;
  auto key = std::make_pair(value, index);
  if (auto found = memo_.find(key); found != memo_.end()) return found->second;
  if (depth_ >= deepest_chain) throw NoLoopForm{"values depend on each other more than 2048 deep"};
  ++depth_;
  std::int32_t step = compute(value, index);
  --depth_;
  memo_.emplace(std::move(key), step);
  return step;
}

std::int32_t ProgramBuilder::compute(ValueId value, const Index& index) {
  const Subgraph& subgraph = *context_.subgraph;
  if (auto found = context_.buffers.find(value); found != context_.buffers.end())
    return push({subgraph.tensor(value).dtype, step::Load{found->second, index}});
  auto found = subgraph.definitions.find(value);
  if (found == subgraph.definitions.end())
    throw NoLoopForm{"value %" + subgraph.name(value) + " is neither an input nor defined here"};
  return defined(subgraph.bindings[found->second.binding], found->second.result, index);
}

std::int32_t ProgramBuilder::elementwise(const Binding& binding, const Index& index) {
  const Subgraph& subgraph = *context_.subgraph;
  const std::vector<Dim>& dims = subgraph.tensor(binding.results[0]).dims;
  std::vector<std::int32_t> operands;
  for (ValueId operand : binding.operands)
    operands.push_back(element(
        operand, broadcast_index(index, dims, subgraph.tensor(operand).dims, context_.symbols)));
  DType dtype = subgraph.tensor(binding.results[0]).dtype;
  const std::uint8_t flags = step_flags(scalar_op(binding));
  if (flags == 0) {
    std::vector<const ScalarStep*> steps;
    for (std::int32_t operand : operands)
      steps.push_back(&steps_[static_cast<std::size_t>(operand)]);
    Simplified simpler = simplify_step(binding.op, dtype, steps, context_.symbols);
    if (const Dim* dim = std::get_if<Dim>(&simpler)) return extent(*dim);
    if (const bool* truth = std::get_if<bool>(&simpler))
      return push({DType::Bool, step::Constant{.integer = *truth}});
    if (const double* number = std::get_if<double>(&simpler))
      return push({dtype, step::Constant{.real = *number}});
    if (const Forwarded* forwarded = std::get_if<Forwarded>(&simpler))
      return operands[forwarded->operand];
  }
  std::int32_t check = -1;
  if ((binding.op == Op::div || binding.op == Op::mod) && is_integer(dtype)) {
    const ScalarStep& divisor = steps_[static_cast<std::size_t>(operands[1])];
    if (!is_never_zero(divisor, context_.symbols))
      check = context_.check_position(
          {KernelCheck::Kind::Divisor, std::string(info(binding.op).text), binding.source, {}});
  }
  return push({dtype, step::Apply{binding.op, check, flags}, std::move(operands)});
}

std::int32_t ProgramBuilder::literal_element(const std::vector<Dim>& dims, const Index& index) {
  if (index.empty()) return extent(dims.at(0));
  // An index outside of the literal stands in a loop that never runs.
  auto position = index[0].constant();
  if (dims.empty() ||
      (position && (*position < 0 || *position >= static_cast<std::int64_t>(dims.size()))))
    return extent(0);
  if (position) return extent(dims[static_cast<std::size_t>(*position)]);
  Dim chosen = dims.back();
  for (std::size_t i = dims.size() - 1; i-- > 0;)
    chosen = select(Comparison::Equal, index[0], static_cast<std::int64_t>(i), dims[i], chosen);
  return extent(chosen);
}

std::int32_t ProgramBuilder::constant(const Tensor& tensor, const Index& index) {
  std::int64_t position = 0;
  for (std::size_t i = 0; i < index.size(); ++i) {
    auto at = index[i].constant();
    if (!at) throw NoLoopForm{"a constant of several elements must be an input of the region"};
    if (*at < 0 || *at >= tensor.dims()[i])
      return zero(tensor.dtype());  // in a loop that never runs
    position = position * tensor.dims()[i] + *at;
  }
  return push(element_step(tensor, position));
}

std::int32_t ProgramBuilder::number(DType dtype, double value) {
  return push(number_step(dtype, value));
}

std::int32_t ProgramBuilder::zero(DType dtype) { return push({dtype, step::Constant{}}); }

std::int32_t ProgramBuilder::arange(const Binding& binding, const Index& index) {
  if (binding.op == Op::arange) {
    Dim at = integer_attribute(binding, "start") + index[0] * integer_attribute(binding, "step");
    DType dtype = dtype_attribute(binding, "dtype");
    std::int32_t step = extent(at);
    return dtype == DType::I64 ? step : apply(Op::cast, dtype, {step});
  }
  const Subgraph& subgraph = *context_.subgraph;
  DType dtype = subgraph.tensor(binding.results[0]).dtype;
  auto start = literal_elements(subgraph, binding.operands[0]);
  auto step = literal_elements(subgraph, binding.operands[2]);
  if (dtype == DType::I64 && start && step) return extent(start->at(0) + index[0] * step->at(0));
  std::int32_t position = extent(index[0]);
  if (dtype != DType::I64) position = apply(Op::cast, dtype, {position});
  std::int32_t distance = apply(Op::mul, dtype, {position, element(binding.operands[2], {})});
  return apply(Op::add, dtype, {element(binding.operands[0], {}), distance});
}

std::int32_t ProgramBuilder::guarded(std::int32_t inside, std::int32_t outside, DType dtype,
                                     std::vector<Condition> conditions) {
  bool never = false;
  std::erase_if(conditions, [&](const Condition& condition) {
    const Proof proof =
        prove(condition.comparison, condition.left, condition.right, context_.symbols);
    never = never || proof == Proof::No;
    return proof == Proof::Yes;
  });
  if (never) return outside;
  if (conditions.empty()) return inside;
  return push({dtype, step::Guarded{std::move(conditions)}, {inside, outside}});
}

std::int32_t ProgramBuilder::concatenated(const Binding& binding, const Index& index) {
  const Subgraph& subgraph = *context_.subgraph;
  const TensorType& type = subgraph.tensor(binding.results[0]);
  std::size_t at = axis_from_front(binding, type.rank());
  std::vector<Dim> offsets{0};
  for (ValueId operand : binding.operands)
    offsets.push_back(offsets.back() + subgraph.tensor(operand).dims[at]);
  // The last part needs no upper bound; every other one is guarded on both sides and chained.
  std::int32_t result = -1;
  for (std::size_t i = binding.operands.size(); i-- > 0;) {
    Index shifted = index;
    shifted[at] = simplify(index[at] - offsets[i], context_.symbols);
    std::int32_t inside = element(binding.operands[i], shifted);
    if (result < 0) {
      result = i == 0 ? inside
                      : guarded(inside, zero(type.dtype), type.dtype,
                                {{Comparison::LessEqual, offsets[i], index[at]}});
    } else {
      result = guarded(inside, result, type.dtype,
                       {{Comparison::LessEqual, offsets[i], index[at]},
                        {Comparison::Less, index[at], offsets[i + 1]}});
    }
  }
  return result;
}

std::int32_t ProgramBuilder::overwritten(const Binding& binding, const Index& index) {
  const Subgraph& subgraph = *context_.subgraph;
  if (is_in_place(binding)) refuse(subgraph, binding, "it writes into its operand's memory");
  const TensorType& update = subgraph.tensor(binding.operands[1]);
  const std::size_t at = axis_from_front(binding, index.size());
  const Dim start = given_elements(subgraph, binding, "start", 2).at(0);
  Index shifted = index;
  shifted[at] = simplify(index[at] - start, context_.symbols);
  const std::int32_t inside = element(binding.operands[1], shifted);
  return guarded(inside, element(binding.operands[0], index), update.dtype,
                 {{Comparison::LessEqual, start, index[at]},
                  {Comparison::Less, index[at], start + update.dims[at]}});
}

std::int32_t ProgramBuilder::triangle(const Binding& binding, const Index& index) {
  const Subgraph& subgraph = *context_.subgraph;
  DType dtype = subgraph.tensor(binding.results[0]).dtype;
  Dim diagonal = 0;
  if (binding.op == Op::trilu) {
    diagonal = integer_attribute(binding, "k");
  } else {
    diagonal = given_elements(subgraph, binding, "k", 1).at(0);
  }
  // Every diagonal beyond the matrix keeps all or nothing, as the nearest one does; sums with that
  // cannot overflow.
  const std::vector<Dim>& dims = subgraph.tensor(binding.results[0]).dims;
  diagonal =
      simplify(max(Dim(0) - dims[dims.size() - 2], min(diagonal, dims.back())), context_.symbols);
  Dim row = index[index.size() - 2], column = index.back();
  bool upper = integer_attribute(binding, "upper") != 0;
  Condition keep = upper ? Condition{Comparison::LessEqual, row + diagonal, column}
                         : Condition{Comparison::LessEqual, column, row + diagonal};
  return guarded(element(binding.operands[0], index), zero(dtype), dtype, {keep});
}

std::int32_t AccessContext::check_position(const KernelCheck& check) {
  const auto same = std::find(checks.begin(), checks.end(), check);
  const auto position = static_cast<std::int32_t>(same - checks.begin());
  if (same == checks.end()) checks.push_back(check);
  return position;
}

Dim ProgramBuilder::checked_index(ValueId indices, const Index& at, const Dim& extent_of_axis,
                                  const Binding& binding) {
  std::int32_t step = element(indices, at);
  const ScalarStep& found = steps_[static_cast<std::size_t>(step)];
  std::optional<Dim> known;
  if (const auto* extent = std::get_if<step::Extent>(&found.kind)) known = extent->value;
  if (const auto* number = std::get_if<step::Constant>(&found.kind)) known = Dim(number->integer);
  if (known) {
    if (prove_less(*known, 0, context_.symbols) == Proof::Yes) known = *known + extent_of_axis;
    if (prove_less_equal(0, *known, context_.symbols) == Proof::Yes &&
        prove_less(*known, extent_of_axis, context_.symbols) == Proof::Yes)
      return simplify(*known, context_.symbols);
  }
  return checked(step, extent_of_axis, binding);
}

Dim ProgramBuilder::checked(std::int32_t step, const Dim& extent_of_axis, const Binding& binding) {
  const KernelCheck check{KernelCheck::Kind::Index, std::string(info(binding.op).text) + " index",
                          binding.source, extent_of_axis};
  const std::int32_t position = push(
      {DType::I64, step::CheckedIndex{extent_of_axis, context_.check_position(check)}, {step}});
  return Dim::of(step_leaf(position));
}

std::int32_t ProgramBuilder::gathered(const Binding& binding, const Index& index) {
  const Subgraph& subgraph = *context_.subgraph;
  ValueId data = binding.operands[0], indices = binding.operands[1];
  const std::vector<Dim>& dims = subgraph.tensor(data).dims;
  const std::vector<Dim>& index_dims = subgraph.tensor(indices).dims;
  Index at;
  if (binding.op == Op::gather_nd) {
    // indices [batch.., k..., d]: the last dim addresses d dims of data after the batch dims.
    auto batch = static_cast<std::size_t>(integer_attribute(binding, "batch_dims"));
    auto depth = index_dims.back().constant();
    if (!depth) refuse(subgraph, binding, "the number of indexed dims is unknown");
    std::size_t outer = index_dims.size() - 1;
    at.assign(index.begin(), index.begin() + static_cast<std::ptrdiff_t>(batch));
    for (std::int64_t i = 0; i < *depth; ++i) {
      Index where(index.begin(), index.begin() + static_cast<std::ptrdiff_t>(outer));
      where.emplace_back(i);
      at.push_back(
          checked_index(indices, where, dims[batch + static_cast<std::size_t>(i)], binding));
    }
    at.insert(at.end(), index.begin() + static_cast<std::ptrdiff_t>(outer), index.end());
  } else {
    std::size_t axis = axis_from_front(binding, dims.size());
    if (binding.op == Op::gather_elements) {
      at = index;
      at[axis] = checked_index(indices, index, dims[axis], binding);
    } else {
      auto begin = index.begin() + static_cast<std::ptrdiff_t>(axis);
      auto end = begin + static_cast<std::ptrdiff_t>(index_dims.size());
      at.assign(index.begin(), begin);
      at.push_back(checked_index(indices, Index(begin, end), dims[axis], binding));
      at.insert(at.end(), end, index.end());
    }
  }
  return element(data, at);
}

std::optional<std::int32_t> ProgramBuilder::direct(const Binding& binding, const Index& index) {
  const Subgraph& subgraph = *context_.subgraph;
  const OpInfo& row = info(binding.op);
  if (row.has(traits::elementwise)) return elementwise(binding, index);
  const auto operand_dims = [&]() -> const std::vector<Dim>& {
    return subgraph.tensor(binding.operands[0]).dims;
  };
  const auto dims = [&]() -> const std::vector<Dim>& {
    return subgraph.tensor(binding.results[0]).dims;
  };
  if (row.has(traits::reshapes))
    return element(binding.operands[0],
                   reshape_index(index, dims(), operand_dims(), context_.symbols));
  switch (binding.op) {  // NOLINT: the others are not direct
    case Op::constant: {
      const Tensor& tensor = tensor_attribute(binding, "value");
      return tensor.elements() == 1 ? std::optional(push(element_step(tensor, 0))) : std::nullopt;
    }
    case Op::shape:
    case Op::dim: return literal_element(binding.dims, index);
    case Op::shape_of: return literal_element(operand_dims(), index);
    case Op::full:
    case Op::dyn_full: return element(binding.operands[0], {});
    case Op::zeros:
    case Op::dyn_zeros: return zero(dtype_attribute(binding, "dtype"));
    case Op::ones:
    case Op::dyn_ones: return number(dtype_attribute(binding, "dtype"), 1);
    case Op::arange:
    case Op::dyn_arange: return arange(binding, index);
    case Op::concat: return concatenated(binding, index);
    case Op::broadcast_to:
    case Op::dyn_broadcast_to:
      return element(binding.operands[0],
                     broadcast_index(index, dims(), operand_dims(), context_.symbols));
    case Op::transpose: {
      std::vector<std::size_t> perm = permutation(binding, index.size());
      Index at(index.size(), Dim(0));
      for (std::size_t i = 0; i < perm.size(); ++i) at[perm[i]] = index[i];
      return element(binding.operands[0], at);
    }
    default: return std::nullopt;
  }
}

std::int32_t ProgramBuilder::defined(const Binding& binding, std::size_t result,
                                     const Index& index) {
  if (const auto step = direct(binding, index)) return *step;
  const Subgraph& subgraph = *context_.subgraph;
  if (context_.others_are_buffers) {
    const ValueId value = binding.results[result];
    return push({subgraph.tensor(value).dtype, step::Load{context_.add_buffer(value), index}});
  }
  switch (binding.op) {
    case Op::constant: return constant(tensor_attribute(binding, "value"), index);
    case Op::check_shape: return element(binding.operands[0], index);
    case Op::strided_slice:
    case Op::dyn_strided_slice: {
      auto starts = slice_starts(subgraph, binding, context_.symbols);
      Index at;
      for (std::size_t i = 0; i < index.size(); ++i)
        at.push_back(simplify(starts[i].start + index[i] * starts[i].step, context_.symbols));
      return element(binding.operands[0], at);
    }
    case Op::windows:
    case Op::dyn_windows:
      return element(binding.operands[0], windows_index(binding, index, context_.symbols));
    case Op::split:
    case Op::dyn_split: {
      std::size_t axis = axis_from_front(binding, index.size());
      Index at = index;
      std::vector<Dim> before{at[axis]};
      for (std::size_t i = 0; i < result; ++i)
        before.push_back(subgraph.tensor(binding.results[i]).dims[axis]);
      at[axis] = simplify(sum(before), context_.symbols);
      return element(binding.operands[0], at);
    }
    case Op::tile:
    case Op::dyn_tile: {
      const std::vector<Dim>& dims = subgraph.tensor(binding.operands[0]).dims;
      Index at;
      for (std::size_t i = 0; i < index.size(); ++i)
        at.push_back(simplify(mod(index[i], dims[i]), context_.symbols));
      return element(binding.operands[0], at);
    }
    case Op::repeat:
    case Op::dyn_repeat: {
      Index at = index;
      Dim& moved = at[axis_from_front(binding, index.size())];
      moved = simplify(floor_div(moved, given_elements(subgraph, binding, "repeats", 1).at(0)),
                       context_.symbols);
      return element(binding.operands[0], at);
    }
    case Op::pad:
    case Op::dyn_pad: return padded(binding, index);
    case Op::one_hot:
    case Op::dyn_one_hot: return hot(binding, index);
    case Op::resize:
    case Op::dyn_resize: return resized(binding, index);
    case Op::overwrite:
    case Op::dyn_overwrite: return overwritten(binding, index);
    case Op::trilu:
    case Op::dyn_trilu: return triangle(binding, index);
    case Op::gather:
    case Op::gather_elements:
    case Op::gather_nd: return gathered(binding, index);
    default: refuse(subgraph, binding, "no scalar form inside a kernel");
  }
}

}  // namespace anydim::ir
